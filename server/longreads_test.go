package server

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// grow creates ephemeral nodes below parent in multis, and returns their names as a list of children shows them.
func (c *client) grow(parent, prefix string, n int) (list []byte) {
	c.tb.Helper()
	list = jute.AppendCount(nil, n)
	const batch = 1000
	for i := 0; i < n; i += batch {
		var ops []jute.MultiOp
		for j := i; j < min(n, i+batch); j++ {
			name := fmt.Sprintf("%s%05d", prefix, j)
			list = jute.AppendString(list, name)
			req := jute.CreateRequest{Path: []byte(parent + "/" + name), Data: []byte{}, ACL: jute.OpenACL, Flags: jute.Ephemeral}
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: req})
		}
		c.must(jute.OpMulti, raw(jute.AppendMulti(nil, ops)))
	}
	return list
}

// longReads are reads of more than maxStepsUnderLock names below /list, where a client has created them.
func longReads() map[string]struct {
	op  jute.Op
	rec record
} {
	children := jute.GetChildrenRequest{Path: []byte("/list")}
	var gets []jute.MultiOp
	for range maxStepsUnderLock/stepsPerOp + 1 {
		gets = append(gets, jute.MultiOp{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte("/list")}})
	}
	return map[string]struct {
		op  jute.Op
		rec record
	}{
		"children":           {jute.OpGetChildren, children},
		"children2":          {jute.OpGetChildren2, children},
		"ephemerals":         {jute.OpGetEphemerals, jute.GetEphemeralsRequest{}},
		"children in multi":  {jute.OpMultiRead, raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetChildren, GetChildren: children}}))},
		"long multi of data": {jute.OpMultiRead, raw(jute.AppendMulti(nil, gets))},
	}
}

// While the reply to a long read is made, the tree's lock is free: writes are applied, and other clients read. A long
// read waits while another one is served. Later requests of its client wait for its reply, writes too.
func TestLongReadsLeaveTheLock(t *testing.T) {
	for name, read := range longReads() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				c, writer := w.connect(), w.connect()
				c.must(jute.OpCreate, create("/list", "", 0))
				c.grow("/list", "n", maxStepsUnderLock+1)
				others := w.takeTurn(w.srv.longReadTurn) // as if another one were served
				xid := c.xid
				c.request(read.op, read.rec)
				synctest.Wait()
				k := w.srv.conns.carrierOf(c.id)
				w.state.Lock() // nobody holds it
				k.stream.Lock()
				unanswered, working := k.replies.queue.n, k.replies.queue.first != nil && k.replies.queue.first.progress == running
				k.stream.Unlock()
				w.state.Unlock()
				if unanswered != 1 || !working {
					t.Fatalf("%d requests wait, served apart: %t", unanswered, working)
				}
				writer.must(jute.OpCreate, create("/list/other", "", 0))
				others.End()
				h, _ := c.reply()
				if h.Xid != xid+1 || h.Err != jute.OK || h.Zxid != w.zxid() {
					t.Errorf("xid %d, %v with zxid %x, want the present one, %x", h.Xid, h.Err, h.Zxid, w.zxid())
				}
			})
		})
	}
}

// A long read waits until there is memory for its reply. Other requests do not wait meanwhile. A linearizable one needs no second proof
// when it begins again.
func TestLongReadsAwaitRoom(t *testing.T) {
	for _, linear := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, func(c *Config) { c.LinearizableReads = linear })
			c := w.connect()
			c.must(jute.OpCreate, create("/list", "", 0))
			c.grow("/list", "n", maxStepsUnderLock+1)
			full := w.srv.Limits().Budget
			w.srv.streamConfig.Budget.AddBytes(full)
			xid := c.xid
			c.request(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/list")})
			synctest.Wait()
			k := w.srv.conns.carrierOf(c.id)
			k.stream.Lock()
			unreplied, taken := k.replies.queue.n, w.srv.longReadTurn.IsTaken()
			k.stream.Unlock()
			w.srv.streamConfig.Budget.AddBytes(-full)
			if unreplied != 1 || taken {
				t.Errorf("linearizable %t: %d reads wait, want 1; the turn is taken: %t", linear, unreplied, taken)
			}
			c.expect(xid+1, jute.OK)
		})
	}
}

// Reads that take few steps are answered at once, whatever is served apart.
func TestShortReadsTakeNoTurn(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	c.must(jute.OpCreate, create("/list", "", 0))
	c.grow("/list", "n", maxStepsUnderLock)
	defer w.takeTurn(w.srv.longReadTurn).End()
	c.must(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/list")})
	c.must(jute.OpGetEphemerals, jute.GetEphemeralsRequest{})
	c.must(jute.OpMultiRead, raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte("/list")}}})))
}

// The reply to a long read shows one state, the one of its zxid, however much changes while it is made. Events of later
// changes, and of the watch that it sets, come after it.
func TestLongReadsShowOneState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c, writer := w.connect(), w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		want := c.grow("/list", "n", maxStepsUnderLock+1)
		zxid := w.zxid()
		c.must(jute.OpGetData, getData("/list", true))
		k := w.srv.conns.carrierOf(c.id)
		r := k.newRequest(jute.RequestHeader{Xid: 77, Op: jute.OpGetChildren}, jute.GetChildrenRequest{Path: []byte("/list"), Watch: true}.Append(nil))
		others := w.takeTurn(w.srv.longReadTurn)
		r.replyLocally()
		synctest.Wait()
		read := k.replies.queue.first.longRead
		if !read.copyIfFits() {
			t.Fatal("not begun")
		}
		writer.must(jute.OpSetData, setData("/list", "x"))
		writer.must(jute.OpDelete, jute.DeleteRequest{Path: []byte("/list/n00000"), Version: -1})
		writer.must(jute.OpCreate, create("/list/n00000x", "", 0))
		others.End()
		h, body := c.reply()
		if h.Xid != 77 || h.Err != jute.OK || h.Zxid != zxid || !bytes.Equal(body, want) {
			t.Errorf("xid %d, %v, zxid %x, want %x; the names are those of that zxid: %t", h.Xid, h.Err, h.Zxid, zxid, bytes.Equal(body, want))
		}
		c.expectEvent(jute.EventNodeDataChanged, "/list")
		c.expectEvent(jute.EventNodeChildrenChanged, "/list")
		c.must(jute.OpGetData, getData("/list", false))
	})
}

// A list that grows long while its read waits for a write does not show the writes that the client sent after it.
func TestReadsThatGrowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		w.hold()
		names := jute.AppendCount(nil, maxStepsUnderLock+1)
		for i := range maxStepsUnderLock + 1 {
			name := fmt.Sprintf("n%05d", i)
			names = jute.AppendString(names, name)
			w.inject(other, &proto.Txn{Op: int32(jute.OpCreate), Body: create("/list/"+name, "", 0).Append(nil)})
		}
		xid := c.xid
		c.request(jute.OpSetData, setData("/list", "x"))
		c.request(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/list")})
		c.request(jute.OpCreate, create("/list/late", "", 0))
		synctest.Wait()
		if n := w.countSubmitted(); n != maxStepsUnderLock+3 {
			t.Fatalf("%d writes are on their way, want %d", n, maxStepsUnderLock+3)
		}
		w.release()
		c.expect(xid+1, jute.OK)
		h, body := c.reply()
		if h.Xid != xid+2 || h.Err != jute.OK || !bytes.Equal(body, names) {
			t.Errorf("xid %d, %v, %d bytes, want the %d of the list without the later write", h.Xid, h.Err, len(body), len(names))
		}
		c.expect(xid+3, jute.OK)
	})
}
