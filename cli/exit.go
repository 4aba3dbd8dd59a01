package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"rollcall/client"
	"rollcall/operator/api"
)

// Status is an exit status. docs/commands.md lists them.
type Status int

const (
	OK             Status = iota
	Failed                // any other reason
	UsageError            // the command line is wrong; no request was sent
	NotFound              // the session or node does not exist
	Denied                // credentials are missing or wrong, or do not allow it
	Unavailable           // no member replies, or it cannot serve the request now
	OutcomeUnknown        // the connection broke, and the change may have been made or not
	Conflict              // the node or the list of servers is not as the change requires
)

type statusError struct {
	error
	status Status
}

func (e statusError) Unwrap() error { return e.error }

// WithStatus returns err with an exit status, or nil if err is nil.
func WithStatus(s Status, err error) error {
	if err == nil {
		return nil
	}
	return statusError{err, s}
}

// Errorf is fmt.Errorf, with an exit status.
func (s Status) Errorf(format string, args ...any) error {
	return statusError{fmt.Errorf(format, args...), s}
}

var errorStatuses = []struct {
	status Status
	errs   []error
}{
	{OutcomeUnknown, []error{client.ErrConnectionLost, client.ErrTimedOut}},
	{NotFound, []error{client.ErrNoNode, client.ErrNoWatch}},
	{Denied, []error{client.ErrNoAuth, client.ErrAuthFailed, client.ErrLoginRequired}},
	{Conflict, []error{client.ErrNodeExists, client.ErrBadVersion, client.ErrNotEmpty, client.ErrNoChildrenForEphemerals}},
	{Unavailable, []error{client.ErrSuspended}},
}

var httpStatuses = map[int]Status{
	http.StatusBadRequest: UsageError, http.StatusUnauthorized: Denied, http.StatusForbidden: Denied,
	http.StatusNotFound: NotFound,
	http.StatusConflict: Conflict, http.StatusBadGateway: Unavailable, http.StatusServiceUnavailable: Unavailable,
	http.StatusGatewayTimeout: OutcomeUnknown,
}

// StatusOf returns the exit status for err, which may be nil. A status set by WithStatus takes precedence
// over the error inside it.
func StatusOf(err error) Status {
	var given statusError
	var apiErr *api.Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &given):
		return given.status
	case errors.As(err, &apiErr):
		if s, known := httpStatuses[apiErr.Status]; known {
			return s
		}
	}
	for _, a := range errorStatuses {
		if slices.ContainsFunc(a.errs, func(target error) bool { return errors.Is(err, target) }) {
			return a.status
		}
	}
	return Failed
}

// ignoreCanceled returns nil if the user has stopped the command.
func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
