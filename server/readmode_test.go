package server

import (
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// A client chooses with an auth packet how fresh the reads after it are. Other connections, and the next one of its session, begin with the
// member's mode.
func TestReadModeOfConnection(t *testing.T) {
	for _, linear := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, func(c *Config) { c.LinearizableReads = linear })
			c, other := w.connect(), w.connect()
			waits := func(c *client, want bool, when string) {
				t.Helper()
				w.hold()
				c.request(jute.OpGetData, getData("/", false))
				synctest.Wait()
				w.mu.Lock()
				got := len(w.syncs) > 0
				w.mu.Unlock()
				if got != want {
					t.Errorf("linearizable %t, %s: a read waits for the leader: %t", linear, when, got)
				}
				w.release()
				c.reply()
			}
			waits(c, linear, "without a choice")
			for _, choice := range []struct {
				mode  string
				waits bool
			}{{"linearizable", true}, {"sequential", false}, {"linearizable", true}, {"sequential", false}} {
				c.must(jute.OpAuth, auth("readConsistency", choice.mode))
				waits(c, choice.waits, "after "+choice.mode)
			}
			c.must(jute.OpAuth, auth("readConsistency", map[bool]string{true: "sequential", false: "linearizable"}[linear]))
			waits(other, linear, "another connection")
			waits(w.connect(), linear, "a new connection")
			if got, want := c.whoAmI(), other.whoAmI(); got != want {
				t.Errorf("the client has the identities %s, want %s as without a choice", got, want)
			}
		})
	}
}

// The mode holds for the reads between two packets that come together.
func TestReadModeOfOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpGetData, getData("/", false))
		c.request(jute.OpAuth, auth("readConsistency", "linearizable"))
		c.request(jute.OpGetData, getData("/", false))
		c.request(jute.OpAuth, auth("readConsistency", "sequential"))
		c.request(jute.OpGetData, getData("/", false))
		synctest.Wait()
		w.mu.Lock()
		if n := len(w.syncs); n != 1 {
			t.Errorf("%d reads wait for the leader, want the one in the middle", n)
		}
		w.mu.Unlock()
		w.release()
		for xid := range int32(5) {
			if h, _ := c.reply(); h.Xid != xid+1 || h.Err != jute.OK {
				t.Errorf("reply %+v, want that of %d", h, xid+1)
			}
		}
	})
}

// An unknown mode is rejected, and so is a mode that a read-only server cannot guarantee.
func TestReadModesThatAreRefused(t *testing.T) {
	for _, mode := range []string{"", "strict", "Linearizable", "linearizable "} {
		synctest.Test(t, func(t *testing.T) {
			c := newWorld(t, false, nil).connect()
			if h, _ := c.call(jute.OpAuth, auth("readConsistency", mode)); h.Err != jute.AuthFailed {
				t.Errorf("%q: code %v", mode, h.Err)
			}
			c.expectClosed()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		w.srv.BeginReadOnly()
		sequential, linear := w.connectReadOnly(), w.connectReadOnly()
		sequential.must(jute.OpAuth, auth("readConsistency", "sequential"))
		if h, _ := linear.call(jute.OpAuth, auth("readConsistency", "linearizable")); h.Err != jute.AuthFailed {
			t.Errorf("read-only: code %v", h.Err)
		}
		linear.expectClosed()
	})
}
