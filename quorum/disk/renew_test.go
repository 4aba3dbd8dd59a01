package disk

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A disk without a transaction becomes a new one without data. Its directory is whole before and after, also if the process
// ends between the two steps. A disk with a transaction keeps its id and its log.
func TestRenew(t *testing.T) {
	beginning := []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration}, {Index: 2, Term: 2, Type: raft.LogNoop}, {Index: 3, Term: 2, Type: raft.LogCommand}}
	served := append(beginning[:len(beginning):len(beginning)], &raft.Log{Index: 4, Term: 2, Type: raft.LogCommand, Data: []byte("x")})
	for _, tt := range []struct {
		name string
		log  []*raft.Log
		do   func(d *Data) error
		data bool
	}{
		{"renewed", beginning, (*Data).Renew, false},
		{"repeated", beginning, func(d *Data) error {
			_, err := drawDiskID(d.unguarded)
			return errors.Join(err, d.Renew())
		}, false},
		{"interrupted at first", beginning, func(d *Data) error { return d.unguarded.markRenewing(1) }, false},
		{"interrupted with the new id", beginning, func(d *Data) error {
			_, err := drawDiskID(d.unguarded)
			return errors.Join(err, d.unguarded.markRenewing(1))
		}, false},
		{"marked, with a transaction", served, func(d *Data) error { return d.unguarded.markRenewing(1) }, true},
		{"with a transaction", served, func(d *Data) error {
			if err := d.Renew(); !errors.Is(err, errHasTransaction) {
				t.Errorf("a disk with a transaction: %v, want %v", err, errHasTransaction)
			}
			return nil
		}, true},
	} {
		cfg := directoryConfig(t.TempDir(), 1)
		d, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		before := d.ID()
		if err := errors.Join(d.Log().StoreLogs(tt.log), tt.do(d), d.Close()); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if d, err = Open(cfg); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		has := d.HasTransaction()
		if kept := len(tt.log) == len(served); d.HasData() != tt.data || (d.ID() == before) != kept || has != kept {
			t.Errorf("%s: data %t, transaction %t, the same id %t", tt.name, d.HasData(), has, d.ID() == before)
		}
		if err := errors.Join(d.Log().StoreLogs(tt.log[:1]), d.Close()); err != nil && !tt.data {
			t.Errorf("%s: the log takes no entry: %v", tt.name, err)
		}
	}
}

// A snapshot, a log that begins later, and a long log count as data of clients. So does a disk that cannot be read.
func TestHasTransaction(t *testing.T) {
	with := func(logs ...*raft.Log) Stores {
		s := memStores()
		if err := s.Log.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
		return s
	}
	snapshot := memStores()
	if err := snapshotInto(snapshot); err != nil {
		t.Fatal(err)
	}
	var long []*raft.Log
	for i := range uint64(maxBeginningEntries + 1) {
		long = append(long, &raft.Log{Index: i + 1, Type: raft.LogNoop})
	}
	for name, tt := range map[string]struct {
		stores Stores
		want   bool
	}{
		"nothing":        {memStores(), false},
		"no transaction": {with(&raft.Log{Index: 1, Type: raft.LogConfiguration}, &raft.Log{Index: 2, Type: raft.LogCommand}), false},
		"a transaction":  {with(&raft.Log{Index: 1, Type: raft.LogConfiguration}, &raft.Log{Index: 2, Type: raft.LogCommand, Data: []byte("x")}), true},
		"a snapshot":     {snapshot, true},
		"a later log":    {with(&raft.Log{Index: 2, Type: raft.LogNoop}), true},
		"a long log":     {with(long...), true},
		"long enough":    {with(long[:maxBeginningEntries]...), false},
	} {
		if has, err := tt.stores.hasTransaction(); has != tt.want || err != nil {
			t.Errorf("%s: %t, %v, want %t", name, has, err, tt.want)
		}
	}
}

// hungLog is a log in which every read hangs once hangs is true.
type hungLog struct {
	raft.LogStore
	hangs bool
}

func (h *hungLog) await() {
	if h.hangs {
		select {}
	}
}

func (h *hungLog) FirstIndex() (uint64, error) { h.await(); return h.LogStore.FirstIndex() }

func (h *hungLog) LastIndex() (uint64, error) { h.await(); return h.LogStore.LastIndex() }

func (h *hungLog) GetLog(i uint64, l *raft.Log) error { h.await(); return h.LogStore.GetLog(i, l) }

// A member says in each hello whether its disk has a transaction. It knows that without the disk, which may hang, from what
// the disk had when it was opened and from what was stored since.
func TestHasTransactionReadsNothing(t *testing.T) {
	command := &raft.Log{Index: 2, Term: 1, Type: raft.LogCommand, Data: []byte("x")}
	for name, tt := range map[string]struct {
		before, after []*raft.Log
		snapshot      bool
		want          bool
	}{
		"nothing":           {},
		"a noop":            {after: []*raft.Log{{Index: 1, Term: 1, Type: raft.LogNoop}}},
		"opened with one":   {before: []*raft.Log{{Index: 1, Term: 1, Type: raft.LogNoop}, command}, want: true},
		"one is stored":     {before: []*raft.Log{{Index: 1, Term: 1, Type: raft.LogNoop}}, after: []*raft.Log{command}, want: true},
		"a snapshot comes":  {snapshot: true, want: true},
		"the log gets long": {after: []*raft.Log{{Index: maxBeginningEntries + 1, Term: 1, Type: raft.LogNoop}}, want: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			stores := memStores()
			log := &hungLog{LogStore: stores.Log}
			stores.Log = log
			cfg := Config{Stores: stores, StallLimit: time.Second, RaftRunning: func() bool { return false }}
			d, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(stores.Log.StoreLogs(tt.before), d.Close()); err != nil {
				t.Fatal(err)
			}
			if d, err = Open(cfg); err != nil {
				t.Fatal(err)
			}
			log.hangs = true
			if err := d.guardedLog.StoreLogs(tt.after); err != nil {
				t.Fatal(err)
			}
			if tt.snapshot {
				if err := snapshotInto(Stores{Snapshots: d.Snapshots()}); err != nil {
					t.Fatal(err)
				}
			}
			if got := d.HasTransaction(); got != tt.want {
				t.Errorf("%s: %t, want %t", name, got, tt.want)
			}
		})
	}
}
