package quorum

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline wraps raft's pipeline of AppendEntries and closes it at the first failure or
// refusal. raft stops reading answers then, and its sender may wait for a place among the
// unanswered for ever, so that the follower is never caught up again.
type pipeline struct {
	inner  raft.AppendPipeline
	done   chan raft.AppendFuture
	closed chan struct{}
	once   sync.Once
}

func newPipeline(inner raft.AppendPipeline) *pipeline {
	p := &pipeline{inner: inner, done: make(chan raft.AppendFuture, maxInFlight), closed: make(chan struct{})}
	go p.watch()
	return p
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	return p.inner.AppendEntries(clamp(req), resp)
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.inner.Close()
}

// watch passes answers on, up to and with the first bad one.
func (p *pipeline) watch() {
	for {
		select {
		case f := <-p.inner.Consumer():
			bad := f.Error() != nil || !f.Response().Success
			if bad {
				_ = p.inner.Close()
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
