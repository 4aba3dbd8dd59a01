package wire

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxInFlight is how many requests that have an answer may be under way to a follower.
const maxInFlight = 4

// logPoint returns how far the log is committed, how far it goes, and the present term. A follower
// must not hear of commits that this member learned from a leader of another term.
type logPoint func() (commit, last, term uint64)

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
	conn    *outConn
	open    *sync.Map // the pipelines that are open: this one until Close
	log     logPoint
	clamp   clampFunc
	stalls  func() error                          // returns why nothing may be sent; nil: nothing hangs
	mayHave func(*raft.AppendEntriesRequest) bool // reports whether the server may have the entries of a request
	wake    chan struct{}                         // one place: there may be a commit to send
	waiting chan *appended                        // requests that were sent and are not answered, in order
	done    chan raft.AppendFuture
	closed  chan struct{}
	once    sync.Once

	// sending has one place. A goroutine takes it while it sends a request: raft's replication and
	// the notices of this stream wait for each other. Answers do not wait for it. It is not a mutex,
	// because it may be held while the network blocks.
	sending chan struct{}

	mu       sync.Mutex
	sent     raft.AppendEntriesRequest // the last request sent, without entries; its previous entry is the last one sent
	told     uint64                    // the highest commit index sent
	noticing bool                      // a notice that has an answer is under way
	untold   bool                      // the next notice waits for that answer
}

// appended is a request in a pipeline. Its answer is there when it comes out of the pipeline's
// Consumer.
type appended struct {
	req    *raft.AppendEntriesRequest
	resp   *raft.AppendEntriesResponse
	start  time.Time
	notice bool
	form   form
	err    error
}

// These methods implement raft.AppendFuture.
func (a *appended) Error() error                          { return a.err }
func (a *appended) Start() time.Time                      { return a.start }
func (a *appended) Request() *raft.AppendEntriesRequest   { return a.req }
func (a *appended) Response() *raft.AppendEntriesResponse { return a.resp }

func newPipeline(conn *outConn, open *sync.Map, log logPoint, clamp clampFunc, stalls func() error, mayHave func(*raft.AppendEntriesRequest) bool) *pipeline {
	p := &pipeline{
		conn: conn, open: open, log: log, clamp: clamp, stalls: stalls, mayHave: mayHave, wake: make(chan struct{}, 1), sending: make(chan struct{}, 1),
		// One more request is with answerLoop, and one with its sender, which waits for a place.
		waiting: make(chan *appended, maxInFlight-2),
		done:    make(chan raft.AppendFuture, maxInFlight), closed: make(chan struct{}),
	}
	open.Store(p, nil)
	go p.answerLoop()
	go p.noticeLoop()
	return p
}

// AppendEntries implements raft.AppendPipeline. It splits a request that is too long and sends all
// parts at once, because raft would send the rest only when there is a further entry. raft gets an
// answer to each part, and takes it for the answer to that part's request. A server that votes no more gets nothing.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if !p.mayHave(req) {
		return nil, errNoVote
	}
	for {
		n := fitting(req.Entries)
		if n == len(req.Entries) {
			return p.send(req, resp)
		}
		part, rest := *req, *req
		part.Entries, rest.Entries = req.Entries[:n], req.Entries[n:]
		if f, err := p.send(&part, new(raft.AppendEntriesResponse)); err != nil {
			return f, err
		}
		rest.PrevLogEntry, rest.PrevLogTerm = part.Entries[n-1].Index, part.Entries[n-1].Term
		req = &rest
	}
}

func (p *pipeline) send(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.stalls(); err != nil {
		return nil, err
	}
	p.sending <- struct{}{}
	defer func() { <-p.sending }()
	a := &appended{req: p.record(req), resp: resp, form: p.conn.form(inFrames)}
	return a, p.write(a)
}

// record returns req as it is to be sent, with the newest commit index, and notes that it is sent.
func (p *pipeline) record(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := *req
	if commit, _, term := p.log(); term == req.Term {
		newest.LeaderCommitIndex = max(commit, req.LeaderCommitIndex)
	}
	newest = *p.clamp(&newest)
	p.told = max(p.told, newest.LeaderCommitIndex)
	p.sent = newest
	p.sent.Entries = nil
	if n := len(req.Entries); n > 0 {
		p.sent.PrevLogEntry, p.sent.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	return &newest
}

// write writes a request. If the request has an answer, write then waits for a place among those that are not answered. The
// caller holds sending. After a failed write conn.w fails for ever, so nothing follows a request of which only a part was sent.
func (p *pipeline) write(a *appended) error {
	a.start = time.Now()
	limit := p.conn.owner.timeout + allowance(size(a.req.Entries))
	if err := p.conn.SetWriteDeadline(a.start.Add(limit)); err != nil {
		return err
	}
	if err := p.conn.sendAppend(a); err != nil {
		return err
	}
	if a.form == unanswered {
		return nil
	}
	select {
	case p.waiting <- a:
		return nil
	case <-p.closed:
		return raft.ErrPipelineShutdown
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	var err error
	p.once.Do(func() {
		close(p.closed)
		p.open.Delete(p)
		err = p.conn.Close()
	})
	return err
}

// committed signals that there may be a commit to send. It never waits.
func (p *pipeline) committed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// noticeLoop sends the notices. It runs in its own goroutine, because sending may wait for the network. Neither apply nor
// the reading of answers may wait for that.
func (p *pipeline) noticeLoop() {
	for {
		select {
		case <-p.wake:
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
	if err := p.stalls(); err != nil {
		return err
	}
	p.sending <- struct{}{}
	defer func() { <-p.sending }()
	form := p.conn.form(unanswered)
	req := p.next(form)
	if req == nil {
		return nil
	}
	return p.write(&appended{req: req, resp: new(raft.AppendEntriesResponse), notice: true, form: form})
}

// next returns the notice to send, or nil if there is none. as is the form in which it will be sent.
func (p *pipeline) next(as form) *raft.AppendEntriesRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	commit, last, term := p.log()
	// A commit that this member learned from another term's leader may be of entries that contradict
	// those sent here. Entries that are to be sent anyway will carry the commit too.
	if term != p.sent.Term || last > p.sent.PrevLogEntry {
		return nil
	}
	req := p.sent
	req.LeaderCommitIndex = commit
	req = *p.clamp(&req)
	if req.LeaderCommitIndex <= p.told {
		return nil
	}
	if as != unanswered {
		if p.untold = p.noticing; p.untold {
			return nil
		}
		p.noticing = true
	}
	p.told = req.LeaderCommitIndex
	return &req
}

// answerLoop reads answers and passes those to raft's own requests on, up to and including the
// first failure.
func (p *pipeline) answerLoop() {
	for {
		var a *appended
		select {
		case a = <-p.waiting:
		case <-p.closed:
			return
		}
		p.read(a)
		bad := a.err != nil || !a.resp.Success
		if a.notice {
			p.answeredNotice()
		}
		if !a.notice || bad {
			select {
			case p.done <- a:
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

// read reads the answer to a request.
func (p *pipeline) read(a *appended) {
	limit := p.conn.owner.timeout + allowance(size(a.req.Entries))
	if a.err = p.conn.SetReadDeadline(time.Now().Add(limit)); a.err == nil {
		a.err = p.conn.awaitAppend(a)
	}
	if a.err != nil {
		a.resp.Success = false // raft does not ask for the error
	}
}

func (p *pipeline) answeredNotice() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noticing = false; p.untold {
		p.committed()
	}
}
