package admin

import (
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
