package server

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
)

const (
	// turnsPerProcessor is how many handshakes may compute at the same time. Signing takes all of a
	// processor, so that more of them would only keep the clients that are connected waiting.
	turnsPerProcessor = 1
	// maxHandshakeBytes is how much a client may send until its handshake is done. A client with a
	// certificate of RSA 3072 and one of an intermediate authority sends 4 KiB. Certificates that resist
	// quantum computers are about five times as long. Go's TLS itself would read 64 KiB of a first message,
	// and 256 KiB of certificates.
	maxHandshakeBytes = 64 << 10
)

// turns has a place for each handshake that computes.
type turns chan struct{}

func newTurns() turns { return make(turns, turnsPerProcessor*runtime.GOMAXPROCS(0)) }

// turnSocket is the socket below TLS. Until the handshake is done, it limits how many handshakes compute at a
// time, and how much the client may send.
//
// A handshake first waits for a turn when the client's first message is complete. After that it waits for one
// whenever it has read something, because it then checks signatures, and signs only now if the client had to
// send a second first message (HelloRetryRequest). It gives the turn back before it reads or writes. A client
// that sends only a part of a message, or reads nothing, therefore never keeps a turn.
type turnSocket struct {
	net.Conn
	turns turns
	place *tlsPlace
	ended <-chan struct{} // closed when the client's connection ends
	held  atomic.Bool     // has a turn. A goroutine that closes TLS may write, and give it back

	// Only the goroutine that reads uses these.
	read  int  // bytes
	begun bool // the client's first message is complete
	done  bool // the handshake is
}

// begin is called when the client's first message is complete. It waits for the first turn.
func (t *turnSocket) begin() error {
	if !t.place.keep() {
		return errCrowded
	}
	t.begun = true
	return t.await()
}

func (t *turnSocket) await() error {
	select {
	case t.turns <- struct{}{}:
		t.held.Store(true)
		return nil
	case <-t.ended:
		return context.Canceled
	}
}

func (t *turnSocket) giveBack() {
	if t.held.CompareAndSwap(true, false) {
		<-t.turns
	}
}

// finish ends the handshake. From now on, t is only a socket.
func (t *turnSocket) finish() {
	t.done = true
	t.giveBack()
}

// Read implements net.Conn.
func (t *turnSocket) Read(b []byte) (int, error) {
	if t.done {
		return t.Conn.Read(b)
	}
	t.giveBack()
	left := maxHandshakeBytes - t.read
	if left == 0 {
		return 0, fmt.Errorf("the client's TLS handshake has more than %d bytes", maxHandshakeBytes)
	}
	n, err := t.Conn.Read(b[:min(len(b), left)])
	t.read += n
	if err == nil && t.begun {
		err = t.await()
	}
	return n, err
}

// Write implements net.Conn.
func (t *turnSocket) Write(b []byte) (int, error) {
	t.giveBack()
	return t.Conn.Write(b)
}
