package admin

import (
	"net/http"
	"testing"
	"time"
)

// A connection may make room for another one while its request is being read. It gets no seat then, because nothing would give the
// seat back.
func TestClosedConnectionTakesNoSeat(t *testing.T) {
	b := newBounded(newPipes(), 1)
	now := time.Now()
	first, second := &boundedConn{Conn: farPipe{}, of: b}, &boundedConn{Conn: farPipe{}, of: b}
	b.admit(first, now)
	if oldest, _ := b.admit(second, now.Add(graceTime)); oldest != first {
		t.Fatal("the first connection has not made room")
	}
	b.state(first, http.StateActive)
	if _, ok := b.sit(first, anonymousSeat, now); ok {
		t.Error("a connection that is closed got a seat")
	}
	b.state(first, http.StateClosed)
	if b.seats != [ownSeat + 1]int{} || len(b.taken) != 0 {
		t.Errorf("seats that nobody has: %v, by address %v", b.seats, b.taken)
	}
}
