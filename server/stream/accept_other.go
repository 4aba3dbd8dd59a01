//go:build !linux

package stream

import "net"

// Acceptor is never made on systems that have no loops.
type Acceptor struct{}

// NewAcceptor returns nil.
func NewAcceptor(net.Listener) (*Acceptor, error) { return nil, nil }

// Accept fails.
func (*Acceptor) Accept() (Accepted, error) { return Accepted{}, net.ErrClosed }

// Close does nothing.
func (*Acceptor) Close() {}
