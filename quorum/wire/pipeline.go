package wire

import (
	"sync"

	"github.com/hashicorp/raft"
)

// maxUnanswered requests of raft's may be under way to a follower for a commit notice to
// go: behind more, the next answer is waited for, and a place in the pipeline is left.
const maxUnanswered = maxInFlight - 2

// logPoint tells how far the log is committed and how far it goes, in term: what a leader
// of another term is told of it must not be passed on.
type logPoint func() (commit, last, term uint64)

// pipeline wraps raft's pipeline of AppendEntries to one follower.
//
// It closes it at the first failure or refusal. raft stops reading answers then, and its
// sender may wait for a place among the unanswered for ever, so that the follower is never
// caught up again.
//
// And it sends commit notices: raft tells a follower of a commit with the next entries, or
// after CommitTimeout, for which clients there would have to wait. A notice is a request
// without entries that continues the last one sent here, in its term; raft sees neither it
// nor its answer, unless that is bad. One at most is under way.
type pipeline struct {
	inner  raft.AppendPipeline
	log    logPoint
	stalls func() error  // why nothing may be sent; nil: nothing hangs
	wake   chan struct{} // there may be a commit to tell of; one place
	done   chan raft.AppendFuture
	closed chan struct{}
	once   sync.Once
	ended  func() // once

	// sending has one place, taken while a request is sent, for the inner pipeline takes one
	// at a time: raft's replication and the notices of this one stream wait for each other.
	// Answers wait for neither. (No mutex: it may be held while the network blocks.)
	sending chan struct{}

	mu         sync.Mutex
	sent       raft.AppendEntriesRequest  // without entries; previous entry: the last one sent
	told       uint64                     // the highest commit index sent
	unanswered int                        // raft's own
	notice     *raft.AppendEntriesRequest // under way
	untold     bool                       // a notice was put off: what is sent or answered next brings it up
}

func newPipeline(inner raft.AppendPipeline, log logPoint, stalls func() error) *pipeline {
	p := &pipeline{
		inner: inner, log: log, stalls: stalls, wake: make(chan struct{}, 1), sending: make(chan struct{}, 1),
		done: make(chan raft.AppendFuture, maxInFlight), closed: make(chan struct{}),
	}
	go p.watch()
	go p.noticeLoop()
	return p
}

// AppendEntries implements raft.AppendPipeline. It sends a request that is too long in
// several: raft sends the next one only when there is a further entry, and takes each answer
// for what it says of its own request.
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
		if p.ended != nil {
			p.ended()
		}
	})
	return p.inner.Close()
}

// committed says that there may be a commit to tell of. It never waits.
func (p *pipeline) committed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// noticeLoop is a goroutine of its own: sending may wait for the network, which neither
// apply nor the reading of answers must.
func (p *pipeline) noticeLoop() {
	for {
		select {
		case <-p.wake:
			if p.tell() != nil {
				_ = p.inner.Close() // raft's next request fails
				return
			}
		case <-p.closed:
			return
		}
	}
}

// tell sends a notice, if there is anything to tell and room for it.
func (p *pipeline) tell() error {
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

// next returns the notice to send, nil if there is none.
func (p *pipeline) next() *raft.AppendEntriesRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	commit, last, term := p.log()
	if term != p.sent.Term {
		// A commit that this member heard of from another term's leader may lie in entries
		// that contradict those sent here.
		return nil
	}
	if commit <= p.told {
		p.untold = false
		return nil
	}
	// Entries that go anyway may tell of the commit as well. And a follower that joins takes
	// the end of a short request for the end of the log: see leaderEnd.
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

// watch passes raft's answers on, up to and with the first bad one.
func (p *pipeline) watch() {
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

// answered takes note of an answer and reports whether it is that to a notice.
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

// pipelines are those that are open. The zero value is ready.
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
	p.ended = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, p)
	}
	return p
}

// committed wakes the notices of all. Apply calls it: it waits for nothing.
func (s *pipelines) committed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.open {
		p.committed()
	}
}
