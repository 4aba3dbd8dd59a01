package wire

import (
	"slices"
	"sync"
	"time"
)

const (
	// noticeDelay is how long commit notices may wait for entries that report the commit too. While commits are
	// closer together than that, the next entries mostly come in time, and save the notice.
	noticeDelay = time.Millisecond
	// promptCommits is how many commits no notice waits after a wait in vain. Some writers write again only when a
	// client of another member has seen their last write, for example those that pass a lock on. If every
	// notice waited, that would take twice as long. A wait for one commit in so many is lost among the others.
	promptCommits = 256
)

// notices decides whether the commit notices to members whose clients do not wait for a commit may wait themselves.
type notices struct {
	mu      sync.Mutex
	last    time.Time // of the last commit
	waiting bool      // a timer runs, which ends the wait
	prompt  int       // for how many more commits no notice waits
}

// begin records a commit. It reports whether notices of it may wait, and whether the caller must start the timer.
func (n *notices) begin(now time.Time) (wait, start bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	flowing := now.Sub(n.last) < noticeDelay
	n.last = now
	if n.prompt > 0 {
		n.prompt--
		return false, false
	}
	start = flowing && !n.waiting
	n.waiting = n.waiting || start
	return flowing, start
}

// end returns for how long the timer must run again because there was another commit meanwhile. The entries of that
// one have reported those before it. If end returns 0, no entries came, and the wait is over.
func (n *notices) end(now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest := max(0, noticeDelay-now.Sub(n.last))
	if rest == 0 {
		n.waiting, n.prompt = false, promptCommits
	}
	return rest
}

// Committed reports that entries were committed. The members in first hear of it first. The others hear of it
// right after them, or if there was another commit shortly before, with the next entries or a millisecond later. If first
// is nil, all hear of it at once. Committed does not wait.
func (t *Transport) Committed(first []uint32) {
	t.commits.fire()
	t.tell(func(member uint32) bool { return slices.Contains(first, member) })
	wait, start := t.notices.begin(time.Now())
	if start {
		time.AfterFunc(noticeDelay, t.endWait)
	}
	if !wait || first == nil {
		t.tell(func(member uint32) bool { return !slices.Contains(first, member) })
	}
}

// endWait sends the notices that have waited in vain.
func (t *Transport) endWait() {
	if rest := t.notices.end(time.Now()); rest > 0 {
		time.AfterFunc(rest, t.endWait)
		return
	}
	t.tell(func(uint32) bool { return true })
}

// tell makes the pipelines to some members send a notice, if there is anything to tell.
func (t *Transport) tell(to func(member uint32) bool) {
	t.pipelines.Range(func(open, _ any) bool {
		if p := open.(*pipeline); to(p.conn.peer) {
			p.committed()
		}
		return true
	})
}
