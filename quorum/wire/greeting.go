package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// maxHandshakes limits the connections that have not said hello yet: this many from the addresses
// of members, and this many from all others. Each member opens only a few.
const maxHandshakes = 64

// errClosedForRoom is logged when a connection that has sent nothing is closed early to make room.
var errClosedForRoom = fmt.Errorf("not a Rollcall member: no hello, and %d newer connections wait to say theirs", maxHandshakes)

// pendingConn is a connection that the inner listener has accepted and the Listener has not returned
// yet.
type pendingConn struct {
	net.Conn
	remoteAddr    netip.Addr // remote address; zero if it is not an IP address
	fromMember    bool       // whether addr is a member's
	sequence      uint64     // counts up in the order in which connections came
	saidHello     bool       // it has said a correct hello, and waits for Accept
	closedForRoom bool       // it was closed to make room
}

// addPending adds a connection to those that are being greeted. It returns nil if the listener is
// closed. If there are too many of its kind, it closes the oldest of them that has sent nothing: a
// member says hello at once, so the connection that has been silent for longest is not a member's.
// It closes none of the other kind: strangers cannot take the places of members.
func (l *Listener) addPending(conn net.Conn, addr netip.Addr) *pendingConn {
	limitUnacknowledged(conn, unacknowledgedTimeout)
	g := &pendingConn{Conn: conn, remoteAddr: addr}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acceptErr != nil {
		return nil
	}
	l.acceptedCount++
	g.sequence, g.fromMember = l.acceptedCount, l.hello.handshakeLimiter.isMember(g.remoteAddr)
	if oldest, n := l.oldestPending(g.fromMember); n >= maxHandshakes {
		oldest.closedForRoom = true
		delete(l.pendingConns, oldest)
		oldest.Close()
	}
	l.pendingConns[g] = true
	return g
}

// oldestPending returns the oldest connection of a kind, preferring silent ones, and how many of that kind
// there are.
func (l *Listener) oldestPending(member bool) (oldest *pendingConn, n int) {
	for g := range l.pendingConns {
		if g.fromMember != member {
			continue
		}
		n++
		if oldest == nil || g.saidHello != oldest.saidHello && oldest.saidHello || g.saidHello == oldest.saidHello && g.sequence < oldest.sequence {
			oldest = g
		}
	}
	return oldest, n
}

// noteHello records that a connection has said the hello of member from.
func (l *Listener) noteHello(g *pendingConn, from uint32) {
	l.hello.handshakeLimiter.learnAddress(from, g.remoteAddr)
	l.mu.Lock()
	defer l.mu.Unlock()
	g.saidHello = true
}

// removePending removes a connection from those that are being greeted, and reports whether it was
// closed to make room.
func (l *Listener) removePending(g *pendingConn) (crowded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pendingConns, g)
	return g.closedForRoom
}

// acceptPending takes one connection through its handshake and hello, and passes it to Accept. Or it closes
// the connection and logs why.
func (l *Listener) acceptPending(g *pendingConn) {
	c, err := l.secureAccepted(g)
	if err == nil {
		l.noteHello(g, c.PeerID)
		select {
		case l.readyConns <- c:
			l.removePending(g)
			return
		case <-l.closed:
			err = errors.New("the listener is closed")
			_ = c.Close()
		}
	}
	if l.removePending(g) {
		err = errClosedForRoom
	}
	g.Close()
	l.logRejection(g, err)
}
