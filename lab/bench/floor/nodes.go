package main

import (
	"bytes"
	"encoding/binary"
	"sync"
	"time"

	"rollcall/zk/jute"
)

// firstSession is the id before that of the first session.
const firstSession = 1 << 56

// nodes are all nodes by their paths.
type nodes struct {
	mu       sync.RWMutex
	byPath   map[string]*node
	zxid     int64
	now      int64 // of this batch, in ms since 1970
	sessions jute.SessionID
	op       jute.MultiOp // the write that is being applied; its memory is used again
}

type node struct {
	parent   *node
	name     []byte
	place    int // among the parent's children
	children []*node
	data     []byte
	stat     jute.Stat
}

func newNodes() *nodes {
	return &nodes{byPath: map[string]*node{"/": {}}, sessions: firstSession}
}

// beginBatch reads the clock, once for all writes of a batch.
func (s *nodes) beginBatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = time.Now().UnixMilli()
}

// appendHandshake opens a session and appends the reply.
func (s *nodes) appendHandshake(b, request []byte) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := jute.NewDecoder(request)
	var r jute.ConnectRequest
	if r.Decode(&d); d.Err() != nil {
		return b, false
	}
	if s.zxid++; r.SessionID == 0 {
		s.sessions++
		r.SessionID = s.sessions
	}
	b, mark := jute.BeginFrame(b)
	b = jute.ConnectResponse{
		TimeOut: r.TimeOut, SessionID: r.SessionID, Passwd: make([]byte, 16), HasReadOnly: r.HasReadOnly,
	}.Append(b)
	return jute.EndFrame(b, mark), true
}

// reply is a reply that is being appended to a connection's output.
type reply struct {
	mark, end int          // of the frame, and of its header
	rest      jute.Decoder // of the request after its header
}

func (s *nodes) beginReply(b, request []byte) ([]byte, reply) {
	b, mark := jute.BeginFrame(b)
	b = append(b, request[:4]...) // the xid
	b = jute.AppendInt64(b, s.zxid)
	b = jute.AppendInt32(b, 0)
	return b, reply{mark, len(b), jute.NewDecoder(request[headerLength:])}
}

// finish ends the frame, or takes it back and returns false if the request could not be decoded.
func (r *reply) finish(b []byte, code jute.Code) ([]byte, bool) {
	if r.rest.Err() != nil || code == jute.MarshallingError {
		return b[:r.mark], false
	}
	if code != jute.OK {
		b = b[:r.end]
		binary.BigEndian.PutUint32(b[r.end-4:], uint32(code))
	}
	return jute.EndFrame(b, r.mark), true
}

// appendRead appends the reply to a request that is not a write.
func (s *nodes) appendRead(b, request []byte) ([]byte, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, r := s.beginReply(b, request)
	b, code := s.readNode(b, opOf(request), &r.rest)
	return r.finish(b, code)
}

func (s *nodes) readNode(b []byte, op jute.Op, d *jute.Decoder) ([]byte, jute.Code) {
	switch op {
	case jute.OpPing:
		return b, jute.OK
	case jute.OpSync:
		return jute.AppendBytes(b, d.ReadBytes()), jute.OK
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
	default:
		return b, jute.Unimplemented
	}
	n := s.byPath[string(d.ReadBytes())]
	if n == nil {
		return b, jute.NoNode
	}
	switch op {
	case jute.OpGetData:
		b = jute.AppendBytes(b, n.data)
	case jute.OpGetChildren, jute.OpGetChildren2:
		b = jute.AppendCount(b, len(n.children))
		for _, child := range n.children {
			b = jute.AppendBytes(b, child.name)
		}
	}
	if op == jute.OpGetChildren {
		return b, jute.OK
	}
	return n.stat.Append(b), jute.OK
}

// appendWrite applies a write and appends its reply.
func (s *nodes) appendWrite(b, request []byte) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	b, r := s.beginReply(b, request)
	b, code := s.writeNode(b, opOf(request), &r.rest)
	return r.finish(b, code)
}

