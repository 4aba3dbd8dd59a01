package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/api"
)

// newWhy returns the command that says how sessions ended and what removed nodes.
func newWhy(w World) *cobra.Command {
	a, limit := newAsk(w), 0
	cmd := &cobra.Command{
		Use: "why [flags] ID|PATH|ADDRESS", Short: "say how a session ended, or what removed a node", GroupID: Look, Args: Takes(1, 1, "the id of a session, a path, or the address of a client"),
		Long: "Says how a session ended, how the sessions of a client's address ended, or what removed the node at a path. If the node exists, it names the owner. The ensemble stores its last " +
			"10,000 ended sessions, so that no restart forgets them. Each member remembers the last removals of nodes in its memory alone: a member that is started again has forgotten those before.",
		Example: "  rollcall why 0x1000012f99a0001\n  rollcall why /locks/backup\n  rollcall why 10.0.0.7",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, about := cmd.Context(), args[0]
			switch {
			case limit < 1:
				return With(WrongUse, fmt.Errorf("why: --limit %d; allowed is a number from 1 on", limit))
			case strings.HasPrefix(about, "/"):
				return whyGone(ctx, a, about, limit)
			case isAddress(about):
				return whyEnded(ctx, a, "address", about, limit)
			case strings.HasPrefix(about, "0x"):
				if err := checkID(about); err != nil {
					return err
				}
				return whyEnded(ctx, a, "session", about, limit)
			}
			return With(WrongUse, fmt.Errorf("why: %.100q is none of: the id of a session such as 0x1000012f99a0001, a path such as /locks/a, an IP address with or without a port", about))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "print the newest `N` only")
	a.Register(cmd)
	return cmd
}

// isAddress reports whether text is an IP address, with or without a port.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	_, withPort := netip.ParseAddrPort(text)
	return err == nil || withPort == nil
}

// whyEnded prints the newest ends of the sessions that parameter selects.
func whyEnded(ctx context.Context, a *ask, parameter, value string, limit int) error {
	rows, err := list[api.End](ctx, a, "ends", url.Values{parameter: {value}}, limit)
	if err != nil {
		return err
	}
	var ends []api.End
	for end, err := range rows {
		if err != nil {
			return err
		}
		ends = append(ends, end)
	}
	switch {
	case len(ends) > 0:
		return Print(a.Output, endColumns(a.Now()), rowsOf(ends))
	case parameter == "session":
		return stillAlive(ctx, a, value)
	}
	return With(NotFound, fmt.Errorf("why: none of the last 10,000 sessions that ended had a client at %s", value))
}

// stillAlive returns why a session has no end.
func stillAlive(ctx context.Context, a *ask, id string) error {
	s, err := one[api.OneSession](ctx, a, "sessions/"+url.PathEscape(id), nil)
	switch {
	case err == nil:
		return With(NotFound, fmt.Errorf("why: session %s has not ended: it is %s, of %s on member %s", id, s.State, orDash(s.Address), member(s.Member)))
	case StatusOf(err) == NotFound:
		return With(NotFound, fmt.Errorf("why: there is no session %s, and none of the last 10,000 that ended is it", id))
	}
	return err
}

