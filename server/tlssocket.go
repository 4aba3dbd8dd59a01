package server

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"rollcall/internal/admission"
)

const (
	// maxHandshakeBytes limits the bytes that a client may send until its handshake is done. A client with a
	// certificate of RSA 3072 and one of an intermediate authority sends 4 KiB. Certificates that resist
	// quantum computers are about five times as long. Go's TLS itself would read 64 KiB of a first message,
	// and 256 KiB of certificates.
	maxHandshakeBytes = 64 << 10
)

// handshakeSocket is the socket below TLS. Until the handshake is done, it limits how many handshakes compute at a
// time, and how much the client may send.
//
// A handshake first waits for a turn when the client's first message is complete. After that it waits for one
// whenever it has read something, because it then checks signatures, and signs only now if the client had to
// send a second first message (HelloRetryRequest). It gives the turn back before it reads or writes. A client
// that sends only a part of a message, or reads nothing, therefore never keeps a turn.
type handshakeSocket struct {
	net.Conn
	slots     *admission.Slots // of handshakes that compute
	handshake *admission.Handshake[*conn]
	ctx       context.Context // ends with the client's connection
	held      atomic.Bool     // has a turn. A goroutine that closes TLS may write, and give it back

	// Only the goroutine that reads uses these.
	read  int  // bytes
	begun bool // the client's first message is complete
	done  bool // the handshake is
}

// begin is called when the client's first message is complete. It waits for the first turn.
func (t *handshakeSocket) begin() error {
	if !t.handshake.Heard() {
		return admission.ErrCrowded
	}
	t.begun = true
	return t.await()
}

func (t *handshakeSocket) await() error {
	if err := t.slots.Take(t.ctx); err != nil {
		return err
	}
	t.held.Store(true)
	return nil
}

func (t *handshakeSocket) giveBack() {
	if t.held.CompareAndSwap(true, false) {
		t.slots.Release()
	}
}

// finish ends the handshake. From now on, t is only a socket.
func (t *handshakeSocket) finish() {
	t.done = true
	t.giveBack()
}

// Read implements net.Conn.
func (t *handshakeSocket) Read(b []byte) (int, error) {
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
func (t *handshakeSocket) Write(b []byte) (int, error) {
	t.giveBack()
	return t.Conn.Write(b)
}
