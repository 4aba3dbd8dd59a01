package admission

import (
	"container/list"
	"errors"
	"sync"
)

// The errors of a handshake that is not admitted.
var (
	ErrDisplaced = errors.New("too many TLS handshakes are under way, and this client's first message was " +
		"incomplete for longest")
	ErrTooManyHandshakes = errors.New("too many TLS handshakes are under way, and the first messages of all their " +
		"clients are complete")
)

// HandshakeLimiter limits the TLS handshakes under way. A client is silent until its first message is
// complete. If all places are taken, a new client gets the place of the one that has been silent for longest:
// a client sends its first message at once, so the silent one is probably none. Owner is the type of a
// handshake's owner. Safe for concurrent use.
type HandshakeLimiter[Owner any] struct {
	limit int

	mu            sync.Mutex
	numTaken      int
	silentClients list.List // *Handshake, the oldest one first
}

// Handshake is an admitted handshake. The lock of its limiter guards it.
type Handshake[Owner any] struct {
	limiter       *HandshakeLimiter[Owner]
	owner         Owner
	silentElement *list.Element // nil: its first message is complete
	isDisplaced   bool          // by a newer client
}

// NewHandshakeLimiter returns a limiter of so many handshakes.
func NewHandshakeLimiter[Owner any](limit int) *HandshakeLimiter[Owner] {
	return &HandshakeLimiter[Owner]{limit: limit}
}

// Owner returns the owner of the handshake.
func (h *Handshake[Owner]) Owner() Owner { return h.owner }

// Admit admits the handshake of an owner. It returns nil if all places are taken and no client is silent. If
// loser is not nil, it has lost its place, and the caller ends its connection.
func (l *HandshakeLimiter[Owner]) Admit(owner Owner) (mine, loser *Handshake[Owner]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch oldest := l.silentClients.Front(); {
	case l.numTaken < l.limit:
		l.numTaken++
	case oldest == nil:
		return nil, nil
	default:
		loser = oldest.Value.(*Handshake[Owner])
		l.removeSilent(loser)
		loser.isDisplaced = true
	}
	mine = &Handshake[Owner]{limiter: l, owner: owner}
	mine.silentElement = l.silentClients.PushBack(mine)
	return mine, loser
}

// UnderWay returns the number of handshakes that have a place.
func (l *HandshakeLimiter[Owner]) UnderWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.numTaken
}

// MarkHelloComplete notes that the client's first message is complete. It returns false if the handshake has lost
// its place.
func (h *Handshake[Owner]) MarkHelloComplete() bool {
	h.limiter.mu.Lock()
	defer h.limiter.mu.Unlock()
	h.limiter.removeSilent(h)
	return !h.isDisplaced
}

// End ends the handshake, and reports whether it had lost its place.
func (h *Handshake[Owner]) End() (lost bool) {
	h.limiter.mu.Lock()
	defer h.limiter.mu.Unlock()
	h.limiter.removeSilent(h)
	if !h.isDisplaced {
		h.limiter.numTaken--
	}
	return h.isDisplaced
}

// removeSilent removes h from the silent ones. The caller holds the lock.
func (l *HandshakeLimiter[Owner]) removeSilent(h *Handshake[Owner]) {
	if h.silentElement != nil {
		l.silentClients.Remove(h.silentElement)
		h.silentElement = nil
	}
}
