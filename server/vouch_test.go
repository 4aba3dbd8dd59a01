package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// A client gets nothing while the member does not vouch for its session. Replies, events and pongs
// are held, and are sent once the member vouches for it.
func TestNothingLeavesUnvouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c, writer := w.connect(), w.connect()
		c.must(jute.OpGetData, getData("/", true))
		confirmed := make(chan struct{})
		w.silence(true, func(ctx context.Context) error {
			select {
			case <-confirmed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		c.request(jute.OpPing)
		synctest.Wait()
		writer.request(jute.OpSetData, setData("/", "x"))
		synctest.Wait() // the event is queued before the next reply
		c.request(jute.OpExists, exists("/", false))
		c.expectSilence(testTick / 3)
		writer.expectSilence(time.Millisecond)
		close(confirmed)
		c.expect(1+1, jute.OK)
		c.expectEvent(jute.EventNodeDataChanged, "/")
		c.expect(2+1, jute.OK)
		writer.expect(1, jute.OK)
	})
}

// If the member does not vouch for the session in time, the connection ends without a byte.
func TestUnvouchedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c, idle := w.connect(), w.connect()
		refuse := func(ctx context.Context) error {
			select {
			case <-time.After(testTick / 2):
			case <-ctx.Done():
			}
			return errors.New("nobody answers")
		}
		w.silence(true, refuse)
		begin := time.Now()
		c.request(jute.OpPing)
		c.expectClosed()
		if took := time.Since(begin); took != testTick/2 {
			t.Errorf("closed after %v, want %v", took, testTick/2)
		}
		late := w.open()
		late.send(jute.ConnectRequest{TimeOut: 10000})
		late.expectClosed() // the answer to a handshake also needs vouching
		w.silence(false, nil)
		idle.must(jute.OpPing) // nothing was to be sent to it meanwhile
		synctest.Wait()        // the server counts a connection after it has closed it
		if n := w.srv.Stats().EndedByReason["not_vouched"]; n != 2 {
			t.Errorf("%d connections counted, want 2", n)
		}
	})
}

// A rejected handshake reveals nothing about a live session, so the member need not vouch for it.
func TestRefusalNeedsNoVouching(t *testing.T) {
	w := newWorld(t, false, nil)
	w.silence(true, func(context.Context) error { return errors.New("no") })
	c := w.open()
	if res := c.hello(jute.ConnectRequest{TimeOut: 10000, SessionID: 99999, Passwd: make([]byte, 16)}); res.SessionID != 0 {
		t.Errorf("got session %v", res.SessionID)
	}
}

// The member does not vouch for a session that has ended. But if this connection closed the
// session, the client gets the reply to its close, and all replies before it.
func TestCloseReplyNeedsNoVouching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpPing)
		c.expect(1, jute.OK)
		closed := make(chan struct{})
		w.silence(true, func(context.Context) error {
			<-closed // the flusher asks before the close is applied, and is refused after that
			return errors.New("no such session")
		})
		c.request(jute.OpPing)
		c.request(jute.OpCloseSession)
		synctest.Wait()
		w.release()
		close(closed)
		c.expect(2, jute.OK)
		c.expect(3, jute.OK)
		c.expectClosed()
	})
}

// carrier returns the number of the connection that a session is attached to.
func (w *world) carrier(c *client) uint64 {
	w.state.RLock()
	defer w.state.RUnlock()
	s, _ := w.state.Session(c.id)
	return s.Owner.Conn
}

// A cut that is meant for a connection comes too late if the client has resumed its session on
// another connection of this member. The new connection stays.
func TestLateCutSparesTheNewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		old := w.connect()
		number := w.carrier(old)
		c := w.resume(old)
		w.srv.DropConnection(c.id, number, errors.New("refused, before it came back"))
		c.must(jute.OpPing)
		old.expectClosed()
		w.srv.DropConnection(c.id, w.carrier(c), errors.New("refused"))
		c.expectClosed()
	})
}

// DropAll closes all connections while apply hangs with the tree's lock, including those with
// readers that wait for the lock.
func TestCutAllWhileApplyHangs(t *testing.T) {
	w := newWorld(t, true, nil)
	idle, reads := w.connect(), w.connect()
	w.state.Lock()
	defer w.state.Unlock()
	reads.request(jute.OpExists, exists("/", false))
	waitFor(t, func() bool { return w.srv.Stats().Received == 3 }) // two handshakes and the request, which its reader is serving now
	w.srv.DropAll()
	for _, c := range []*client{idle, reads} {
		c.expectClosed()
	}
}

// If a session ends without its client's doing, or this member must give it up, its connection ends
// without a byte.
func TestSessionEnds(t *testing.T) {
	ends := map[string]func(w *world, c *client){
		"expired": func(w *world, c *client) {
			w.inject(0, &proto.Txn{Op: int32(jute.OpExpire), Session: int64(c.id), Body: encode(&proto.Expire{OwnerIndex: w.since(c)})})
		},
		"attached elsewhere": func(w *world, c *client) { w.inject(other, elsewhere(c, 7, w.since(c))) },
		"cut":                func(w *world, c *client) { w.srv.DropConnection(c.id, w.carrier(c), errors.New("refused")) },
		"restored": func(w *world, _ *client) {
			w.state.Lock()
			defer w.state.Unlock()
			w.srv.StateRestored()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				c := w.connect()
				end(w, c)
				c.expectClosed()
				synctest.Wait()
				if !w.wasDetached(c.id) || w.srv.Stats().Connections != 0 {
					t.Error("the connection is still known")
				}
			})
		})
	}
}
