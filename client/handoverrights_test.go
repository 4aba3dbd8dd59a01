package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// claimReply is a claimServer's reply to a request of a claim.
type claimReply struct {
	op         jute.Op
	code       jute.Code
	aclVersion int32 // in the Stat of the reply
	created    int64 // 0: that of the right's node
	lost       bool  // the connection breaks in place of the reply
}

// claimServer replies to the requests of a claim, in their order. It replies OK to each sync.
type claimServer struct {
	t       *testing.T
	replies []claimReply
	syncs   int
}

const claimedAt = 5 // the zxid that created the node of the right that is claimed

func (s *claimServer) serve(conn net.Conn) {
	serveReplies(conn, func(h jute.RequestHeader, _ *jute.Decoder) []byte { return s.answer(h) })
}

// serveReplies opens session 7 for a connection, and replies to each of its requests. It closes the connection in place
// of a nil reply.
func serveReplies(conn net.Conn, answer func(h jute.RequestHeader, body *jute.Decoder) []byte) {
	defer func() { _ = conn.Close() }()
	if _, err := jute.ReadFrame(conn, nil, 1<<20); err != nil {
		return
	}
	reply := jute.ConnectResponse{TimeOut: 30_000, SessionID: 7, Passwd: make([]byte, 16)}.Append(nil)
	for jute.WriteFrame(conn, reply) == nil {
		frame, err := jute.ReadFrame(conn, nil, 1<<20)
		if err != nil {
			return
		}
		d := jute.NewDecoder(frame)
		var h jute.RequestHeader
		h.Decode(&d)
		if reply = answer(h, &d); reply == nil {
			return
		}
	}
}

// answer returns the reply to a request, or nil if it is lost.
func (s *claimServer) answer(h jute.RequestHeader) []byte {
	reply := jute.ReplyHeader{Xid: h.Xid, Zxid: 9}
	switch h.Op {
	case jute.OpSync:
		s.syncs++
		return jute.PathRecord{Path: []byte("/")}.Append(reply.Append(nil))
	case jute.OpGetACL, jute.OpSetACL:
	case jute.OpExists: // the watch of a right, which must not end it
		return jute.Stat{Czxid: claimedAt, EphemeralOwner: 7}.Append(reply.Append(nil))
	default: // the end of that watch
		reply.Err = jute.NoNode
		return reply.Append(nil)
	}
	if len(s.replies) == 0 || s.replies[0].op != h.Op {
		s.t.Errorf("got %v, and the rest of the script is %+v", h.Op, s.replies)
		return nil
	}
	r := s.replies[0]
	s.replies = s.replies[1:]
	if r.lost {
		return nil
	}
	if reply.Err = r.code; r.code != jute.OK {
		return reply.Append(nil)
	}
	stat := jute.Stat{Czxid: claimedAt, Aversion: r.aclVersion, EphemeralOwner: 7}
	if r.created != 0 {
		stat.Czxid = r.created
	}
	if h.Op == jute.OpGetACL {
		return jute.GetACLResponse{ACL: jute.OpenACL, Stat: stat}.Append(reply.Append(nil))
	}
	return stat.Append(reply.Append(nil))
}

