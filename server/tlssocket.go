package server

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"rollcall/internal/admission"
)

const (
	// maxHandshakeBytes limits a client's input until its handshake is done. A client with a certificate of
	// RSA 3072 and one of an intermediate authority sends 4 KiB, and post-quantum certificates are about five
	// times as long. Go's TLS itself would read 64 KiB of a first message, and 256 KiB of certificates.
	maxHandshakeBytes = 64 << 10
)

// handshakeSocket is the socket below TLS. Until the handshake is done, it limits the number of handshakes
// that compute at a time, and the client's input.
//
// A handshake first takes a slot when the client's first message is complete. After that it takes one
// whenever it has read something, because it then checks signatures, and signs only now if the client had to
// send a second first message (HelloRetryRequest). It releases the slot before it reads or writes. A client
// that sends only a part of a message, or reads nothing, therefore never keeps a slot.
type handshakeSocket struct {
	net.Conn
	computeSlots *admission.Slots // of handshakes that compute
	handshake    *admission.Handshake[*conn]
	ctx          context.Context // ends with the client's connection
	hasSlot      atomic.Bool     // a goroutine that closes TLS may write and release it

	// Only the goroutine that reads uses these.
	bytesRead     int
	helloComplete bool
	handshakeDone bool
}

// completeHello is called when the client's first message is complete. It waits for the first slot.
func (t *handshakeSocket) completeHello() error {
	if !t.handshake.MarkHelloComplete() {
		return admission.ErrDisplaced
	}
	t.helloComplete = true
	return t.takeSlot()
}

func (t *handshakeSocket) takeSlot() error {
	if err := t.computeSlots.Take(t.ctx); err != nil {
		return err
	}
	t.hasSlot.Store(true)
	return nil
}

func (t *handshakeSocket) releaseSlot() {
	if t.hasSlot.CompareAndSwap(true, false) {
		t.computeSlots.Release()
	}
}

// finish ends the handshake. From now on, t is only a socket.
func (t *handshakeSocket) finish() {
	t.handshakeDone = true
	t.releaseSlot()
}

// Read implements net.Conn.
func (t *handshakeSocket) Read(b []byte) (int, error) {
	if t.handshakeDone {
		return t.Conn.Read(b)
	}
	t.releaseSlot()
	left := maxHandshakeBytes - t.bytesRead
	if left == 0 {
		return 0, fmt.Errorf("the client's TLS handshake has more than %d bytes", maxHandshakeBytes)
	}
	n, err := t.Conn.Read(b[:min(len(b), left)])
	t.bytesRead += n
	if err == nil && t.helloComplete {
		err = t.takeSlot()
	}
	return n, err
}

// Write implements net.Conn.
func (t *handshakeSocket) Write(b []byte) (int, error) {
	t.releaseSlot()
	return t.Conn.Write(b)
}
