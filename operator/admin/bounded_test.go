package admin

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// A connection may make room for another one while its request is being read. It gets no seat then, because nothing would give the
// seat back.
func TestClosedConnectionTakesNoSeat(t *testing.T) {
	b := newBoundedListener(newPipes(), 1)
	now := time.Now()
	first, second := &boundedConn{Conn: farPipe{}, listener: b}, &boundedConn{Conn: farPipe{}, listener: b}
	b.admitConn(first, now)
	if oldest, _ := b.admitConn(second, now.Add(gracePeriod)); oldest != first {
		t.Fatal("the first connection has not made room")
	}
	b.connStateChanged(first, http.StateActive)
	if _, ok := b.takeSlot(first, anonymousSlot, now); ok {
		t.Error("a connection that is closed got a seat")
	}
	b.connStateChanged(first, http.StateClosed)
	if b.usedSlots != [authenticatedSlot + 1]int{} || len(b.anonymousSlots) != 0 {
		t.Errorf("seats that nobody has: %v, by address %v", b.usedSlots, b.anonymousSlots)
	}
}

// A connection that is closed before the server has seen it makes room for another one.
func TestClosedConnectionMakesRoom(t *testing.T) {
	b := newBoundedListener(newPipes(), 1)
	now := time.Now()
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }() // nothing is written
	first, second := &boundedConn{Conn: ours, listener: b}, &boundedConn{Conn: farPipe{}, listener: b}
	b.admitConn(first, now)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if oldest, wait := b.admitConn(second, now); oldest != nil || wait != 0 || len(b.conns) != 1 || !b.conns[second] {
		t.Errorf("the next one closes %v and waits for %v; %d connections", oldest, wait, len(b.conns))
	}
}
