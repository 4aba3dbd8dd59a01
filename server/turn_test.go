package server

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
)

// A handshake whose place went to another client, or whose connection has ended, does not compute: its configuration is an error.
func TestHandshakeWithoutTurn(t *testing.T) {
	s, err := newSecure(TLS{Config: &tls.Config{}, Handshakes: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(place *tlsPlace, ended chan struct{}) error {
		socket := &turnSocket{turns: s.turns, place: place, ended: ended}
		_, err := s.config.GetConfigForClient(&tls.ClientHelloInfo{Conn: socket})
		socket.giveBack()
		return err
	}
	first, _ := s.places.take(nil)
	second, loser := s.places.take(nil)
	if loser != first {
		t.Fatal("the first client did not lose its place")
	}
	if err := begin(first, nil); !errors.Is(err, errCrowded) {
		t.Errorf("a client that has lost its place: %v", err)
	}
	if err := begin(second, nil); err != nil {
		t.Errorf("a client with a place: %v", err)
	}
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	ended := make(chan struct{})
	close(ended)
	if err := begin(second, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that is gone, while all compute: %v", err)
	}
}
