package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"rollcall/internal/tokenproof"
	"rollcall/operator/api"
)

// adminCommand is what commands have that ask a member over HTTP: their surroundings, and flags.
type adminCommand struct {
	IOStreams
	*Link
	*Output
	warnedSilent map[uint32]bool // the members of which silent has warned
}

func newAdminCommand(w IOStreams) *adminCommand {
	return &adminCommand{w, NewLink(w), NewOutput(w), map[uint32]bool{}}
}

// Register adds the flags of the link and of the output to cmd.
func (a *adminCommand) Register(cmd *cobra.Command) {
	a.Link.Register(cmd)
	a.Output.Register(cmd)
}

// warnf prints a line on stderr, in characters that a terminal simply shows.
func warnf(w IOStreams, format string, args ...any) {
	_, _ = fmt.Fprintln(w.Err, "rollcall: "+EscapeUnprintable(fmt.Sprintf(format, args...))) // nothing can be done about an error
}

// warnSilent warns that a member did not answer, once.
func (a *adminCommand) warnSilent(s api.Silence) {
	if !a.warnedSilent[s.MemberID] {
		warnf(a.IOStreams, "member %d: %s; what only this member knows is missing", s.MemberID, silenceReason(s))
	}
	a.warnedSilent[s.MemberID] = true
}

// silenceReason returns why a member did not answer.
func silenceReason(s api.Silence) string {
	if s.Detail == "" {
		return s.Reason
	}
	return s.Reason + " (" + s.Detail + ")"
}

// getOne asks for path below /v1/.
func getOne[T any](ctx context.Context, a *adminCommand, path string, query url.Values) (T, error) {
	c, err := a.AdminClient(ctx)
	if err != nil {
		return *new(T), err
	}
	answer, err := api.Get[T](ctx, c, path, query)
	return answer, WithAdvice(err)
}

// countRows yields rows, and shows how many there have been.
func countRows[T any](w IOStreams, what string, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		progress := NewProgress(w, what, 0)
		defer progress.Done()
		for row, err := range rows {
			progress.Add(1)
			if !yield(row, err) {
				return
			}
		}
	}
}

// WithAdvice adds to the error of a member what the user can do, and its status.
func WithAdvice(err error) error {
	var answer *api.Error
	var transport *url.Error
	var nobody *unreachableError
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; --token-file or --auth digest:super:PASSWORD gives them, the password only at the socket of a member (--admin unix:DATADIR/admin.sock)", err)
	case errors.As(err, &answer) && answer.Status == http.StatusForbidden:
		return fmt.Errorf("%w; run this command on the machine of a member, with --admin http://127.0.0.1:%d", err, defaultAdminPort)
	case errors.Is(err, tokenproof.ErrNotProved):
		return WithStatus(Denied, err)
	case errors.As(err, &nobody) && !errors.Is(err, context.Canceled):
		return WithStatus(Unavailable, fmt.Errorf("no member answers operators at %s: %w; start it first, or name another one with --admin", nobody.address, nobody.error))
	case errors.As(err, &transport) && !errors.Is(err, context.Canceled):
		return WithStatus(Unavailable, err)
	}
	return err
}

// withAdviceAt returns the error of the member at an address as Explained does, with the address.
func withAdviceAt(base string, err error) error {
	if nobody := new(unreachableError); errors.As(err, &nobody) {
		return WithAdvice(err) // it has the address
	}
	return fmt.Errorf("%s: %w", base, WithAdvice(err))
}

// mayHaveArrived reports whether a request may have reached the member although it failed.
func mayHaveArrived(err error) bool {
	var answer *api.Error
	var dial *net.OpError
	return !errors.As(err, &answer) && !(errors.As(err, &dial) && dial.Op == "dial")
}
