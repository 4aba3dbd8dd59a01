package server

import (
	"container/list"
	"errors"
	"sync"
)

// The errors of clients that have no place.
var (
	errCrowded = errors.New("too many TLS handshakes are under way, and this client's first message was incomplete for longest")
	errFull    = errors.New("too many TLS handshakes are under way, and the first messages of all their clients are complete")
)

// tlsPlaces are those of the TLS handshakes under way. A client is silent until its first message is complete. If
// all places are taken, a newer client gets the place of the one that has been silent for longest: a client
// sends its first message at once, so that one is hardly a client.
type tlsPlaces struct {
	limit int

	mu     sync.Mutex
	taken  int
	silent list.List // the *tlsPlace of each silent client, the oldest one first
}

// tlsPlace is what one client's handshake holds. The lock of its places guards it.
type tlsPlace struct {
	of     *tlsPlaces
	conn   *conn
	silent *list.Element // nil: it is not among the silent ones
	lost   bool          // a newer client has it
}

// take returns a place for c, or nil if all are taken and no client is silent. If loser is not nil, its place
// is c's now, and the caller ends its connection.
func (p *tlsPlaces) take(c *conn) (mine, loser *tlsPlace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch oldest := p.silent.Front(); {
	case p.taken < p.limit:
		p.taken++
	case oldest == nil:
		return nil, nil
	default:
		loser = oldest.Value.(*tlsPlace)
		p.heard(loser)
		loser.lost = true
	}
	mine = &tlsPlace{of: p, conn: c}
	mine.silent = p.silent.PushBack(mine)
	return mine, loser
}

// keep notes that the client's first message is complete. It returns false if the place is lost.
func (pl *tlsPlace) keep() bool {
	pl.of.mu.Lock()
	defer pl.of.mu.Unlock()
	pl.of.heard(pl)
	return !pl.lost
}

// leave ends pl, and reports whether it was lost.
func (pl *tlsPlace) leave() (lost bool) {
	pl.of.mu.Lock()
	defer pl.of.mu.Unlock()
	pl.of.heard(pl)
	if !pl.lost {
		pl.of.taken--
	}
	return pl.lost
}

// heard removes pl from the silent ones. The caller holds the lock.
func (p *tlsPlaces) heard(pl *tlsPlace) {
	if pl.silent != nil {
		p.silent.Remove(pl.silent)
		pl.silent = nil
	}
}
