// Package fakezk is a small ZooKeeper in memory, for the tests of this module. It serves one session, and its nodes are
// changed directly. It can behave like older versions of ZooKeeper.
package fakezk

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// Server is a small ZooKeeper in memory, for one session. Its fields are set before it is used. It is safe for
// concurrent use. New makes one.
type Server struct {
	t testing.TB

	Before35 bool // it does not know removeWatches
	Before36 bool // it does not know addWatch
	Before39 bool // it has one watch of a table on a path, no types 4 and 5, and no zxids in events

	// OnRequest is called when a request has been carried out, with the number of requests of its operation so far. If it
	// returns true, the reply is lost with the connection. It must not use the Server.
	OnRequest func(op jute.Op, path string, count int) (loseReply bool)
	// OnReply is called when a reply is about to be sent; it may change nodes, and their events come after the reply.
	OnReply func(op jute.Op, path string)

	mu       sync.Mutex
	nodes    map[string]*node
	zxid     int64
	link     *conn
	down     bool
	expired  bool
	readOnly bool
	requests map[jute.Op]int
	clients  sync.WaitGroup
}

type node struct {
	stat   jute.Stat
	data   []byte
	secret bool // reads return NoAuth
}

// conn is a connection with its watches: by table and path, a set of modes.
type conn struct {
	net.Conn
	out            chan []byte
	data, children map[string]int
}

// These are modes of watches in a table.
const (
	modeOnce = 1 << iota
	modePersistent
	modeRecursive
)

// New returns a Server with the root node.
func New(t testing.TB) *Server {
	return &Server{t: t, nodes: map[string]*node{"/": {}}, requests: map[jute.Op]int{}}
}

// Accept opens a connection, for a client's function that dials.
func (s *Server) Accept() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("refused")
	}
	ours, theirs := net.Pipe()
	c := &conn{Conn: theirs, out: make(chan []byte, 1<<12), data: map[string]int{}, children: map[string]int{}}
	s.link = c
	s.clients.Go(func() { s.serveConnection(c) })
	s.clients.Go(func() {
		for frame := range c.out {
			if err := jute.WriteFrame(c, frame); err != nil {
				_ = c.Close()
			}
		}
	})
	return ours, nil
}

// DialConn is Accept, as the function of a Config.
func (s *Server) DialConn(context.Context, string, string) (net.Conn, error) { return s.Accept() }

// Run runs a test in virtual time with a new server, and with a client of it, which dial opens.
func Run[C interface{ Abandon() }](t *testing.T, dial func(*Server) (C, error), test func(*testing.T, *Server, C)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(t)
		c, err := dial(s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Abandon()
			s.AwaitConnectionsEnd()
		})
		test(t, s, c)
	})
}

// Disconnect ends the connection. While the server is down, there is no other one.
func (s *Server) Disconnect(down bool) {
	s.mu.Lock()
	s.down = down
	c := s.link
	s.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// locked runs f under the lock.
func (s *Server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// AllowConnections lets clients connect again after Disconnect.
func (s *Server) AllowConnections() { s.locked(func() { s.down = false }) }

// SetReadOnly sets whether the server is without a leader, and ends the connection.
func (s *Server) SetReadOnly(readOnly bool) {
	s.locked(func() { s.readOnly = readOnly })
	s.Disconnect(false)
}

// ExpireSession ends the session.
func (s *Server) ExpireSession() {
	s.locked(func() { s.expired = true })
	s.Disconnect(false)
}

// AllowSessions lets clients open a session again after ExpireSession.
func (s *Server) AllowSessions() { s.locked(func() { s.expired = false }) }

// BehaveBefore39 makes the Server behave as before ZooKeeper 3.9. There must be no connection.
func (s *Server) BehaveBefore39() { s.locked(func() { s.Before39 = true }) }

// DenyRead makes reads of a node return NoAuth.
func (s *Server) DenyRead(path string) { s.locked(func() { s.nodes[path].secret = true }) }

// AllowRead makes a node readable again.
func (s *Server) AllowRead(path string) { s.locked(func() { s.nodes[path].secret = false }) }

// serveConnection handles a connection until it ends.
func (s *Server) serveConnection(c *conn) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = c.Close()
		if s.link == c {
			s.link = nil
		}
		close(c.out)
	}()
	frame, err := jute.ReadFrame(c, nil, 1<<20)
	if err != nil {
		return
	}
	var connect jute.ConnectRequest
	d := jute.NewDecoder(frame)
	connect.Decode(&d)
	resp := jute.ConnectResponse{TimeOut: connect.TimeOut, SessionID: 7, Passwd: make([]byte, 16), HasReadOnly: true}
	s.mu.Lock()
	expired := s.expired
	resp.ReadOnly = s.readOnly
	s.mu.Unlock()
	if expired {
		resp = jute.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: true}
	}
	c.out <- resp.Append(nil)
	for {
		frame, err := jute.ReadFrame(c, nil, 1<<20)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, io.ErrUnexpectedEOF) {
				s.t.Error(err)
			}
			return
		}
		if !s.handleRequest(c, frame) {
			return
		}
	}
}

