package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

const (
	unreadPauses  = 20 // how many lengths of pause for each timeout
	unreadPart    = 8  // each pause is longer than the one before by this fraction of the timeout; the longest are over twice the timeout
	unreadLook    = tick / 50
	latestExpiry  = 2 * tick // a silent session ends at most this long after its timeout
	vouchedTenths = 9        // of the timeout: after it, a member closes a connection whose client the leader has not acknowledged
)

// A client sends its last request while its member is paused, and is silent from then on. The member cannot know how
// long the request has waited in its socket. It therefore counts the client as heard when it reads the request, after
// the pause, and the session ends at most T and two ticks after the pause. There are two exceptions for long pauses. If
// the session's time was over before the pause ended, the leader has already ended the session, and the request does not
// save it. If the pause was longer than nine tenths of T, the member may close the connection without reading the
// request.
func TestUnreadBytesCountWhenTheyAreRead(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{2 * tick, 8 * tick} {
		for _, gap := range []time.Duration{0, tick} { // the request before has not reached the leader yet, or has
			for i := range unreadPauses {
				pause := time.Duration(i+1) * timeout / unreadPart
				t.Run(fmt.Sprintf("timeout %v, gap %v, pause %v", timeout, gap, pause), func(t *testing.T) {
					ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
						dieUnread(t, e, leader, a, timeout, gap, pause)
					})
				})
			}
		}
	}
}

// dieUnread opens a session on member a, which hears from it for the last time. After the gap it
// pauses a, and sends the request, which a cannot read. It checks when the session ends.
func dieUnread(t *testing.T, e *cluster.Ensemble, leader, a uint32, timeout, gap, pause time.Duration) {
	t.Helper()
	e.Joined()
	c, session := e.Open(a, timeout)
	if code := create(t, c, 1, "/mine", jute.Ephemeral); code != jute.OK {
		t.Fatal(code)
	}
	heard := time.Now()
	time.Sleep(gap)
	e.Pause(a)
	sent := time.Now()
	if err := c.Send(jute.XidPing, jute.OpPing, nil); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(pause, func() { e.Resume(a) })
	for owner(e, leader, session.SessionID) != 0 {
		if time.Since(sent) > 10*timeout {
			t.Fatal("the session never ends")
		}
		time.Sleep(unreadLook)
	}

	ended, resumed := time.Since(heard), gap+pause
	read := within{resumed + timeout, resumed + timeout + latestExpiry}
	unread := within{timeout, timeout + latestExpiry}
	var want []within
	if resumed < unread.most {
		want = append(want, read)
	}
	if resumed > timeout*vouchedTenths/10 {
		want = append(want, unread)
	}
	if !slices.ContainsFunc(want, func(w within) bool { return w.holds(ended) }) {
		t.Errorf("the session ended %v after what was heard before, want one of %v; the pause ended %v after that", ended, want, resumed)
	}
	time.Sleep(max(0, time.Until(sent.Add(pause+timeout))))
	if has(e, leader, "/mine") || has(e, a, "/mine") {
		t.Error("its ephemeral node is left")
	}
	e.Equal()
}

// within is a range of time.
type within struct{ least, most time.Duration }

func (w within) holds(d time.Duration) bool {
	return d >= w.least && d <= w.most+tick/10 // plus the time of a commit and of a check
}

func (w within) String() string { return fmt.Sprintf("%v to %v", w.least, w.most) }