// endColumns returns the columns of a list of ends.
func endColumns(now time.Time) []Column[api.End] {
	return []Column[api.End]{
		{Name: "id", Cell: func(e api.End) string { return e.ID }},
		{Name: "ended", Right: true, Cell: func(e api.End) string { return age(now, e.Ended) + " ago" }},
		{Name: "reason", Cell: func(e api.End) string { return e.Reason }, Tint: func(e api.End) Tint { return tintIf(e.Reason != "closed", Yellow) }},
		{Name: "by", Cell: func(e api.End) string { return orDash(e.By) }},
		{Name: "member", Right: true, Cell: func(e api.End) string { return member(e.Member) }},
		{Name: "address", Cell: func(e api.End) string { return orDash(e.Address) }},
		{Name: "silent", Right: true, Cell: func(e api.End) string { return millis(&e.SilentMs) }},
		{Name: "timeout", Right: true, Cell: func(e api.End) string { return millis(&e.TimeoutMs) }},
		{Name: "ephemerals", Right: true, Cell: func(e api.End) string { return strconv.Itoa(e.Ephemerals) }},
		{Name: "at", Wide: true, Cell: func(e api.End) string { return timeText(e.Ended) }},
		{Name: "leader", Wide: true, Right: true, Cell: func(e api.End) string { return member(e.Leader) }},
		{Name: "term", Wide: true, Right: true, Cell: func(e api.End) string { return strconv.FormatUint(e.Term, 10) }},
		{Name: "zxid", Wide: true, Right: true, Cell: func(e api.End) string { return e.Zxid }},
	}
}

// timeText returns a point in time in UTC, with milliseconds.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// gone is what rollcall why says about a path: the node, and what removed earlier ones there.
type gone struct {
	Path     string        `json:"path"`
	Node     api.Owner     `json:"node"`
	Removals []api.Removal `json:"removals"` // newest first
}

// whyGone prints what removed the node at a path, and its owner if it exists.
func whyGone(ctx context.Context, a *ask, path string, limit int) error {
	full, err := a.path(path)
	if err != nil {
		return err
	}
	space, err := a.space()
	if err != nil {
		return err
	}
	node, err := one[api.Owner](ctx, a, "owner", url.Values{"path": {full}})
	if err != nil {
		return err
	}
	node.Path = path
	rows, err := list[api.Removal](ctx, a, "removals", url.Values{"path": {full}}, limit)
	if err != nil {
		return err
	}
	answer := gone{Path: path, Node: node, Removals: []api.Removal{}}
	for removal, err := range rows {
		if err != nil {
			return err
		}
		removal.Path = space.Relative(removal.Path)
		answer.Removals = append(answer.Removals, removal)
	}
	switch {
	case node.Kind == noNode && len(answer.Removals) == 0:
		return With(NotFound, fmt.Errorf("why: there is no node %s, and its removal is not among those that the ensemble remembers", path))
	case !a.Text():
		return printOne(a.Output, nil, answer)
	}
	if node.Kind != noNode {
		_, err = fmt.Fprintln(a.Out, Visible("It exists: "+ownerText(node)))
	}
	if len(answer.Removals) > 0 {
		err = errors.Join(err, Print(a.Output, removalColumns(a.Now()), rowsOf(answer.Removals)))
	}
	return err
}

// removalColumns returns the columns of a list of removals.
func removalColumns(now time.Time) []Column[api.Removal] {
	return []Column[api.Removal]{
		{Name: "removed", Right: true, Cell: func(r api.Removal) string { return age(now, r.Removed) + " ago" }},
		{Name: "cause", Cell: causeText},
		{Name: "session", Cell: func(r api.Removal) string { return orDash(r.Session) }},
		{Name: "member", Right: true, Cell: func(r api.Removal) string { return member(r.Member) }},
		{Name: "address", Cell: func(r api.Removal) string { return orDash(r.Address) }},
		{Name: "path", Cell: func(r api.Removal) string { return r.Path }},
		{Name: "at", Wide: true, Cell: func(r api.Removal) string { return timeText(r.Removed) }},
		{Name: "zxid", Wide: true, Right: true, Cell: func(r api.Removal) string { return r.Zxid }},
	}
}

// causeText returns what removed a node, with how its session ended if that did.
func causeText(r api.Removal) string {
	if r.End == nil {
		return r.Cause
	}
	text := r.Cause + ": " + r.End.Reason
	if r.End.By != "" {
		text += " by " + r.End.By
	}
	if r.End.Reason == "expired" {
		text += fmt.Sprintf(" after %s of silence", millis(&r.End.SilentMs))
	}
	return text
}
