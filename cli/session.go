package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/zk/jute"
)

const (
	// maxShown is how many paths rollcall session show prints of each kind.
	maxShown = 1000
	// maxKills is how many sessions one command ends.
	maxKills = 1000
	// listedKills is how many of them the question lists.
	listedKills = 20
)

// newSession returns the command about single sessions.
func newSession(w World) *cobra.Command {
	cmd := &cobra.Command{
		Use: "session", Short: "show one session, or end some", GroupID: Look,
		Args: func(cmd *cobra.Command, args []string) error {
			return With(WrongUse, errors.New("session: say show or kill: rollcall session show ID, rollcall session kill ID"))
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has refused
	}
	cmd.AddCommand(newSessionShow(w), newSessionKill(w))
	return cmd
}

// checkID returns an error unless text is the id of a session.
func checkID(text string) error {
	_, err := jute.ParseSessionID(text)
	return With(WrongUse, err)
}

// sessionDetail is a session with its nodes and watches.
type sessionDetail struct {
	api.Session
	EphemeralPaths []string `json:"ephemeral_paths"` // the first maxShown
	WatchedPaths   []string `json:"watched_paths"`   // the first maxShown
}

// newSessionShow returns the command that shows one session.
func newSessionShow(w World) *cobra.Command {
	a := newAsk(w)
	cmd := &cobra.Command{
		Use: "show [flags] ID", Short: "show a session with its ephemeral nodes and watches", Args: Takes(1, 1, "the id of one session"),
		Long: fmt.Sprintf("Shows a session with its ephemeral nodes and watches, the first %d of each.", maxShown),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkID(args[0]); err != nil {
				return err
			}
			detail, err := showSession(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			return printOne(a.Output, detailColumns(w.Now()), detail)
		},
	}
	a.Register(cmd)
	return cmd
}

// showSession asks for a session, its nodes and its watches.
func showSession(ctx context.Context, a *ask, id string) (sessionDetail, error) {
	space, err := a.space()
	if err != nil {
		return sessionDetail{}, err
	}
	path := "sessions/" + url.PathEscape(id)
	session, err := one[api.OneSession](ctx, a, path, nil)
	if err != nil {
		return sessionDetail{}, howItEnded(ctx, a, id, err)
	}
	for _, s := range session.Silent {
		a.silent(s)
	}
	detail := sessionDetail{Session: session.Session, EphemeralPaths: []string{}, WatchedPaths: []string{}}
	nodes, err := list[api.Ephemeral](ctx, a, path+"/ephemerals", url.Values{}, maxShown)
	if err != nil {
		return detail, err
	}
	for node, err := range nodes {
		if err != nil {
			return detail, err
		}
		detail.EphemeralPaths = append(detail.EphemeralPaths, space.Relative(node.Path))
	}
	watches, err := listWatches(ctx, a, path+"/watches", url.Values{}, maxShown)
	if err != nil {
		return detail, err
	}
	for watch, err := range watches {
		if err != nil {
			return detail, err
		}
		detail.WatchedPaths = append(detail.WatchedPaths, watch.Path)
	}
	return detail, nil
}

// howItEnded adds to err, if it says that there is no session of this id, how the session ended.
func howItEnded(ctx context.Context, a *ask, id string, err error) error {
	if StatusOf(err) != NotFound {
		return err
	}
	ends, asked := one[api.List[api.End]](ctx, a, "ends", url.Values{"session": {id}})
	if asked != nil || len(ends.Items) == 0 {
		return With(NotFound, fmt.Errorf("there is no session %s, and the last 10,000 ends are not about it", id))
	}
	e := ends.Items[0]
	return With(NotFound, fmt.Errorf("session %s has ended: it was %s %s ago; rollcall why %s says more", id, e.Reason, age(a.Now(), e.Ended), id))
}

// detailColumns returns the lines of rollcall session show.
func detailColumns(now time.Time) (columns []Column[sessionDetail]) {
	for _, c := range sessionColumns(now) {
		columns = append(columns, Column[sessionDetail]{Name: c.Name, Cell: func(d sessionDetail) string { return c.Cell(d.Session) }})
		if c.Tint != nil {
			columns[len(columns)-1].Tint = func(d sessionDetail) Tint { return c.Tint(d.Session) }
		}
	}
	paths := func(all []string, n int) string {
		text := strings.Join(all, " ")
		if len(all) < n {
			text += fmt.Sprintf(" … and %d more", n-len(all))
		}
		return orDash(text)
	}
	return append(columns,
		Column[sessionDetail]{Name: "nodes", Cell: func(d sessionDetail) string { return paths(d.EphemeralPaths, d.Ephemerals) }},
		Column[sessionDetail]{Name: "watched", Cell: func(d sessionDetail) string { return paths(d.WatchedPaths, d.Watches) }})
}

// newSessionKill returns the command that ends sessions.
func newSessionKill(w World) *cobra.Command {
	a, yes := newAsk(w), false
	cmd := &cobra.Command{
		Use: "kill [flags] ID...", Short: "end sessions, with their ephemeral nodes", Args: Takes(1, maxKills, fmt.Sprintf("up to %d ids of sessions", maxKills)),
		Long: "Ends sessions as if they had expired: their ephemeral nodes are removed, and their clients are told that their sessions have expired. It needs the credentials of an " +
			"administrator, on the machine of a member. On a terminal it asks first; elsewhere it needs --yes.",
		Example: "  rollcall session kill --admin http://127.0.0.1:8080 --token-file /etc/rollcall/token 0x1000012f99a0001",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if err := checkID(id); err != nil {
					return err
				}
			}
			if !yes {
				if err := confirmKills(cmd.Context(), a, args); err != nil {
					return err
				}
			}
			return kill(cmd.Context(), a, args)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	a.Register(cmd)
	return cmd
}

// confirmKills shows the sessions, and returns an error unless the user wants to end them. Before it asks, it checks that the user may end
// them, and that they exist.
func confirmKills(ctx context.Context, a *ask, ids []string) error {
	if err := mayChange(ctx, a); err != nil {
		return fmt.Errorf("session kill: %w", err)
	}
	var sessions []api.OneSession
	for _, id := range ids[:min(len(ids), listedKills)] {
		s, err := one[api.OneSession](ctx, a, "sessions/"+url.PathEscape(id), nil)
		if err != nil {
			return howItEnded(ctx, a, id, err)
		}
		sessions = append(sessions, s)
	}
	if !a.InTerminal {
		return With(WrongUse, errors.New("session kill: there is no terminal to ask on; --yes ends the sessions without asking"))
	}
	for _, s := range sessions {
		_, _ = fmt.Fprintln(a.Err, Visible(fmt.Sprintf("Session %s of %s on member %s, with %s", s.ID, orDash(s.Address), member(s.Member), plural(s.Ephemerals, "ephemeral node", "ephemeral nodes")))) // nothing can be done about an error
	}
	if more := len(ids) - listedKills; more > 0 {
		_, _ = fmt.Fprintf(a.Err, "and %d more\n", more) // likewise
	}
	return Confirm(a.World, "session kill", fmt.Sprintf("End %s?", plural(len(ids), "session", "sessions")))
}

// mayChange returns an error if the member that answers would refuse a change, with the reason.
func mayChange(ctx context.Context, a *ask) error {
	me, err := one[api.Caller](ctx, a, "whoami", nil)
	switch {
	case err != nil:
		return err
	case me.Changes:
		return nil
	case me.Administrator == "":
		return Explained(&api.Error{Status: http.StatusUnauthorized, Text: me.Why})
	}
	return Explained(&api.Error{Status: http.StatusForbidden, Text: me.Why})
}

// Confirm asks a question on the terminal, and returns an error unless the answer is yes. command begins the
// error.
func Confirm(w World, command, question string) error {
	_, _ = fmt.Fprint(w.Err, strings.TrimSpace(question+" Type yes to go on:")+" ") // nothing can be done about an error
	answer, err := bufio.NewReader(io.LimitReader(w.In, maxAnswer)).ReadString('\n')
	w.line.entered()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != "yes" {
		return fmt.Errorf("%s: not confirmed; nothing was changed", command)
	}
	return nil
}

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 64

// killing is a command that ends sessions.
type killing struct {
	*ask
	left     []string // the sessions that it has not tried to end
	ends     []api.End
	first    error // the first error about one of them
	progress *Progress
}

// kill ends the sessions one after another and prints how they ended. It goes on after an error, and returns
// the first.
func kill(ctx context.Context, a *ask, ids []string) error {
	k := &killing{ask: a, left: ids, progress: NewProgress(a.World, "sessions", len(ids))}
	err := a.inEnsemble(ctx, func(c *api.Client) error { return k.by(ctx, c) })
	k.progress.Done()
	if k.first == nil {
		k.first = Explained(err)
	} else if err != nil {
		warn(a.World, "%v", err)
	}
	if len(k.ends) == 0 {
		return k.first
	}
	return errors.Join(k.first, Print(a.Output, endColumns(a.Now()), rowsOf(k.ends)))
}

// by ends the sessions that are left by way of a member. It returns an error if that was removed, and others can be asked.
func (k *killing) by(ctx context.Context, c *api.Client) error {
	for len(k.left) > 0 {
		id := k.left[0]
		end, err := api.Post[api.End](ctx, c, "sessions/"+url.PathEscape(id)+"/kill", struct{}{})
		if isRemoval(err) {
			return fmt.Errorf("session kill %s: %w", id, err)
		}
		k.left = k.left[1:]
		k.progress.Add(1)
		if err == nil {
			k.ends = append(k.ends, end)
			continue
		}
		err = killError(ctx, k.ask, id, err)
		if k.first == nil {
			k.first = err
		} else {
			k.progress.Done()
			warn(k.World, "%v", err)
		}
		if s := StatusOf(err); s == Refused || s == NoMember || ctx.Err() != nil {
			k.left = nil // the others would fail likewise
		}
	}
	return nil
}

// killError returns what the error of a kill means.
func killError(ctx context.Context, a *ask, id string, err error) error {
	var answer *api.Error
	switch {
	case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
		return howItEnded(ctx, a, id, Explained(err))
	case !arrived(err):
		return fmt.Errorf("session kill %s: %w", id, Explained(err))
	}
	return With(Unknown, fmt.Errorf("session kill %s: not confirmed: %w; rollcall why %s shows whether it has ended", id, err, id))
}
