package client

import (
	"errors"
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// With a context of WithFreshReads, a sync goes before each read, and before no other request, such as one that sets a watch.
// Without one there is none.
func TestFreshReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := dialScripted(t, "fake:1/app", Config{})
		for _, fresh := range []bool{true, false} {
			ctx := t.Context()
			if fresh {
				ctx = WithFreshReads(ctx)
			}
			for _, tt := range requestCases() {
				get, _ := tt.record.(jute.GetDataRequest)
				isRead := tt.op.Class() == jute.ClassRead && !get.Watch
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = tt.call(ctx, c) // the requests count here
				}()
				first := s.next()
				if synced := first.Op == jute.OpSync && tt.op != jute.OpSync; synced != (fresh && isRead) {
					t.Errorf("fresh %t, %v: the first request is %v", fresh, tt.op, first.Op)
				} else if synced {
					s.reply(first, jute.OK, jute.SyncResponse{Path: []byte("/")})
					first = s.next()
				}
				if first.Op != tt.op {
					t.Errorf("fresh %t: %v came, want %v", fresh, first.Op, tt.op)
				}
				s.reply(first, jute.NoNode, nil)
				<-done
			}
		}
	})
}

// If the sync fails, the read fails, too, although it has a reply.
func TestFreshReadNeedsItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := dialScripted(t, "fake:1", Config{})
		read := func() error {
			done := make(chan error, 1)
			go func() {
				_, _, err := c.Get(WithFreshReads(t.Context()), "/a")
				done <- err
			}()
			sync, get := s.next(), s.next()
			s.reply(sync, jute.SystemError, nil)
			s.reply(get, jute.OK, jute.GetDataResponse{Data: []byte("stale")})
			return <-done
		}
		if err := read(); !errors.Is(err, jute.SystemError.Err()) {
			t.Errorf("error %v, want that of the sync", err)
		}
	})
}
