package server

import (
	"slices"
	"sync"
)

const (
	// maxInlineFlushes is the number of connections of each kind that apply writes to itself. A write takes a
	// few microseconds, and these clients need not wait until a goroutine runs.
	maxInlineFlushes = 8
	// connsPerFlusher is the number of connections that a goroutine writes to one after the other.
	connsPerFlusher = 64
)

// The kinds of output that a connection may have, in the order of Flush.
const (
	withReply = iota
	withEvent // without a reply
	kindsOfOutput
)

// unflushed holds the connections with output since the last flush and no flusher. The zero value is empty.
// Its lock is the last one in the order of locks.
type unflushed struct {
	mu    sync.Mutex
	conns [kindsOfOutput][]*conn
}

func (u *unflushed) add(c *conn, kind int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns[kind] = append(u.conns[kind], c)
}

func (u *unflushed) takeAll() (conns [kindsOfOutput][]*conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	conns, u.conns = u.conns, conns
	return conns
}

func (u *unflushed) flush() {
	for _, conns := range u.takeAll() {
		if len(conns) <= maxInlineFlushes {
			flushAll(conns)
			continue
		}
		for part := range slices.Chunk(conns, connsPerFlusher) {
			go flushAll(part) // apply continues meanwhile
		}
	}
}

func flushAll(conns []*conn) {
	for _, c := range conns {
		c.stream.Flush()
	}
}
