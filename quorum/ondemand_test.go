package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A snapshot on demand is on the disk when TakeSnapshot returns. While one is written, whoever asked for it, another one is
// refused. If the caller leaves, it is written all the same.
func TestSnapshotOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		defer e.stopAll()
		e.start(1)
		n, machine := e.members[1].node, e.members[1].machine
		e.wait("it to lead", n.Leading)
		e.propose("a", 1)
		e.applied([]string{"a"}, 1)
		first, err := n.TakeSnapshot(t.Context())
		index, _, lerr := n.NewestSnapshot()
		if err != nil || lerr != nil || first.Index != index || first.Index != n.AppliedIndex() || first.Term != n.Term() || first.Bytes == 0 || uint64(first.Zxid) != 1<<32|first.Index {
			t.Fatalf("%+v, %v; the newest one is of index %d, %v", first, err, index, lerr)
		}

		hold := make(chan struct{})
		machine.mu.Lock()
		machine.hold = hold
		machine.mu.Unlock()
		e.propose("b", 1)
		e.applied([]string{"a", "b"}, 1)
		own := n.raft.Load().Snapshot() // as raft takes one by itself
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		if _, err := n.TakeSnapshot(ctx); !errors.Is(err, ErrSnapshotRuns) {
			t.Errorf("beside one of raft's own: %v", err)
		}
		leave()
		close(hold)
		if err := own.Error(); err != nil {
			t.Fatal(err)
		}

		n.fsm.demanded.Store(true) // another caller's has not begun yet
		if _, err := n.TakeSnapshot(t.Context()); !errors.Is(err, ErrSnapshotRuns) {
			t.Errorf("beside one that has not begun: %v", err)
		}
		n.fsm.demanded.Store(false)

		hold = make(chan struct{})
		machine.mu.Lock()
		machine.hold = hold
		machine.mu.Unlock()
		e.propose("c", 1)
		e.applied([]string{"a", "b", "c"}, 1)
		ctx, leave = context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := n.TakeSnapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its caller has left: %v", err)
		}
		if _, err := n.TakeSnapshot(t.Context()); !errors.Is(err, ErrSnapshotRuns) {
			t.Errorf("while that one is written: %v", err)
		}
		close(hold)
		e.wait("the snapshot of the caller who left", func() bool { index, _, err := n.NewestSnapshot(); return err == nil && index == n.AppliedIndex() })
		synctest.Wait()
		if took := n.fsm.stored.Load().Took; took < time.Second || took > 2*time.Second {
			t.Errorf("it took %v, want the second that it was held up", took)
		}
		if _, err := n.TakeSnapshot(t.Context()); err != nil {
			t.Errorf("after all: %v", err)
		}
	})
}
