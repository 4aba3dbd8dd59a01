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
	maxShownPaths     = 1000
	maxKilledSessions = 1000
	maxListedKills    = 20
)

func newSession(w IOStreams) *cobra.Command {
	return newParentCommand("session", "show one session, or end some", InspectGroup,
		"say show or kill: rollcall session show ID, rollcall session kill ID", newSessionShow(w), newSessionKill(w))
}

func checkSessionID(text string) error {
	_, err := jute.ParseSessionID(text)
	return WithStatus(UsageError, err)
}

type sessionDetail struct {
	api.Session
	EphemeralPaths []string `json:"ephemeral_paths"` // the first maxShownPaths
	WatchedPaths   []string `json:"watched_paths"`   // the first maxShownPaths
}

func newSessionShow(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	return a.registerPast(a.registerFlags(&cobra.Command{
		Use: "show [flags] ID", Short: "show a session with its ephemeral nodes and watches",
		Args: RangeArgs(1, 1, "the id of one session"),
		Long: fmt.Sprintf("Shows a session with its ephemeral nodes and watches, the first %d of each.", maxShownPaths),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSessionID(args[0]); err != nil {
				return err
			}
			detail, err := fetchSessionDetail(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			return printRow(a.output, knownColumns(a, detailColumns(a.streams.Now()), liveSessionColumns), detail)
		},
	}), false)
}

func fetchSessionDetail(ctx context.Context, a *adminCommand, id string) (sessionDetail, error) {
	if _, err := a.ensemble.rootOnlySpace(); err != nil { // before any request is sent
		return sessionDetail{}, err
	}
	path := "sessions/" + url.PathEscape(id)
	session, err := getObject[api.OneSession](ctx, a, path, nil)
	if err != nil {
		return sessionDetail{}, explainMissingSession(ctx, a, id, err)
	}
	for _, s := range session.Silent {
		a.warnSilent(s)
	}
	detail := sessionDetail{Session: session.Session}
	nodes := relativeRows(a, listRows[api.Ephemeral](ctx, a, path+"/ephemerals", url.Values{}, maxShownPaths),
		func(n *api.Ephemeral) *string { return &n.Path })
	detail.EphemeralPaths, err = collectRows(MapRows(nodes, func(n api.Ephemeral) string { return n.Path }))
	if err != nil {
		return detail, err
	}
	if a.ensemble.pastClient != nil {
		return detail, err
	}
	watches := listWatches(ctx, a, path+"/watches", url.Values{}, maxShownPaths)
	detail.WatchedPaths, err = collectRows(MapRows(watches, func(w api.Watch) string { return w.Path }))
	return detail, err
}

// explainMissingSession adds the end of the session to err if err is NotFound.
func explainMissingSession(ctx context.Context, a *adminCommand, id string, err error) error {
	if StatusOf(err) != NotFound {
		return err
	}
	ends, asked := getObject[api.List[api.End]](ctx, a, "ends", url.Values{"session": {id}})
	if asked != nil || len(ends.Items) == 0 {
		return NotFound.Errorf("there is no session %s, and the last 10,000 ends are not about it", id)
	}
	e := ends.Items[0]
	return NotFound.Errorf("session %s has ended: it was %s %s ago; rollcall why %s says more", id,
		e.Reason, formatAge(a.streams.Now(), e.EndedAt), id)
}

func detailColumns(now time.Time) (columns []Column[sessionDetail]) {
	for _, c := range sessionColumns(now) {
		columns = append(columns, columnOf(c, func(d sessionDetail) *api.Session { return &d.Session }))
	}
	paths := func(all []string, n int) string {
		text := strings.Join(all, " ")
		if len(all) < n {
			text += fmt.Sprintf(" … and %d more", n-len(all))
		}
		return orDash(text)
	}
	return append(columns,
		Column[sessionDetail]{Name: "nodes", Cell: func(d sessionDetail) string { return paths(d.EphemeralPaths, d.EphemeralCount) }},
		Column[sessionDetail]{Name: "watched", Cell: func(d sessionDetail) string { return paths(d.WatchedPaths, d.WatchCount) }})
}

func newSessionKill(w IOStreams) *cobra.Command {
	a, yes := newAdminCommand(w), false
	cmd := a.registerFlags(&cobra.Command{
		Use: "kill [flags] ID...", Short: "end sessions, with their ephemeral nodes",
		Args: RangeArgs(1, maxKilledSessions, fmt.Sprintf("up to %d ids of sessions", maxKilledSessions)),
		Long: "Ends sessions as if they had expired: their ephemeral nodes are removed, and their clients are told that " +
			"their sessions have expired. It needs the credentials of an " +
			"administrator, on the machine of a member. On a terminal it asks first; elsewhere it needs --yes.",
		Example: "  rollcall session kill --admin http://127.0.0.1:8080 --token-file /etc/rollcall/token 0x1000012f99a0001",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if err := checkSessionID(id); err != nil {
					return err
				}
			}
			if !yes {
				if err := confirmKills(cmd.Context(), a, args); err != nil {
					return err
				}
			}
			return killSessions(cmd.Context(), a, args)
		},
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return cmd
}

