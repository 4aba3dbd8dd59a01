package simulated

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// Of two logs the one with the later last term is longer, and of one term the one with more entries.
func TestLongerLog(t *testing.T) {
	filled := func(terms ...uint64) *Disk {
		d := NewDisk()
		for i, term := range terms {
			d.Append(raft.Log{Index: uint64(i + 1), Term: term})
		}
		return d
	}
	for _, tt := range []struct {
		name      string
		log, than *Disk
		longer    bool
	}{
		{"both empty", filled(), filled(), false},
		{"one empty", filled(1), filled(), true},
		{"the same", filled(1, 2), filled(1, 2), false},
		{"more entries", filled(1, 2, 2), filled(1, 2), true},
		{"a later term", filled(1, 3), filled(1, 2), true},
		{"a later term and fewer entries", filled(3), filled(1, 2, 2), true},
	} {
		if got, other := tt.log.IsLonger(tt.than), tt.than.IsLonger(tt.log); got != tt.longer || other {
			t.Errorf("%s: %t, and the other way round %t", tt.name, got, other)
		}
	}
}

// indexes returns the indexes of a log's entries.
func indexes(d *Disk) (all []uint64) {
	for _, l := range d.Log() {
		all = append(all, l.Index)
	}
	return all
}

func logsFrom(first, last uint64) (logs []*raft.Log) {
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1})
	}
	return logs
}

// A write takes the disk's latency, or as long as the disk stalls. Exactly the chosen write fails.
func TestWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		s := d.Mount()
		d.SetLatency(time.Second)
		began := time.Now()
		if err := s.Log.StoreLogs(logsFrom(1, 3)); err != nil || time.Since(began) != time.Second || d.Latency() != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		d.SetLatency(0)
		d.Stall()
		time.AfterFunc(time.Minute, d.Release)
		began = time.Now()
		if err := s.Stable.SetUint64([]byte("k"), 1<<40); err != nil || time.Since(began) != time.Minute || d.IsStalled() {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if v, err := s.Stable.GetUint64([]byte("k")); err != nil || v != 1<<40 {
			t.Errorf("%d, %v", v, err)
		}
		if _, err := s.Stable.Get([]byte("other")); err == nil || err.Error() != "not found" {
			t.Errorf("a key that is not there: %v", err)
		}
		d.FailAt(2)
		for i, want := range []error{nil, ErrIO, nil} {
			if err := s.Log.StoreLog(&raft.Log{Index: []uint64{4, 5, 5}[i]}); !errors.Is(err, want) {
				t.Errorf("write %d: %v, want %v", i+1, err, want)
			}
		}
		d.FillUp()
		if err := s.Log.StoreLog(&raft.Log{Index: 6}); !errors.Is(err, ErrFull) {
			t.Errorf("a full disk: %v", err)
		}
		d.FreeSpace()
		if got := indexes(d); !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
			t.Errorf("the log has %d", got)
		}
		for _, tt := range []struct{ first, last, wantFirst, wantLast uint64 }{{1, 2, 3, 5}, {5, 5, 3, 4}, {3, 9, 0, 0}} {
			if err := s.Log.DeleteRange(tt.first, tt.last); err != nil {
				t.Error(err)
			}
			first, _ := s.Log.FirstIndex()
			if last, _ := s.Log.LastIndex(); first != tt.wantFirst || last != tt.wantLast {
				t.Errorf("without %d to %d the log goes from %d to %d, want %d to %d", tt.first, tt.last, first, last, tt.wantFirst, tt.wantLast)
			}
		}
	})
}

