package wire

import (
	"testing"
	"testing/synctest"
	"time"
)

// leads is a Transport with pipelines to members 2 and 3, which the test plays. Both have entries 1 to 9 of term 5.
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

// commit calls Committed, waits for the time after, and returns which members have been told of the commit by then.
func commit(tr *Transport, index uint64, first []uint32, after time.Duration, members ...*stream) (told [2]bool) {
	for _, s := range members {
		s.commit.Store(index)
	}
	tr.NotifyCommitted(first)
	time.Sleep(after)
	for i, s := range members {
		if got := s.sentNext(); got != nil {
			told[i] = got.LeaderCommitIndex == index
			s.answer(true, "")
		}
	}
	return told
}

// While commits are close together, a member whose clients do not wait for them hears of them with the next entries,
// or a millisecond after the last one.
func TestNoticeWaitsForEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, two, three := leads(t)
		const step = noticeDelay / 4
		if told := commit(tr, 1, []uint32{2}, 0, two, three); told != [2]bool{true, true} {
			t.Errorf("of a commit after a pause are told: %v", told)
		}
		for index := uint64(2); index <= 9; index++ {
			time.Sleep(step)
			if told := commit(tr, index, []uint32{2}, 0, two, three); told != [2]bool{true, false} {
				t.Errorf("of commit %d are told at once: %v", index, told)
			}
		}
		time.Sleep(noticeDelay - time.Nanosecond)
		if got := three.sentNext(); got != nil {
			t.Errorf("member 3 is told of %+v before %v", got, noticeDelay)
		}
		time.Sleep(time.Nanosecond)
		if got := three.sentNext(); got == nil || got.LeaderCommitIndex != 9 {
			t.Errorf("member 3 is told of %+v, want commit 9", got)
		}
	})
}

// After a wait in vain no notice waits for a while: a writer may wait until a client of another member has seen its
// last write.
func TestNoticesWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, two, three := leads(t)
		index := uint64(0)
		next := func(first ...uint32) [2]bool {
			index++
			for _, s := range []*stream{two, three} {
				s.send(index+9, index+9, 0) // so that there is always something to commit
				s.answer(true, "")
			}
			time.Sleep(noticeDelay / 2)
			return commit(tr, index, first, 0, two, three)
		}
		next(2)
		for range 3 {
			if told := next(1); told != [2]bool{} {
				t.Errorf("of commit %d, for clients of the leader, are told at once: %v", index, told)
			}
			time.Sleep(noticeDelay)
			for i, s := range []*stream{two, three} {
				if got := s.sentNext(); got == nil || got.LeaderCommitIndex != index {
					t.Errorf("member %d is told of %+v, want commit %d", i+2, got, index)
				}
				s.answer(true, "")
			}
			for range promptCommits {
				if told := next(3); told != [2]bool{true, true} {
					t.Errorf("of commit %d, after a wait in vain, are told: %v", index, told)
				}
			}
		}
		if told := next(3); told != [2]bool{false, true} {
			t.Errorf("of commit %d are told at once: %v", index, told)
		}
		if told := next(); told != [2]bool{true, true} {
			t.Errorf("of a commit for all are told: %v", told)
		}
	})
}

// No notice is sent of a commit that entries have reported while it waited.
func TestEntriesSaveANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, two, three := leads(t)
		commit(tr, 1, nil, 0, two, three)
		commit(tr, 2, []uint32{2}, 0, two, three)
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
