package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"rollcall/zk/jute"
)

// leader is member 1 while it serves.
type leader struct {
	nodes       *nodes
	followers   *followers
	file        *file
	role        string // for srvr
	connections atomic.Int64

	mu      sync.Mutex
	changed sync.Cond // the batch has got its first write, or was taken, or closed is true
	pending *batch
	closed  bool
}

// batch is a frame for the followers: the frames of the writes in it, one after the other.
type batch struct {
	frame  []byte
	writes []write
}

// write is a request in a batch.
type write struct {
	conn     *conn
	from, to int // its bytes in the frame, without their length
}

func newBatch() *batch {
	b := &batch{}
	b.clear()
	return b
}

func (b *batch) clear() {
	clear(b.writes) // keep no connection alive
	b.frame, _ = jute.BeginFrame(b.frame[:0])
	b.writes = b.writes[:0]
}

// add adds the writes of a connection.
func (b *batch) add(c *conn, frames []byte, ends []int) {
	base, from := len(b.frame), 0
	b.frame = append(b.frame, frames...)
	for _, end := range ends {
		b.writes = append(b.writes, write{c, base + from + frameLength, base + end})
		from = end
	}
}

// newLeader returns a leader with connections to its followers.
func newLeader(conns []net.Conn, file *file) *leader {
	l := &leader{nodes: newNodes(), followers: newFollowers(conns), file: file, role: "leader", pending: newBatch()}
	l.changed.L = &l.mu
	if len(conns) == 0 {
		l.role = "standalone"
	}
	return l
}

// run serves clients until ctx ends or a follower is lost. It closes all connections.
func (l *leader) run(ctx context.Context, listener net.Listener) error {
	work, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { l.close(listener) })()
	for i := range l.followers.conns {
		work.Go(func() error { return l.followers.readAcks(ctx, i) })
	}
	work.Go(func() error { return l.commitAll(ctx) })
	work.Go(func() error { return l.acceptAll(ctx, listener) })
	return work.Wait()
}

func (l *leader) close(listener net.Listener) {
	_ = listener.Close()
	for _, conn := range l.followers.conns {
		_ = conn.Close()
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.changed.Broadcast()
}

// acceptAll serves all connections, and returns when they have ended.
func (l *leader) acceptAll(ctx context.Context, listener net.Listener) error {
	var served sync.WaitGroup
	defer served.Wait()
	for {
		c, err := listener.Accept()
		if err != nil {
			return orNil(ctx, fmt.Errorf("floor: %w", err))
		}
		if l.connections.Load() >= maxConnections {
			_ = c.Close()
			continue
		}
		l.connections.Add(1)
		served.Go(func() {
			defer l.connections.Add(-1)
			serveConn(ctx, l, c)
		})
	}
}

// submitWrites adds the writes of a connection to the pending batch. It waits while the batch has no room, and reports
// whether the leader still serves.
func (l *leader) submitWrites(c *conn, frames []byte, ends []int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending.writes) > 0 && len(l.pending.frame)+len(frames) > maxPendingBytes && !l.closed {
		l.changed.Wait()
	}
	l.pending.add(c, frames, ends)
	if len(l.pending.writes) == len(ends) {
		l.changed.Broadcast()
	}
	return !l.closed
}

// takeBatch returns the pending batch as soon as it has a write, and puts an empty one in its place. It returns nil when
// the leader is closed.
func (l *leader) takeBatch(empty *batch) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending.writes) == 0 && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return nil
	}
	full := l.pending
	l.pending = empty
	l.changed.Broadcast() // connections may wait for room
	return full
}

// commitAll commits one batch after the other.
func (l *leader) commitAll(ctx context.Context) error {
	spare := newBatch()
	var answered []*conn
	for n := 1; ; n++ {
		b := l.takeBatch(spare)
		if b == nil {
			return nil
		}
		if err := l.commitBatch(ctx, b, n); err != nil {
			return orNil(ctx, err)
		}
		answered = l.applyBatch(b, answered[:0])
		for _, c := range answered {
			c.flush()
		}
		b.clear()
		spare = b
	}
}

// commitBatch returns when a majority has batch n on the disk.
func (l *leader) commitBatch(ctx context.Context, b *batch, n int) error {
	jute.EndFrame(b.frame, 0)
	if err := l.followers.send(b.frame); err != nil {
		return err
	}
	if err := l.file.write(b.frame); err != nil {
		return err
	}
	return l.followers.await(ctx, n)
}

// applyBatch applies a batch and queues its replies. It appends each connection that has some to list.
func (l *leader) applyBatch(b *batch, list []*conn) []*conn {
	l.nodes.beginBatch()
	for _, w := range b.writes {
		w.conn.applyWrite(b.frame[w.from:w.to])
		if !w.conn.answered {
			w.conn.answered = true
			list = append(list, w.conn)
		}
	}
	for _, c := range list {
		c.answered = false
	}
	return list
}
