package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

func TestFrames(t *testing.T) {
	tests := []struct {
		name   string
		bytes  []byte
		closed bool
	}{
		{name: "4 bytes", bytes: frameOf(raw{0, 0, 0, 1}), closed: true},
		{name: "7 bytes", bytes: frameOf(raw{0, 0, 0, 1, 0, 0, 0}), closed: true},
		{name: "empty", bytes: []byte{0, 0, 0, 0}, closed: true},
		{name: "negative", bytes: []byte{128, 0, 0, 0}, closed: true},
		{name: "above the limit", bytes: []byte{0, 0x10, 0, 0}, closed: true},
		{name: "garbage behind the record", bytes: frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpGetData}, getData("/", false), raw("garbage"))},
		{name: "at the limit", bytes: frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpCreate}, create("/big", strings.Repeat("x", jute.DefaultMaxBuffer-8-44), 0), raw{0})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newWorld(t, false, nil).connect()
			c.write(tt.bytes)
			if tt.closed {
				c.expectClosed()
				return
			}
			c.expect(1, jute.OK)
		})
	}
	if n := len(tests[6].bytes); n != jute.DefaultMaxBuffer+4 {
		t.Errorf("the frame at the limit has %d bytes", n)
	}
}

func TestXidsAreEchoed(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	for _, xid := range []int32{5, 5, 0, -2, 1<<31 - 1, 3} {
		c.send(jute.RequestHeader{Xid: xid, Op: jute.OpExists}, exists("/", false))
		c.expect(xid, jute.OK)
	}
}

func TestPing(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	written, _ := c.call(jute.OpCreate, create("/a", "", 0))
	c.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
	h, body := c.reply()
	if h.Xid != jute.XidPing || h.Zxid != written.Zxid || h.Err != jute.OK || len(body) > 0 {
		t.Errorf("pong %+v % x, want zxid %#x", h, body, written.Zxid)
	}
}

// The zxid in a reply's header is the write's own, failed or not. For other requests it is the last
// applied one.
func TestReplyZxids(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	h, _ := c.call(jute.OpPing)
	z := h.Zxid
	steps := []struct {
		name string
		op   jute.Op
		rec  record
		code jute.Code
		zxid func() int64
	}{
		{"create", jute.OpCreate, create("/a", "", 0), jute.OK, func() int64 { z++; return z }},
		{"create again", jute.OpCreate, create("/a", "", 0), jute.NodeExists, func() int64 { z++; return z }},
		{"no node", jute.OpSetData, setData("/b", ""), jute.NoNode, func() int64 { z++; return z }},
		{"cut short", jute.OpSetData, raw{0, 0, 0, 9, '/'}, jute.MarshallingError, func() int64 { return z }},
		{"read", jute.OpGetData, getData("/a", false), jute.OK, func() int64 { return z }},
		{"failing read", jute.OpGetData, getData("/b", false), jute.NoNode, func() int64 { return z }},
		{"read cut short", jute.OpGetData, raw{0}, jute.MarshallingError, func() int64 { return z }},
		{"null lists", jute.OpSetWatches, raw(append(make([]byte, 8), bytes.Repeat([]byte{255}, 12)...)), jute.MarshallingError, func() int64 { return z }},
		{"empty multi", jute.OpMulti, raw(jute.AppendMulti(nil, nil)), jute.OK, func() int64 { z++; return z }},
		{"multi of reads", jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetData}})), jute.MarshallingError, func() int64 { z++; return z }},
		{"addWatch cut short", jute.OpAddWatch, raw{}, jute.MarshallingError, func() int64 { return z }},
		{"reconfig", jute.OpReconfig, jute.ReconfigRequest{CurConfigID: -1}, jute.ReconfigDisabled, func() int64 { z++; return z }},
		{"reconfig cut short", jute.OpReconfig, raw{0, 0}, jute.MarshallingError, func() int64 { return z }},
		{"whoAmI", jute.OpWhoAmI, raw{}, jute.OK, func() int64 { return z }},
		{"sync", jute.OpSync, jute.SyncRequest{Path: []byte("no path")}, jute.OK, func() int64 { return z }},
		{"auth", jute.OpAuth, auth("digest", "u:p"), jute.OK, func() int64 { return 0 }},
	}
	for _, s := range steps {
		h, _ := c.call(s.op, s.rec)
		if want := s.zxid(); h.Err != s.code || h.Zxid != want {
			t.Errorf("%s: %v, zxid %#x, want %v, %#x", s.name, h.Err, h.Zxid, s.code, want)
		}
	}
	var failed, malformed uint64
	for _, s := range steps {
		if s.code != jute.OK {
			failed++
		}
		if s.code == jute.MarshallingError {
			malformed++
		}
	}
	if st := w.srv.Stats(); st.FailedRequests != failed || st.MalformedRequests != malformed {
		t.Errorf("counted %d failed and %d malformed requests, want %d and %d", st.FailedRequests, st.MalformedRequests, failed, malformed)
	}
}