// Of several processes that claim a right, the one gets it that raises the version of the node's ACL first.
func TestClaim(t *testing.T) {
	const before = 2 // the version of the ACL that the predecessor saw
	get := func(version int32) claimReply { return claimReply{op: jute.OpGetACL, aclVersion: version} }
	fails := func(op jute.Op, code jute.Code) claimReply { return claimReply{op: op, code: code} }
	won := claimReply{op: jute.OpSetACL, aclVersion: before + 1}
	lost := claimReply{op: jute.OpSetACL, lost: true}
	for _, tt := range []struct {
		name     string
		received bool
		replies  []claimReply
		err      error
		ended    bool // the right has ended
	}{
		{"first", false, []claimReply{get(before), won}, nil, false},
		{"node gone", true, []claimReply{fails(jute.OpGetACL, jute.NoNode)}, nil, true},
		{"another node", true, []claimReply{{op: jute.OpGetACL, aclVersion: before, created: 6}}, nil, true},
		{"late", true, []claimReply{get(before + 1)}, ErrHandoverTaken, false},
		{"much later", true, []claimReply{get(before + 2)}, ErrHandoverTaken, false},
		{"late by one request", true, []claimReply{get(before), fails(jute.OpSetACL, jute.BadVersion), get(before + 1)}, ErrHandoverTaken, false},
		{"node goes", false, []claimReply{get(before), fails(jute.OpSetACL, jute.NoNode), fails(jute.OpGetACL, jute.NoNode)}, nil, true},
		{"unreadable", true, []claimReply{fails(jute.OpGetACL, jute.NoAuth)}, ErrNoAuth, false},
		{"not allowed", true, []claimReply{get(before), fails(jute.OpSetACL, jute.NoAuth)}, ErrNoAuth, false},
		{"read lost", true, []claimReply{{op: jute.OpGetACL, lost: true}, get(before), won}, nil, false},
		{"read lost, and late", true, []claimReply{{op: jute.OpGetACL, lost: true}, get(before + 1)}, ErrHandoverTaken, false},
		{"write lost", true, []claimReply{get(before), lost, get(before), won}, nil, false},
		{"reply lost", true, []claimReply{get(before), lost, get(before + 1)}, nil, false},
		{"reply lost, and another was later", true, []claimReply{get(before), lost, get(before + 2)}, ErrHandoverTaken, false},
		{"reply lost, of a copy", false, []claimReply{get(before), lost, get(before + 1)}, ErrHandoverTaken, false},
		{"reply lost, and read lost", true, []claimReply{get(before), lost, {op: jute.OpGetACL, lost: true}, get(before + 1)}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &claimServer{t: t, replies: tt.replies}
				c := dialServed(t, s.serve)
				h := Handover{Session: 7, Held: []HeldRight{{Path: "/lock", Token: 3, Created: claimedAt, ACLVersion: before}}, received: tt.received}
				rights, err := h.Rights(t.Context(), c)
				if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || (err == nil) != (len(rights) == 1) {
					t.Fatalf("%d rights, %v; want %v", len(rights), err, tt.err)
				}
				if taken := errors.Is(err, ErrHandoverTaken); taken != (c.State().State == Closed) {
					t.Errorf("the state is %v", c.State().State)
				}
				if err == nil && ((rights[0].over.Err() != nil) != tt.ended || rights[0].Token() != 3 || rights[0].Path() != "/lock" || rights[0].created != claimedAt) {
					t.Errorf("ended: %v; %+v", rights[0].over.Err(), rights[0])
				}
				if len(s.replies) > 0 {
					t.Errorf("not requested: %+v", s.replies)
				}
				losses := len(slices.DeleteFunc(slices.Clone(tt.replies), func(r claimReply) bool { return !r.lost || r.op != jute.OpSetACL }))
				if s.syncs < losses {
					t.Errorf("%d syncs after %d writes without a reply", s.syncs, losses)
				}
				for _, r := range rights {
					r.leaveNode()
				}
			})
		})
	}
}

// A Client whose right is not proven by now syncs before it claims one.
func TestRightsAreProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ops []jute.Op
		s := &claimServer{t: t, replies: []claimReply{{op: jute.OpGetACL}, {op: jute.OpSetACL, aclVersion: 1}}}
		var now atomic.Int64 // ns
		c := dialServedWith(t, Config{Clock: func() time.Duration { return time.Duration(now.Load()) }}, func(conn net.Conn) {
			serveReplies(conn, func(h jute.RequestHeader, _ *jute.Decoder) []byte {
				ops = append(ops, h.Op)
				return s.answer(h)
			})
		})
		now.Store(int64(time.Minute)) // a connect proves it for a timeout, and a ping does not
		h := Handover{Session: 7, Held: []HeldRight{{Path: "/lock", Created: claimedAt}}}
		rights, err := h.Rights(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the server has the request of the right's watch, too
		if len(ops) == 0 || ops[0] != jute.OpSync {
			t.Errorf("the requests are %v", ops)
		}
		rights[0].leaveNode()
		synctest.Wait() // the watch of the right has ended
	})
}

// dialServed dials a server that serves each connection by itself.
func dialServed(t *testing.T, serve func(net.Conn)) *Client {
	t.Helper()
	return dialServedWith(t, Config{}, serve)
}

func dialServedWith(t *testing.T, cfg Config, serve func(net.Conn)) *Client {
	t.Helper()
	cfg.DialConn = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go serve(theirs)
		return ours, nil
	}
	c, err := Dial(t.Context(), "fake:1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// If a right cannot be claimed, those before it have ended.
func TestRightsAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &claimServer{t: t, replies: []claimReply{
			{op: jute.OpGetACL}, {op: jute.OpSetACL, aclVersion: 1}, {op: jute.OpGetACL, code: jute.NoAuth},
		}}
		c := dialServed(t, s.serve)
		h := Handover{Session: 7, Held: []HeldRight{{Path: "/a", Created: claimedAt}, {Path: "/b", Created: claimedAt}}}
		rights, err := h.Rights(t.Context(), c)
		wantError(t, err, ErrNoAuth)
		if rights != nil || err == nil || !strings.Contains(err.Error(), "/b") {
			t.Errorf("%d rights, %v", len(rights), err)
		}
		synctest.Wait() // the watch of the first right has ended
	})
}

// If the node of a right cannot be read, nothing is handed over, and the Client continues.
func TestHandOverUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialServed(t, func(conn net.Conn) {
			serveReplies(conn, func(h jute.RequestHeader, body *jute.Decoder) []byte {
				reply := jute.ReplyHeader{Xid: h.Xid, Zxid: 9}
				if _ = body.ReadBytes(); h.Op == jute.OpExists && body.ReadBool() { // the watch of the right
					return jute.Stat{Czxid: claimedAt, EphemeralOwner: 7}.Append(reply.Append(nil))
				}
				reply.Err = jute.NoAuth
				return reply.Append(nil)
			})
		})
		right := newProvenRight(c, "/lock", Stat{Created: claimedAt, Owner: 7}, Token(claimedAt))
		h, err := c.HandOver(t.Context(), right)
		wantError(t, err, ErrNoAuth)
		if h.Password != nil || !right.Held() || c.State().State != Connected {
			t.Errorf("password %q, held %t, state %v", h.Password, right.Held(), c.State().State)
		}
		right.leaveNode()
		synctest.Wait() // its watch has ended
	})
}

