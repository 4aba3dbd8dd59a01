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

// errCrowded is logged when a connection that has sent nothing is closed early to make room.
var errCrowded = fmt.Errorf("not a Rollcall member: no hello, and %d newer connections wait to say theirs", maxHandshakes)

// greeted is a connection that the inner listener has accepted and the Listener has not returned
// yet.
type greeted struct {
	net.Conn
	addr    netip.Addr // remote address; zero if it is not an IP address
	member  bool       // whether addr is a member's
	order   uint64     // counts up in the order in which connections came
	said    bool       // it has said a correct hello, and waits for Accept
	crowded bool       // it was closed to make room
}

// admit adds a connection to those that are being greeted. It returns nil if the listener is
// closed. If there are too many of its kind, it closes the oldest of them that has sent nothing: a
// member says hello at once, so the connection that has been silent for longest is not a member's.
// It closes none of the other kind: strangers cannot take the places of members.
func (l *Listener) admit(conn net.Conn, addr netip.Addr) *greeted {
	limitUnacknowledged(conn, unacknowledged)
	g := &greeted{Conn: conn, addr: addr}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil
	}
	l.came++
	g.order, g.member = l.came, l.hello.door.isMember(g.addr)
	if oldest, n := l.oldest(g.member); n >= maxHandshakes {
		oldest.crowded = true
		delete(l.greeting, oldest)
		oldest.Close()
	}
	l.greeting[g] = true
	return g
}

// oldest returns the oldest connection of a kind, preferring silent ones, and how many of that kind
// there are.
func (l *Listener) oldest(member bool) (oldest *greeted, n int) {
	for g := range l.greeting {
		if g.member != member {
			continue
		}
		n++
		if oldest == nil || g.said != oldest.said && oldest.said || g.said == oldest.said && g.order < oldest.order {
			oldest = g
		}
	}
	return oldest, n
}

// noteHello records that a connection has said the hello of member from.
func (l *Listener) noteHello(g *greeted, from uint32) {
	l.hello.door.learn(from, g.addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	g.said = true
}

// doneGreeting removes a connection from those that are being greeted, and reports whether it was
// closed to make room.
func (l *Listener) doneGreeting(g *greeted) (crowded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.greeting, g)
	return g.crowded
}

// greet takes one connection through its handshake and hello, and passes it to Accept. Or it closes
// the connection and logs why.
func (l *Listener) greet(g *greeted) {
	c, err := l.answer(g)
	if err == nil {
		l.noteHello(g, c.Peer)
		select {
		case l.ready <- c:
			l.doneGreeting(g)
			return
		case <-l.closed:
			err = errors.New("the listener is closed")
			_ = c.Close()
		}
	}
	if l.doneGreeting(g) {
		err = errCrowded
	}
	g.Close()
	l.refused(g, err)
}
