package leader

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// countSweeps returns the number of entries that have a sweep, and checks that none has more than one.
func (f *fakeLog) countSweeps(t *testing.T) (n int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, entry := range f.proposed {
		here := 0
		for _, txn := range entry.Txns {
			if txn.Op != int32(jute.OpSweep) {
				continue
			}
			here++
			var sweep proto.Sweep
			if err := pb.Unmarshal(txn.Body, &sweep); err != nil || txn.Member != 0 || txn.Seq != 0 || txn.Session != 0 ||
				sweep.Nodes != sweepNodes {
				t.Errorf("%v, %v", txn, err)
			}
		}
		if n += here; here > 1 {
			t.Errorf("%d sweeps in one entry", here)
		}
	}
	return n
}

// A term begins with the nodes that an earlier one has left, and continues when a session leaves
// more. It goes step by step, with a pause after each for as long as the step took.
func TestSweeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.delay = 5 * time.Millisecond
		e.nodes.leave(3)
		e.run()
		for i, at := range []time.Duration{1, 11, 21} { // ms: proposed at 0, 10 and 20, applied 5 later
			e.at(at * time.Millisecond)
			if got := e.log.countSweeps(t); got != i+1 {
				t.Errorf("%d sweeps after %d ms", got, at)
			}
			e.at((at + 8) * time.Millisecond)
			if got := e.log.countSweeps(t); got != i+1 {
				t.Errorf("%d sweeps after %d ms", got, at+8)
			}
		}
		e.at(time.Second)
		if got := e.log.countSweeps(t); got != 3 {
			t.Errorf("%d sweeps, want 3", got)
		}
		e.nodes.leave(2)
		e.RecordUnswept()
		e.at(time.Second + time.Millisecond)
		if got := e.log.countSweeps(t); got != 4 {
			t.Errorf("%d sweeps when more was left", got)
		}
		e.RecordUnswept() // another session, while one is swept
		e.at(2 * time.Second)
		if got := e.log.countSweeps(t); got != 5 {
			t.Errorf("%d sweeps, want 5", got)
		}
		e.nodes.leave(2 * maxReaps) // none that is over counts among those that wait
		e.RecordUnswept()
		e.at(10 * time.Second)
		if got := e.log.countSweeps(t); got != 5+2*maxReaps {
			t.Errorf("%d sweeps, want %d", got, 5+2*maxReaps)
		}
		e.end()
	})
}

// While the log hangs no second sweep is requested, and writes pass a sweep that waits.
func TestSweepWaitsForLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.hang = true
		e.nodes.leave(10)
		e.run()
		stream, _, hangUp := e.forward(0)
		stream.in <- writes(2, 100, 1)
		e.RecordUnswept()
		e.at(time.Minute)
		e.intake.mu.Lock()
		waiting := len(e.intake.waiting) - e.intake.head
		e.intake.mu.Unlock()
		if got := e.log.countSweeps(t); got != 1 || waiting != 1 {
			t.Errorf("%d sweeps proposed, %d transactions wait", got, waiting)
		}
		hangUp()
		e.end()
	})
}

// One entry has a sweep first, then writes, then sessions that expire. The next ones have only
// writes until the pause is over.
func TestRemovalsGoAroundWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 5 * time.Millisecond
		e := newEnsemble(t, session(10, 3), session(11, 3))
		e.run()
		e.commitIn(time.Millisecond)
		e.log.delay = took
		stream, _, hangUp := e.forward(0)
		e.at(8*time.Second - time.Millisecond)
		e.nodes.leave(2)
		e.log.mu.Lock()
		before := len(e.log.proposed)
		e.log.mu.Unlock()
		stream.in <- writes(2, 1, 1) // under way when the sessions are due
		e.at(8*time.Second + time.Millisecond)
		e.RecordUnswept()
		for seq := uint64(2); seq <= 20; seq++ {
			stream.in <- writes(2, 1, seq)
			time.Sleep(time.Millisecond)
		}
		hangUp()
		e.log.mu.Lock()
		proposed := slices.Clone(e.log.proposed[before:])
		e.log.mu.Unlock()
		var ops [][]jute.Op
		for _, entry := range proposed {
			var in []jute.Op
			for _, txn := range entry.Txns {
				if op := jute.Op(txn.Op); len(in) == 0 || in[len(in)-1] != op {
					in = append(in, op)
				}
			}
			ops = append(ops, in)
		}
		const w = jute.OpSetData
		want := [][]jute.Op{{w}, {jute.OpSweep, w, jute.OpExpire}, {w}, {jute.OpSweep, w}}
		if len(ops) < len(want) || !slices.EqualFunc(ops[:len(want)], want, slices.Equal) {
			t.Errorf("entries of %v, want %v", ops, want)
		}
		e.end()
	})
}
