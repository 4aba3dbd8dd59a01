package server

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// A long read whose answer is made is answered, even if others have taken the room for it meanwhile: the answer is in memory already.
func TestMadeAnswersAwaitNoRoom(t *testing.T) {
	for name, read := range longReads() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				c := w.connect()
				c.must(jute.OpCreate, create("/list", "", 0))
				c.grow("/list", "n", longList+1)
				w.srv.turn <- struct{}{} // as if another one were served
				xid := c.xid
				c.request(read.op, read.rec)
				synctest.Wait()
				k := w.srv.conns.carrier(c.id)
				k.stream.Lock()
				under := k.replies.queue.first.read
				k.stream.Unlock()
				if under == nil || !under.begin() {
					t.Fatal("the read has not begun")
				}
				full := w.srv.Limits().Budget
				w.srv.streams.Budget.Add(full)
				defer w.srv.streams.Budget.Add(-full)
				<-w.srv.turn
				_ = c.SetDeadline(time.Now().Add(time.Second))
				c.expect(xid+1, jute.OK)
			})
		})
	}
}

// While a member is short of memory, a write that ends too early is answered as at other times: it cannot be read. What it would add
// is not looked at.
func TestShortOfMemoryForUnreadable(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	c.must(jute.OpCreate, create("/a", "1234", 0))
	set := setData("/a", "12345").Append(nil)
	list := jute.SetACLRequest{Path: []byte("/a"), ACL: listOf(2), Version: -1}.Append(nil)
	for _, tt := range []struct {
		name string
		op   jute.Op
		body []byte
		adds bool
	}{
		{"whole setData", jute.OpSetData, set, true},
		{"setData without its version", jute.OpSetData, set[:len(set)-4], false},
		{"half a setData", jute.OpSetData, set[:len(set)-7], false},
		{"empty setData", jute.OpSetData, nil, false},
		{"whole setACL", jute.OpSetACL, list, true},
		{"setACL without its version", jute.OpSetACL, list[:len(list)-4], false},
		{"empty setACL", jute.OpSetACL, nil, false},
	} {
		if adds := w.srv.writes.adds(tt.op, tt.body, nil); adds != tt.adds {
			t.Errorf("%s adds data: %t, want %t", tt.name, adds, tt.adds)
		}
	}
}
