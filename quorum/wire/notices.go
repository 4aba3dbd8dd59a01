package wire

import (
	"slices"
	"sync"
	"time"
)

const (
	// noticeDelay bounds the wait of commit notices for entries that report the commit too. While commits are
	// closer together, the next entries usually come in time and save the notice.
	noticeDelay = time.Millisecond
	// promptCommits is the number of commits without delayed notices after a wait in vain. Some writers write
	// again only when a client of another member has seen their last write, for example those that pass on a
	// lock; delaying every notice would halve their rate. One wait in so many commits does not matter.
	promptCommits = 256
)

// noticePacer decides whether commit notices may wait that go to members without clients waiting for the
// commit.
type noticePacer struct {
	mu           sync.Mutex
	lastCommit   time.Time // of the last commit
	timerRunning bool      // the timer ends the wait
	promptLeft   int       // commits left without delayed notices
}

// noteCommit records a commit. It reports whether its notices may wait, and whether the caller must start the
// timer.
func (n *noticePacer) noteCommit(now time.Time) (wait, start bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	flowing := now.Sub(n.lastCommit) < noticeDelay
	n.lastCommit = now
	if n.promptLeft > 0 {
		n.promptLeft--
		return false, false
	}
	start = flowing && !n.timerRunning
	n.timerRunning = n.timerRunning || start
	return flowing, start
}

// remainingDelay returns the time for which the timer must run again because of another commit meanwhile. The
// entries of that one reported those before it. If it returns 0, no entries came, and the wait is over.
func (n *noticePacer) remainingDelay(now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest := max(0, noticeDelay-now.Sub(n.lastCommit))
	if rest == 0 {
		n.timerRunning, n.promptLeft = false, promptCommits
	}
	return rest
}

// NotifyCommitted reports that entries were committed. The members in first are notified first. The others
// are notified right after them or, if there was another commit shortly before, with the next entries or a
// millisecond later. If first is nil, all are notified at once. NotifyCommitted does not wait.
func (t *Transport) NotifyCommitted(first []uint32) {
	t.commitBroadcast.fire()
	t.notifyPipelines(func(member uint32) bool { return slices.Contains(first, member) })
	wait, start := t.noticePacer.noteCommit(time.Now())
	if start {
		time.AfterFunc(noticeDelay, t.noticeTimerFired)
	}
	if !wait || first == nil {
		t.notifyPipelines(func(member uint32) bool { return !slices.Contains(first, member) })
	}
}

// noticeTimerFired sends the notices that waited in vain.
func (t *Transport) noticeTimerFired() {
	if rest := t.noticePacer.remainingDelay(time.Now()); rest > 0 {
		time.AfterFunc(rest, t.noticeTimerFired)
		return
	}
	t.notifyPipelines(func(uint32) bool { return true })
}

// notifyPipelines makes the pipelines to some members send a notice, if there is a commit to report.
func (t *Transport) notifyPipelines(to func(member uint32) bool) {
	t.openPipelines.Range(func(open, _ any) bool {
		if p := open.(*pipeline); to(p.conn.peerID) {
			p.signalCommit()
		}
		return true
	})
}
