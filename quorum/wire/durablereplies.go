package wire

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/fifo"
)

const (
	// waitingMarksPerTimeout is how often a follower reports that the entries of a request are not settled yet, in the time
	// for which its leader waits for a reply.
	waitingMarksPerTimeout = 4
	// briefWait is the time for which a connection waits for the disk itself, before it takes the next request. A sync takes
	// less as a rule, and handing the reply over costs more than that is worth.
	briefWait = slowAck
	// maxPendingReplies limits the replies of one connection that wait. It is above the number of requests that a
	// leader has in flight (maxInFlightBytes). Above it the connection takes no more requests.
	maxPendingReplies = 1 << 17
)

// An acknowledgement makes a copy count. So it waits until the entries are settled: they are on this member's disk, or it
// knows that they are committed, and a further copy cannot commit anything (disk.Durability). raft has accepted the
// entries before that, so the connection takes the next requests meanwhile, and with them the commits by which a member
// whose disk hangs learns that it need not wait for it.

// replyQueue has the replies of a connection that wait until entries are settled, and those after them. The zero value is
// ready.
type replyQueue struct {
	mu      sync.Mutex
	pending fifo.Queue[pendingReply]
	running bool // sendPending runs, and it alone writes
	stopped bool
	over    chan struct{} // closed by stop; nil until sendPending has run
}

// pendingReply is a reply to a request.
type pendingReply struct {
	index uint64 // up to which entries must be settled first; 0: the reply waits for none
	form  requestForm
	resp  any
	err   error
	tell  []raft.ServerID // those that get a direct message, too
	copy  copyReport      // the message
}

// reply sends the reply to a request, in order. A reply that accepts entries waits until they are settled. reply itself waits
// for briefWait at most.
func (rc *receiver) reply(in *inConn, command, resp any, err error) error {
	p := pendingReply{form: in.form, resp: resp, err: err}
	if req := acceptedAppend(command, resp); req != nil && len(req.Entries) > 0 {
		last := continueAfter(req)
		p.index = last.PrevLogEntry
		if in.direct != nil && last.PrevLogTerm == req.Term {
			p.tell, p.copy = in.direct.tell, copyReport{req.Term, last.PrevLogEntry}
		}
	}
	q := &in.replies
	if !q.isRunning() && rc.awaitBriefly(in, p.index) { // only this goroutine makes it run
		return rc.write(in, p)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.stopped:
		return nil // the connection is closed
	case q.pending.Len() >= maxPendingReplies:
		return fmt.Errorf("quorum: %d replies wait until their entries are settled", maxPendingReplies)
	}
	q.pending.Push(p)
	if !q.running {
		q.running = true
		if q.over == nil {
			q.over = make(chan struct{})
		}
		rc.wg.Go(func() { rc.sendPending(in) })
	}
	return nil
}

// write sends a reply, and the direct messages that belong to it.
func (rc *receiver) write(in *inConn, p pendingReply) error {
	rc.directCopies.send(p.tell, p.copy)
	return in.write(p.form, p.resp, p.err)
}

// awaitBriefly reports whether the entries of a reply are settled within briefWait. It does not wait if the disk was late
// before, and has written nothing since.
func (rc *receiver) awaitBriefly(in *inConn, index uint64) bool {
	if rc.isSettled(index) {
		return true
	}
	var timer *time.Timer
	for !rc.diskIsLate.Load() {
		settled := rc.settled.nextFired()
		if rc.isSettled(index) {
			return true
		}
		if timer == nil {
			timer = time.NewTimer(briefWait)
			defer timer.Stop()
		}
		select {
		case <-settled:
		case <-timer.C:
			rc.diskIsLate.Store(true)
		case <-rc.closed:
			return false
		}
	}
	return false
}

// sendPending sends the pending replies of a connection, each when its entries are settled. It ends when there are no
// more, or when the connection is closed.
func (rc *receiver) sendPending(in *inConn) {
	q := &in.replies
	for p, ok := q.first(); ok; p, ok = q.next() {
		err := rc.awaitSettled(in, p)
		if err == nil {
			err = rc.write(in, p)
		}
		if err != nil {
			_ = in.Close() // its reader ends, too
			return
		}
	}
}

// awaitSettled waits until the entries of a reply are settled. Meanwhile it sends waiting marks. It returns an error if the
// connection ends first.
func (rc *receiver) awaitSettled(in *inConn, p pendingReply) error {
	var mark *time.Timer
	for {
		settled := rc.settled.nextFired()
		if rc.isSettled(p.index) {
			return nil
		}
		if mark == nil {
			mark = time.NewTimer(rc.waitingMark)
			defer mark.Stop()
		}
		select {
		case <-settled:
		case <-mark.C:
			mark.Reset(rc.waitingMark)
			if err := in.writeWaitingMark(p.form); err != nil {
				return err
			}
		case <-in.replies.over:
			return raft.ErrTransportShutdown
		}
	}
}

func (rc *receiver) isSettled(index uint64) bool {
	return index == 0 || rc.cfg.Durability.LimitToSettled(index) == index
}

// writeWaitingMark tells the leader that the entries of a request are not settled yet. Only frames have such a mark.
func (c *inConn) writeWaitingMark(form requestForm) error {
	if form != inFrames {
		return nil
	}
	_ = c.SetWriteDeadline(time.Now().Add(stallTimeout)) // Flush returns the error of a broken connection
	_ = c.w.WriteByte(waitingMark)
	return c.w.Flush()
}

func (q *replyQueue) isRunning() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

// first returns the first pending reply, and false if there is none: then sendPending must end.
func (q *replyQueue) first() (p pendingReply, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending.Len() == 0 || q.stopped {
		q.running = false
		return p, false
	}
	return *q.pending.At(0), true
}

// next removes the first pending reply, which was sent, and returns what first does.
func (q *replyQueue) next() (p pendingReply, ok bool) {
	q.mu.Lock()
	q.pending.Pop()
	q.mu.Unlock()
	return q.first()
}

// stop ends the waiting of all replies, because the connection is closed.
func (q *replyQueue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped && q.over != nil {
		close(q.over)
	}
	q.stopped = true
}

// noteCommitted records the commit in a request that raft has accepted: up to the majority index, and up to
// the commit index of a request in MessagePack, the leader's entries are on the disks of a majority. The ones here are the
// leader's, up to the last one of the request.
func (rc *receiver) noteCommitted(in *inConn, req *raft.AppendEntriesRequest) {
	majority := req.LeaderCommitIndex
	if in.form != inMessagePack {
		majority = in.majority
	}
	last := continueAfter(req).PrevLogEntry
	rc.cfg.Durability.NoteCommitted(min(majority, last))
	rc.cfg.Releases.NoteTold(req.Term, min(req.LeaderCommitIndex, last), min(majority, last))
	rc.settled.fire()
}

// checkMajority checks the majority index of a frame.
func checkMajority(req *raft.AppendEntriesRequest, majority uint64) error {
	if last := continueAfter(req).PrevLogEntry; majority > max(req.LeaderCommitIndex, last) {
		return fmt.Errorf("%w: majority index %d: must be at most that of the last entry, %d, or the commit index, %d", errNotRaftRequest, majority,
			last, req.LeaderCommitIndex)
	}
	return nil
}
