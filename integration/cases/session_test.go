package cases

import (
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// session is a client that sends nothing on its own, only on the test's calls. It receives everything that is sent to
// it, as a client would.
type session struct {
	*wire.Conn
	s       *stage
	member  uint32 // where it was opened
	granted jute.ConnectResponse
	xid     int32
	touched time.Time     // when the last request was sent, except pings of keep
	gone    chan struct{} // closed when the connection has ended
	dropped bool          // by the client

	mu     sync.Mutex
	more   *sync.Cond
	frames []frame
	heard  []frame   // events that were received while waiting for a reply
	ended  time.Time // zero while the connection is open
}

// frame is a frame that a session received, with the time.
type frame struct {
	wire.Reply
	at time.Time
}

func (f frame) isEvent() bool { return f.Xid == jute.XidNotification }

// open starts a session at a member.
func (s *stage) open(member uint32, timeout time.Duration) *session {
	s.Helper()
	return s.start(member, jute.ConnectRequest{
		TimeOut: int32(timeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true,
	})
}

// start does the handshake, which must succeed.
func (s *stage) start(member uint32, req jute.ConnectRequest) *session {
	s.Helper()
	touched := time.Now()
	c, resp := s.shake(member, req)
	if resp.SessionID == 0 {
		s.Fatalf("member %d: session %v refused", member, req.SessionID)
	}
	k := &session{Conn: c, s: s, member: member, granted: resp, touched: touched, gone: make(chan struct{})}
	k.more = sync.NewCond(&k.mu)
	go k.read()
	return k
}

// resume takes the session over on a member. It leaves k's own connection as it is.
func (k *session) resume(member uint32) *session {
	k.s.Helper()
	next := k.s.start(member, claim(k.granted))
	if next.granted.SessionID != k.granted.SessionID || !slices.Equal(next.granted.Passwd, k.granted.Passwd) {
		k.s.Fatalf("resumed %v as %v, or with another password", k.granted.SessionID, next.granted.SessionID)
	}
	return next
}

func (k *session) id() jute.SessionID { return k.granted.SessionID }

func (k *session) read() {
	defer close(k.gone)
	for {
		r, err := k.Recv()
		k.mu.Lock()
		if err != nil {
			k.ended = time.Now()
			k.more.Broadcast()
			k.mu.Unlock()
			return
		}
		k.frames = append(k.frames, frame{r, time.Now()})
		k.more.Broadcast()
		k.mu.Unlock()
	}
}

// keep sends pings for as long as the connection is open.
func (k *session) keep() *session {
	every := time.Duration(k.granted.TimeOut) * time.Millisecond / 3
	ping := wire.Frame(jute.XidPing, jute.OpPing, nil)
	go func() {
		for {
			select {
			case <-k.gone:
				return
			case <-time.After(every):
			}
			if err := jute.WriteFrame(k.Conn, ping); err != nil {
				return
			}
		}
	}()
	return k
}

// send sends a request and returns its xid. It ignores errors: they mean that the connection has
// ended, which is noticed by waiting for the reply.
func (k *session) send(op jute.Op, rec wire.Record) int32 {
	switch op {
	case jute.OpPing:
		k.sendAs(jute.XidPing, op, rec)
		return jute.XidPing
	case jute.OpAuth:
		k.sendAs(jute.XidAuth, op, rec)
		return jute.XidAuth
	}
	k.xid++
	k.sendAs(k.xid, op, rec)
	return k.xid
}

func (k *session) sendAs(xid int32, op jute.Op, rec wire.Record) {
	k.touched = time.Now()
	_ = k.Send(xid, op, rec)
}

// pipeline sends several requests in one write, with consecutive xids, and returns the first xid.
func (k *session) pipeline(requests ...request) int32 {
	first := k.xid + 1
	var b []byte
	for _, r := range requests {
		k.xid++
		b = appendFrame(b, wire.Frame(k.xid, r.op, r.rec))
	}
	k.touched = time.Now()
	_, _ = k.Write(b)
	return first
}

type request struct {
	op  jute.Op
	rec wire.Record
}

func appendFrame(b, body []byte) []byte {
	b, mark := jute.BeginFrame(b)
	return jute.EndFrame(append(b, body...), mark)
}

// next waits for the next frame of any kind. ok is false if the connection ends first.
func (k *session) next() (f frame, ok bool) {
	late := time.AfterFunc(patience, func() { k.more.Broadcast() })
	defer late.Stop()
	limit := time.Now().Add(patience)
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.frames) == 0 {
		if !k.ended.IsZero() || !time.Now().Before(limit) {
			return frame{}, false
		}
		k.more.Wait()
	}
	f = k.frames[0]
	k.frames = k.frames[1:]
	return f, true
}

// answer waits for the reply to xid. ok is false if the connection ends first. It keeps events for later and drops
// replies to pings of keep.
func (k *session) answer(xid int32) (r wire.Reply, ok bool) {
	k.s.Helper()
	for {
		f, ok := k.next()
		switch {
		case !ok:
			return wire.Reply{}, false
		case f.isEvent():
			k.heard = append(k.heard, f)
		case f.Xid == jute.XidPing && xid != jute.XidPing:
		case f.Xid != xid:
			k.s.Fatalf("%v while waiting for the reply to xid %d", f.Reply, xid)
		default:
			return f.Reply, true
		}
	}
}

// call sends a request and waits for the reply, whatever its code.
func (k *session) call(op jute.Op, rec wire.Record) wire.Reply {
	k.s.Helper()
	xid := k.send(op, rec)
	r, ok := k.answer(xid)
	if !ok {
		k.s.Fatalf("%v: connection of session %v ended instead of a reply", op, k.id())
	}
	return r
}

// code returns the code of a request.
func (k *session) code(op jute.Op, rec wire.Record) jute.Code {
	k.s.Helper()
	return k.call(op, rec).Err
}

// want sends a request whose code must be code.
func (k *session) want(code jute.Code, op jute.Op, rec wire.Record) wire.Reply {
	k.s.Helper()
	r := k.call(op, rec)
	if r.Err != code {
		k.s.Fatalf("%v %s: %v, want %v", op, describe(rec), result(r.Err), result(code))
	}
	return r
}

// ok sends a request that must succeed.
func (k *session) ok(op jute.Op, rec wire.Record) wire.Reply {
	k.s.Helper()
	return k.want(jute.OK, op, rec)
}

func result(c jute.Code) string { return fmt.Sprintf("%d (%v)", int32(c), error(c)) }

func describe(rec wire.Record) string {
	if rec == nil {
		return ""
	}
	return fmt.Sprintf("%+q", rec.Append(nil))
}

// mustEnd checks that the connection ends within limit, with no frames left except replies to
// pings. It returns when it ended.
func (k *session) mustEnd(limit time.Duration) time.Time {
	k.s.Helper()
	select {
	case <-k.gone:
	case <-time.After(limit):
		synctest.Wait()
		select {
		case <-k.gone:
		default:
			k.s.Fatalf("connection of session %v still open after %v", k.id(), limit)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.frames {
		if f.Xid != jute.XidPing {
			k.s.Fatalf("session %v got %v before its connection ended", k.id(), f.Reply)
		}
	}
	return k.ended
}

// mustLive checks that the connection and the session work.
func (k *session) mustLive() {
	k.s.Helper()
	k.ok(jute.OpPing, nil)
	if id := k.id(); !k.s.lives(k.s.at, id) {
		k.s.Fatalf("session %v is gone", id)
	}
}

// events returns the events received since the last call.
func (k *session) events() []frame {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	events := k.heard
	rest := k.frames[:0]
	for _, f := range k.frames {
		if f.isEvent() {
			events = append(events, f)
		} else {
			rest = append(rest, f)
		}
	}
	k.heard, k.frames = nil, rest
	return events
}

// saw checks which events have arrived since the last call, such as "Deleted(/a)". It lets the
// members settle first, so that late or additional events show.
func (k *session) saw(want ...string) []frame {
	k.s.Helper()
	k.s.quiesce()
	events := k.events()
	if got := names(events); !slices.Equal(got, want) {
		k.s.Fatalf("session %v: events %v, want %v", k.id(), got, want)
	}
	return events
}

func names(events []frame) []string {
	var s []string
	for _, f := range events {
		e := f.Event()
		kind, ok := map[jute.EventType]string{
			jute.EventNodeCreated: "Created", jute.EventNodeDeleted: "Deleted",
			jute.EventNodeDataChanged: "Changed", jute.EventNodeChildrenChanged: "Children",
		}[e.Type]
		if !ok || e.State != jute.StateSyncConnected || f.Err != jute.OK {
			kind = fmt.Sprintf("type %d, state %d, err %d ", e.Type, e.State, f.Err)
		}
		s = append(s, fmt.Sprintf("%s(%s)", kind, e.Path))
	}
	return s
}

// drop breaks the connection without closing the session.
func (k *session) drop() {
	k.dropped = true
	k.Close()
	<-k.gone
}

// closeSession closes the session with a request.
func (k *session) closeSession() wire.Reply {
	k.s.Helper()
	r := k.ok(jute.OpCloseSession, nil)
	k.mustEnd(tick)
	return r
}

// The methods below are shorthands for operations.

func create(path string, mode jute.CreateMode) jute.CreateRequest {
	return jute.CreateRequest{Path: []byte(path), Data: []byte("x"), ACL: jute.OpenACL, Flags: mode}
}

func remove(path string) jute.DeleteRequest {
	return jute.DeleteRequest{Path: []byte(path), Version: -1}
}

func set(path, data string) jute.SetDataRequest {
	return jute.SetDataRequest{Path: []byte(path), Data: []byte(data), Version: -1}
}

func existsRequest(path string) jute.ExistsRequest { return jute.ExistsRequest{Path: []byte(path)} }

func get(path string) jute.GetDataRequest { return jute.GetDataRequest{Path: []byte(path)} }

func digest(user string) jute.AuthPacket {
	return jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte(user)}
}

// create creates a node with data "x" and an open ACL.
func (k *session) create(path string, mode jute.CreateMode) wire.Reply {
	k.s.Helper()
	return k.ok(jute.OpCreate, create(path, mode))
}

func (k *session) remove(path string) wire.Reply {
	k.s.Helper()
	return k.ok(jute.OpDelete, remove(path))
}

func (k *session) set(path, data string) wire.Reply {
	k.s.Helper()
	return k.ok(jute.OpSetData, set(path, data))
}

func (k *session) sync() {
	k.s.Helper()
	k.ok(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
}

// stat returns the Stat of a node that exists.
func (k *session) stat(path string) jute.Stat {
	k.s.Helper()
	var resp jute.ExistsResponse
	k.into(k.ok(jute.OpExists, existsRequest(path)), &resp)
	return resp.Stat
}

// children returns the names of the children of a node that exists.
func (k *session) children(path string) []string {
	k.s.Helper()
	var resp jute.GetChildrenResponse
	k.into(k.ok(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte(path)}), &resp)
	var list []string
	for _, c := range resp.Children {
		list = append(list, string(c))
	}
	return list
}

func (k *session) into(r wire.Reply, rec wire.Readable) {
	k.s.Helper()
	if err := r.Into(rec); err != nil {
		k.s.Fatalf("%v: %v", r, err)
	}
}

// watchExists, watchData and watchChildren set one-shot watches.
func (k *session) watchExists(path string) jute.Code {
	k.s.Helper()
	return k.code(jute.OpExists, jute.ExistsRequest{Path: []byte(path), Watch: true})
}

func (k *session) watchData(path string) jute.Code {
	k.s.Helper()
	return k.code(jute.OpGetData, jute.GetDataRequest{Path: []byte(path), Watch: true})
}

func (k *session) watchChildren(path string) jute.Code {
	k.s.Helper()
	return k.code(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte(path), Watch: true})
}

// checkExpiry checks that the session ends on time after its last request at k.touched, and returns the time of its end.
// path is the session's ephemeral node. The session's connection must be closed at the same time without a reply, unless
// the client has dropped it.
func (k *session) checkExpiry(path string) time.Time {
	k.s.Helper()
	timeout := time.Duration(k.granted.TimeOut) * time.Millisecond
	at, err := k.s.death(k.s.at, path, timeout+patience)
	if err != nil {
		k.s.Fatal(err)
	}
	if ended := k.mustEnd(commitTime); !k.dropped {
		at = ended
	}
	k.s.onTime(k.s.at, timeout, k.touched, at)
	return at
}
