package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// maxHandshakes bounds the connections that have not said hello yet: so many from the
// addresses of members, and so many from all others. Each member opens a handful.
const maxHandshakes = 64

// errCrowded is the reason when a connection that has said nothing is closed before its time.
var errCrowded = fmt.Errorf("not a Rollcall member: no hello, and %d newer connections wait to say theirs", maxHandshakes)

// greeted is a connection between the inner Accept and the Listener's.
type greeted struct {
	net.Conn
	addr    netip.Addr // it comes from there; the zero Addr: no address of the internet
	member  bool       // which is a member's
	order   uint64     // in which connections came
	said    bool       // a right hello: it waits for Accept
	crowded bool       // it was closed to make room
}

// admit counts a connection among those that are being greeted, nil if the listener is
// closed. If there are too many of its kind, the oldest of them that has said nothing is
// closed: a member says its hello at once, so the connection that is silent for longest is not a member's. Other
// kinds are left alone: strangers take no place of a member's.
func (l *Listener) admit(conn net.Conn) *greeted {
	limitUnacknowledged(conn, unacknowledged)
	g := &greeted{Conn: conn, addr: remoteIP(conn)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil
	}
	l.came++
	g.order, g.member = l.came, l.isMember(g.addr)
	if oldest, n := l.oldest(g.member); n >= maxHandshakes {
		oldest.crowded = true
		delete(l.greeting, oldest)
		oldest.Close()
	}
	l.greeting[g] = true
	return g
}

// oldest returns the oldest connection of a kind, of the silent ones if there are any, and
// how many there are.
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

// isMember reports whether an address is a member's: it stands in the server list, or the
// newest right hello of a member came from there. Names are not looked up.
func (l *Listener) isMember(addr netip.Addr) bool {
	if l.hello.addrs[addr] {
		return true
	}
	for _, learnt := range l.learnt {
		if learnt == addr {
			return addr.IsValid()
		}
	}
	return false
}

// heard notes that a connection has said the hello of a member.
func (l *Listener) heard(g *greeted, from uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.said = true
	l.learnt[from] = g.addr
}

// forget takes a connection off those that are being greeted, and reports whether it was
// closed to make room.
func (l *Listener) forget(g *greeted) (crowded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.greeting, g)
	return g.crowded
}

func remoteIP(conn net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// literal returns the address in a peer's address, the zero Addr if that is a name.
func literal(addr string) netip.Addr {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.Addr{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap()
}

// greet reads one hello and hands the connection on, or closes it and says why.
func (l *Listener) greet(g *greeted) {
	from, err := l.answer(g)
	if err == nil {
		l.heard(g, from)
		select {
		case l.ready <- &Conn{Conn: g.Conn, Peer: from}:
			l.forget(g)
			return
		case <-l.closed:
			err = errors.New("the listener is closed")
		}
	}
	if l.forget(g) {
		err = errCrowded
	}
	g.Close()
	l.refused(g, err)
}