// handleRequest carries a request out.
func (s *Server) handleRequest(c *conn, frame []byte) bool {
	var h jute.RequestHeader
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	body := d.Rest()
	path := string((&d).Rest())
	if b := jute.NewDecoder(body); len(body) > 4 {
		path = string(b.ReadBytes())
	}
	s.mu.Lock()
	OnReply := s.OnReply
	defer func() {
		s.mu.Unlock()
		if OnReply != nil {
			OnReply(h.Op, path)
		}
	}()
	s.requests[h.Op]++
	code, rec := s.executeRequest(c, h.Op, path, body)
	if s.OnRequest != nil && s.OnRequest(h.Op, path, s.requests[h.Op]) {
		return false
	}
	out := jute.ReplyHeader{Xid: h.Xid, Zxid: s.zxid, Err: code}.Append(nil)
	if code == jute.OK && rec != nil {
		out = rec.Append(out)
	}
	c.out <- out
	return true // the client closes the connection after closeSession
}

type record interface{ Append([]byte) []byte }

func (s *Server) executeRequest(c *conn, op jute.Op, path string, body []byte) (jute.Code, record) {
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpDelete:
		if s.readOnly {
			return jute.NotReadOnly, nil
		}
		delete(s.nodes, path)
	case jute.OpCreateContainer:
		s.createNode(path)
		return jute.OK, jute.Create2Response{Path: []byte(path), Stat: s.nodes[path].stat}
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren2:
		d.ReadBytes()
		return s.readNode(c, op, path, d.ReadBool())
	case jute.OpAddWatch, jute.OpRemoveWatches, jute.OpCheckWatches:
		if s.Before36 && op != jute.OpRemoveWatches || s.Before35 {
			return jute.Unimplemented, nil
		}
		d.ReadBytes()
		return s.handleWatchRequest(c, op, path, d.ReadInt32())
	case jute.OpSetWatches, jute.OpSetWatches2:
		var r jute.SetWatches2
		if op == jute.OpSetWatches2 {
			r.Decode(&d)
		} else {
			var old jute.SetWatches
			old.Decode(&d)
			r = jute.SetWatches2{RelativeZxid: old.RelativeZxid, Data: old.Data, Exist: old.Exist, Child: old.Child}
		}
		s.setWatches(c, r)
	}
	return jute.OK, nil
}

