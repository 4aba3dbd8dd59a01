package wire

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/stages"
)

// maxUnreadReplies limits the replies that raft has not read. raft reads them all the time.
const maxUnreadReplies = 16

// pipelineSource is the leader's side of a pipeline: its log, its commits, and what the follower may be sent. Its methods may be called by
// any goroutine, and do not block. In use it is a followerSource.
type pipelineSource interface {
	// logPosition returns the commit index, the last index, and the current term. A follower must not learn of commits that this member
	// learned from a leader of another term.
	logPosition() (commit, last, term uint64)
	// clampCommit lowers the commit index of a request to a safe one.
	clampCommit(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest
	// limitToReleased returns index, or the last index that is released in term, if that is lower.
	limitToReleased(term, index uint64) uint64
	// earlyCommit returns the index up to which the follower commits once it has accepted a request, because its copies and this
	// member's are a majority, or 0.
	earlyCommit(req *raft.AppendEntriesRequest) uint64
	// directPart returns the direct part for a request, or nil.
	directPart(req *raft.AppendEntriesRequest) *directPart
	// noteAccepted records that the follower has accepted a request.
	noteAccepted(req *raft.AppendEntriesRequest)
	// mayLead returns the reason to send nothing, or nil.
	mayLead() error
	// mayReceive reports whether the follower may have the entries of a request.
	mayReceive(req *raft.AppendEntriesRequest) bool
}

// pipeline sends AppendEntries to one follower without waiting for the previous reply.
//
// It closes at the first failure or rejection. raft then stops reading replies, and its sender would wait for
// ever for a free slot, so that the follower would never catch up again.
//
// It also sends commit notices, after a commit and after a write of this member's disk (see Transport.earlyCommitTo). raft
// reports a commit with the next entries, or after CommitTimeout, and clients of the follower would have to wait for
// that. A notice is a request without entries that continues
// the last one sent on this pipeline, in its term.
//
// A notice in a frame has no reply. If the follower rejects it, it closes the connection. A follower that takes no frames
// replies to notices, of which at most one is in flight. raft sees neither a notice nor its reply, unless the reply is a failure.
//
// A frame has two commit indexes. The follower commits up to the first one, which is released (see Releases) and may be the leader's
// word. Up to the second one a majority has the entries on its disks, and the follower need not wait for its own.
type pipeline struct {
	conn            *outConn
	openPipelines   *sync.Map // contains this pipeline until Close
	source          pipelineSource
	stages          *stages.Recorder
	commitSignal    chan struct{} // capacity 1: there may be a commit to send
	inFlight        *inFlight
	commits         *toldCommits
	repliedRequests chan raft.AppendFuture
	closed          chan struct{}
	closeOnce       sync.Once

	// sendSlot has capacity 1. It is held while a request is sent, by raft's replication or by noticeLoop.
	// Reading replies does not need it. It is not a mutex, because sending may block on the network.
	sendSlot chan struct{}

	mu             sync.Mutex
	lastSent       raft.AppendEntriesRequest // last request, without entries; PrevLogEntry is the last entry sent
	noticeInFlight bool                      // a notice that has a reply
	noticePending  bool                      // waits for that reply
}

// appendFuture is a request in a pipeline. Its reply is complete when the pipeline's Consumer returns it. It
// implements raft.AppendFuture.
type appendFuture struct {
	req      *raft.AppendEntriesRequest
	resp     *raft.AppendEntriesResponse
	majority uint64 // see pipeline
	direct   *directPart
	sentAt   time.Time
	isNotice bool
	form     requestForm
	err      error
}

func (a *appendFuture) Error() error                          { return a.err }
func (a *appendFuture) Start() time.Time                      { return a.sentAt }
func (a *appendFuture) Request() *raft.AppendEntriesRequest   { return a.req }
func (a *appendFuture) Response() *raft.AppendEntriesResponse { return a.resp }

// newPipeline returns a pipeline that continues after accepted, the last request that the follower has accepted. It
// reports what was committed since then. If accepted is the zero request, it reports commits from its first entries on.
func newPipeline(conn *outConn, accepted raft.AppendEntriesRequest, open *sync.Map, source pipelineSource, recorder *stages.Recorder) *pipeline {
	p := &pipeline{
		conn: conn, openPipelines: open, source: source, stages: recorder,
		commitSignal: make(chan struct{}, 1), sendSlot: make(chan struct{}, 1),
		repliedRequests: make(chan raft.AppendFuture, maxUnreadReplies), closed: make(chan struct{}),
		lastSent: accepted,
	}
	p.inFlight, p.commits = newInFlight(p.limitReply, p.closed), newToldCommits(&accepted, p.signalCommit)
	open.Store(p, nil)
	p.limitReply(nil) // the connection may have that of an earlier reply
	p.signalCommit()  // for a commit that came before this pipeline was open
	go p.replyLoop()
	go p.noticeLoop()
	return p
}

// AppendEntries implements raft.AppendPipeline. It splits a request that is too long and sends all parts at
// once, because raft would send the rest only after a further entry. raft gets a reply to each part as if it
// had sent them. A server without a vote gets nothing.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture,
	error,
) {
	if !p.source.mayReceive(req) {
		return nil, errNotVoter
	}
	for {
		n := fittingCount(req.Entries)
		if n == len(req.Entries) {
			return p.sendPart(req, resp)
		}
		part, rest := *req, *req
		part.Entries, rest.Entries = req.Entries[:n], req.Entries[n:]
		if f, err := p.sendPart(&part, new(raft.AppendEntriesResponse)); err != nil {
			return f, err
		}
		rest.PrevLogEntry, rest.PrevLogTerm = part.Entries[n-1].Index, part.Entries[n-1].Term
		req = &rest
	}
}

