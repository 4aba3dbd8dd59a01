package server

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	"rollcall/internal/admission"
)

// A handshake whose place went to another client, or whose connection has ended, does not compute: its configuration is an error.
func TestHandshakeWithoutTurn(t *testing.T) {
	s, err := newTLSAcceptor(TLS{Config: &tls.Config{}, Handshakes: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(ctx context.Context, handshake *admission.Handshake[*conn]) error {
		socket := &handshakeSocket{computeSlots: s.computeSlots, handshake: handshake, ctx: ctx}
		_, err := s.tlsConfig.GetConfigForClient(&tls.ClientHelloInfo{Conn: socket})
		socket.releaseSlot()
		return err
	}
	first, _ := s.handshakeLimiter.Admit(nil)
	second, loser := s.handshakeLimiter.Admit(nil)
	if loser != first {
		t.Fatal("the first client did not lose its place")
	}
	if err := begin(t.Context(), first); !errors.Is(err, admission.ErrDisplaced) {
		t.Errorf("a client that has lost its place: %v", err)
	}
	if err := begin(t.Context(), second); err != nil {
		t.Errorf("a client with a place: %v", err)
	}
	for range s.computeSlots.Limit() {
		s.computeSlots.TryTake()
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := begin(ended, second); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that is gone, while all compute: %v", err)
	}
}