func TestUnknownOps(t *testing.T) {
	for _, op := range []jute.Op{0, -1, 10, 888, jute.OpCheck, jute.OpCreateSession, jute.OpDeleteContainer, jute.OpAttach, jute.OpExpire, jute.OpTermStart} {
		t.Run(op.String(), func(t *testing.T) {
			w := newWorld(t, false, nil)
			w.hold()
			w.release()
			c := w.connect()
			c.request(op, jute.CheckVersionRequest{Path: []byte("/"), Version: -1})
			if h := c.expect(1, jute.Unimplemented); h.Zxid != -1 {
				t.Errorf("zxid %d, want -1", h.Zxid)
			}
			c.expectClosed()
			if again := w.resume(c); again.id != c.id {
				t.Error("the session is gone")
			}
		})
	}
}

// sendMixed sends n requests of all classes and returns the expected replies.
func sendMixed(c *client, n int) []jute.ReplyHeader {
	rng := rand.New(rand.NewPCG(1, 2))
	var want []jute.ReplyHeader
	var b []byte
	for i := range n {
		xid, code := int32(i+1), jute.OK
		var op jute.Op
		var rec record = raw{}
		switch rng.IntN(8) {
		case 0:
			op, rec = jute.OpCreate, create(fmt.Sprintf("/n%d", i), "", 0)
		case 1:
			op, rec = jute.OpSetData, setData("/", fmt.Sprint(i))
		case 2:
			op, rec, code = jute.OpDelete, jute.DeleteRequest{Path: []byte("/none")}, jute.NoNode
		case 3:
			op, rec = jute.OpSync, jute.SyncRequest{Path: []byte("/")}
		case 4:
			op, rec = jute.OpAuth, auth("digest", fmt.Sprintf("u%d:p", i%20))
		case 5:
			op, xid = jute.OpPing, jute.XidPing
		case 6:
			op, rec, code = jute.OpSetData, raw{1}, jute.MarshallingError
		default:
			op, rec = jute.OpGetData, getData("/", false)
		}
		want = append(want, jute.ReplyHeader{Xid: xid, Err: code})
		b = append(b, frameOf(jute.RequestHeader{Xid: xid, Op: op}, rec)...)
	}
	go func() { _, _ = c.Write(b) }() // if it fails, replies are missing
	return want
}

// Replies come in the order of the requests, however late writes are applied, and zxids never go
// back.
func TestOrder(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connect()
	w.hold()
	stop := make(chan struct{})
	var applier sync.WaitGroup
	applier.Go(func() {
		rng := rand.New(rand.NewPCG(3, 4))
		for {
			select {
			case <-stop:
				w.release()
				return
			case <-time.After(time.Duration(rng.IntN(300)) * time.Microsecond):
			}
			w.mu.Lock()
			w.flush(rng.IntN(len(w.pending) + 1))
			if rng.IntN(3) == 0 {
				w.finishSyncs() // before the writes that were sent before them
			}
			w.mu.Unlock()
		}
	})
	zxid := int64(0)
	for i, want := range sendMixed(c, 1000) {
		h, _ := c.reply()
		if h.Xid != want.Xid || h.Err != want.Err {
			t.Fatalf("reply %d is to %d with %v, want %d with %v", i, h.Xid, h.Err, want.Xid, want.Err)
		}
		if h.Zxid != 0 && h.Zxid < zxid {
			t.Fatalf("reply %d has zxid %#x after %#x", i, h.Zxid, zxid)
		}
		zxid = max(zxid, h.Zxid)
	}
	close(stop)
	applier.Wait()
	if n := w.srv.Stats().OutstandingRequests; n != 0 {
		t.Errorf("%d requests outstanding, want 0", n)
	}
}

func TestReadWaitsForOwnWritesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		a, b := w.connect(), w.connect()
		w.hold()
		a.request(jute.OpCreate, create("/a", "x", 0))
		a.request(jute.OpGetData, getData("/a", false))
		a.request(jute.OpCreate, create("/b", "y", 0))
		a.request(jute.OpGetData, getData("/b", false))
		a.expectSilence(time.Second)
		if h, _ := b.call(jute.OpGetData, getData("/a", false)); h.Err != jute.NoNode {
			t.Errorf("the other client's read: %v", h.Err)
		}
		w.release()
		for i, want := range []string{"/a", "x", "/b", "y"} { // each reply belongs to its request
			h, body := a.reply()
			d := jute.NewDecoder(body)
			if got := string(d.ReadBytes()); h.Xid != int32(i+1) || h.Err != jute.OK || got != want {
				t.Errorf("reply to %d: %v, %q, want %q", h.Xid, h.Err, got, want)
			}
		}
	})
}

func TestSyncEchoesPath(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	for _, path := range [][]byte{nil, {}, []byte("/nosuch"), []byte("bad path")} {
		body := c.must(jute.OpSync, jute.SyncRequest{Path: path})
		if want := (jute.SyncResponse{Path: path}).Append(nil); !bytes.Equal(body, want) {
			t.Errorf("sync of %q: % x, want % x", path, body, want)
		}
	}
}

// A request touches the session before it is checked. Only auth does not touch it.
func TestTouches(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	tests := []struct {
		op   jute.Op
		rec  record
		want int
	}{
		{jute.OpPing, raw{}, 1},
		{jute.OpExists, exists("/none", false), 1},
		{jute.OpSetData, raw{1, 2}, 1},
		{jute.OpCreate, create("/a", "", 0), 1},
		{jute.OpSync, jute.SyncRequest{}, 1},
		{jute.OpWhoAmI, raw{}, 1},
		{jute.OpAddWatch, raw{}, 1},
		{jute.OpAuth, auth("digest", "u:p"), 0},
		{888, raw{}, 1},
	}
	for _, tt := range tests {
		before := w.touched(c.id)
		c.call(tt.op, tt.rec)
		if got := w.touched(c.id) - before; got != tt.want {
			t.Errorf("%v touched %d times, want %d", tt.op, got, tt.want)
		}
	}
}

func TestResultCodes(t *testing.T) {
	t.Run("expired", func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		w.inject(0, &proto.Txn{Op: int32(jute.OpExpire), Session: int64(c.id), Body: encode(&proto.Expire{OwnerIndex: w.since(c)})})
		c.request(jute.OpCreate, create("/a", "", 0))
		waitFor(t, func() bool { return w.countSubmitted() == 2 })
		w.release()
		c.expectClosed()
		waitFor(t, func() bool { return w.srv.Stats().EndedByReason["session_gone"] == 1 })
	})
	t.Run("moved", func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpCreate, create("/a", "", 0))
		waitFor(t, func() bool { return w.countSubmitted() == 1 })
		w.mu.Lock() // put the attach before the create in the log
		w.enqueue(other, elsewhere(c, 7, w.since(c)), nil)
		w.pending[0], w.pending[1] = w.pending[1], w.pending[0]
		w.mu.Unlock()
		w.release()
		c.expectClosed()
		w.state.RLock()
		defer w.state.RUnlock()
		if _, code := w.state.Exists([]byte("/a"), nil, nil); code != jute.NoNode {
			t.Errorf("exists /a: %v", code)
		}
		waitFor(t, func() bool { return w.srv.Stats().EndedByReason["session_moved"] == 1 })
	})
}

