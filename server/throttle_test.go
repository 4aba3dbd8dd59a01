package server

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

// A client whose session is known here gets in when new clients do not, and a stranger cannot pass for
// one: neither with a session of his own making nor with a wrong password. A password that is wrong
// takes no token.
func TestResumedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(c *Config) { c.Limits.Throttle = admission.Throttle{Tokens: 2, FillTime: 10 * time.Second} })
		one, two := w.connect(), w.connect()
		refused := func(req jute.ConnectRequest) {
			t.Helper()
			c := w.open()
			c.send(req)
			c.expectClosed()
		}
		refused(jute.ConnectRequest{TimeOut: 10000})
		refused(jute.ConnectRequest{TimeOut: 10000, SessionID: 4711, Passwd: make([]byte, 16)})
		wrong := w.open()
		if res := wrong.hello(jute.ConnectRequest{TimeOut: 10000, SessionID: one.id, Passwd: bytes.Repeat([]byte{1}, 16)}); res.SessionID != 0 {
			t.Errorf("a wrong password resumed %v", res.SessionID)
		}
		w.resume(one)
		w.resume(two)
		synctest.Wait() // the server counts a connection after it has closed it
		s := w.srv.Stats()
		if s.EndedByReason["throttled"] != 2 || s.RejectedConns != 2 || s.TokenDeficit != 4 || s.DropChance != 0 {
			t.Errorf("stats %+v, want 2 throttled and 4 tokens missing", s)
		}
		time.Sleep(30 * time.Second)
		w.connect()
	})
}