// confirmKills shows the sessions, and returns an error unless the user confirms. Before that it checks the
// permission, and that the sessions exist.
func confirmKills(ctx context.Context, a *adminCommand, ids []string) error {
	if err := checkChangePermission(ctx, a); err != nil {
		return fmt.Errorf("session kill: %w", err)
	}
	var sessions []api.OneSession
	for _, id := range ids[:min(len(ids), maxListedKills)] {
		s, err := getObject[api.OneSession](ctx, a, "sessions/"+url.PathEscape(id), nil)
		if err != nil {
			return explainMissingSession(ctx, a, id, err)
		}
		sessions = append(sessions, s)
	}
	if !a.streams.InTerminal {
		return UsageError.Errorf("session kill: there is no terminal to ask on; --yes ends the sessions without asking")
	}
	for _, s := range sessions {
		// nothing can be done about an error
		_, _ = fmt.Fprintln(a.streams.Err, EscapeUnprintable(fmt.Sprintf("Session %s of %s on member %s, with %s", s.ID,
			orDash(s.Address), formatMember(s.MemberID), FormatCount(s.EphemeralCount, "ephemeral node", "ephemeral nodes"))))
	}
	if more := len(ids) - maxListedKills; more > 0 {
		_, _ = fmt.Fprintf(a.streams.Err, "and %d more\n", more) // likewise
	}
	if err := Confirm(a.streams, fmt.Sprintf("End %s?", FormatCount(len(ids), "session", "sessions"))); err != nil {
		return fmt.Errorf("session kill: %w", err)
	}
	return nil
}

func checkChangePermission(ctx context.Context, a *adminCommand) error {
	me, err := getObject[api.Caller](ctx, a, "whoami", nil)
	switch {
	case err != nil:
		return err
	case me.MayChange:
		return nil
	case me.Administrator == "":
		return WithAdvice(&api.Error{Status: http.StatusUnauthorized, Text: me.DenialReason})
	}
	return WithAdvice(&api.Error{Status: http.StatusForbidden, Text: me.DenialReason})
}

// Confirm prompts on the terminal, and returns an error unless the user types yes.
func Confirm(w IOStreams, question string) error {
	_, _ = fmt.Fprint(w.Err, strings.TrimSpace(question+" Type yes to go on:")+" ") // nothing can be done about an error
	reply, err := bufio.NewReader(io.LimitReader(w.In, maxConfirmation)).ReadString('\n')
	w.progressLine.userEndedLine()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(reply) != "yes" {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}

const maxConfirmation = 64

type sessionKill struct {
	*adminCommand
	remainingIDs []string // the sessions that it has not tried to end
	ends         []api.End
	firstErr     error // the first error about one of them
	progress     *Progress
}

// killSessions ends the sessions in order and prints their ends. It continues after an error, and returns the
// first one.
func killSessions(ctx context.Context, a *adminCommand, ids []string) error {
	k := &sessionKill{adminCommand: a, remainingIDs: ids, progress: NewProgress(a.streams, "sessions", len(ids))}
	err := a.ensemble.callInEnsemble(ctx, func(c *api.Client) error { return k.killThrough(ctx, c) })
	k.progress.Done()
	if k.firstErr == nil {
		k.firstErr = WithAdvice(err)
	} else if err != nil {
		warnf(a.streams, "%v", err)
	}
	if len(k.ends) == 0 {
		return k.firstErr
	}
	return errors.Join(k.firstErr, PrintRows(a.output, endColumns(a.streams.Now()), RowsOf(k.ends)))
}

// killThrough ends the remaining sessions through one member. It returns an error only if that member was
// removed, so that others can be tried.
func (k *sessionKill) killThrough(ctx context.Context, c *api.Client) error {
	for len(k.remainingIDs) > 0 {
		id := k.remainingIDs[0]
		end, err := api.Post[api.End](ctx, c, "sessions/"+url.PathEscape(id)+"/kill", struct{}{})
		if isRemovedError(err) {
			return fmt.Errorf("session kill %s: %w", id, err)
		}
		k.remainingIDs = k.remainingIDs[1:]
		k.progress.Add(1)
		if err == nil {
			k.ends = append(k.ends, end)
			continue
		}
		err = explainKillError(ctx, k.adminCommand, id, err)
		if k.firstErr == nil {
			k.firstErr = err
		} else {
			k.progress.Done()
			warnf(k.streams, "%v", err)
		}
		if s := StatusOf(err); s == Denied || s == Unavailable || ctx.Err() != nil {
			k.remainingIDs = nil // the others would fail likewise
		}
	}
	return nil
}

func explainKillError(ctx context.Context, a *adminCommand, id string, err error) error {
	var apiErr *api.Error
	switch {
	case errors.As(err, &apiErr) && apiErr.Status == http.StatusNotFound:
		return explainMissingSession(ctx, a, id, WithAdvice(err))
	case !mayHaveArrived(err):
		return fmt.Errorf("session kill %s: %w", id, WithAdvice(err))
	}
	return OutcomeUnknown.Errorf("session kill %s: not confirmed: %w; rollcall why %s shows whether it has ended", id, err, id)
}
