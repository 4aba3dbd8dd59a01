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

// noticePacer decides whether the commit notices to members whose clients do not wait for a commit may wait themselves.
type noticePacer struct {
	mu           sync.Mutex
	lastCommit   time.Time // of the last commit
	timerRunning bool      // a timer runs, which ends the wait
	promptLeft   int       // for how many more commits no notice waits
}

// noteCommit records a commit. It reports whether notices of it may wait, and whether the caller must start the timer.
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

// timerFired returns for how long the timer must run again because there was another commit meanwhile. The entries of that
// one have reported those before it. If end returns 0, no entries came, and the wait is over.
func (n *noticePacer) timerFired(now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest := max(0, noticeDelay-now.Sub(n.lastCommit))
	if rest == 0 {
		n.timerRunning, n.promptLeft = false, promptCommits
	}
	return rest
}

// NotifyCommitted reports that entries were committed. The members in first hear of it first. The others hear of it
// right after them, or if there was another commit shortly before, with the next entries or a millisecond later. If first
// is nil, all hear of it at once. Committed does not wait.
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

// noticeTimerFired sends the notices that have waited in vain.
func (t *Transport) noticeTimerFired() {
	if rest := t.noticePacer.timerFired(time.Now()); rest > 0 {
		time.AfterFunc(rest, t.noticeTimerFired)
		return
	}
	t.notifyPipelines(func(uint32) bool { return true })
}

// notifyPipelines makes the pipelines to some members send a notice, if there is anything to tell.
func (t *Transport) notifyPipelines(to func(member uint32) bool) {
	t.openPipelines.Range(func(open, _ any) bool {
		if p := open.(*pipeline); to(p.conn.peerID) {
			p.signalCommit()
		}
		return true
	})
}
