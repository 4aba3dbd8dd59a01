package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// newSession is the handshake of a client that takes no read-only server.
var newSession = jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}

// A server with two obstacles serves no client until both are gone, in whichever order they come and go.
func TestObstaclesEndOneByOne(t *testing.T) {
	all := []Obstacle{Damaged, Disputed, Claimed, Unlisted, CutOff}
	for _, first := range all {
		for _, second := range all {
			if first == second {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				client := w.connect()
				w.srv.Suspend(first)
				client.expectClosed()
				w.srv.Suspend(second)
				w.srv.Suspend(second) // it was reported again
				for _, ended := range []Obstacle{first, second} {
					refused := w.open()
					refused.send(newSession)
					refused.expectClosed()
					w.srv.Resume(ended)
				}
				w.connect()
			})
		}
	}
}

// A client whose handshake is under way when an obstacle comes gets no session, and its connection is closed.
func TestObstacleDuringAHandshake(t *testing.T) {
	for name, suspend := range map[string]func(s *Server){
		"at once":   func(s *Server) { s.Suspend(Unlisted) },
		"gradually": func(s *Server) { s.SuspendGradually(context.Background(), time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				w.hold()
				c := w.open()
				c.send(newSession)
				synctest.Wait()
				begun := time.Now()
				suspend(w.srv)
				c.expectClosed()
				if took := time.Since(begun); took > 0 {
					t.Errorf("closed after %v, want at once", took)
				}
				w.release()
			})
		})
	}
}

// A server that is cut off closes its clients' connections over a second, and rejects other clients at once. Clients
// of the read-only mode stay, and others come. If it is no longer cut off, it closes no more.
func TestSuspendGradually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		held := []*client{w.connect(), w.connect(), w.connect(), w.connect()}
		w.srv.BeginReadOnly()
		reader := w.connectReadOnly()
		w.srv.EndReadOnly()
		reader.expectClosed()
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan int, 1)
		go func() { closed <- w.srv.SuspendGradually(ctx, time.Second) }()
		synctest.Wait()
		rejected := func(req jute.ConnectRequest) {
			t.Helper()
			c, begun := w.open(), time.Now()
			c.send(req)
			c.expectClosed()
			if took := time.Since(begun); took > 0 {
				t.Errorf("rejected after %v, want at once", took)
			}
		}
		rejected(newSession)
		rejected(jute.ConnectRequest{TimeOut: 10000, SessionID: held[3].id, Passwd: held[3].password, LastZxidSeen: 1 << 60})
		rejected(asksReadOnly) // the mode has not begun
		w.srv.BeginReadOnly()
		reader = w.connectReadOnly()
		rejected(newSession)
		held[0].expectClosed()
		held[3].must(jute.OpPing)
		time.Sleep(300 * time.Millisecond)
		held[1].expectClosed()
		held[2].must(jute.OpPing)
		reader.must(jute.OpPing)
		cancel()
		if n := <-closed; n != 2 {
			t.Errorf("closed %d connections, want 2", n)
		}
		w.srv.Resume(CutOff)
		w.srv.EndReadOnly()
		held[2].must(jute.OpPing)
		w.connect()
	})
}
