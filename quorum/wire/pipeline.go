package wire

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxInFlight is how many requests that have an answer may be under way to a follower.
const maxInFlight = 4

// logPositionFunc returns how far the log is committed, how far it goes, and the present term. A follower
// must not hear of commits that this member learned from a leader of another term.
type logPositionFunc func() (commit, last, term uint64)

// clampFunc lowers the commit index of a request to what the request may report: see Transport.clamp.
type clampFunc func(*raft.AppendEntriesRequest) *raft.AppendEntriesRequest

// pipeline sends AppendEntries to one follower without waiting for the answer to the one before.
//
// It closes at the first failure or refusal. raft stops reading answers then, and its sender would
// wait for ever for a place among the unanswered requests, so that the follower would never be
// caught up again.
//
// It also sends commit notices. raft tells a follower of a commit with the next entries, or after
// CommitTimeout, and clients of the follower would have to wait for that. A notice is a request
// without entries that continues the last one sent on this pipeline, in its term.
//
// A notice in a frame has no answer. If the follower refuses it, it closes the connection. A follower of an earlier version
// takes no frames and answers notices, and at most one of those is under way at a time. raft sees neither a notice nor its
// answer, unless the answer is a failure.
type pipeline struct {
	conn            *outConn
	openPipelines   *sync.Map // the pipelines that are open: this one until Close
	logPosition     logPositionFunc
	clampCommit     clampFunc
	stallError      func() error                          // returns why nothing may be sent; nil: nothing hangs
	mayReceive      func(*raft.AppendEntriesRequest) bool // reports whether the server may have the entries of a request
	commitSignal    chan struct{}                         // one place: there may be a commit to send
	awaitingReply   chan *appendFuture                    // requests that were sent and are not answered, in order
	repliedRequests chan raft.AppendFuture
	closed          chan struct{}
	closeOnce       sync.Once

	// sendSlot has one place. A goroutine takes it while it sends a request: raft's replication and
	// the notices of this stream wait for each other. Answers do not wait for it. It is not a mutex,
	// because it may be held while the network blocks.
	sendSlot chan struct{}

	mu             sync.Mutex
	lastSent       raft.AppendEntriesRequest // the last request sent, without entries; its previous entry is the last one sent
	sentCommit     uint64                    // the highest commit index sent
	noticeInFlight bool                      // a notice that has an answer is under way
	noticePending  bool                      // the next notice waits for that answer
}

// appendFuture is a request in a pipeline. Its answer is there when it comes out of the pipeline's
// Consumer.
type appendFuture struct {
	req      *raft.AppendEntriesRequest
	resp     *raft.AppendEntriesResponse
	sentAt   time.Time
	isNotice bool
	form     requestForm
	err      error
}

// These methods implement raft.AppendFuture.
func (a *appendFuture) Error() error                          { return a.err }
func (a *appendFuture) Start() time.Time                      { return a.sentAt }
func (a *appendFuture) Request() *raft.AppendEntriesRequest   { return a.req }
func (a *appendFuture) Response() *raft.AppendEntriesResponse { return a.resp }

func newPipeline(conn *outConn, open *sync.Map, log logPositionFunc, clamp clampFunc, stalls func() error, mayHave func(*raft.AppendEntriesRequest) bool) *pipeline {
	p := &pipeline{
		conn: conn, openPipelines: open, logPosition: log, clampCommit: clamp, stallError: stalls, mayReceive: mayHave, commitSignal: make(chan struct{}, 1), sendSlot: make(chan struct{}, 1),
		// One more request is with answerLoop, and one with its sender, which waits for a place.
		awaitingReply:   make(chan *appendFuture, maxInFlight-2),
		repliedRequests: make(chan raft.AppendFuture, maxInFlight), closed: make(chan struct{}),
	}
	open.Store(p, nil)
	go p.replyLoop()
	go p.noticeLoop()
	return p
}

// AppendEntries implements raft.AppendPipeline. It splits a request that is too long and sends all
// parts at once, because raft would send the rest only when there is a further entry. raft gets an
// answer to each part, and takes it for the answer to that part's request. A server that votes no more gets nothing.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if !p.mayReceive(req) {
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

func (p *pipeline) sendPart(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.stallError(); err != nil {
		return nil, err
	}
	p.sendSlot <- struct{}{}
	defer func() { <-p.sendSlot }()
	a := &appendFuture{req: p.recordSent(req), resp: resp, form: p.conn.chooseForm(inFrames)}
	return a, p.writeRequest(a)
}