func (p *pipeline) sendPart(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture,
	error,
) {
	p.sendSlot <- struct{}{}
	defer func() { <-p.sendSlot }()
	if err := p.source.mayLead(); err != nil { // also if the slot was free only after the leader began to stall
		return nil, err
	}
	a := &appendFuture{resp: resp, form: p.conn.framedIfSupported(inFrames)}
	p.updateCommitAndRecord(a, req)
	return a, p.writeRequest(a)
}

// updateCommitAndRecord gives a the request to send, which is req with the newest commit indexes, and records it as sent.
func (p *pipeline) updateCommitAndRecord(a *appendFuture, req *raft.AppendEntriesRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := *req
	commit, _, term := p.source.logPosition()
	if term == req.Term {
		newest.LeaderCommitIndex = max(commit, req.LeaderCommitIndex)
	}
	newest = *p.source.clampCommit(&newest)
	a.req, a.majority = &newest, newest.LeaderCommitIndex
	newest.LeaderCommitIndex = p.source.limitToReleased(req.Term, a.majority)
	if term == req.Term && a.form == inFrames {
		newest.LeaderCommitIndex = max(newest.LeaderCommitIndex, p.source.earlyCommit(req))
		a.direct = p.commits.takeDirect(p.source.directPart(req), newest.LeaderCommitIndex)
	}
	p.commits.noteSent(newest.LeaderCommitIndex, a.majority)
	p.lastSent = continueAfter(&newest)
}