// These are the replies to writes that the log rejects because the session has ended or belongs to another connection
// now.
func TestSessionCodes(t *testing.T) {
	for code, closed := range map[jute.Code]bool{jute.SessionExpired: false, jute.SessionMoved: true, jute.UnknownSession: true} {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpCreate, create("/a", "", 0))
		waitFor(t, func() bool { return w.countSubmitted() == 1 })
		w.mu.Lock()
		w.state.Lock()
		w.waiters[w.seq[self]].ReceiveResult(&znode.Result{Code: code, Zxid: 99})
		w.state.Unlock()
		w.srv.FlushApplied()
		w.pending = nil
		w.mu.Unlock()
		if closed {
			c.expectClosed()
		} else if h := c.expect(1, code); h.Zxid != 99 {
			t.Errorf("%v: zxid %d, want 99", code, h.Zxid)
		}
	}
}

// waitFor waits until done returns true.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("the condition never came true")
		}
	}
}

func TestCloseSession(t *testing.T) {
	w := newWorld(t, true, nil)
	k := w.connect()
	tests := []struct {
		name string
		send func(*client)
		want []int32 // xids of the replies
	}{
		{"alone", func(c *client) { c.request(jute.OpCloseSession) }, []int32{1}},
		{"create before", func(c *client) {
			c.request(jute.OpCreate, create("/e", "", jute.Ephemeral))
			c.request(jute.OpCloseSession)
		}, []int32{1, 2}},
		{"create behind", func(c *client) {
			c.request(jute.OpCloseSession)
			c.request(jute.OpCreate, create("/e", "", jute.Ephemeral))
		}, []int32{1}},
		{"much behind", func(c *client) {
			c.request(jute.OpCloseSession)
			c.write(make([]byte, 3<<20)) // garbage
		}, []int32{1}},
		{"delete before", func(c *client) {
			c.must(jute.OpCreate, create("/e", "", jute.Ephemeral))
			k.must(jute.OpExists, exists("/e", true))
			c.request(jute.OpDelete, jute.DeleteRequest{Path: []byte("/e"), Version: -1})
			c.request(jute.OpCloseSession)
		}, []int32{2, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := w.connect()
			tt.send(c)
			for _, xid := range tt.want {
				c.expect(xid, jute.OK)
			}
			if rest, err := io.ReadAll(c.in); len(rest) > 0 || err != nil {
				t.Errorf("after the last reply: % x, %v, want the end", rest, err)
			}
		})
	}
	k.expectEvent(jute.EventNodeDeleted, "/e")
	h, _ := k.call(jute.OpExists, exists("/e", false)) // and no second event comes
	if h.Err != jute.NoNode {
		t.Errorf("/e: %v", h.Err)
	}
}

// Requests after a closeSession are dropped, also while the close waits for the log. The server
// waits for a client that has gone no longer than for a silent one.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpCloseSession)
		c.request(jute.OpCreate, create("/e", "", jute.Ephemeral))
		synctest.Wait()
		if n := w.countSubmitted(); n != 1 {
			t.Errorf("%d transactions wait, want the close alone", n)
		}
		_ = c.Close()
		time.Sleep(time.Duration(c.timeout)*time.Millisecond + 2*testTick)
		synctest.Wait()
		if n := w.srv.Stats().Connections; n != 1 {
			t.Fatal("the connection ended before the close was answered")
		}
		time.Sleep(2 * testTick)
		synctest.Wait()
		if n := w.srv.Stats().Connections; n != 0 {
			t.Error("the connection is still there")
		}
	})
}

// manyNodes are more nodes than go with the close of their session or with one sweep.
const manyNodes = 1_200