// recordSent returns req as it is to be sent, with the newest commit index, and notes that it is sent.
func (p *pipeline) recordSent(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := *req
	if commit, _, term := p.logPosition(); term == req.Term {
		newest.LeaderCommitIndex = max(commit, req.LeaderCommitIndex)
	}
	newest = *p.clampCommit(&newest)
	p.sentCommit = max(p.sentCommit, newest.LeaderCommitIndex)
	p.lastSent = newest
	p.lastSent.Entries = nil
	if n := len(req.Entries); n > 0 {
		p.lastSent.PrevLogEntry, p.lastSent.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	return &newest
}

// writeRequest writes a request. If the request has an answer, write then waits for a place among those that are not answered. The
// caller holds sending. After a failed write conn.w fails for ever, so nothing follows a request of which only a part was sent.
func (p *pipeline) writeRequest(a *appendFuture) error {
	a.sentAt = time.Now()
	limit := p.conn.dialer.callTimeout + transferTime(entriesBytes(a.req.Entries))
	if err := p.conn.SetWriteDeadline(a.sentAt.Add(limit)); err != nil {
		return err
	}
	if err := p.conn.sendAppend(a); err != nil {
		return err
	}
	if a.form == withoutReply {
		return nil
	}
	select {
	case p.awaitingReply <- a:
		return nil
	case <-p.closed:
		return raft.ErrPipelineShutdown
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.repliedRequests }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	var err error
	p.closeOnce.Do(func() {
		close(p.closed)
		p.openPipelines.Delete(p)
		err = p.conn.Close()
	})
	return err
}

// signalCommit signals that there may be a commit to send. It never waits.
func (p *pipeline) signalCommit() {
	select {
	case p.commitSignal <- struct{}{}:
	default:
	}
}

// noticeLoop sends the notices. It runs in its own goroutine, because sending may wait for the network. Neither apply nor
// the reading of answers may wait for that.
func (p *pipeline) noticeLoop() {
	for {
		select {
		case <-p.commitSignal:
			if p.sendNotice() != nil {
				_ = p.Close() // raft's next request fails
				return
			}
		case <-p.closed:
			return
		}
	}
}

// sendNotice sends a notice, if there is a commit to send and room for it.
func (p *pipeline) sendNotice() error {
	if err := p.stallError(); err != nil {
		return err
	}
	p.sendSlot <- struct{}{}
	defer func() { <-p.sendSlot }()
	form := p.conn.chooseForm(withoutReply)
	req := p.nextNotice(form)
	if req == nil {
		return nil
	}
	return p.writeRequest(&appendFuture{req: req, resp: new(raft.AppendEntriesResponse), isNotice: true, form: form})
}

// nextNotice returns the notice to send, or nil if there is none. as is the form in which it will be sent.
func (p *pipeline) nextNotice(as requestForm) *raft.AppendEntriesRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	commit, last, term := p.logPosition()
	// A commit that this member learned from another term's leader may be of entries that contradict
	// those sent here. Entries that are to be sent anyway will carry the commit too.
	if term != p.lastSent.Term || last > p.lastSent.PrevLogEntry {
		return nil
	}
	req := p.lastSent
	req.LeaderCommitIndex = commit
	req = *p.clampCommit(&req)
	if req.LeaderCommitIndex <= p.sentCommit {
		return nil
	}
	if as != withoutReply {
		if p.noticePending = p.noticeInFlight; p.noticePending {
			return nil
		}
		p.noticeInFlight = true
	}
	p.sentCommit = req.LeaderCommitIndex
	return &req
}

// replyLoop reads answers and passes those to raft's own requests on, up to and including the
// first failure.
func (p *pipeline) replyLoop() {
	for {
		var a *appendFuture
		select {
		case a = <-p.awaitingReply:
		case <-p.closed:
			return
		}
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

// readReply reads the answer to a request.
func (p *pipeline) readReply(a *appendFuture) {
	limit := p.conn.dialer.callTimeout + transferTime(entriesBytes(a.req.Entries))
	if a.err = p.conn.SetReadDeadline(time.Now().Add(limit)); a.err == nil {
		a.err = p.conn.awaitAppendReply(a)
	}
	if a.err != nil {
		a.resp.Success = false // raft does not ask for the error
	}
}

func (p *pipeline) noticeReplied() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noticeInFlight = false; p.noticePending {
		p.signalCommit()
	}
}
