package client

import (
	"errors"
	"fmt"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// errors.Is finds these reasons in the error of a call. The first ones are the servers'.
var (
	ErrNoNode                  error = jute.NoNode
	ErrNodeExists              error = jute.NodeExists
	ErrBadVersion              error = jute.BadVersion // the node has another version than the call names
	ErrNotEmpty                error = jute.NotEmpty   // a node with children cannot be deleted
	ErrNoChildrenForEphemerals error = jute.NoChildrenForEphemerals
	ErrNoAuth                  error = jute.NoAuth // the node's ACL does not allow it
	ErrInvalidACL              error = jute.InvalidACL
	ErrBadArguments            error = jute.BadArguments  // such as a path that no node may have
	ErrUnimplemented           error = jute.Unimplemented // the servers do not know the operation
	ErrNoWatch                 error = jute.NoWatcher
	ErrQuotaExceeded           error = jute.QuotaExceeded
	ErrNoRoom                  error = jute.NoRoom // Rollcall has no room for more data
	ErrReadOnly                error = jute.NotReadOnly
	ErrReconfigDisabled        error = jute.ReconfigDisabled
	ErrReconfigInProgress      error = jute.ReconfigInProgress
	ErrNoQuorum                error = jute.NewConfigNoQuorum
	ErrThrottled               error = jute.ThrottledOp
	ErrSessionMoved            error = jute.SessionMoved
	ErrAuthFailed              error = jute.AuthFailed
	ErrLoginRequired           error = jute.SessionClosedRequireSaslAuth // the servers serve only clients that have logged in
	ErrTimedOut                error = jute.OperationTimeout             // the servers gave up; a write may have been carried out
	ErrNotRun                  error = jute.RuntimeInconsistency         // an earlier operation of the multi failed

	ErrConnectionLost    = session.ErrConnectionLost    // the connection broke after the request was sent
	ErrSuspended         = session.ErrNotConnected      // there is no connection; the request was not sent
	ErrExpired           = session.ErrExpired           // the session has ended without Close
	ErrClosed            = session.ErrClosed            // the Client has been closed
	ErrTooLong           = session.ErrTooLong           // the request is longer than Config.MaxRequest; it was not sent
	ErrTooManyIdentities = session.ErrTooManyIdentities // the session has the most that are allowed; nothing was sent
	ErrProtocol          = session.ErrProtocol          // the server sent bytes that make no sense
)

// Error is the error of a call.
type Error struct {
	Op   string // ZooKeeper's name of the operation, such as getData
	Path string // as the caller gave it; "" if the operation has none
	Err  error  // the reason; for a multi it may be a *MultiError

	// Unanswered is set if the request was sent and no reply has come: a write may have been carried out, or may
	// still be.
	Unanswered bool
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Op
	if e.Path != "" {
		text += " " + e.Path
	}
	if e.Unanswered {
		return fmt.Sprintf("%s: %v (it may have been carried out)", text, e.Err)
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// MayHaveHappened reports whether err is of a request that was sent and has no reply, so that a write may have been
// carried out. If it is false and err is not nil, the request was not carried out.
func MayHaveHappened(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Unanswered
}

// callError makes the error of a call from that of the session.
func callError(op jute.Op, path string, err error) error {
	if err == nil {
		return nil
	}
	unanswered, ok := errors.AsType[*session.UnansweredError](err)
	if ok {
		err = unanswered.Err
	}
	return &Error{Op: op.String(), Path: path, Err: err, Unanswered: ok}
}