// createEphemerals makes the ephemeral nodes /0, /1 and so on.
func (c *client) createEphemerals(nodes int) {
	c.tb.Helper()
	var ops []jute.MultiOp
	for i := range nodes {
		ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: fmt.Append(nil, "/", i), ACL: jute.OpenACL, Flags: jute.Ephemeral}})
	}
	for part := range slices.Chunk(ops, 500) {
		c.must(jute.OpMulti, raw(jute.AppendMulti(nil, part)))
	}
}

// unswept reports whether an ended session has left nodes.
func (w *world) unswept() bool {
	w.state.RLock()
	defer w.state.RUnlock()
	return w.state.HasUnswept()
}

// The close of a session with many nodes is answered when the last node is gone. A client that
// learns of the close therefore finds none. Requests that the client sends meanwhile are dropped.
func TestCloseWaitsForSweep(t *testing.T) {
	const nodes, steps = manyNodes, 4
	for _, looped := range []bool{false, true} {
		t.Run(fmt.Sprintf("looped=%t", looped), func(t *testing.T) {
			w := newWorld(t, looped, nil)
			c, other := w.connect(), w.connect()
			c.createEphemerals(nodes)
			c.request(jute.OpCloseSession)
			c.request(jute.OpCreate, create("/behind", "", 0))
			for step := range steps {
				waitFor(t, w.unswept)
				if n := w.srv.Stats().OutstandingRequests; n != 1 {
					t.Errorf("%d requests wait after %d steps, want the close", n, step)
				}
				c.expectSilence(time.Millisecond)
				w.inject(0, &proto.Txn{Op: int32(jute.OpSweep), Body: encode(&proto.Sweep{Nodes: nodes / steps})})
			}
			h := c.expect(c.xid-1, jute.OK)
			c.expectClosed()
			o, _ := other.call(jute.OpExists, exists(fmt.Sprint("/", nodes-1), false))
			if o.Err != jute.NoNode || o.Zxid != h.Zxid {
				t.Errorf("%v at %#x; the close was answered with %#x", o.Err, o.Zxid, h.Zxid)
			}
			if h, _ := other.call(jute.OpExists, exists("/behind", false)); h.Err != jute.NoNode {
				t.Errorf("the create after the close: %v", h.Err)
			}
		})
	}
}

// If a client does not wait for the end of the sweep, the server does not wait for the client
// either.
func TestClientGoneBeforeSweep(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connect()
	c.createEphemerals(manyNodes)
	c.request(jute.OpCloseSession)
	waitFor(t, w.unswept)
	w.srv.conns.dropMatching(idle, func(*conn) bool { return true })
	waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
	for range 2 {
		w.inject(0, &proto.Txn{Op: int32(jute.OpSweep), Body: encode(&proto.Sweep{Nodes: manyNodes / 2})})
	}
	if w.unswept() {
		t.Error("nodes are left after the sweeps")
	}
}

// After the last reply a client may continue to send for a moment. The connection is not reset, so that the client can
// read the replies. When it closes its side, the connection is gone.
func TestLinger(t *testing.T) {
	w := newWorld(t, true, nil)
	waitFor(t, func() bool {
		c := w.connect()
		begun := time.Now()
		c.must(jute.OpCloseSession)
		c.expectClosed()
		var err error
		for range 20 {
			_, werr := c.Write(make([]byte, 1000)) // fails after a reset
			err = errors.Join(err, werr)
		}
		stays := w.srv.Stats().Connections == 1
		inTime := time.Since(begun) < stream.LingerTime // or the server had to close it
		if inTime && (!stays || err != nil) {
			t.Errorf("before the client has closed it, the connection is gone: %t; writing: %v", !stays, err)
		}
		_ = c.Close()
		waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
		return inTime
	})
}

// A sync belongs to no entry of the log, so it must send its reply itself.
func TestSyncAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpSync, jute.SyncRequest{})
		c.expectSilence(time.Second)
		w.release()
		c.expect(1, jute.OK)
	})
}

