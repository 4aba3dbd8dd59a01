package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The survivor of three goes on alone; or is copied, and three go on.
func TestRecover(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 3)
			if compacted {
				e.compact()
			}
			root := t.TempDir()
			for id, m := range e.members {
				m.dir = filepath.Join(root, string(rune('0'+id)))
			}
			e.begin()
			all := e.fill(map[bool]int{false: 3, true: 3 * minTrailing}[compacted], 1, 2, 3)
			if compacted {
				e.wait("a snapshot", func() bool { return e.members[1].node.snapshot.Load() })
			}
			for id := range e.members {
				e.stop(id)
			}

			alone := filepath.Join(root, "alone")
			copyDir(t, e.members[1].dir, alone)
			if err := Recover(Recovery{Dir: alone, Self: 1, Peers: e.peers[:1], Machine: &machine{}}); err != nil {
				t.Fatal(err)
			}
			one := newEnsemble(t, 1)
			one.members[1].dir = alone
			one.start(1)
			one.applied(all, 1)
			one.propose("on", 1)
			one.applied(append(all, "on"), 1)
			one.stop(1)

			rec := Recovery{Dir: e.members[1].dir, Self: 1, Peers: e.peers, Machine: &machine{}}
			for range 2 { // it may be repeated
				rec.Machine = &machine{}
				if err := Recover(rec); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second) // snapshots are named after the time
			}
			for _, id := range []uint32{2, 3} {
				if err := os.RemoveAll(e.members[id].dir); err != nil {
					t.Fatal(err)
				}
				copyDir(t, e.members[1].dir, e.members[id].dir)
				if err := e.tryStart(id); !errors.Is(err, ErrOtherMember) {
					t.Errorf("a copy not recovered: %v, want ErrOtherMember", err)
				}
				if err := Recover(Recovery{Dir: e.members[id].dir, Self: id, Peers: e.peers, Machine: &machine{}}); err != nil {
					t.Fatal(err)
				}
			}
			e.start(1, 2, 3)
			e.propose("on", 1, 2, 3)
			e.applied(append(all, "on"), 1, 2, 3)
		})
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// A recovery that was killed before the identity was written is noticed, and repeated.
func TestRecoverInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		dir := t.TempDir()
		e.members[1].dir = dir
		e.begin()
		e.stop(1)
		before, err := os.ReadFile(filepath.Join(dir, identityName))
		if err != nil {
			t.Fatal(err)
		}
		rec := Recovery{Dir: dir, Self: 1, Peers: e.peers[:1], Machine: &machine{}}
		if err := Recover(rec); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, identityName), string(before))
		e.start(1)
		if err := e.ended(1); !errors.Is(err, ErrServersChanged) {
			t.Errorf("Run: %v, want ErrServersChanged", err)
		}
		rec.Machine = &machine{}
		time.Sleep(time.Second)
		if err := Recover(rec); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRecoverRefuses(t *testing.T) {
	peers := []Peer{{1, "m1:3888"}}
	empty := t.TempDir()
	if err := Recover(Recovery{Dir: empty, Self: 1, Peers: peers, Machine: &machine{}}); !errors.Is(err, ErrNoData) {
		t.Errorf("no folder of ours: %v, want ErrNoData", err)
	}
	if left, _ := os.ReadDir(empty); len(left) > 0 {
		t.Errorf("it left %v in an empty folder", left)
	}
	cfg := folderConfig(t.TempDir(), 1)
	openAndClose(t, cfg)
	if err := Recover(Recovery{Dir: cfg.Dir, Self: 1, Peers: peers, Machine: &machine{}}); !errors.Is(err, ErrNoData) {
		t.Errorf("no data: %v, want ErrNoData", err)
	}

	dir, cfg := filledFolder(t)
	refusing := &machine{refuse: "b"}
	if err := Recover(Recovery{Dir: dir, Self: 1, Peers: peers, Machine: refusing}); err == nil {
		t.Error("recovered past an entry that the machine refuses")
	}
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.setJoining(true); err != nil {
		t.Fatal(err)
	}
	n.Close()
	if err := Recover(Recovery{Dir: dir, Self: 1, Peers: peers, Machine: &machine{}}); err == nil {
		t.Error("recovered a member that had not caught up")
	}
	if err := Recover(Recovery{Dir: dir, Self: 2, Peers: peers, Machine: &machine{}}); err == nil {
		t.Error("recovered for a member that is not listed")
	}
}

// What the meter tells raft.
func TestMeter(t *testing.T) {
	m := newMeter(1000, 1<<20, 64<<10)
	m.limit = 1 << 20 // without chance
	var entries, bytes int64
	write := func(seconds int, each, size int64) (threshold, trailing uint64) {
		for range seconds {
			entries, bytes = entries+each, bytes+each*size
			threshold, trailing = m.look(entries, bytes, 0, 1e9)
		}
		return threshold, trailing
	}
	near := func(got, want uint64) bool { return got > want*9/10 && got < want*11/10 }
	if th, tr := write(60, 1, 256); th != 1000 || !near(tr, 64<<10/256) {
		t.Errorf("small and slow: %d, %d", th, tr)
	}
	if _, tr := write(60, 10, 256); !near(tr, 600) {
		t.Errorf("a minute's writing: %d", tr)
	}
	if _, tr := write(60, 10_000, 256); !near(tr, 4*64<<10/256) {
		t.Errorf("fast: %d, want four times the bytes", tr)
	}
	if _, tr := write(60, 1, 1<<20); tr != minTrailing {
		t.Errorf("large entries: %d", tr)
	}
	if th, _ := m.look(entries, bytes, 1<<20, 1e9); th != 1 {
		t.Errorf("bytes enough for a snapshot: threshold %d", th)
	}
}

// Bytes alone bring about a snapshot, and how much log stays behind it follows their size.
func TestSnapshotByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.members[1].adjust = func(c *Config) {
			c.SnapshotEvery, c.SnapshotBytes, c.TrailingBytes = 1<<40, 1<<20, 64<<10
		}
		e.start(1)
		e.propose("a", 1)
		n := e.members[1].node
		for range 2000 {
			if err := n.Propose(make([]byte, 1<<10)).Error(); err != nil {
				t.Fatal(err)
			}
		}
		e.wait("a snapshot", n.snapshot.Load)
		e.wait("a shorter log", func() bool {
			first, _ := n.log.FirstIndex()
			last, _ := n.log.LastIndex()
			return last-first < 4*64+1 // at most four times TrailingBytes
		})
	})
}
