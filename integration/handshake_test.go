package integration

import (
	"errors"
	"io"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// A client does its handshake, for a new session or for its old one, while there is no leader. If
// that lasts less than a third of the session's timeout, the client is answered on the same
// connection as soon as there is a leader, and served.
func TestHandshakeWaitsForALeader(t *testing.T) {
	const timeout, wait = 20 * tick, 5 * tick
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

// A member that was cut off sends an attach late, after the network has healed. Its client has gone without the member's
// knowledge, and has resumed its session on another member. The late attach is rejected because of its old owner index,
// and is not tried again. The session stays with the connection that the client uses, and the half-open connection is
// closed.
func TestHalfOpenAttachDoesNotTakeTheSessionBack(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		const timeout = 10 * tick
		first, session := e.Open(leader, timeout)
		if code := create(t, first, 1, "/mine", jute.Ephemeral); code != jute.OK {
			t.Fatal(code)
		}
		e.Equal()
		between(e.Network.Hang, a, leader)
		late, err := e.Dial(a) // never closed and never heard from again: half-open
		if err != nil {
			t.Fatal(err)
		}
		refused := make(chan error, 1)
		go func() {
			_, err := late.Resume(session, 0)
			refused <- err
		}()
		time.Sleep(tick / 20)
		_ = first.Close()
		c := resume(t, e, b, session)
		time.Sleep(tick / 2) // until the late attach is too old to be tried again
		between(e.Network.EndHang, a, leader)
		for xid := range int32(20) { // for longer than a handshake may take
			alive(t, c, 2*xid+1, "/write-"+string('a'+rune(xid)))
			time.Sleep(tick)
		}
		select {
		case err := <-refused:
			if !errors.Is(err, io.EOF) {
				t.Errorf("the half-open connection ended with %v, want the end of the stream", err)
			}
		default:
			t.Error("the half-open connection is still open")
		}
		if got := owner(e, leader, session.SessionID); got != b || !has(e, a, "/mine") {
			t.Errorf("the session is attached to member %d, want %d all the time; its ephemeral is there: %t", got, b, has(e, a, "/mine"))
		}
		e.Equal()
	})
}

// A client resumes its session on a member whose log lags by less than half a tick. The member
// therefore knows an older since. It tries the attach again with the newer one that it has learned,
// and the client gets its session on that connection.
func TestAttachOnALaggingMemberIsTriedAgain(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		_, session := e.Open(leader, 10*tick)
		e.Equal()
		between(e.Network.Hang, a, leader)
		_ = resume(t, e, b, session) // a does not learn of this owner
		time.AfterFunc(tick/4, func() { between(e.Network.EndHang, a, leader) })
		c := resume(t, e, a, session)
		alive(t, c, 1, "/served")
		if got := owner(e, leader, session.SessionID); got != a {
			t.Errorf("the session is attached to member %d, want %d", got, a)
		}
		e.Equal()
	})
}