// A reply that is made late, because too much was unsent, comes after events of later changes. Its
// zxid must not go back.
func TestLateReplyBehindEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = stream.HighWater / 3
		w := newWorld(t, false, nil)
		c, writer := w.connect(), w.connect()
		c.must(jute.OpCreate, create("/big", strings.Repeat("x", size), 0))
		c.must(jute.OpGetData, getData("/", true))
		w.hold()
		c.request(jute.OpSetData, setData("/big", strings.Repeat("y", size)))
		for range 3 {
			c.request(jute.OpGetData, getData("/big", false))
		}
		c.request(jute.OpCreate, create("/a", "", 0))
		synctest.Wait()
		w.release()
		writer.must(jute.OpSetData, setData("/", "x"))
		for xid := range int32(4) {
			c.expect(xid+3, jute.OK)
		}
		zxid := c.expectEvent(jute.EventNodeDataChanged, "/")
		if h := c.expect(7, jute.OK); h.Zxid < zxid {
			t.Errorf("reply with zxid %#x after an event of %#x", h.Zxid, zxid)
		}
	})
}

// A reply is sent before the next request may block.
func TestRepliesDoNotWaitForTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		stall := make(chan struct{})
		w.setStall(stall)
		b := frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpExists}, exists("/", false))
		c.write(append(b, frameOf(jute.RequestHeader{Xid: 2, Op: jute.OpSetData}, setData("/", ""))...))
		c.expect(1, jute.OK)
		close(stall)
		c.expect(2, jute.OK)
	})
}

// One write contains the handshake, the close, and a create that must do nothing.
func TestCloseBehindHandshake(t *testing.T) {
	w := newWorld(t, true, nil)
	for range 10 {
		c := w.open()
		b := frameOf(jute.ConnectRequest{TimeOut: 10000, HasReadOnly: true})
		b = append(b, frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpCloseSession})...)
		b = append(b, frameOf(jute.RequestHeader{Xid: 2, Op: jute.OpCreate}, create("/e", "", jute.Ephemeral))...)
		c.write(b)
		c.welcome()
		c.expect(1, jute.OK)
		c.expectClosed()
	}
	var names jute.GetChildrenResponse
	d := jute.NewDecoder(w.connect().must(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/")}))
	if names.Decode(&d); len(names.Children) != 1 || string(names.Children[0]) != "zookeeper" {
		t.Errorf("children of the root: %q", names.Children)
	}
}

func TestReads(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	c.must(jute.OpCreate, create("/a", "data", 0))
	c.must(jute.OpCreate, create("/a/b", "", jute.Ephemeral))
	c.must(jute.OpCreate, create("/a/c", "", 0))

	var data jute.GetDataResponse
	d := jute.NewDecoder(c.must(jute.OpGetData, getData("/a", false)))
	if data.Decode(&d); string(data.Data) != "data" || data.Stat.NumChildren != 2 || d.Err() != nil {
		t.Errorf("getData: %+v", data)
	}
	var stat jute.ExistsResponse
	d = jute.NewDecoder(c.must(jute.OpExists, exists("/a", false)))
	if stat.Decode(&d); stat.Stat != data.Stat || d.Err() != nil {
		t.Errorf("exists: %+v, want %+v", stat.Stat, data.Stat)
	}
	var names jute.GetChildren2Response
	d = jute.NewDecoder(c.must(jute.OpGetChildren2, jute.GetChildrenRequest{Path: []byte("/a")}))
	if names.Decode(&d); fmt.Sprintf("%s", names.Children) != "[b c]" || names.Stat != data.Stat || d.Err() != nil {
		t.Errorf("getChildren2: %+v", names)
	}
	var acl jute.GetACLResponse
	d = jute.NewDecoder(c.must(jute.OpGetACL, jute.GetACLRequest{Path: []byte("/a")}))
	if acl.Decode(&d); len(acl.ACL) != 1 || acl.ACL[0].Perms != jute.PermAll || acl.Stat != data.Stat || d.Err() != nil {
		t.Errorf("getACL: %+v", acl)
	}
	var paths jute.GetEphemeralsResponse
	d = jute.NewDecoder(c.must(jute.OpGetEphemerals, jute.GetEphemeralsRequest{Path: []byte("/a")}))
	if paths.Decode(&d); fmt.Sprintf("%s", paths.Ephemerals) != "[/a/b]" || d.Err() != nil {
		t.Errorf("getEphemerals: %+v", paths)
	}
	var total jute.GetAllChildrenNumberResponse
	d = jute.NewDecoder(c.must(jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: []byte("/a")}))
	if total.Decode(&d); total.TotalNumber != 2 || d.Err() != nil {
		t.Errorf("getAllChildrenNumber: %+v", total)
	}
}

