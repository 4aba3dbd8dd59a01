package quorum

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// termStore records the last index of the log on a member's disk at each write of its term.
type termStore struct {
	raft.StableStore
	log   raft.LogStore
	lasts []uint64
}

func (s *termStore) SetUint64(k []byte, v uint64) error {
	if string(k) == "CurrentTerm" {
		last, err := s.log.LastIndex()
		if err != nil {
			return err
		}
		s.lasts = append(s.lasts, last)
	}
	return s.StableStore.SetUint64(k, v)
}

// deposed makes a leader whose disk takes a second for the next entry, which reaches no other member.
func deposed(t *testing.T) (e *ensemble, lead uint32, logs map[uint32]*stallLog, terms map[uint32]*termStore) {
	t.Helper()
	terms = map[uint32]*termStore{}
	e, logs, _ = stalls(t, func(c *Config) {
		s := &termStore{StableStore: c.Stores.Stable, log: c.Stores.Log}
		c.Stores.Stable, terms[c.MemberID] = s, s
	})
	lead = e.leader(1, 2, 3)
	for _, id := range others(lead) {
		e.net.partition(lead, id)
	}
	logs[lead].stall(time.Second)
	e.members[lead].node.Propose([]byte("queued"), nil)
	synctest.Wait()
	return e, lead, logs, terms
}

// A deposed leader writes its queue to the disk before it adopts another term. In that term it reports the last index of
// its log to others.
func TestDeposedLeaderStoresItsQueueFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, lead, logs, terms := deposed(t)
		n := e.members[lead].node
		queued, term := n.status.LastIndex(), n.status.Term()
		next := e.leader(others(lead)...)
		terms[lead].lasts = nil
		if lastOf(t, logs[lead]) >= queued || n.status.Term() != term {
			t.Fatal("the entry is on the disk, or it has another term: this test shows nothing")
		}
		e.net.heal()
		e.wait("it to follow", func() bool { return n.status.LeaderID() == next })
		if lasts := terms[lead].lasts; len(lasts) == 0 || lasts[0] < queued {
			t.Errorf("it took over other terms when its log went to %v, without entry %d", lasts, queued)
		}
		e.propose("b", 1, 2, 3)
		e.awaitApplied([]string{"a", "b"}, 1, 2, 3)
	})
}

// Run ends when the disk has what the leader has appended, so that nothing is written to closed stores.
func TestRunEndsAfterItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, lead, logs, _ := deposed(t)
		queued := e.members[lead].node.status.LastIndex()
		e.kill(lead)
		if last := lastOf(t, logs[lead]); last < queued {
			t.Errorf("it has ended with a log up to %d, and entry %d was queued", last, queued)
		}
	})
}

// failLog is a stallLog whose writes fail when they have waited.
type failLog struct {
	*stallLog
	fails bool
}

var errFails = errors.New("input/output error")

func (f *failLog) StoreLogs(logs []*raft.Log) error {
	if f.fails {
		time.Sleep(time.Until(time.Unix(0, f.until.Load())))
		return errFails
	}
	return f.stallLog.StoreLogs(logs)
}

// The leader's disk and another one hang, and then the leader's fails. The leader ends, and neither applies the entry nor
// acknowledges it. The others commit it.
func TestQueueFailsAfterReplication(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logs := map[uint32]*failLog{}
		e, _, _ := stalls(t, func(c *Config) {
			logs[c.MemberID] = &failLog{stallLog: c.Stores.Log.(*stallLog)}
			c.Stores.Log = logs[c.MemberID]
		})
		lead := e.leader(1, 2, 3)
		m := e.members[lead]
		node := m.node
		time.Sleep(time.Second) // both followers have a pipeline
		logs[lead].stall(100 * time.Millisecond)
		logs[lead].fails = true
		logs[others(lead)[0]].stall(200 * time.Millisecond)
		p := node.Propose([]byte("b"), nil)
		time.Sleep(99 * time.Millisecond)
		if index := node.status.LastIndex(); node.status.raft.Load().CommitIndex() != index {
			t.Fatal("raft has not committed the entry: this test shows nothing")
		}
		if err := e.awaitEnd(lead); !errors.Is(err, errFails) {
			t.Errorf("Run: %v", err)
		}
		if err := p.Error(); err == nil || slices.Contains(m.machine.commands(), "b") {
			t.Errorf("acknowledged with %v; it has applied %v", err, m.machine.commands())
		}
		e.awaitApplied([]string{"a", "b"}, others(lead)...)
	})
}

// The state machine waits for the last entry of a batch, before the commit is shown. If that entry is never
// settled, the batch is not applied.
func TestBatchWaitsForItsLastEntry(t *testing.T) {
	for _, settled := range []bool{true, false} {
		var awaited []uint64
		shown := 0
		m := &machine{}
		f := &fsm{
			stateMachine: m, onConfiguration: func() {}, onCommit: func(uint64) { shown++ },
			awaitReleased: func(uint64, func()) bool { return true },
			disk: &fixedFSMDisk{settled: func(index uint64) bool {
				if shown > 0 {
					t.Error("shown before it is settled")
				}
				awaited = append(awaited, index)
				return settled
			}},
		}
		batch := []*raft.Log{{Index: 5, Data: []byte("a")}, {Index: 6, Data: []byte("b")}}
		for range 2 {
			got := f.ApplyBatch(batch)
			if refused := got[0] == errStateMachineFailed && got[1] == errStateMachineFailed; refused == settled { //nolint:errorlint // the very same
				t.Errorf("settled: %t, and the answers are %v", settled, got)
			}
			if settled {
				break
			}
		}
		want, applied := 0, m.commands()
		if settled {
			want = 2
		}
		if !slices.Equal(awaited, []uint64{6}) || shown != want/2 || len(applied) != want {
			t.Errorf("settled: %t, awaited %v, shown %d times, applied %v", settled, awaited, shown, applied)
		}
	}
}
