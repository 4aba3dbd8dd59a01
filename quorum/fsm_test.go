package quorum

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

var errBroken = errors.New("the state machine is broken")

// brokenOnce is a machine whose first Snapshot and Restore fail.
type brokenOnce struct {
	machine
	asked int
}

func (m *brokenOnce) Snapshot() (Snapshot, error) {
	if m.asked++; m.asked == 1 {
		return nil, errBroken
	}
	return m.machine.Snapshot()
}

func (m *brokenOnce) Restore(r io.ReadCloser) error {
	if m.asked++; m.asked == 1 {
		return errBroken
	}
	return m.machine.Restore(r)
}

// A state machine that fails to make a snapshot, or to install one while raft runs, ends the member. It gets no more
// calls. Before raft runs, another snapshot may be installed in place of the first.
func TestFailedSnapshotIsTheLast(t *testing.T) {
	for _, tt := range []struct {
		name    string
		running bool
		fails   func(*fsm) error
		ended   bool
	}{
		{"snapshot", true, func(f *fsm) error { _, err := f.Snapshot(); return err }, true},
		{"restore", true, func(f *fsm) error { return f.Restore(nil) }, true},
		{"restore at the start", false, func(f *fsm) error { return f.Restore(nil) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ended error
			m, d := &brokenOnce{}, &fixedFSMDisk{settled: func(uint64) bool { return true }}
			f := &fsm{
				stateMachine: m, metrics: new(Metrics), endMember: func(err error) { ended = err }, raftRunning: func() bool { return tt.running },
				onConfiguration: func() {}, onCommit: func(uint64) {}, awaitReleased: func(uint64, func()) bool { return true }, disk: d,
			}
			if err := tt.fails(f); !errors.Is(err, errBroken) || errors.Is(ended, errBroken) != tt.ended ||
				errors.Is(d.rejected, errBroken) == tt.ended {
				t.Fatalf("%v; the member ended with %v, rejected %v", err, ended, d.rejected)
			}
			if got := f.Apply(&raft.Log{Index: 5, Data: []byte("a")}); (got == any(errStateMachineFailed)) != tt.ended ||
				(len(m.commands()) == 0) != tt.ended {
				t.Errorf("an entry after it is answered with %v; applied %v", got, m.commands())
			}
			if _, err := f.Snapshot(); errors.Is(err, errStateMachineFailed) != tt.ended || (err != nil) != tt.ended {
				t.Errorf("a snapshot after it: %v", err)
			}
		})
	}
}

// fixedFSMDisk is the disk of an fsm: settled says which entries are settled, and all are durable.
type fixedFSMDisk struct {
	settled  func(index uint64) bool
	rejected error // of the last snapshot that was rejected
}

func (d *fixedFSMDisk) AwaitSettled(index uint64) bool           { return d.settled(index) }
func (*fixedFSMDisk) AwaitDurable(uint64) bool                   { return true }
func (*fixedFSMDisk) RunTracked(_ string, op func() error) error { return op() }
func (d *fixedFSMDisk) NoteRejectedSnapshot(reason error)        { d.rejected = reason }
