package integration

import (
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/jute"
)

// Nobody leads for longer than the session's timeout while a client shakes hands, for a new
// session or for its old one. It is answered on that connection as soon as somebody does,
// and served.
func TestHandshakeWaitsForALeader(t *testing.T) {
	const timeout, wait = 4 * tick, 6 * tick
	for _, attach := range []bool{false, true} {
		name := "create"
		if attach {
			name = "attach"
		}
		t.Run(name, func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				e.Joined()
				first, session := e.Open(a, timeout)
				e.Equal()
				_ = first.Close()
				e.Kill(leader)
				e.Kill(b)
				c, err := e.Dial(a)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(wait, func() { e.Boot(b) })
				begun := time.Now()
				got := jute.ConnectResponse{}
				if attach {
					got, err = c.Resume(session, 0)
				} else {
					got, err = c.Open(timeout)
				}
				if took := time.Since(begun); err != nil || got.SessionID == 0 || took < wait || took > wait+3*tick {
					t.Fatalf("answered after %v: %+v, %v", took, got, err)
				}
				alive(t, c, 1, "/served")
				e.Boot(leader)
				e.Ready()
				e.Equal()
				alive(t, c, 2, "/still")
			})
		})
	}
}

// A healed member sends an attach late whose client is gone, and does not know that it is:
// nothing told it. The attach is refused for its old since, tried again with what the member
// has learnt, as for any client that moves, and takes the session; once. The client takes it
// back, and the session and its ephemerals live on.
func TestHalfOpenAttachTakesASessionBackOnce(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		const timeout = 10 * tick
		first, session := e.Open(leader, timeout)
		if code := create(t, first, 1, "/mine", jute.Ephemeral); code != jute.OK {
			t.Fatal(code)
		}
		e.Equal()
		between(e.Network.Hang, a, leader)
		late, err := e.Dial(a) // never closed, never heard again: half-open
		if err != nil {
			t.Fatal(err)
		}
		taken := make(chan error, 1)
		go func() {
			_, err := late.Resume(session, 0)
			taken <- err
		}()
		time.Sleep(tick / 20)
		_ = first.Close()
		c := resume(t, e, b, session)
		between(e.Network.Flow, a, leader)
		if err := c.Closed(5 * tick); err != nil {
			t.Fatalf("the attach that was sent late has not taken the session: %v", err)
		}
		if err := <-taken; err != nil || owner(e, leader, session.SessionID) != a {
			t.Errorf("the half-open connection: %v; the session is attached to member %d", err, owner(e, leader, session.SessionID))
		}
		c = resume(t, e, b, session)
		if err := late.Closed(5 * tick); err != nil {
			t.Errorf("the half-open connection: %v", err)
		}
		for xid := range int32(20) { // for longer than a handshake may take
			alive(t, c, 2*xid+1, "/write-"+string('a'+rune(xid)))
			time.Sleep(tick)
		}
		if got := owner(e, leader, session.SessionID); got != b || !has(e, a, "/mine") {
			t.Errorf("the session is attached to member %d, want %d for good; its ephemeral is there: %t", got, b, has(e, a, "/mine"))
		}
		e.Equal()
	})
}