// continueAfter returns the request without entries that follows req: its previous entry is the last one of req.
func continueAfter(req *raft.AppendEntriesRequest) raft.AppendEntriesRequest {
	next := *req
	next.Entries = nil // also if it is empty: it may be the beginning of a whole batch
	if n := len(req.Entries); n > 0 {
		next.PrevLogEntry, next.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	return next
}

// writeRequest sends a request. If it has a reply, writeRequest then waits for room in flight. The
// caller holds sendSlot. After a failed write conn.w always fails, so nothing follows part of a request.
func (p *pipeline) writeRequest(a *appendFuture) error {
	a.sentAt = time.Now()
	if err := p.conn.SetWriteDeadline(a.sentAt.Add(p.replyLimit(a))); err != nil {
		return err
	}
	if err := p.conn.sendAppend(a); err != nil {
		return err
	}
	if a.form == withoutReply {
		return nil
	}
	return p.inFlight.addAndAwaitRoom(a)
}

// replyLimit returns the time in which a request is to be sent, and then its reply is to come.
func (p *pipeline) replyLimit(a *appendFuture) time.Duration {
	return p.conn.dialer.callTimeout + transferTime(entriesBytes(a.req.Entries))
}

// limitReply limits the wait for the reply to a from now on. a is nil if no request is in flight: then there is no limit. An error
// is that of a closed connection, which reading returns, too.
func (p *pipeline) limitReply(a *appendFuture) {
	var deadline time.Time
	if a != nil {
		deadline = time.Now().Add(p.replyLimit(a))
	}
	_ = p.conn.SetReadDeadline(deadline)
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.repliedRequests }

// Close implements raft.AppendPipeline. It passes one failure to raft, which ends raft's reader of replies. raft ends the
// reader itself, except if its sender was ended in the middle, because a store has failed.
func (p *pipeline) Close() error {
	var err error
	p.closeOnce.Do(func() {
		close(p.closed)
		p.openPipelines.Delete(p)
		p.commits.stop()
		err = p.conn.Close()
		select {
		case p.repliedRequests <- closedPipeline():
		default: // the reader does not wait
		}
	})
	return err
}

// closedPipeline returns the failure that a closed pipeline passes to raft.
func closedPipeline() *appendFuture {
	return &appendFuture{
		req: new(raft.AppendEntriesRequest), resp: new(raft.AppendEntriesResponse), sentAt: time.Now(), err: net.ErrClosed,
	}
}

// signalCommit signals that there may be a commit to send. It never waits.
func (p *pipeline) signalCommit() { signal(p.commitSignal) }

// noticeLoop sends the notices in its own goroutine: sending may wait for the network, and neither apply nor
// the reading of replies may wait for that.
func (p *pipeline) noticeLoop() {
	for {
		select {
		case <-p.commitSignal:
			if p.sendNoticeIfDue() != nil {
				_ = p.Close() // raft's next request fails
				return
			}
		case <-p.closed:
			return
		}
	}
}

// sendNoticeIfDue sends a notice, if there is an unreported commit and no reason against it.
func (p *pipeline) sendNoticeIfDue() error {
	p.sendSlot <- struct{}{}
	defer func() { <-p.sendSlot }()
	if err := p.source.mayLead(); err != nil { // as in sendPart
		return err
	}
	a := &appendFuture{resp: new(raft.AppendEntriesResponse), isNotice: true, form: p.conn.framedIfSupported(withoutReply)}
	if !p.takeNextNotice(a) {
		return nil
	}
	return p.writeRequest(a)
}

// takeNextNotice gives a the notice to send, and reports whether there is one.
func (p *pipeline) takeNextNotice(a *appendFuture) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	commit, last, term := p.source.logPosition()
	// A commit of another term's leader may concern entries that contradict the ones sent here. Entries to be
	// sent anyway will carry the commit too.
	if term != p.lastSent.Term || last > p.lastSent.PrevLogEntry {
		return false
	}
	req := p.lastSent
	req.LeaderCommitIndex = commit
	req = *p.source.clampCommit(&req)
	a.req, a.majority = &req, req.LeaderCommitIndex
	req.LeaderCommitIndex = p.source.limitToReleased(req.Term, a.majority)
	if a.form == withoutReply {
		req.LeaderCommitIndex = max(req.LeaderCommitIndex, p.source.earlyCommit(&req))
		a.direct = p.commits.takeDirect(p.source.directPart(&req).withoutTell(), req.LeaderCommitIndex)
	}
	if a.direct == nil && !p.commits.isNews(req.LeaderCommitIndex, a.majority) {
		return false
	}
	if a.form != withoutReply {
		if p.noticePending = p.noticeInFlight; p.noticePending {
			return false
		}
		p.noticeInFlight = true
	}
	p.commits.noteSent(req.LeaderCommitIndex, a.majority)
	return true
}

// replyLoop reads replies. It passes those to raft's own requests on, up to and including the first failure. It always waits for the
// connection, and not for a request first, so a request wakes only the goroutine that sends it.
func (p *pipeline) replyLoop() {
	for {
		err := p.conn.awaitBytes()
		a := p.inFlight.oldest()
		if a == nil {
			return
		}
		a.err = err
		p.readReply(a)
		bad := a.err != nil || !a.resp.Success
		if a.isNotice {
			p.noticeReplied()
		}
		if !a.isNotice || bad {
			select {
			case p.repliedRequests <- a:
			case <-p.closed:
				return
			}
		}
		if bad {
			_ = p.Close()
			return
		}
	}
}

// readReply reads the reply to a. It waits for as long as the follower reports that its disk has not written the entries yet.
func (p *pipeline) readReply(a *appendFuture) {
	for waits := true; waits && a.err == nil; {
		if waits, a.err = p.conn.awaitAppendReply(a); waits {
			p.limitReply(a)
		}
	}
	if a.err != nil {
		a.resp.Success = false // raft does not look at the error
	}
	if a.resp.Success {
		recordAcked(p.stages, p.conn.peerID, a.req)
		p.source.noteAccepted(a.req)
		if len(a.req.Entries) > 0 {
			p.commits.noteAcked(continueAfter(a.req).PrevLogEntry)
		}
	}
	p.inFlight.removeOldest()
}

func (p *pipeline) noticeReplied() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noticeInFlight = false; p.noticePending {
		p.signalCommit()
	}
}
