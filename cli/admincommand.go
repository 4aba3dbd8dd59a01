package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"rollcall/internal/tokenproof"
	"rollcall/operator/api"
)

// adminCommand is shared by the commands that query a member over HTTP.
type adminCommand struct {
	streams      IOStreams
	ensemble     *EnsembleFlags
	output       *Output
	warnedSilent map[uint32]bool // the silent members that were reported, by id
	past         *pastFlags      // nil: the command shows the present only
}

func newAdminCommand(w IOStreams) *adminCommand {
	return &adminCommand{streams: w, ensemble: NewEnsembleFlags(w), output: NewOutput(w), warnedSilent: map[uint32]bool{}}
}

func (a *adminCommand) registerFlags(cmd *cobra.Command) *cobra.Command {
	a.ensemble.Register(cmd)
	return a.output.Register(cmd)
}

// warnf prints an escaped line on stderr.
func warnf(w IOStreams, format string, args ...any) {
	// nothing can be done about an error
	_, _ = fmt.Fprintln(w.Err, "rollcall: "+EscapeUnprintable(fmt.Sprintf(format, args...)))
}

// warnSilent warns once for each member that did not reply.
func (a *adminCommand) warnSilent(s api.Silence) {
	if !a.warnedSilent[s.MemberID] {
		warnf(a.streams, "member %d: %s; what only this member knows is missing", s.MemberID, silenceReason(s))
	}
	a.warnedSilent[s.MemberID] = true
}

func silenceReason(s api.Silence) string {
	if s.Detail == "" {
		return s.Reason
	}
	return s.Reason + " (" + s.Detail + ")"
}

// getObject gets a path below /v1/, of a member that is in the ensemble if there is one.
func getObject[T any](ctx context.Context, a *adminCommand, path string, query url.Values) (T, error) {
	return askEnsemble(ctx, a.ensemble, func(c *api.Client) (T, error) {
		reply, err := api.Get[T](ctx, c, path, query)
		return reply, WithAdvice(err)
	})
}

// postSlowChange posts a change that takes up to extra longer than other requests. If its outcome is unknown, the
// error says so of what, with advice.
func postSlowChange[T any](ctx context.Context, admin *api.Client, path string, body any, extra time.Duration, what,
	advice string,
) (T, error) {
	if t, ok := admin.HTTPClient.Transport.(*progressTransport); ok {
		t.ResponseHeaderTimeout += extra
	}
	done, err := api.Post[T](ctx, admin, path, body)
	switch {
	case err != nil && mayHaveArrived(err):
		return done, OutcomeUnknown.Errorf("%s: it is not known %s: %w; %s", admin.Name(), what, err, advice)
	case err != nil:
		return done, withAdviceAt(admin.Name(), err)
	}
	return done, nil
}

// withRowProgress passes rows on and shows their number as progress.
func withRowProgress[T any](w IOStreams, what string, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
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

// WithAdvice adds advice for the user, and a status, to the error of a member.
func WithAdvice(err error) error {
	var apiErr *api.Error
	var transport *url.Error
	var unreachable *unreachableError
	switch {
	case errors.As(err, &apiErr) && apiErr.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; --token-file or --auth digest:super:PASSWORD gives them, the password only at the socket "+
			"of a member (--admin unix:DATADIR/admin.sock)", err)
	case errors.Is(err, tokenproof.ErrNotProved):
		return WithStatus(Denied, err)
	case errors.As(err, &unreachable) && !errors.Is(err, context.Canceled):
		return Unavailable.Errorf("no member answers operators at %s: %w; start it first, or name another one with --admin",
			unreachable.address, unreachable.error)
	case errors.As(err, &transport) && !errors.Is(err, context.Canceled):
		return WithStatus(Unavailable, err)
	}
	return err
}

// withAdviceAt is WithAdvice with the member's address in front.
func withAdviceAt(base string, err error) error {
	if unreachable := new(unreachableError); errors.As(err, &unreachable) {
		return WithAdvice(err) // it has the address
	}
	return fmt.Errorf("%s: %w", base, WithAdvice(err))
}

// mayHaveArrived reports whether a failed request may have reached the member.
func mayHaveArrived(err error) bool {
	var apiErr *api.Error
	var dial *net.OpError
	return !errors.As(err, &apiErr) && !(errors.As(err, &dial) && dial.Op == "dial")
}
