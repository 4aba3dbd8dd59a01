package server

import (
	"iter"
	"runtime"
	"slices"
	"time"

	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Apply waits while a read holds the tree's lock. A read that may take long therefore holds it only until it has a copy of what it
// shows, which takes constant time, and its answer is made of the copy. One is served at a time on the whole server, as parts of
// setWatches are: otherwise many clients could together take all processors, and hold many copies. Requests after it wait until
// it is answered. So do events that come after the copy, because a client does not know of a watch before its read is answered.

const (
	// longList limits the steps of a read under the tree's lock, each as long as listing a name: a tenth of a millisecond in all.
	longList = 1024
	// opSteps is the number of steps of an operation in a multiRead: its node is looked up, and its list compared with the identities.
	opSteps = 8
	// bytesPerStep is the number of bytes of data that are copied in a step.
	bytesPerStep = 512
	// listPart is the number of names of a long reply that are appended before other goroutines get their turn.
	listPart = 4096
	// longRest is the longest that the turn is kept after a read. A read takes longer than that if the processors are busy, and a
	// rest would not free them.
	longRest = 50 * time.Millisecond
)

// longRead is a read under way whose answer is made without the tree's lock. The lock of its connection guards taken, and events
// while taken is true.
type longRead struct {
	c      *conn
	r      *request
	taken  bool // it has its copy, or the error
	zxid   int64
	write  func(b []byte) ([]byte, jute.Code) // appends the record
	record []byte
	code   jute.Code
	events []byte // frames of events that came after the copy
}

// long reports whether a read must be served without the tree's lock. The caller holds that lock.
func (r *request) long() bool {
	return r.code == jute.OK && r.read == nil && r.how.long != nil && r.how.long(&r.c.session, r)
}

// startRead serves r, a long read that is the first of the queue, in a goroutine, and answers it. Usually later writes of the client
// wait for it (queue.late). If its list has only grown long while it waited, they may be on their way: then the copy is made now,
// because the answer must not show them. The caller holds the lock and the tree's.
func startRead(r *request) {
	read := &longRead{c: r.c, r: r}
	r.read, r.working = read, true
	if !r.aside {
		read.take()
	}
	r.c.stream.Life.Go(read.serve)
}

// serve answers the read in its turn. It keeps the turn for as long again as it took, longRest at most, so that others have half
// of the time.
func (l *longRead) serve() {
	c := l.c
	select {
	case c.srv.turn <- struct{}{}:
	case <-c.stream.Life.Context().Done():
		return
	}
	began := time.Now()
	if l.begin() {
		l.record, l.code = l.write(nil)
		l.finish()
		time.Sleep(min(time.Since(began), longRest))
	}
	<-c.srv.turn
}

// begin takes the copy, if that is not done. It returns false if the connection has ended, or if its client has to take bytes
// before: then the read is begun again.
func (l *longRead) begin() bool {
	c := l.c
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	switch {
	case c.stream.Closing():
		return false
	case l.taken:
		return true
	case !c.replies.affords(l.r):
		l.r.read, l.r.working = nil, false
		return false
	}
	l.take()
	return true
}

// take takes a copy of what the answer shows, and its zxid. The caller holds the lock and the tree's.
func (l *longRead) take() {
	l.taken, l.zxid = true, l.c.replies.zxidOf(l.r)
	l.write = l.r.how.freeze(&l.c.session, l.r)
}

// finish queues the answer.
func (l *longRead) finish() {
	c := l.c
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.Closing() {
		return
	}
	l.r.working, l.r.done = false, true
	c.replies.answerReady(false)
	c.stream.Count()
	c.stream.FlushLater()
}

// appendRecord appends the record of the answer, or inserts it into the stream's output, if b is that.
func (l *longRead) appendRecord(b []byte) ([]byte, jute.Code) {
	if l.code == jute.OK {
		l.c.stream.Output().Insert(len(b), l.record)
	}
	return b, l.code
}

// appendEvents queues the events that came after the copy. The answer is queued.
func (l *longRead) appendEvents() {
	if len(l.events) == 0 {
		return
	}
	out := l.c.stream.Output()
	out.B = append(out.B, l.events...)
	l.c.stream.CheckUnread()
}

// hold counts n bytes of an event that waits for the answer.
func (l *longRead) hold(n int) {
	l.r.held += n
	l.c.replies.queue.bytes += n
	if len(l.events) > l.c.srv.cfg.Limits.MaxUnread {
		l.c.stream.DropLocked(stream.SlowReader)
	}
}

// reading returns the read for whose answer events wait, or nil.
func (q *queue) reading() *longRead {
	if q.first == nil || q.first.read == nil || !q.first.read.taken {
		return nil
	}
	return q.first.read
}

func (s *session) longChildren(r *request) bool {
	return s.weighChildren(r) > longList*childWeight
}

func (s *session) longEphemerals(r *request) bool {
	var req jute.GetEphemeralsRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d)
	now := s.tree.TreeView()
	paths := now.Ephemerals(s.id, req.Path)
	return paths.MoreThan(longList)
}

func (s *session) longMultiRead(r *request) bool {
	steps := 0
	jute.EachMultiOp(r.body, func(op *jute.MultiOp) (more bool) {
		data, children := 0, 0
		switch op.Op {
		case jute.OpGetData:
			data, _ = s.tree.NodeSize(op.GetData.Path)
		case jute.OpGetChildren:
			_, children = s.tree.NodeSize(op.GetChildren.Path)
		}
		steps += opSteps + children + data/bytesPerStep
		return steps <= longList
	})
	return steps > longList
}

func (s *session) freezeChildren(r *request) func(b []byte) ([]byte, jute.Code) {
	var req jute.GetChildrenRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d) // it can be read: longChildren has found its node
	names, stat, code := s.tree.FreezeChildren(req.Path, r.ids, s.watcher(req.Watch))
	return func(b []byte) ([]byte, jute.Code) {
		b = appendListed(b, names)
		if r.op == jute.OpGetChildren2 {
			b = stat.Append(b)
		}
		return b, code
	}
}

func (s *session) freezeEphemerals(r *request) func(b []byte) ([]byte, jute.Code) {
	var req jute.GetEphemeralsRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d)
	if d.Err() != nil {
		return func(b []byte) ([]byte, jute.Code) { return b, jute.MarshallingError }
	}
	frozen := s.tree.FreezeTree()
	paths := frozen.Ephemerals(s.id, req.Path)
	return func(b []byte) ([]byte, jute.Code) {
		return appendCounted(b, paths.All()), jute.OK
	}
}

func (s *session) freezeMultiRead(r *request) func(b []byte) ([]byte, jute.Code) {
	frozen, body, ids := s.tree.FreezeTree(), r.body, r.ids
	return func(b []byte) ([]byte, jute.Code) { return s.readAll(b, &frozen, body, ids) }
}

// appendListed appends the names of a node's children.
func appendListed(b []byte, names znode.ChildNames) []byte {
	if names.Count() == 0 {
		return jute.AppendCount(b, 0)
	}
	for first := range names.All() { // the others are about as long
		b = slices.Grow(b, (lengthSize+len(first)+2)*names.Count())
		break
	}
	return appendCounted(b, names.All())
}

// appendCounted appends texts after their number, and lets other goroutines run in between.
func appendCounted(b []byte, texts iter.Seq[string]) []byte {
	at, n := len(b), 0
	b = jute.AppendCount(b, 0)
	for text := range texts {
		if b = jute.AppendString(b, text); n%listPart == listPart-1 {
			runtime.Gosched()
		}
		n++
	}
	jute.AppendCount(b[:at], n)
	return b
}