func (s *Server) readNode(c *conn, op jute.Op, path string, watch bool) (jute.Code, record) {
	n := s.nodes[path]
	if n != nil && n.secret {
		return jute.NoAuth, nil
	}
	if watch && (n != nil || op == jute.OpExists) {
		table := c.data
		if op == jute.OpGetChildren2 {
			table = c.children
		}
		s.addWatch(table, path, modeOnce)
	}
	if n == nil {
		return jute.NoNode, nil
	}
	switch op {
	case jute.OpGetData:
		return jute.OK, jute.GetDataResponse{Data: n.data, Stat: n.stat}
	case jute.OpExists:
		return jute.OK, jute.ExistsResponse{Stat: n.stat}
	}
	var names [][]byte
	for child := range s.nodes {
		if child != "/" && nodepath.Parent(child) == path {
			names = append(names, []byte(child[strings.LastIndexByte(child, '/')+1:]))
		}
	}
	slices.SortFunc(names, slices.Compare)
	return jute.OK, jute.GetChildren2Response{Children: names, Stat: n.stat}
}

// addWatch adds a mode of watch, or replaces the others.
func (s *Server) addWatch(table map[string]int, path string, mode int) {
	if s.Before39 {
		table[path] = 0
	}
	table[path] |= mode
}

func (s *Server) handleWatchRequest(c *conn, op jute.Op, path string, arg int32) (jute.Code, record) {
	if op == jute.OpAddWatch {
		if arg == int32(jute.AddWatchPersistentRecursive) {
			s.addWatch(c.data, path, modeRecursive)
		} else {
			s.addWatch(c.data, path, modePersistent)
			s.addWatch(c.children, path, modePersistent)
		}
		return jute.OK, jute.ErrorResponse{}
	}
	once := modeOnce
	if s.Before39 {
		once = modeOnce | modePersistent | modeRecursive
		if arg > int32(jute.WatcherAny) {
			return jute.MarshallingError, nil
		}
	}
	masks := map[jute.WatcherType][2]int{
		jute.WatcherChildren: {0, once}, jute.WatcherData: {once, 0}, jute.WatcherAny: {-1, -1},
		jute.WatcherPersistent: {modePersistent, modePersistent}, jute.WatcherPersistentRecursive: {modeRecursive, 0},
	}
	mask := masks[jute.WatcherType(arg)]
	if c.data[path]&mask[0] == 0 && c.children[path]&mask[1] == 0 {
		return jute.NoWatcher, nil
	}
	if op == jute.OpRemoveWatches {
		c.clearWatch(c.data, path, mask[0])
		c.clearWatch(c.children, path, mask[1])
	}
	return jute.OK, nil
}

func (c *conn) clearWatch(table map[string]int, path string, mask int) {
	if table[path] &^= mask; table[path] == 0 {
		delete(table, path)
	}
}

func (s *Server) setWatches(c *conn, r jute.SetWatches2) {
	notify := func(typ jute.EventType, path string) { s.sendEvent(c, typ, path, -1) }
	setOnce := func(paths [][]byte, table map[string]int, changed jute.EventType, last func(*node) int64) {
		for _, p := range paths {
			switch n := s.nodes[string(p)]; {
			case n == nil:
				notify(jute.EventNodeDeleted, string(p))
			case last(n) > r.RelativeZxid:
				notify(changed, string(p))
			default:
				s.addWatch(table, string(p), modeOnce)
			}
		}
	}
	setOnce(r.Data, c.data, jute.EventNodeDataChanged, func(n *node) int64 { return n.stat.Mzxid })
	for _, p := range r.Exist {
		if s.nodes[string(p)] != nil {
			notify(jute.EventNodeCreated, string(p))
		} else {
			s.addWatch(c.data, string(p), modeOnce)
		}
	}
	setOnce(r.Child, c.children, jute.EventNodeChildrenChanged, func(n *node) int64 { return n.stat.Pzxid })
	for _, p := range r.Persistent {
		s.addWatch(c.data, string(p), modePersistent)
		s.addWatch(c.children, string(p), modePersistent)
	}
	for _, p := range r.Recursive {
		s.addWatch(c.data, string(p), modeRecursive)
	}
}

func (s *Server) sendEvent(c *conn, typ jute.EventType, path string, zxid int64) {
	if s.Before39 {
		zxid = -1
	}
	out := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}.Append(nil)
	c.out <- jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: []byte(path)}.Append(out)
}

