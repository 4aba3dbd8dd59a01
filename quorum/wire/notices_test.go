package wire

import (
	"testing"
	"testing/synctest"
	"time"
)

// leads is a Transport with pipelines to members 2 and 3, whose part the test takes. Both have entries 1 to 9 of term 5.
func leads(t *testing.T) (tr *Transport, two, three *stream) {
	tr = new(Transport)
	open := func(member uint32) *stream {
		s := newStream(t)
		s.conn.peerID = member
		s.term.Store(5)
		s.send(1, 9, 0)
		s.answer(true, "")
		tr.openPipelines.Store(s.pipeline, nil)
		return s
	}
	return tr, open(2), open(3)
}

// commit calls Committed, waits for the time after, and reports which members have been notified of the commit by then.
func commit(tr *Transport, index uint64, first []uint32, after time.Duration, members ...*stream) (told [2]bool) {
	for _, s := range members {
		s.commit.Store(index)
	}
	tr.NotifyCommitted(index, first)
	time.Sleep(after)
	for i, s := range members {
		if got := s.sentNext(); got != nil {
			told[i] = got.LeaderCommitIndex == index
			s.answer(true, "")
		}
	}
	return told
}

// All members are notified of each commit at once, however close together commits are.
func TestAllAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, two, three := leads(t)
		for index, first := range [][]uint32{nil, {1}, {2}, {3}, {2, 3}, nil, {2}} {
			if told := commit(tr, uint64(index+1), first, 0, two, three); told != [2]bool{true, true} {
				t.Errorf("of commit %d, for clients of %d, are told at once: %v", index+1, first, told)
			}
		}
	})
}

// No notice is sent of a commit that entries have reported, or are about to report.
func TestEntriesSaveANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, two, three := leads(t)
		commit(tr, 1, nil, 0, two, three)
		three.last.Store(10) // raft is about to send entry 10
		if told := commit(tr, 2, []uint32{2}, 0, two, three); told != [2]bool{true, false} {
			t.Errorf("of a commit, while entries are about to go to member 3, are told: %v", told)
		}
		if req := three.send(10, 10, 1); req.LeaderCommitIndex != 2 {
			t.Errorf("the entries report commit %d, want 2", req.LeaderCommitIndex)
		}
		three.answer(true, "")
		time.Sleep(time.Hour)
		if got := three.sentNext(); got != nil {
			t.Errorf("told once more: %+v", got)
		}
	})
}
