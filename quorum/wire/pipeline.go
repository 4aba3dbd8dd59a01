package wire

import (
	"sync"

	"github.com/hashicorp/raft"
)

// maxUnanswered is how many of raft's requests may be in flight to a follower for a commit notice
// to be sent. With more, the notice waits for the next answer, which keeps a place in the pipeline
// free for raft.
const maxUnanswered = maxInFlight - 2

// logPoint returns how far the log is committed, how far it goes, and the present term. A follower
// must not hear of commits that this member learned from a leader of another term.
type logPoint func() (commit, last, term uint64)

// pipeline wraps raft's pipeline of AppendEntries to one follower.
//
// It closes the pipeline at the first failure or refusal. raft stops reading answers then, and its
// sender may wait for ever for a place among the unanswered requests, so that the follower is never
// caught up again.
//
// It also sends commit notices. raft tells a follower of a commit with the next entries, or after
// CommitTimeout, and clients of the follower would have to wait for that. A notice is a request
// without entries that continues the last one sent on this pipeline, in its term. raft sees neither
// the notice nor its answer, unless the answer is a failure. At most one notice is under way.
type pipeline struct {
	inner   raft.AppendPipeline
	log     logPoint
	stalls  func() error  // returns why nothing may be sent; nil: nothing hangs
	wake    chan struct{} // one place: there may be a commit to send
	done    chan raft.AppendFuture
	closed  chan struct{}
	once    sync.Once
	onClose func() // called once, by Close

	// sending has one place. A goroutine takes it while it sends a request, because the inner
	// pipeline accepts one at a time: raft's replication and the notices of this stream wait for
	// each other. Answers do not wait for it. It is not a mutex, because it may be held while the
	// network blocks.
	sending chan struct{}

	mu         sync.Mutex
	sent       raft.AppendEntriesRequest  // the last request sent, without entries; its previous entry is the last one sent
	told       uint64                     // the highest commit index sent
	unanswered int                        // number of raft's own requests without an answer
	notice     *raft.AppendEntriesRequest // the notice under way
	untold     bool                       // a notice was delayed: the next request or answer triggers it
}

func newPipeline(inner raft.AppendPipeline, log logPoint, stalls func() error) *pipeline {
	p := &pipeline{
		inner: inner, log: log, stalls: stalls, wake: make(chan struct{}, 1), sending: make(chan struct{}, 1),
		done: make(chan raft.AppendFuture, maxInFlight), closed: make(chan struct{}),
	}
	go p.answerLoop()
	go p.noticeLoop()
	return p
}

// AppendEntries implements raft.AppendPipeline. It splits a request that is too long and sends all
// parts at once, because raft would send the rest only when there is a further entry. raft gets an
// answer to each part, and takes it for the answer to that part's request.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
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
	req = clamp(req)
	p.sending <- struct{}{}
	defer func() { <-p.sending }()
	p.mu.Lock()
	p.unanswered++
	p.sent = *req
	p.sent.Entries = nil
	if n := len(req.Entries); n > 0 {
		p.sent.PrevLogEntry, p.sent.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	p.told = max(p.told, req.LeaderCommitIndex)
	if p.untold {
		p.committed()
	}
	p.mu.Unlock()
	return p.inner.AppendEntries(req, resp)
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() {
		close(p.closed)
		if p.onClose != nil {
			p.onClose()
		}
	})
	return p.inner.Close()
}

// committed signals that there may be a commit to send. It never waits.
func (p *pipeline) committed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// noticeLoop sends notices. It runs in its own goroutine, because sending may wait for the network,
// and neither apply nor the reading of answers may wait for that.
func (p *pipeline) noticeLoop() {
	for {
		select {
		case <-p.wake:
			if p.sendNotice() != nil {
				_ = p.inner.Close() // raft's next request fails
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
	req := p.next()
	if req == nil {
		return nil
	}
	_, err := p.inner.AppendEntries(req, new(raft.AppendEntriesResponse))
	return err
}

// next returns the notice to send, or nil if there is none.
func (p *pipeline) next() *raft.AppendEntriesRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	commit, last, term := p.log()
	if term != p.sent.Term {
		// A commit that this member learned from another term's leader may be of entries that
		// contradict those sent here.
		return nil
	}
	if commit <= p.told {
		p.untold = false
		return nil
	}
	// Entries that are to be sent anyway carry the commit too. And a follower that joins takes the
	// end of a short request for the end of the log: see leaderEnd.
	p.untold = last > p.sent.PrevLogEntry || p.notice != nil || p.unanswered > maxUnanswered
	if p.untold {
		return nil
	}
	req := p.sent
	req.LeaderCommitIndex = commit
	req = *clamp(&req)
	p.notice, p.told = &req, req.LeaderCommitIndex
	return &req
}

// answerLoop passes answers to raft, up to and including the first failure.
func (p *pipeline) answerLoop() {
	for {
		select {
		case f := <-p.inner.Consumer():
			bad := f.Error() != nil || !f.Response().Success
			if bad {
				_ = p.inner.Close()
			}
			if p.answered(f) && !bad {
				continue
			}
			select {
			case p.done <- f:
			case <-p.closed:
				return
			}
			if bad {
				return
			}
		case <-p.closed:
			return
		}
	}
}

// answered records an answer and reports whether it is the answer to a notice.
func (p *pipeline) answered(f raft.AppendFuture) (notice bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	notice = p.notice != nil && f.Request() == p.notice
	if notice {
		p.notice = nil
	} else {
		p.unanswered--
	}
	if p.untold {
		p.committed()
	}
	return notice
}

// pipelines holds the open pipelines. The zero value is ready to use.
type pipelines struct {
	mu   sync.Mutex
	open map[*pipeline]struct{}
}

func (s *pipelines) add(p *pipeline) *pipeline {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*pipeline]struct{}{}
	}
	s.open[p] = struct{}{}
	p.onClose = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, p)
	}
	return p
}

// committed signals all pipelines. Apply calls it, so it does not wait.
func (s *pipelines) committed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.open {
		p.committed()
	}
}