// A right whose node is another one by now has ended, although no event has said so, and nothing is handed over.
func TestHandOverReplacedNode(t *testing.T) {
	for _, now := range []jute.Stat{{Czxid: claimedAt + 1, EphemeralOwner: 7}, {Czxid: claimedAt, EphemeralOwner: 8}} {
		synctest.Test(t, func(t *testing.T) {
			c := dialServed(t, func(conn net.Conn) {
				serveReplies(conn, func(h jute.RequestHeader, body *jute.Decoder) []byte {
					out := jute.ReplyHeader{Xid: h.Xid, Zxid: 9}.Append(nil)
					if _ = body.ReadBytes(); h.Op == jute.OpExists && body.ReadBool() { // the watch of the right
						return jute.Stat{Czxid: claimedAt, EphemeralOwner: 7}.Append(out)
					}
					return now.Append(out)
				})
			})
			right := newProvenRight(c, "/lock", Stat{Created: claimedAt, Owner: 7}, Token(claimedAt))
			h, err := c.HandOver(t.Context(), right)
			wantError(t, err, ErrNotHeld)
			if h.Password != nil || right.Held() || c.State().State != Connected {
				t.Errorf("password %q, held %t, state %v", h.Password, right.Held(), c.State().State)
			}
			synctest.Wait() // its watch has ended
		})
	}
}

// Rights are only for a Client with the session and the chroot of the Handover.
func TestRightsOfAnotherClient(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, _ *fakezk.Server, c *Client) {
		id, _ := c.Session()
		_, err := (&Handover{Session: id + 1}).Rights(t.Context(), c)
		wantError(t, err, ErrNotHeld)
		if _, err := (&Handover{Session: id, Chroot: "/app"}).Rights(t.Context(), c); err == nil ||
			!strings.Contains(err.Error(), `chroot is "", and must be "/app"`) {
			t.Errorf("another chroot: %v", err)
		}
		if rights, err := (&Handover{Session: id}).Rights(t.Context(), c); err != nil || len(rights) != 0 {
			t.Errorf("no rights: %v, %v", rights, err)
		}
	})
}

// Nodes that were created up to the last transaction of the predecessor are inherited, if they are of the session.
func TestInherited(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, _ *fakezk.Server, c *Client) {
		id, _ := c.Session()
		if isSuccessor(c) || isInherited(c, Stat{Owner: id, Created: 1}) {
			t.Error("a Client without a predecessor has inherited something")
		}
		c.inheritedUntil = 1
		if !isSuccessor(c) {
			t.Error("a Client with a predecessor is no successor")
		}
		c.inheritedUntil = 8
		for stat, want := range map[Stat]bool{
			{Owner: id, Created: 7}: true, {Owner: id, Created: 8}: true, {Owner: id, Created: 9}: false,
			{Owner: id + 1, Created: 7}: false, {Created: 7}: false,
		} {
			if isInherited(c, stat) != want {
				t.Errorf("%+v is inherited: %t", stat, !want)
			}
		}
	})
}

// A Handover is fresh from its making until its session's timeout is over, on the same run of the machine.
func TestHandoverFreshUntil(t *testing.T) {
	h := Handover{Boot: "b", Expires: 100 * time.Second, Timeout: 10 * time.Second}
	for _, tt := range []struct {
		boot  string
		now   time.Duration
		fresh bool
	}{
		{"b", 90 * time.Second, true},
		{"b", 90*time.Second - 1, false},
		{"b", 100 * time.Second, true},
		{"b", 100*time.Second + 1, false},
		{"c", 95 * time.Second, false},
	} {
		if err := h.checkFreshAt(tt.boot, tt.now); (err == nil) != tt.fresh || err != nil && !errors.Is(err, ErrHandoverStale) {
			t.Errorf("on %s at %v: %v", tt.boot, tt.now, err)
		}
	}
}

// handoverOf returns a Handover of so many bytes.
func handoverOf(t *testing.T, size int) Handover {
	t.Helper()
	h := testHandover()
	h.Chroot = ""
	text, err := h.encodeFile()
	if err != nil {
		t.Fatal(err)
	}
	h.Chroot = strings.Repeat("x", size-len(text))
	return h
}

// A Handover of maxHandoverSize is the longest one, written or read.
func TestLongestHandover(t *testing.T) {
	h := handoverOf(t, maxHandoverSize)
	text, err := h.encodeFile()
	if err != nil || len(text) != maxHandoverSize {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	got, err := ReadHandover(written(t, h))
	if err != nil || got.Chroot != h.Chroot {
		t.Errorf("read a chroot of %d bytes, %v", len(got.Chroot), err)
	}
	h.Chroot += "x"
	if _, err := h.encodeFile(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxHandoverSize+1)) {
		t.Errorf("one byte more: %v", err)
	}
}
