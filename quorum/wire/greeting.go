package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// maxHandshakes limits the connections that have not sent a hello yet: this many from members' addresses, and
// this many from all others. A member opens only a few.
const maxHandshakes = 64

// errClosedForRoom is logged when a silent connection is closed early to make room.
var errClosedForRoom = fmt.Errorf("not a Rollcall member: no hello, and %d newer connections wait to say theirs",
	maxHandshakes)

// pendingConn is an accepted connection whose handshake and hello are not done.
type pendingConn struct {
	net.Conn
	remoteAddr    netip.Addr // zero if it is not an IP address
	fromMember    bool
	sequence      uint64 // order of acceptance
	saidHello     bool   // correctly; waits for Accept
	closedForRoom bool
}

// addPendingEvicting returns nil if the listener is closed. If there are too many pending connections of the same
// kind, it closes the oldest silent one: members send their hello at once, so that is not a member's.
// Strangers cannot push out members.
func (l *Listener) addPendingEvicting(conn net.Conn, addr netip.Addr) *pendingConn {
	setSocketOptions(conn, unacknowledgedTimeout)
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

// oldestPending returns the oldest connection of a kind, preferring silent ones, and the number of that kind.
func (l *Listener) oldestPending(member bool) (oldest *pendingConn, n int) {
	for g := range l.pendingConns {
		if g.fromMember != member {
			continue
		}
		n++
		if oldest == nil || g.saidHello != oldest.saidHello && oldest.saidHello || g.saidHello == oldest.saidHello &&
			g.sequence < oldest.sequence {
			oldest = g
		}
	}
	return oldest, n
}

// noteHello records the correct hello on a connection, which is g's.
func (l *Listener) noteHello(g *pendingConn, c *Conn) {
	l.hello.learnAddress(c.PeerID, c.Conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	g.saidHello = true
}

// removePending reports whether the connection was closed to make room.
func (l *Listener) removePending(g *pendingConn) (crowded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pendingConns, g)
	return g.closedForRoom
}

// handshakePending does the handshake and hello of one connection and passes it to Accept. If either fails, it
// closes the connection and logs the reason.
func (l *Listener) handshakePending(g *pendingConn) {
	c, err := l.secureAndExchangeHello(g)
	if err == nil {
		l.noteHello(g, c)
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
