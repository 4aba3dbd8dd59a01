package server

import (
	"testing"
	"time"

	"rollcall/zk/jute"
)

// A loop reads a sync and then a write of one connection. The write takes no place of the throttle until the sync has its reply.
func TestWriteOfLoopBehindItsSyncHasNoPlace(t *testing.T) {
	w := newWorld(t, true, throttledTo(RequestThrottle{MaxRequests: 3, StallTime: time.Hour}))
	all := w.connectInLoops(t, 4)
	stuck, third, fourth, other := all[0], all[1], all[2], all[3]
	w.hold()
	stuck.request(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
	third.request(jute.OpSetData, setData("/", "3"))
	waitFor(t, func() bool { return w.countSubmitted() == 1 })
	fourth.request(jute.OpSetData, setData("/", "4")) // so that the sync waits still when the third is served
	waitFor(t, func() bool {
		w.srv.requestThrottle.mu.Lock()
		defer w.srv.requestThrottle.mu.Unlock()
		return w.srv.requestThrottle.inProcess == 3
	})
	stuck.request(jute.OpSetData, setData("/", "1"))
	waitFor(t, func() bool { return w.countLooped() == 3 }) // it waits in a reader
	w.step()
	third.expect(third.xid, jute.OK)
	other.request(jute.OpSetData, setData("/", "2"))
	waitFor(t, func() bool { return w.countSubmitted() == 2 })
	w.release()
	other.expect(other.xid, jute.OK)
}