// Exactly the chosen read fails, whatever it reads.
func TestReadsFail(t *testing.T) {
	d := NewDisk()
	s := d.Mount()
	if err := s.Log.StoreLogs(logsFrom(1, 2)); err != nil {
		t.Fatal(err)
	}
	sink, err := s.Snapshots.Create(1, 2, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = sink.Write([]byte("body"))
	if err := errors.Join(sink.Close(), sink.Close()); err != nil || d.Snapshots() != 1 {
		t.Fatalf("%d snapshots, %v", d.Snapshots(), err)
	}
	for name, tt := range map[string]struct {
		what Reads
		read func() error
	}{
		"FirstIndex": {OfLog, func() error { _, err := s.Log.FirstIndex(); return err }},
		"LastIndex":  {OfLog, func() error { _, err := s.Log.LastIndex(); return err }},
		"GetLog":     {OfLog, func() error { return s.Log.GetLog(2, new(raft.Log)) }},
		"Open": {OfSnapshot, func() error {
			meta, body, err := s.Snapshots.Open(sink.ID())
			if err != nil || meta.Size != 4 {
				t.Fatalf("%+v, %v", meta, err)
			}
			text, err := io.ReadAll(body)
			if err == nil && string(text) != "body" {
				t.Errorf("the snapshot has %q", text)
			}
			return err
		}},
	} {
		d.FailReadAt(1, tt.what)
		if err := tt.read(); !errors.Is(err, ErrIO) {
			t.Errorf("the first read by %s: %v", name, err)
		}
		if err := tt.read(); err != nil {
			t.Errorf("the second read by %s: %v", name, err)
		}
		d.FailReadAt(1, 1-tt.what)
		if err := tt.read(); err != nil {
			t.Errorf("%s when another read fails: %v", name, err)
		}
		d.FailReadAt(0, 1-tt.what)
	}
	if err := s.Log.GetLog(3, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that is not there: %v", err)
	}
	if _, _, err := s.Snapshots.Open("other"); err == nil {
		t.Error("a snapshot that is not there is opened")
	}
}

// The newest snapshots are kept, and the requested part of the log before them. Snapshots that do not come from the
// member's own log are counted.
func TestSnapshotsAreKept(t *testing.T) {
	d := NewDisk()
	s := d.Mount()
	d.KeepLog(2)
	if err := s.Log.StoreLogs(logsFrom(1, 9)); err != nil {
		t.Fatal(err)
	}
	for _, index := range []uint64{2, 9, 5, 7} {
		sink, err := s.Snapshots.Create(1, index, 1, raft.Configuration{}, 1, nil)
		if err == nil {
			err = sink.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Snapshots.List()
	if err != nil || len(list) != keepSnapshots || list[0].Index != 9 || list[1].Index != 7 || d.Installs() != 0 {
		t.Errorf("%+v, %v; %d were installed", list, err, d.Installs())
	}
	if got := indexes(d); !slices.Equal(got, []uint64{8, 9}) {
		t.Errorf("the log has %d", got)
	}
	sink, _ := s.Snapshots.Create(1, 20, 1, raft.Configuration{}, 1, nil)
	canceled, _ := s.Snapshots.Create(1, 30, 1, raft.Configuration{}, 1, nil)
	if err := errors.Join(sink.Close(), canceled.Cancel(), canceled.Close()); err != nil || d.Installs() != 1 || len(indexes(d)) != 0 {
		t.Errorf("%v; %d were installed, and the log has %d", err, d.Installs(), indexes(d))
	}
}

// A crash leaves a prefix of a batch that is being written, or nothing, and what the process writes later has no effect.
func TestCrash(t *testing.T) {
	left := map[int]bool{}
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			d := NewDisk()
			s := d.Mount()
			d.Stall()
			go func() { _ = s.Log.StoreLogs(logsFrom(1, 2)) }()
			synctest.Wait()
			rng := rand.New(rand.NewPCG(seed, 0))
			if seed == 0 {
				rng = nil
			}
			d.Crash(rng)
			d.Crash(rng) // which has no effect
			synctest.Wait()
			got := indexes(d)
			if left[len(got)] = true; !slices.Equal(got, []uint64{1, 2}[:len(got)]) || seed == 0 && len(got) > 0 || d.IsStalled() {
				t.Errorf("the log has %d", got)
			}
			if err := s.Log.StoreLogs(logsFrom(3, 4)); err != nil || len(indexes(d)) != len(got) {
				t.Errorf("a process that has crashed writes: %v", err)
			}
		})
	}
	if len(left) != 3 {
		t.Errorf("crashes leave as many entries: %v", left)
	}
}
