package server

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// Only admission.MaxSessionCreates clients wait for their new session in the log at a time. The next one enters when one of the
// sessions is applied, or when its client has gone. A client that comes back for its session waits for none of them.
func TestNewSessionsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 4
		w := newWorld(t, false, func(c *Config) { c.Limits.MaxClientConns = -1 })
		old := w.connect()
		w.hold()
		inLog := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if n := w.countSubmitted(); n != want {
				t.Fatalf("%s: %d handshakes are in the log, want %d", when, n, want)
			}
		}
		var clients []*client
		for i := range admission.MaxSessionCreates + waiting {
			c := w.open()
			req := jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16)}
			if i%2 == 1 {
				req.SessionID = jute.SessionID(0x7700 + i) // it claims a session that this member does not know
			}
			c.send(req)
			synctest.Wait() // they come in this order
			clients = append(clients, c)
		}
		inLog(admission.MaxSessionCreates, "after the storm")

		back := w.open()
		back.send(jute.ConnectRequest{TimeOut: 10000, SessionID: old.id, Passwd: old.password})
		inLog(admission.MaxSessionCreates+1, "after a client came back")

		w.step()
		inLog(admission.MaxSessionCreates+1, "when one of them is applied, and the next has come")

		_ = clients[1].Close()
		inLog(admission.MaxSessionCreates+2, "when the client of one of them has gone, and the next has come")

		_ = clients[admission.MaxSessionCreates+3].Close() // this one still waits for its place
		w.release()
		synctest.Wait()
		if back.welcome(); back.id != old.id {
			t.Errorf("the client that came back has session %v, want %v", back.id, old.id)
		}
		for i := 0; i < admission.MaxSessionCreates+3; i += 2 {
			if clients[i].welcome(); clients[i].id == 0 {
				t.Errorf("client %d has no session", i)
			}
		}
	})
}

// While a claim of a session waits for its place, this member applies the session, which is another member's
// then. The claim does not take it: its client may be at the other member. If the client still wants the session, it
// comes back.
func TestClaimedSessionComes(t *testing.T) {
	password := bytes.Repeat([]byte{5}, passwordSize)
	const id = jute.SessionID(other<<56 + 1)
	claimed := func(t *testing.T) (w *world, c *client) {
		w = newWorld(t, false, func(c *Config) { c.Limits.MaxClientConns = -1 })
		w.hold()
		w.inject(other, &proto.Txn{
			Session: int64(id), Conn: 7, Op: int32(jute.OpCreateSession), Body: encode(&proto.OpenSession{TimeoutMs: 10000, Password: password}),
		})
		for range admission.MaxSessionCreates {
			w.open().send(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, passwordSize)})
		}
		synctest.Wait()
		c = w.open()
		c.id, c.password = id, password
		return w, c
	}
	claim := func(c *client, password []byte) {
		c.send(jute.ConnectRequest{TimeOut: 10000, SessionID: id, Passwd: password})
		time.Sleep(testTick) // so long that a handshake in the log would not try again
		synctest.Wait()
	}
	// comes applies the session, and a create, so that there is a place. want is the number of handshakes in the log
	// afterwards.
	comes := func(t *testing.T, w *world, want int) {
		t.Helper()
		w.step()
		w.step()
		synctest.Wait()
		if n := w.countSubmitted(); n != want {
			t.Errorf("%d handshakes are in the log, want %d", n, want)
		}
	}
	t.Run("with its password", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, c := claimed(t)
			claim(c, password)
			comes(t, w, admission.MaxSessionCreates)
			w.release()
			c.expectClosed()
			c = w.open()
			c.id, c.password = id, password
			c.send(jute.ConnectRequest{TimeOut: 10000, SessionID: id, Passwd: password})
			if res := c.welcome(); res.SessionID != id {
				t.Errorf("the client that comes back gets session %v, want %v", res.SessionID, id)
			}
		})
	})
	t.Run("with a wrong password", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, c := claimed(t)
			claim(c, make([]byte, passwordSize))
			comes(t, w, admission.MaxSessionCreates-1)
			if res := c.welcome(); res.SessionID != 0 {
				t.Errorf("got session %v", res.SessionID)
			}
			c.expectClosed()
		})
	})
	t.Run("the client has gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, c := claimed(t)
			claim(c, password)
			_ = c.Close()
			synctest.Wait()
			comes(t, w, admission.MaxSessionCreates-1)
		})
	})
}

// A new session that waits for its place while there is no leader waits no longer than it would in the log. Its
// connection is then closed, and all places are free again.
func TestNewSessionsWaitForLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(c *Config) { c.Limits.MaxClientConns = -1 })
		w.hold()
		var clients []*client
		for range admission.MaxSessionCreates + 1 {
			c := w.open()
			c.send(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16)})
			clients = append(clients, c)
		}
		time.Sleep(10*time.Second/sessionWaitDivisor + time.Millisecond)
		synctest.Wait()
		for _, c := range clients {
			c.expectClosed()
		}
		if n := w.srv.createSlots.Taken(); n != 0 {
			t.Errorf("%d slots are still taken", n)
		}
		w.release()
		if c := w.connect(); c.id == 0 {
			t.Error("no session afterwards")
		}
	})
}
