package zk

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/zk/jute"
)

// Errors of calls. They are compared with ==.
var (
	ErrNoServer                = errors.New("zk: could not connect to a server")
	ErrInvalidPath             = errors.New("zk: invalid path")
	ErrConnectionClosed        = errors.New("zk: connection closed") // a request may have been carried out
	ErrUnknown                 = errors.New("zk: unknown error")
	ErrAPIError                = errors.New("zk: api error")
	ErrNoNode                  = errors.New("zk: node does not exist")
	ErrNoAuth                  = errors.New("zk: not authenticated")
	ErrBadVersion              = errors.New("zk: version conflict")
	ErrNoChildrenForEphemerals = errors.New("zk: ephemeral nodes may not have children")
	ErrNodeExists              = errors.New("zk: node already exists")
	ErrNotEmpty                = errors.New("zk: node has children")
	ErrSessionExpired          = errors.New("zk: session has been expired by the server")
	ErrInvalidACL              = errors.New("zk: invalid ACL specified")
	ErrInvalidFlags            = errors.New("zk: invalid flags specified")
	ErrAuthFailed              = errors.New("zk: client authentication failed")
	ErrClosing                 = errors.New("zk: zookeeper is closing")
	ErrNothing                 = errors.New("zk: no server responses to process")
	ErrSessionMoved            = errors.New("zk: session moved to another server, so operation is ignored")
	ErrReconfigDisabled        = errors.New(
		"attempts to perform a reconfiguration operation when reconfiguration feature is disabled")
	ErrBadArguments = errors.New("invalid arguments")
	ErrDeadlock     = errors.New("zk: trying to acquire a lock twice")
	ErrNotLocked    = errors.New("zk: not locked")
)

// errorsOfCodes are the errors that have a value here.
var errorsOfCodes = map[jute.Code]error{
	jute.APIError: ErrAPIError, jute.NoNode: ErrNoNode, jute.NoAuth: ErrNoAuth, jute.BadVersion: ErrBadVersion,
	jute.NoChildrenForEphemerals: ErrNoChildrenForEphemerals, jute.NodeExists: ErrNodeExists,
	jute.NotEmpty: ErrNotEmpty, jute.SessionExpired: ErrSessionExpired, jute.InvalidACL: ErrInvalidACL,
	jute.AuthFailed: ErrAuthFailed, jute.Closing: ErrClosing, jute.Nothing: ErrNothing,
	jute.SessionMoved: ErrSessionMoved, jute.ReconfigDisabled: ErrReconfigDisabled,
	jute.BadArguments: ErrBadArguments, jute.ConnectionLoss: ErrConnectionClosed,
}

// toError turns the error of a Client into one of this package.
func toError(err error) error {
	code, isCode := errors.AsType[jute.Code](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, client.ErrSuspended):
		return ErrConnectionClosed
	case !isCode:
		return err
	}
	if known, ok := errorsOfCodes[code]; ok {
		return known
	}
	return fmt.Errorf("unknown error: %d", int32(code))
}