func TestMultis(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	open := func(op jute.Op, path string) jute.MultiOp {
		return jute.MultiOp{Op: op, Create: jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL}}
	}
	check := func(body []byte, want ...string) {
		t.Helper()
		var got []string
		for d := jute.NewDecoder(body); ; {
			var h jute.MultiHeader
			if h.Decode(&d); h.Done || d.Err() != nil {
				break
			}
			text := h.Type.String()
			switch h.Type {
			case jute.OpError:
				var e jute.ErrorResponse
				e.Decode(&d)
				text = fmt.Sprint(int32(h.Err), int32(e.Err))
			case jute.OpCreate:
				var r jute.CreateResponse
				r.Decode(&d)
				text += " " + string(r.Path)
			case jute.OpCreate2:
				var r jute.Create2Response
				r.Decode(&d)
				text += " " + string(r.Path)
			case jute.OpSetData:
				var r jute.SetDataResponse
				r.Decode(&d)
				text += fmt.Sprint(" v", r.Stat.Version)
			case jute.OpGetData:
				var r jute.GetDataResponse
				r.Decode(&d)
				text += " " + string(r.Data)
			case jute.OpGetChildren:
				var r jute.GetChildrenResponse
				r.Decode(&d)
				text += fmt.Sprintf(" %s", r.Children)
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("results %q, want %q", got, want)
		}
	}
	set := jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/m"), Data: []byte("x"), Version: -1}}
	del := jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/m/1"), Version: -1}}
	chk := jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte("/m"), Version: 1}}
	check(c.must(jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{open(jute.OpCreate, "/m"), open(jute.OpCreate2, "/m/1"), set, chk, del}))),
		"create /m", "create2 /m/1", "setData v1", "check", "delete")
	check(c.must(jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{open(jute.OpCreate, "/x"), open(jute.OpCreate, "/m"), set}))),
		"0 0", "-110 -110", "-2 -2")
	check(c.must(jute.OpMulti, raw(jute.AppendMulti(nil, nil))))
	get := func(path string) jute.MultiOp {
		return jute.MultiOp{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte(path), Watch: true}}
	}
	list := jute.MultiOp{Op: jute.OpGetChildren, GetChildren: jute.GetChildrenRequest{Path: []byte("/m")}}
	check(c.must(jute.OpMultiRead, raw(jute.AppendMulti(nil, []jute.MultiOp{get("/m"), list, get("/none")}))),
		"getData x", "getChildren []", "-101 -101")
	c.must(jute.OpSetData, setData("/m", "y")) // no watch was set, so the reply comes alone

	for name, mixed := range map[string]struct {
		op  jute.Op
		ops []jute.MultiOp
	}{
		"a read among writes":          {jute.OpMulti, []jute.MultiOp{set, get("/m")}},
		"a read in a multi of its own": {jute.OpMulti, []jute.MultiOp{get("/m")}},
		"a write among reads":          {jute.OpMultiRead, []jute.MultiOp{get("/m"), set}},
		"a write to be read":           {jute.OpMultiRead, []jute.MultiOp{set}},
	} {
		if h, _ := c.call(mixed.op, raw(jute.AppendMulti(nil, mixed.ops))); h.Err != jute.MarshallingError {
			t.Errorf("%s: %v", name, h.Err)
		}
	}

	bomb := make([]jute.MultiOp, 400)
	for i := range bomb {
		bomb[i] = get("/big")
	}
	c.must(jute.OpCreate, create("/big", strings.Repeat("x", 100<<10), 0))
	if h, _ := c.call(jute.OpMultiRead, raw(jute.AppendMulti(nil, bomb))); h.Err != jute.MarshallingError {
		t.Errorf("a multiRead of 40 MB: %v", h.Err)
	}
}

