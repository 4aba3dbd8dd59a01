package client

import "sync"

// These pools have the memory of replies whose functions have returned.
var (
	childNamesPool   = sync.Pool{New: func() any { return new(childNames) }}
	encodedNamesPool = sync.Pool{New: func() any { return newEncodedNames() }}
	multiReplyPool   = sync.Pool{New: func() any { return new(multiReply) }}
)

// These limit the memory that a reply leaves for the next one. Larger ones are left to the garbage collector.
const (
	maxKeptChildren = 1 << 10 // names, each of 16 bytes beside its text
	maxKeptResults  = 64      // of a multi, each of about 200 bytes
)

func (c *childNames) release() {
	clear(c.names)
	if c.names = c.names[:0]; cap(c.names) <= maxKeptChildren {
		childNamesPool.Put(c)
	}
}

func (e *encodedNames) release() {
	e.names, e.count = nil, 0
	encodedNamesPool.Put(e)
}

func (m *multiReply) release() {
	clear(m.results)
	if m.results = m.results[:0]; cap(m.results) <= maxKeptResults {
		multiReplyPool.Put(m)
	}
}
