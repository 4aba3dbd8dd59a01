package session

import (
	"errors"
	"fmt"

	"rollcall/zk/jute"
)

// A call may end with one of these errors, with a code of the server, or with its context's error.
// errors.Is finds a code, such as jute.NoNode.
var (
	// ErrConnectionLost means that the connection broke after the request was queued. It is not
	// known whether the request was carried out.
	ErrConnectionLost = fmt.Errorf("client: %w, outcome unknown", jute.ConnectionLoss)
	// ErrNotConnected means that there is no connection and that the request was not sent.
	ErrNotConnected = errors.New("client: not connected")
	// ErrExpired means that the servers have expired the session.
	ErrExpired = fmt.Errorf("client: %w", jute.SessionExpired)
	// ErrGaveUp means that the Session has found no server for so long that the session must have expired: see
	// Config.GiveUpAfter. It is an ErrExpired.
	ErrGaveUp = fmt.Errorf("client: gave up connecting again: %w", ErrExpired)
	// ErrClosed means that the Session has been closed. The outcome of a request that was in flight
	// is not known.
	ErrClosed = errors.New("client: closed")
	// ErrTooLong means that a request is longer than Config.MaxRequest. It was not sent.
	ErrTooLong = errors.New("client: request too long")
	// ErrProtocol means that the server sent bytes that make no sense.
	ErrProtocol = errors.New("client: bad bytes from server")
)

// UnansweredError says that a request was sent and that nothing is known of its reply.
type UnansweredError struct{ Err error }

// Error implements error.
func (e *UnansweredError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnansweredError) Unwrap() error { return e.Err }