// A read shows the tree as it is between the client's writes before it and after it. That also
// holds if its reply waits for a sync, or for the client to read unsent replies.
func TestReadDoesNotSeeLaterWrites(t *testing.T) {
	for _, test := range []struct {
		name  string
		sync  bool // whether a sync comes before each read
		size  int  // of the data that are written
		syncs bool // whether the syncs finish before the writes
	}{
		{name: "small", size: 1},
		{name: "large", size: stream.HighWater},
		{name: "behind a sync", sync: true, size: 1},
		{name: "behind a sync that ends early", sync: true, size: 1, syncs: true},
		{name: "large, behind a sync", sync: true, size: stream.HighWater / 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rounds = 8
				w := newWorld(t, false, nil)
				c := w.connect()
				w.hold()
				go func() {
					for i := range int32(rounds) {
						b := frameOf(jute.RequestHeader{Xid: 3 * i, Op: jute.OpSetData}, setData("/", strings.Repeat("x", test.size)))
						if test.sync {
							b = append(b, frameOf(jute.RequestHeader{Xid: 3*i + 1, Op: jute.OpSync}, jute.SyncRequest{})...)
						}
						b = append(b, frameOf(jute.RequestHeader{Xid: 3*i + 2, Op: jute.OpGetData}, getData("/", false))...)
						_, _ = c.Write(b)
					}
				}()
				synctest.Wait()
				if test.syncs {
					w.finishSyncs()
				}
				w.release()
				synctest.Wait()
				for i := range int32(rounds) {
					c.expect(3*i, jute.OK)
					if test.sync {
						c.expect(3*i+1, jute.OK)
					}
					h, body := c.reply()
					var res jute.GetDataResponse
					d := jute.NewDecoder(body)
					if res.Decode(&d); h.Xid != 3*i+2 || res.Stat.Version != i+1 || res.Stat.Mzxid != h.Zxid {
						t.Errorf("read %d: xid %d, zxid %#x, of version %d, written by %#x", i, h.Xid, h.Zxid, res.Stat.Version, res.Stat.Mzxid)
					}
				}
			})
		})
	}
}

// The same holds for reads that wait only for the client to read unsent replies.
func TestWriteBehindPostponedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reads = 4
		w := newWorld(t, false, nil)
		c := w.connect()
		c.must(jute.OpSetData, setData("/", strings.Repeat("x", stream.HighWater)))
		w.hold()
		c.request(jute.OpDelete, jute.DeleteRequest{Path: []byte("/none")})
		for range reads {
			c.request(jute.OpGetData, getData("/", false))
		}
		synctest.Wait()
		w.release()
		synctest.Wait()
		var free atomic.Bool
		go func() { free.Store(w.srv.conns.all()[0].awaitLateReads()) }()
		synctest.Wait()
		if free.Load() {
			t.Error("a write may go to the log before the reads")
		}
		c.expect(2, jute.NoNode)
		for i := range int32(reads) {
			c.expect(3+i, jute.OK)
		}
		synctest.Wait()
		if !free.Load() {
			t.Error("the write still waits")
		}
	})
}

// A write that waits for a sync waits no longer than for a silent client, because the server cannot
// see meanwhile whether the client has gone.
func TestWriteBehindLostSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpSync, jute.SyncRequest{})
		c.request(jute.OpSetData, setData("/", ""))
		c.expectSilence(time.Duration(c.timeout) * time.Millisecond)
		if n := w.countSubmitted(); n != 0 {
			t.Errorf("%d transactions submitted", n)
		}
		time.Sleep((stream.IdleSlack + 1) * testTick)
		c.expectClosed()
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["idle"]; n != 1 {
			t.Errorf("%d idle connections counted, want 1", n)
		}
	})
}
