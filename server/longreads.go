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
	// maxStepsUnderLock limits the steps of a read under the tree's lock, each as long as listing a name: a tenth of a millisecond in all.
	maxStepsUnderLock = 1024
	// stepsPerOp is the number of steps of an operation in a multiRead: its node is looked up, and its list compared with the identities.
	stepsPerOp = 8
	// bytesPerStep is the number of bytes of data that are copied in a step.
	bytesPerStep = 512
	// namesPerYield is the number of names of a long reply that are appended before other goroutines get their turn.
	namesPerYield = 4096
	// maxTurnRest is the longest that the turn is kept after a read. A read takes longer than that if the processors are busy, and a
	// rest would not free them.
	maxTurnRest = 50 * time.Millisecond
)

// longRead is a read under way whose answer is made without the tree's lock. The lock of its connection guards taken, and events
// while taken is true.
type longRead struct {
	c            *conn
	r            *request
	hasCopy      bool // it has its copy, or the error
	zxid         int64
	appendFrozen func(b []byte) ([]byte, jute.Code) // appends the record
	record       []byte
	code         jute.Code
	heldEvents   []byte // frames of events that came after the copy
}

// isLong reports whether a read must be served without the tree's lock. The caller holds that lock.
func (r *request) isLong() bool {
	return r.code == jute.OK && r.longRead == nil && r.operation.isLong != nil && r.operation.isLong(&r.c.session, r)
}

// startLongRead serves r, a long read that is the first of the queue, in a goroutine, and answers it. Usually later writes of the client
// wait for it (queue.late). If its list has only grown long while it waited, they may be on their way: then the copy is made now,
// because the answer must not show them. The caller holds the lock and the tree's.
func startLongRead(r *request) {
	read := &longRead{c: r.c, r: r}
	r.longRead, r.inProgress = read, true
	if !r.isSlow {
		read.copyState()
	}
	r.c.stream.Life.Go(read.serve)
}

// serve answers the read in its turn. It keeps the turn for as long again as it took, longRest at most, so that others have half
// of the time.
func (l *longRead) serve() {
	c := l.c
	select {
	case c.srv.longRequestTurn <- struct{}{}:
	case <-c.stream.Life.Context().Done():
		return
	}
	began := time.Now()
	if l.ensureCopy() {
		l.record, l.code = l.appendFrozen(nil)
		l.queueReply()
		time.Sleep(min(time.Since(began), maxTurnRest))
	}
	<-c.srv.longRequestTurn
}

// ensureCopy takes the copy, if that is not done. It returns false if the connection has ended, or if its client has to take bytes
// before: then the read is begun again.
func (l *longRead) ensureCopy() bool {
	c := l.c
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	switch {
	case c.stream.IsClosing():
		return false
	case l.hasCopy:
		return true
	case !c.replies.fitsBudget(l.r):
		l.r.longRead, l.r.inProgress = nil, false
		return false
	}
	l.copyState()
	return true
}

// copyState takes a copy of what the answer shows, and its zxid. The caller holds the lock and the tree's.
func (l *longRead) copyState() {
	l.hasCopy, l.zxid = true, l.c.replies.replyZxid(l.r)
	l.appendFrozen = l.r.operation.freezeReply(&l.c.session, l.r)
}

// queueReply queues the answer.
func (l *longRead) queueReply() {
	c := l.c
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.IsClosing() {
		return
	}
	l.r.inProgress, l.r.isReady = false, true
	c.replies.queueReadyReplies(false)
	c.stream.UpdateAccount()
	c.stream.FlushLater()
}

// insertRecord appends the record of the answer, or inserts it into the stream's output, if b is that.
func (l *longRead) insertRecord(b []byte) ([]byte, jute.Code) {
	if l.code == jute.OK {
		l.c.stream.Output().Insert(len(b), l.record)
	}
	return b, l.code
}

// appendHeldEvents queues the events that came after the copy. The answer is queued.
func (l *longRead) appendHeldEvents() {
	if len(l.heldEvents) == 0 {
		return
	}
	out := l.c.stream.Output()
	out.B = append(out.B, l.heldEvents...)
	l.c.stream.CheckUnread()
}

// countHeldEvent counts n bytes of an event that waits for the answer.
func (l *longRead) countHeldEvent(n int) {
	l.r.heldBytes += n
	l.c.replies.queue.heldBytes += n
	if len(l.heldEvents) > l.c.srv.cfg.Limits.MaxUnread {
		l.c.stream.DropLocked(stream.SlowReader)
	}
}

// readHoldingEvents returns the read for whose answer events wait, or nil.
func (q *queue) readHoldingEvents() *longRead {
	if q.first == nil || q.first.longRead == nil || !q.first.longRead.hasCopy {
		return nil
	}
	return q.first.longRead
}

func (s *session) longChildren(r *request) bool {
	return s.weighChildren(r) > maxStepsUnderLock*assumedNameBytes
}

func (s *session) longEphemerals(r *request) bool {
	var req jute.GetEphemeralsRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d)
	now := s.tree.TreeView()
	paths := now.Ephemerals(s.id, req.Path)
	return paths.MoreThan(maxStepsUnderLock)
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
		steps += stepsPerOp + children + data/bytesPerStep
		return steps <= maxStepsUnderLock
	})
	return steps > maxStepsUnderLock
}

func (s *session) freezeChildren(r *request) func(b []byte) ([]byte, jute.Code) {
	var req jute.GetChildrenRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d) // it can be read: longChildren has found its node
	names, stat, code := s.tree.FreezeChildren(req.Path, r.ids, s.watcherIf(req.Watch))
	return func(b []byte) ([]byte, jute.Code) {
		b = appendChildNames(b, names)
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
	return func(b []byte) ([]byte, jute.Code) { return s.multiReadFrom(b, &frozen, body, ids) }
}

// appendChildNames appends the names of a node's children.
func appendChildNames(b []byte, names znode.ChildNames) []byte {
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
		if b = jute.AppendString(b, text); n%namesPerYield == namesPerYield-1 {
			runtime.Gosched()
		}
		n++
	}
	jute.AppendCount(b[:at], n)
	return b
}
