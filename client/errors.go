package client

import (
	"errors"
	"fmt"

	"rollcall/jute"
)

// What a call may end with, besides the server's own codes (jute.NoNode and the like, found
// by errors.Is) and its context's error.
var (
	// ErrConnectionLost says that the connection broke after the request was taken to be sent:
	// whether it was carried out is not known.
	ErrConnectionLost = fmt.Errorf("client: %w, outcome unknown", jute.ConnectionLoss)
	// ErrNotConnected says that there is no connection, and the request was not sent.
	ErrNotConnected = errors.New("client: not connected")
	// ErrExpired says that the servers know the session no longer.
	ErrExpired = fmt.Errorf("client: %w", jute.SessionExpired)
	// ErrClosed says that the Client has been closed. Of a request under way then, the outcome
	// is not known.
	ErrClosed = errors.New("client: closed")
	// ErrTooLong says that a request is longer than any server takes. It was not sent.
	ErrTooLong = errors.New("client: request too long")
	// ErrProtocol says that what the server sent cannot be understood.
	ErrProtocol = errors.New("client: bad bytes from server")
)

// Error is what a typed call returns.
type Error struct {
	Op   jute.Op
	Path string
	Err  error // a jute.Code, one of this package's, or the context's
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%v %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
