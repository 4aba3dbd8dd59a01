// Package fence makes stores that are not part of the ensemble reject a holder that has lost its right.
//
// A client can hold a lock, be paused, and continue after its session has ended and another client has the lock. Within
// the ensemble, client.Right.Guard stops such a client. Other stores need a fencing token: each holder sends the token
// of its right with each write, and the store remembers the greatest token that it has seen and rejects smaller ones.
// Tokens grow with every holder of a lock, so a holder is rejected from the first write of a later holder on.
//
// A store must do three things, and the types of this package do them:
//
//   - It checks the token and carries out the write as one step. Otherwise a write can be paused between the two.
//   - It remembers the greatest token as durably as the data.
//   - It has one memory for one lock. Tokens of different locks cannot be compared.
//
// Until a later holder has written once, the store accepts an earlier one: nothing has been overwritten then. A holder
// that must know that no earlier holder can write any more does one write of its own first.
//
//	Guard    a store in the memory of a process
//	File     a file
//	SQL      a table of a database, in the transaction of the write
//	Handler  a service over HTTP, by one of the others; Transport is its client
//
// Only one client holds a mutex, or is the writer of a read-write lock, at a time. The holders of read locks and of
// permits of a semaphore share them: their tokens do not exclude each other, and a fence must not check them.
package fence

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client"
)

// ErrStale is the reason of a *StaleError.
var ErrStale = errors.New("the store has seen a greater token: a later client has held the right")

// ErrInvalidToken means that a token is not positive. No right has such a token.
var ErrInvalidToken = errors.New("a fencing token must be positive")

// StaleError says that a store has rejected a token. Its holder has lost the right and must stop.
type StaleError struct {
	Token    client.Token // that was rejected
	Greatest client.Token // that the store has seen; 0 if it has not said that
}

// Error implements error.
func (e *StaleError) Error() string {
	if e.Greatest == 0 {
		return fmt.Sprintf("fence: token %d rejected: %v", e.Token, ErrStale)
	}
	return fmt.Sprintf("fence: token %d rejected: %v (%d)", e.Token, ErrStale, e.Greatest)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Fence checks tokens for one store. Guard and File are Fences.
type Fence interface {
	// Do calls act if no greater token has been seen, and returns its error. From then on, smaller tokens are rejected
	// with a *StaleError, and act is not called. While act of one token runs, that of another one does not. Do waits
	// for that until ctx ends.
	Do(ctx context.Context, token client.Token, act func() error) error
}

// check returns the error for a token, if greatest is the greatest one that has been seen.
func check(token, greatest client.Token) error {
	switch {
	case token <= 0:
		return fmt.Errorf("fence: token %d: %w", token, ErrInvalidToken)
	case token < greatest:
		return &StaleError{Token: token, Greatest: greatest}
	}
	return nil
}
