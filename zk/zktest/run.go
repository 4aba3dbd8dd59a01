package zktest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// patience is the time in which a server must reply.
const patience = 30 * time.Second

// sessionTimeout is that of all sessions, in ms.
const sessionTimeout = 30_000

// caseRun is a run of one case.
type caseRun struct {
	t       *testing.T
	dial    func() (net.Conn, error)
	root    string // the parent of the case's nodes
	clients map[string]*client
	written int64 // the zxid of the last write
}

// client is a session of a case.
type client struct {
	conn    net.Conn // nil while there is none
	session jute.SessionID
	passwd  []byte
	seen    int64 // the last zxid
	xid     int32
}

// createRoot creates the parent of the case's nodes. A sequential node's name is not used by earlier runs.
func (r *caseRun) createRoot() {
	r.t.Helper()
	got := r.send("root", "create /zktest- sequential")
	path, _, ok := strings.Cut(got, " ")
	if !ok {
		r.t.Fatalf("create the parent of the nodes: %s", got)
	}
	r.root = path
}

// end closes all connections.
func (r *caseRun) end() {
	for _, c := range r.clients {
		if c.conn != nil {
			_ = c.conn.Close()
		}
	}
}

// send sends a request of a client, and returns the events until the reply, and the reply.
func (r *caseRun) send(name, text string) string {
	r.t.Helper()
	c := r.clients[name]
	if c == nil {
		c = &client{}
		r.clients[name] = c
	}
	if text == "drop" {
		_ = c.conn.Close()
		c.conn = nil
		return ""
	}
	if c.conn == nil {
		if err := r.connect(c); err != nil {
			return err.Error()
		}
	}
	req, err := r.parseRequest(c, strings.Fields(text))
	if err != nil {
		r.t.Fatalf("%s %s: %v", name, text, err)
	}
	c.xid++
	frame := append(jute.RequestHeader{Xid: c.xid, Op: req.op}.Append(nil), req.body...)
	if err := jute.WriteFrame(c.conn, frame); err != nil {
		r.t.Fatalf("%s %s: %v", name, text, err)
	}
	var parts []string
	for {
		part, isReply, err := r.receive(c, req)
		if err != nil {
			r.t.Fatalf("%s %s: after %q: %v", name, text, parts, err)
		}
		if parts = append(parts, part); isReply {
			return strings.Join(parts, ", ")
		}
	}
}

// connect opens a connection of the client's session, which is a new one at first.
func (r *caseRun) connect(c *client) error {
	conn, err := r.dial()
	if err != nil {
		return err
	}
	defer func() {
		if c.conn != conn {
			_ = conn.Close()
		}
	}()
	_ = conn.SetDeadline(time.Now().Add(patience))
	ask := jute.ConnectRequest{LastZxidSeen: c.seen, TimeOut: sessionTimeout, SessionID: c.session, Passwd: c.passwd}
	if c.passwd == nil {
		ask.Passwd = make([]byte, 16)
	}
	if err := jute.WriteFrame(conn, ask.Append(nil)); err != nil {
		return err
	}
	frame, err := jute.ReadFrame(conn, nil, jute.DefaultMaxBuffer)
	if err != nil {
		return err
	}
	var granted jute.ConnectResponse
	d := jute.NewDecoder(frame)
	granted.Decode(&d)
	if granted.SessionID == 0 {
		return jute.SessionExpired
	}
	c.conn, c.session, c.passwd = conn, granted.SessionID, granted.Passwd
	return nil
}

// receive reads a frame, and returns it as text. isReply is false if it is an event.
func (r *caseRun) receive(c *client, req request) (text string, isReply bool, err error) {
	frame, err := jute.ReadFrame(c.conn, nil, jute.DefaultMaxBuffer)
	if err != nil {
		return "", false, err
	}
	d := jute.NewDecoder(frame)
	var h jute.ReplyHeader
	h.Decode(&d)
	if h.Xid == jute.XidNotification {
		var event jute.WatcherEvent
		event.Decode(&d)
		return fmt.Sprintf("%v %s%s", event.Type, r.shorten(event.Path), r.eventZxid(h.Zxid)), false, d.Err()
	}
	if h.Xid != c.xid {
		return "", false, fmt.Errorf("reply with the xid %d, want %d", h.Xid, c.xid)
	}
	c.seen = h.Zxid
	if req.op.IsWrite() {
		r.written = h.Zxid
	}
	if h.Err != jute.OK {
		return h.Err.Error(), true, nil
	}
	return r.formatReply(req, &d), true, d.Err()
}

// eventZxid returns how far the zxid of an event is from that of the last write that was replied to, or "" if it is the
// same.
func (r *caseRun) eventZxid(zxid int64) string {
	switch zxid {
	case r.written:
		return ""
	case -1:
		return " without a zxid"
	}
	return fmt.Sprintf(" zxid%+d", zxid-r.written)
}

// shorten returns a path as it is in the table.
func (r *caseRun) shorten(path []byte) string {
	if string(path) == r.root {
		return "/"
	}
	return strings.TrimPrefix(string(path), r.root)
}