// fireWatches sends an event to the watches of one table, and reports whether it did.
func (s *Server) fireWatches(table map[string]int, typ jute.EventType, path string) bool {
	c := s.link
	notify := table[path] != 0
	if typ != jute.EventNodeChildrenChanged {
		for above := path; ; above = nodepath.Parent(above) {
			notify = notify || table[above]&modeRecursive != 0
			if above == "/" {
				break
			}
		}
	}
	c.clearWatch(table, path, modeOnce)
	if notify {
		s.sendEvent(c, typ, path, s.zxid)
	}
	return notify
}

// CreateNode creates a node, with a transaction of its own.
func (s *Server) CreateNode(path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.createNode(path)
	return s.zxid
}

// createNode creates a node. The lock is held.
func (s *Server) createNode(path string) {
	s.zxid++
	s.nodes[path] = &node{stat: jute.Stat{Czxid: s.zxid, Mzxid: s.zxid, Pzxid: s.zxid}}
	s.countChild(path, 1)
	if s.link != nil {
		s.fireWatches(s.link.data, jute.EventNodeCreated, path)
		s.fireWatches(s.link.children, jute.EventNodeChildrenChanged, nodepath.Parent(path))
	}
}

// countChild adds to the parent's number of children.
func (s *Server) countChild(path string, add int32) {
	parent := &s.nodes[nodepath.Parent(path)].stat
	parent.Pzxid = s.zxid
	parent.Cversion++
	parent.NumChildren += add
}

// SetData sets a node's data, with a transaction of its own.
func (s *Server) SetData(path, data string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	n := s.nodes[path]
	n.data = []byte(data)
	n.stat.DataLength = int32(len(data))
	n.stat.Mzxid = s.zxid
	n.stat.Version++
	if s.link != nil {
		s.fireWatches(s.link.data, jute.EventNodeDataChanged, path)
	}
	return s.zxid
}

// DeleteNode deletes a node, with a transaction of its own.
func (s *Server) DeleteNode(path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	delete(s.nodes, path)
	s.countChild(path, -1)
	if s.link != nil {
		if s.fireWatches(s.link.data, jute.EventNodeDeleted, path) {
			s.link.clearWatch(s.link.children, path, modeOnce)
		} else {
			s.fireWatches(s.link.children, jute.EventNodeDeleted, path)
		}
		s.fireWatches(s.link.children, jute.EventNodeChildrenChanged, nodepath.Parent(path))
	}
	return s.zxid
}

// WatchCount returns the number of watches of all tables.
func (s *Server) WatchCount() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return 0
	}
	return len(s.link.data) + len(s.link.children)
}

// RequestCount returns the number of requests of an operation.
func (s *Server) RequestCount(op jute.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[op]
}

// ApplyChanges carries out steps: "+/a" creates, "=/a" sets, "-/a" deletes.
func (s *Server) ApplyChanges(steps ...string) {
	for _, step := range steps {
		switch path := step[1:]; step[0] {
		case '+':
			s.CreateNode(path)
		case '=':
			s.SetData(path, "x")
		case '-':
			s.DeleteNode(path)
		}
	}
}

// AwaitConnectionsEnd waits until the goroutines of all connections have ended. The client must have closed them.
func (s *Server) AwaitConnectionsEnd() { s.clients.Wait() }

// HasNode reports whether there is a node.
func (s *Server) HasNode(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[path] != nil
}

// ListSubtree returns the paths and data of a node and of all nodes below it, each parent before its children, and
// children sorted by name.
func (s *Server) ListSubtree(path string) (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, n := range s.nodes {
		if p == path || strings.HasPrefix(p, path+"/") {
			nodes = append(nodes, p+"="+string(n.data))
		}
	}
	slices.SortFunc(nodes, func(a, b string) int {
		a, _, _ = strings.Cut(a, "=")
		b, _, _ = strings.Cut(b, "=")
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
	return nodes
}
