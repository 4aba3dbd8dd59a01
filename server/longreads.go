package server

import (
	"iter"
	"math"
	"slices"
	"time"

	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Apply waits while a read holds the tree's lock. A read that may take long holds it only for a copy of the
// requested state, which takes constant time, and builds its reply from the copy. One is served at a time on
// the whole server, in slices (Server.longReadTurn): otherwise many clients could together take all processors
// and hold many copies. Between two slices it gives way to a shorter one. Later requests of its client wait
// until it has its reply, except pings. So do events after the copy, because a client does not know of a watch
// before the reply that sets it.

const (
	// maxStepsUnderLock limits the steps of a read under the tree's lock to a tenth of a millisecond. A step
	// is as long as listing a name.
	maxStepsUnderLock = 1024
	// minNameBytes is the least length of a name in a reply.
	minNameBytes = lengthSize + 1
	// stepsPerOp is the number of steps of an operation in a multiRead: a lookup, and a check of its ACL.
	stepsPerOp = 8
	// bytesPerStep is the number of bytes of data that are copied in a step.
	bytesPerStep = 512
	// stepsPerSlice is the number of steps after which a long read rests and gives way: half a millisecond.
	stepsPerSlice = 4096
	// maxShortSteps is the weight up to which a long read goes before those that take longer, from any number of
	// addresses: two slices, which it has at a stretch.
	maxShortSteps = 2 * stepsPerSlice
	// minMultiOpBytes is the least length of an operation in a multiRead: its header, a path of one byte, and the watch.
	minMultiOpBytes = 9 + lengthSize + 1 + 1
	// opsPerLock is the number of operations of a multiRead that are estimated under one hold of the tree's lock.
	opsPerLock = maxStepsUnderLock / stepsPerOp
	// maxTurnRest limits the time for which the turn is kept after a slice. A slice takes longer if the
	// processors are busy, and a rest would not free them.
	maxTurnRest = 50 * time.Millisecond
)

// longRead is a read whose reply is built without the tree's lock. The connection's lock guards hasCopy, and
// heldEvents while hasCopy is true.
type longRead struct {
	c            *conn
	r            *request
	before       requestProgress // of r, when it began
	hasCopy      bool            // or the error
	zxid         int64
	appendFrozen frozenReply
	record       []byte
	code         jute.Code
	heldEvents   []byte // frames of events after the copy
}

// needsFrozenCopy reports whether a read must be served without the tree's lock. The caller holds that lock.
func (r *request) needsFrozenCopy() bool {
	return r.code == jute.OK && r.longRead == nil && r.operation.needsFrozenCopy != nil &&
		r.operation.needsFrozenCopy(&r.c.session, r)
}

// startLongRead serves r, the first of the queue, in a goroutine. Usually the client's later writes wait for
// r (queue.hasLateReads). If the list grew long only while r waited, such writes may be on their way. The
// copy is then made now, because the reply must not show them. The caller holds the lock and the tree's.
func startLongRead(r *request) {
	read := &longRead{c: r.c, r: r, before: r.progress}
	r.longRead, r.progress = read, running
	if !r.tooSlowForApply {
		read.copyState()
	}
	r.c.stream.Life.Go(read.serve)
}

// serve serves the read in its turn, unless its estimate shows that the reply would be too long.
func (l *longRead) serve() {
	c := l.c
	steps, code := l.r.operation.estimateSteps(&c.session, l.r)
	if code != jute.OK {
		l.code = code
		l.r.completeInTurn(jute.OK)
		return
	}
	turn, err := c.srv.longReadTurn.Take(c.stream.Life.Context(), c.networkOrHost(), steps)
	if err != nil {
		return
	}
	defer turn.End()
	if !l.copyIfFits() {
		return
	}
	p := newPacer(c.stream.Life.Context(), turn, steps)
	if l.record, l.code = l.appendFrozen(nil, p); p.err == nil {
		l.r.completeInTurn(jute.OK)
		p.rest()
	}
}

// copyIfFits takes the copy unless there is one. It returns false if the connection has ended, or if the
// reply does not fit the budget: then the read is started again later.
func (l *longRead) copyIfFits() bool {
	c := l.c
	c.lockWithTree()
	defer c.unlockWithTree()
	switch {
	case c.stream.IsClosing():
		return false
	case l.hasCopy:
		return true
	case !c.replies.claimBudget(l.r):
		l.r.longRead, l.r.progress = nil, l.before
		return false
	}
	l.copyState()
	return true
}

// copyState copies the requested state and its zxid. The caller holds the lock and the tree's.
func (l *longRead) copyState() {
	l.hasCopy, l.zxid = true, l.c.replies.replyZxid(l.r)
	l.appendFrozen = l.r.operation.freezeReply(&l.c.session, l.r)
}

// insertRecord inserts the record into the stream's output after b.
func (l *longRead) insertRecord(b []byte) ([]byte, jute.Code) {
	if l.code == jute.OK {
		l.c.stream.Output().Insert(len(b), l.record)
	}
	return b, l.code
}

// appendHeldEvents queues the held events. The reply is already queued.
func (l *longRead) appendHeldEvents() {
	if len(l.heldEvents) == 0 {
		return
	}
	out := l.c.stream.Output()
	out.B = append(out.B, l.heldEvents...)
	l.c.stream.LimitUnread()
}

// countOrDropHeld counts n bytes of an event that waits for the reply.
func (l *longRead) countOrDropHeld(n int) {
	l.r.heldBytes += n
	l.c.replies.queue.heldBytes += n
	if len(l.heldEvents) > l.c.srv.cfg.Limits.MaxUnread {
		l.c.stream.DropLocked(stream.SlowReader)
	}
}

// readBlockingEvents returns the read that events wait for, or nil.
func (q *queue) readBlockingEvents() *longRead {
	if q.first == nil || q.first.longRead == nil || !q.first.longRead.hasCopy {
		return nil
	}
	return q.first.longRead
}

func (s *session) longChildren(r *request) bool {
	return s.estimateChildrenBytes(r) > maxStepsUnderLock*assumedNameBytes
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

// stepsOfChildren and the like estimate the steps of a long read, before its turn. The code is not OK if the read
// must be rejected. The caller holds no lock.
func (s *session) stepsOfChildren(r *request) (int, jute.Code) {
	s.tree.RLock()
	defer s.tree.RUnlock()
	return int(s.estimateChildrenBytes(r) / assumedNameBytes), jute.OK
}

func (s *session) stepsOfEphemerals(*request) (int, jute.Code) {
	s.tree.RLock()
	frozen := s.tree.FreezeTree()
	s.tree.RUnlock()
	return frozen.EphemeralCountOf(s.id), jute.OK
}

// stepsOfMultiRead rejects a multiRead whose reply has more than Limits.MaxUnread bytes even if each name has only
// minNameBytes: a few operations can name a node with many children again and again. multiReadFrom rejects others,
// once it has as many bytes. A request that may have more operations than one hold of the lock takes is estimated in a
// turn of its own: otherwise many clients could together take all processors with requests that are then rejected.
func (s *session) stepsOfMultiRead(r *request) (steps int, _ jute.Code) {
	if mostOps := len(r.body) / minMultiOpBytes; mostOps > opsPerLock {
		turn, err := r.c.srv.estimateTurn.Take(r.c.stream.Life.Context(), r.c.networkOrHost(), mostOps)
		if err != nil {
			return 0, jute.OK // no reply can be sent
		}
		defer turn.End()
	}
	steps, size := s.estimateMultiRead(r, math.MaxInt)
	if size > s.limits.MaxUnread {
		return 0, jute.MarshallingError
	}
	return steps, jute.OK
}

// beginsTooLong reports whether the reply to a multiRead has too many bytes (stepsOfMultiRead) because of its first
// opsPerLock operations. It is false if the request has hardly more than that: it is decoded in a moment. The replies
// to all earlier requests must be known, because r shows their writes. If its connection's reads are never stale it is false,
// because r may have to show what has not come here.
func (s *session) beginsTooLong(r *request) bool {
	if len(r.body) <= opsPerLock*minMultiOpBytes || r.c.linearReads {
		return false
	}
	_, size := s.estimateMultiRead(r, opsPerLock)
	return size > s.limits.MaxUnread
}

// estimateMultiRead estimates the steps of the first operations of a multiRead, and the least size of their results.
// It ends when that is above Limits.MaxUnread.
func (s *session) estimateMultiRead(r *request, most int) (steps, size int) {
	n := 0
	s.tree.RLock()
	defer s.tree.RUnlock()
	jute.EachMultiOp(r.body, func(op *jute.MultiOp) (more bool) {
		if n++; n%opsPerLock == 0 {
			s.tree.RUnlock()
			s.tree.RLock()
		}
		now := s.tree.TreeView()
		names, data := 0, 0
		switch op.Op {
		case jute.OpGetData:
			text, _, _ := now.GetData(op.GetData.Path, r.ids)
			data = len(text)
		case jute.OpGetChildren:
			list, _ := now.Children(op.GetChildren.Path, r.ids)
			names = list.Count()
		}
		steps += stepsPerOp + names + data/bytesPerStep
		size += names*minNameBytes + data
		return size <= s.limits.MaxUnread && n < most
	})
	return steps, size
}

func (s *session) freezeChildren(r *request) frozenReply {
	var req jute.GetChildrenRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d) // it decodes: longChildren has found its node
	names, stat, code := s.tree.FreezeChildren(req.Path, r.ids, s.watcherIf(req.Watch))
	return func(b []byte, p *pacer) ([]byte, jute.Code) {
		b = appendChildNames(b, names, p)
		if r.op == jute.OpGetChildren2 {
			b = stat.Append(b)
		}
		return b, code
	}
}

func (s *session) freezeEphemerals(r *request) frozenReply {
	var req jute.GetEphemeralsRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d)
	if d.Err() != nil {
		return func(b []byte, _ *pacer) ([]byte, jute.Code) { return b, jute.MarshallingError }
	}
	frozen := s.tree.FreezeTree()
	paths := frozen.Ephemerals(s.id, req.Path)
	return func(b []byte, p *pacer) ([]byte, jute.Code) {
		return appendCounted(b, 0, paths.All(), p), jute.OK
	}
}

