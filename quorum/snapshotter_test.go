package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// unopenable is a store whose snapshots cannot be opened.
type unopenable struct{ raft.SnapshotStore }

func (unopenable) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return nil, nil, syscall.EMFILE
}

// A snapshot on demand is on the disk when TakeSnapshot returns. While a snapshot is written, on demand or not, another
// one is rejected. If the caller leaves, the snapshot is written all the same. The stored snapshots are not opened for
// it.
func TestSnapshotOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		defer e.stopAll()
		kept := &unopenable{SnapshotStore: e.members[1].stores.Snapshots}
		e.members[1].stores.Snapshots = kept
		e.start(1)
		n, machine := e.members[1].node, e.members[1].machine
		e.wait("it to lead", n.status.IsLeader)
		e.propose("a", 1)
		e.awaitApplied([]string{"a"}, 1)
		first, err := n.snapshotter.TakeSnapshot(t.Context(), 0)
		index, _, lerr := n.snapshotter.NewestSnapshot()
		if err != nil || lerr != nil || first.Index != index || first.Index != n.status.AppliedIndex() ||
			first.Term != n.status.Term() || first.Bytes == 0 || uint64(first.Zxid) != 1<<32|first.Index {
			t.Fatalf("%+v, %v; the newest one is of index %d, %v", first, err, index, lerr)
		}
		if list, err := kept.List(); err != nil || first.Bytes != list[0].Size {
			t.Errorf("%d bytes; the store has %+v, %v", first.Bytes, list, err)
		}

		hold := make(chan struct{})
		machine.mu.Lock()
		machine.hold = hold
		machine.mu.Unlock()
		e.propose("b", 1)
		e.awaitApplied([]string{"a", "b"}, 1)
		own := n.status.raft.Load().Snapshot() // as raft takes one by itself
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		if _, err := n.snapshotter.TakeSnapshot(ctx, 0); !errors.Is(err, ErrSnapshotInProgress) {
			t.Errorf("beside one of raft's own: %v", err)
		}
		leave()
		close(hold)
		if err := own.Error(); err != nil {
			t.Fatal(err)
		}

		n.fsm.snapshotRequested.Store(true) // another caller's has not begun yet
		if _, err := n.snapshotter.TakeSnapshot(t.Context(), 0); !errors.Is(err, ErrSnapshotInProgress) {
			t.Errorf("beside one that has not begun: %v", err)
		}
		n.fsm.snapshotRequested.Store(false)

		hold = make(chan struct{})
		machine.mu.Lock()
		machine.hold = hold
		machine.mu.Unlock()
		e.propose("c", 1)
		e.awaitApplied([]string{"a", "b", "c"}, 1)
		ctx, leave = context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := n.snapshotter.TakeSnapshot(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its caller has left: %v", err)
		}
		if _, err := n.snapshotter.TakeSnapshot(t.Context(), 0); !errors.Is(err, ErrSnapshotInProgress) {
			t.Errorf("while that one is written: %v", err)
		}
		close(hold)
		e.wait("the snapshot of the caller who left", func() bool {
			index, _, err := n.snapshotter.NewestSnapshot()
			return err == nil && index == n.status.AppliedIndex()
		})
		synctest.Wait()
		if took := n.fsm.lastSnapshot.Load().WriteDuration; took < time.Second || took > 2*time.Second {
			t.Errorf("it took %v, want the second that it was held up", took)
		}
		if _, err := n.snapshotter.TakeSnapshot(t.Context(), 0); err != nil {
			t.Errorf("after all: %v", err)
		}
	})
}

// A snapshot for which the disk may have no room is not begun, and the error names both sizes. The member continues.
func TestSnapshotOnDemandNeedsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		defer e.stopAll()
		e.members[1].dir = t.TempDir()
		e.start(1)
		n := e.members[1].node
		e.wait("it to lead", n.status.IsLeader)
		e.propose("a", 1)
		free, _, err := n.Disk().Free()
		if err != nil {
			t.Fatal(err)
		}
		for _, most := range []int64{free + 1<<30, 1 << 62} {
			_, err := n.snapshotter.TakeSnapshot(t.Context(), most)
			if index, _, lerr := n.snapshotter.NewestSnapshot(); !errors.Is(err, ErrNoSpace) ||
				!strings.Contains(err.Error(), fmt.Sprintf("may take %d, and %d are left", most, snapshotReserve)) ||
				!strings.Contains(err.Error(), " bytes are free") || index != 0 || lerr != nil {
				t.Errorf("%d bytes where %d are free: %v; there is one of index %d, %v", most, free, err, index, lerr)
			}
		}
		if err := errors.Join(checkFreeSpace(5, snapshotReserve+5), checkFreeSpace(0, snapshotReserve)); err != nil ||
			!errors.Is(checkFreeSpace(6, snapshotReserve+5), ErrNoSpace) {
			t.Errorf("at the limit: %v", err)
		}
		e.mustRun(1)
		if s, err := n.snapshotter.TakeSnapshot(t.Context(), 1<<10); err != nil || s.Index == 0 {
			t.Errorf("with room for it: %+v, %v", s, err)
		}
	})
}

// A member that ends while a snapshot is written does not wait for it, and its caller gets the reason.
func TestSnapshotOnDemandAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*testMember)
		want error
	}{
		{"it fails", func(m *testMember) { m.node.failure.endMember(errKilled) }, errKilled},
		{"it is told to stop", func(m *testMember) { m.cancel() }, ErrNotRunning},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 1)
				e.start(1)
				m := e.members[1]
				n := m.node
				e.wait("it to lead", n.status.IsLeader)
				hold := make(chan struct{})
				m.machine.mu.Lock()
				m.machine.hold = hold
				m.machine.mu.Unlock()
				e.propose("a", 1)
				got := make(chan error, 1)
				go func() {
					_, err := n.snapshotter.TakeSnapshot(t.Context(), 0)
					got <- err
				}()
				synctest.Wait() // it is being written
				tt.end(m)
				if err := e.awaitEnd(1); !errors.Is(err, ErrNotEnded) {
					t.Errorf("Run: %v", err)
				}
				synctest.Wait()
				select {
				case err := <-got:
					if !errors.Is(err, tt.want) {
						t.Errorf("%v, want %v", err, tt.want)
					}
				default:
					t.Error("the caller still waits")
				}
				close(hold)
			})
		})
	}
}
