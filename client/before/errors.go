package before

import (
	"errors"
	"fmt"

	"rollcall/zk/jute"
)

// A call may end with one of these errors, with a code of the server, or with its context's error.
// errors.Is finds a code, such as jute.NoNode.
var (
	// ErrConnectionLost says that the connection broke after the request was queued. It is not
	// known whether the request was carried out.
	ErrConnectionLost = fmt.Errorf("client: %w, outcome unknown", jute.ConnectionLoss)
	// ErrNotConnected says that there is no connection and that the request was not sent.
	ErrNotConnected = errors.New("client: not connected")
	// ErrExpired says that the servers have expired the session.
	ErrExpired = fmt.Errorf("client: %w", jute.SessionExpired)
	// ErrClosed says that the Client has been closed. The outcome of a request that was in flight
	// is not known.
	ErrClosed = errors.New("client: closed")
	// ErrTooLong says that a request is longer than any server accepts. It was not sent.
	ErrTooLong = errors.New("client: request too long")
	// ErrProtocol says that the server sent bytes that make no sense.
	ErrProtocol = errors.New("client: bad bytes from server")
)

// Error is the error of a typed call.
type Error struct {
	Op   jute.Op
	Path string
	Err  error // a jute.Code, one of this package's, or the context's
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%v %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