func (s *session) freezeMultiRead(r *request) frozenReply {
	frozen, body, ids := s.tree.FreezeTree(), r.body, r.ids
	return func(b []byte, p *pacer) ([]byte, jute.Code) { return s.multiReadFrom(b, &frozen, body, ids, p) }
}

// appendChildNames appends the names of a node's children. p is nil under the tree's lock.
func appendChildNames(b []byte, names znode.ChildNames, p *pacer) []byte {
	if names.Count() == 0 {
		return jute.AppendCount(b, 0)
	}
	for first := range names.All() { // the others are about as long; a client may have made this one very long
		b = slices.Grow(b, (lengthSize+min(len(first)+2, assumedNameBytes))*names.Count())
		break
	}
	return appendCounted(b, names.Count(), names.All(), p)
}

// appendCounted appends the number of texts and the texts. expected is their number, or 0 if it is not known. p is nil
// under the tree's lock. Memory that is too short grows by what the rest will take if it is like the texts so far, and
// at most to twice the length: clients choose the lengths.
func appendCounted(b []byte, expected int, texts iter.Seq[string], p *pacer) []byte {
	at, n := len(b), 0
	b = jute.AppendCount(b, 0)
	for text := range texts {
		if needed := lengthSize + len(text); cap(b)-len(b) < needed {
			appended := len(b) - at
			b = slices.Grow(b, max(needed, min(appended, (expected-n)*appended/max(n, 1))))
		}
		b = jute.AppendString(b, text)
		n++
		if !p.step(1 + len(text)/bytesPerStep) {
			break
		}
	}
	jute.AppendCount(b[:at], n)
	return b
}