func (s *nodes) writeNode(b []byte, op jute.Op, d *jute.Decoder) ([]byte, jute.Code) {
	switch s.op.Op = op; op {
	case jute.OpCloseSession:
		return b, jute.OK
	case jute.OpMulti:
		return s.applyMulti(b, d.Rest())
	case jute.OpCreate, jute.OpCreate2:
		s.op.Create.Decode(d)
	case jute.OpSetData:
		s.op.SetData.Decode(d)
	case jute.OpDelete:
		s.op.Delete.Decode(d)
	}
	if d.Err() != nil {
		return b, jute.MarshallingError
	}
	return s.applyOperation(b, &s.op)
}

// applyMulti applies the operations of a multi until one fails, and appends their results.
func (s *nodes) applyMulti(b, body []byte) ([]byte, jute.Code) {
	begin, done, failed := len(b), 0, jute.OK
	whole := jute.EachMultiOp(body, func(op *jute.MultiOp) bool {
		b = jute.MultiHeader{Type: op.Op}.Append(b)
		b, failed = s.applyOperation(b, op)
		done++
		return failed == jute.OK
	})
	switch {
	case failed != jute.OK:
		b = b[:begin]
		for i := range jute.CountMultiOps(body) {
			code := jute.OK
			if i == done-1 {
				code = failed
			} else if i >= done {
				code = jute.RuntimeInconsistency
			}
			b = jute.MultiHeader{Type: jute.OpError, Err: code}.Append(b)
			b = jute.ErrorResponse{Err: code}.Append(b)
		}
	case !whole:
		return b, jute.MarshallingError
	}
	return jute.AppendMultiEnd(b), jute.OK
}

// applyOperation applies an operation and appends the record of its result.
func (s *nodes) applyOperation(b []byte, op *jute.MultiOp) ([]byte, jute.Code) {
	switch op.Op {
	case jute.OpCreate, jute.OpCreate2:
		return s.createNode(b, op)
	case jute.OpDelete:
		return b, s.removeNode(op.Delete.Path)
	case jute.OpSetData:
		n := s.byPath[string(op.SetData.Path)]
		if n == nil {
			return b, jute.NoNode
		}
		n.data = append(n.data[:0], op.SetData.Data...)
		n.stat.Version++
		n.stat.Mzxid, n.stat.Mtime, n.stat.DataLength = s.zxid, s.now, int32(len(n.data))
		return n.stat.Append(b), jute.OK
	}
	return b, jute.Unimplemented
}

func (s *nodes) createNode(b []byte, op *jute.MultiOp) ([]byte, jute.Code) {
	path := op.Create.Path
	slash := bytes.LastIndexByte(path, '/')
	switch {
	case slash < 0 || slash == len(path)-1:
		return b, jute.BadArguments
	case op.Create.Flags != jute.Persistent:
		return b, jute.Unimplemented
	case s.byPath[string(path)] != nil:
		return b, jute.NodeExists
	}
	parent := s.byPath[string(path[:max(slash, 1)])]
	if parent == nil {
		return b, jute.NoNode
	}
	key := string(path)
	n := &node{parent: parent, name: []byte(key[slash+1:]), place: len(parent.children), data: bytes.Clone(op.Create.Data)}
	n.stat = jute.Stat{Czxid: s.zxid, Mzxid: s.zxid, Pzxid: s.zxid, Ctime: s.now, Mtime: s.now, DataLength: int32(len(n.data))}
	s.byPath[key] = n
	parent.children = append(parent.children, n)
	parent.childrenChanged(s.zxid)
	b = jute.AppendBytes(b, path)
	if op.Op == jute.OpCreate2 {
		b = n.stat.Append(b)
	}
	return b, jute.OK
}

func (s *nodes) removeNode(path []byte) jute.Code {
	n := s.byPath[string(path)]
	switch {
	case n == nil:
		return jute.NoNode
	case n.parent == nil:
		return jute.BadArguments
	case len(n.children) > 0:
		return jute.NotEmpty
	}
	delete(s.byPath, string(path))
	siblings := n.parent.children
	final := len(siblings) - 1
	siblings[n.place] = siblings[final]
	siblings[n.place].place = n.place
	siblings[final] = nil
	n.parent.children = siblings[:final]
	n.parent.childrenChanged(s.zxid)
	return jute.OK
}

// childrenChanged counts a change of the list of children.
func (n *node) childrenChanged(zxid int64) {
	n.stat.Pzxid, n.stat.NumChildren = zxid, int32(len(n.children))
	n.stat.Cversion++
}
