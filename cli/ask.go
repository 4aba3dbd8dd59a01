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

// ask is what commands have that ask a member over HTTP: their surroundings, and flags.
type ask struct {
	World
	*Link
	*Output
	warned map[uint32]bool // the members of which silent has warned
}

func newAsk(w World) *ask { return &ask{w, NewLink(w), NewOutput(w), map[uint32]bool{}} }

// Register adds the flags of the link and of the output to cmd.
func (a *ask) Register(cmd *cobra.Command) {
	a.Link.Register(cmd)
	a.Output.Register(cmd)
}

// warn prints a line on stderr, in characters that a terminal simply shows.
func warn(w World, format string, args ...any) {
	_, _ = fmt.Fprintln(w.Err, "rollcall: "+Visible(fmt.Sprintf(format, args...))) // nothing can be done about an error
}

// silent warns that a member did not answer, once.
func (a *ask) silent(s api.Silence) {
	if !a.warned[s.Member] {
		warn(a.World, "member %d: %s; what only this member knows is missing", s.Member, silence(s))
	}
	a.warned[s.Member] = true
}

// silence returns why a member did not answer.
func silence(s api.Silence) string {
	if s.Detail == "" {
		return s.Reason
	}
	return s.Reason + " (" + s.Detail + ")"
}

// one asks for path below /v1/.
func one[T any](ctx context.Context, a *ask, path string, query url.Values) (T, error) {
	c, err := a.Admin(ctx)
	if err != nil {
		return *new(T), err
	}
	answer, err := api.Get[T](ctx, c, path, query)
	return answer, Explained(err)
}

// counted yields rows, and shows how many there have been.
func counted[T any](w World, what string, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
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

// Explained adds to the error of a member what the user can do, and its status.
func Explained(err error) error {
	var answer *api.Error
	var transport *url.Error
	var nobody *unreached
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; --token-file or --auth digest:super:PASSWORD gives them, the password only at the socket of a member (--admin unix:DATADIR/admin.sock)", err)
	case errors.As(err, &answer) && answer.Status == http.StatusForbidden:
		return fmt.Errorf("%w; run this command on the machine of a member, with --admin http://127.0.0.1:%d", err, defaultPort)
	case errors.Is(err, tokenproof.ErrNotProved):
		return With(Refused, err)
	case errors.As(err, &nobody) && !errors.Is(err, context.Canceled):
		return With(NoMember, fmt.Errorf("no member answers operators at %s: %w; start it first, or name another one with --admin", nobody.place, nobody.error))
	case errors.As(err, &transport) && !errors.Is(err, context.Canceled):
		return With(NoMember, err)
	}
	return err
}

// explainedAt returns the error of the member at an address as Explained does, with the address.
func explainedAt(base string, err error) error {
	if nobody := new(unreached); errors.As(err, &nobody) {
		return Explained(err) // it has the address
	}
	return fmt.Errorf("%s: %w", base, Explained(err))
}

// arrived reports whether a request may have reached the member although it failed.
func arrived(err error) bool {
	var answer *api.Error
	var dial *net.OpError
	return !errors.As(err, &answer) && !(errors.As(err, &dial) && dial.Op == "dial")
}
