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

	"rollcall/operator/api"
)

// whyCommand is the command that says how sessions ended, and what removed nodes.
type whyCommand struct {
	*adminCommand
	limit int
	since time.Duration // 0: however long ago
}

// newWhy returns the command that says how sessions ended and what removed nodes.
func newWhy(w IOStreams) *cobra.Command {
	a := &whyCommand{adminCommand: newAdminCommand(w)}
	cmd := &cobra.Command{
		Use: "why [flags] [ID|PATH|ADDRESS]", Short: "say how sessions ended, and what removed nodes", GroupID: InspectGroup, Args: RangeArgs(0, 1, "the id of a session, a path, or the address of a client"),
		Long: "Says how a session ended, how the sessions of a client's address ended, or what removed the node at a path. If the node exists, it names the owner. Without an argument it lists the " +
			"sessions that ended last, and the nodes that were removed last, the newest first. The ensemble stores its last 10,000 ended sessions, so that no restart " +
			"forgets them. Each member remembers the last 10,000 removals in memory alone. After a restart it knows only those in the part of the log that it applies again.",
		Example: "  rollcall why --since 10m\n  rollcall why 0x1000012f99a0001\n  rollcall why /locks/backup\n  rollcall why 10.0.0.7",
		RunE: func(cmd *cobra.Command, args []string) error {
			about := append(args, "")[0]
			if err := a.validate(about); err != nil {
				return err
			}
			switch {
			case about == "":
				return a.printLatest(cmd.Context())
			case strings.HasPrefix(about, "/"):
				return a.printPathHistory(cmd.Context(), about)
			case isAddress(about):
				return a.printEnds(cmd.Context(), "address", about)
			}
			return a.printEnds(cmd.Context(), "session", about)
		},
	}
	cmd.Flags().IntVar(&a.limit, "limit", 20, "print the newest `N` of each list only")
	cmd.Flags().DurationVar(&a.since, "since", 0, "only what happened within this `duration`, such as 90s or 24h")
	a.Register(cmd)
	return cmd
}

// validate returns an error if the flags are wrong, or what is asked about is none of what it may be.
func (a *whyCommand) validate(about string) error {
	id := strings.HasPrefix(about, "0x")
	switch {
	case a.limit < 1:
		return WithStatus(UsageError, fmt.Errorf("why: --limit %d; allowed is a number from 1 on", a.limit))
	case a.since < 0:
		return WithStatus(UsageError, fmt.Errorf("why: --since %v; allowed is a length of time, such as 10m, or 0 for however long ago", a.since))
	case id && a.since != 0:
		return WithStatus(UsageError, errors.New("why: --since is for lists; a session ends once, so leave it out"))
	case id:
		return checkID(about)
	case about == "" || strings.HasPrefix(about, "/") || isAddress(about):
		return nil
	}
	return WithStatus(UsageError, fmt.Errorf("why: %.100q is none of: the id of a session such as 0x1000012f99a0001, a path such as /locks/a, an IP address with or without a port", about))
}

// newestRows returns the newest rows of a list that begins with them. at returns when a row happened.
func newestRows[T any](ctx context.Context, a *whyCommand, path string, query url.Values, at func(T) time.Time) ([]T, error) {
	rows, err := listRows[T](ctx, a.adminCommand, path, query, a.limit)
	if err != nil {
		return nil, err
	}
	found, first := []T{}, a.Now().Add(-a.since)
	for row, err := range rows {
		switch {
		case err != nil:
			return nil, err
		case a.since != 0 && at(row).Before(first):
			return found, nil
		}
		found = append(found, row)
	}
	return found, nil
}

func (a *whyCommand) listEnds(ctx context.Context, query url.Values) ([]api.End, error) {
	return newestRows(ctx, a, "ends", query, func(e api.End) time.Time { return e.EndedAt })
}

// listRemovals returns removals with their paths as the user writes them.
func (a *whyCommand) listRemovals(ctx context.Context, query url.Values) ([]api.Removal, error) {
	space, err := a.rootSpace()
	if err != nil {
		return nil, err
	}
	rows, err := newestRows(ctx, a, "removals", query, func(r api.Removal) time.Time { return r.RemovedAt })
	for i := range rows {
		rows[i].Path = space.RelativePath(rows[i].Path)
	}
	return rows, err
}

// withinText returns what an error says of --since.
func (a *whyCommand) withinText() string {
	if a.since == 0 {
		return ""
	}
	return " within " + FormatDuration(a.since)
}

// latestHistory is what rollcall why says without an argument. Both lists begin with the newest.
type latestHistory struct {
	Ends     []api.End     `json:"ends"`
	Removals []api.Removal `json:"removals"`
}

// printLatest prints how the last sessions ended, and what removed the last nodes.
func (a *whyCommand) printLatest(ctx context.Context) (err error) {
	var answer latestHistory
	if answer.Ends, err = a.listEnds(ctx, url.Values{}); err != nil {
		return err
	}
	if answer.Removals, err = a.listRemovals(ctx, url.Values{}); err != nil {
		return err
	}
	if !a.IsText() {
		return printRow(a.Output, nil, answer)
	}
	_, err = fmt.Fprintf(a.Out, "Sessions that ended%s, the newest first:\n", a.withinText())
	err = errors.Join(err, PrintRows(a.Output, endColumns(a.Now()), rowsOf(answer.Ends)))
	_, werr := fmt.Fprintf(a.Out, "\nNodes that were removed%s, the newest first:\n", a.withinText())
	return errors.Join(err, werr, PrintRows(a.Output, removalColumns(a.Now()), rowsOf(answer.Removals)))
}

// isAddress reports whether text is an IP address, with or without a port.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	_, withPort := netip.ParseAddrPort(text)
	return err == nil || withPort == nil
}

// printEnds prints the newest ends of the sessions that parameter selects.
func (a *whyCommand) printEnds(ctx context.Context, parameter, value string) error {
	ends, err := a.listEnds(ctx, url.Values{parameter: {value}})
	switch {
	case err != nil:
		return err
	case len(ends) > 0:
		return PrintRows(a.Output, endColumns(a.Now()), rowsOf(ends))
	case parameter == "session":
		return explainNoEnd(ctx, a.adminCommand, value)
	}
	return WithStatus(NotFound, fmt.Errorf("why: none of the last 10,000 sessions that ended%s had a client at %s", a.withinText(), value))
}

// explainNoEnd returns why a session has no end.
func explainNoEnd(ctx context.Context, a *adminCommand, id string) error {
	s, err := getOne[api.OneSession](ctx, a, "sessions/"+url.PathEscape(id), nil)
	switch {
	case err == nil:
		return WithStatus(NotFound, fmt.Errorf("why: session %s has not ended: it is %s, of %s on member %s", id, s.State, orDash(s.Address), formatMember(s.MemberID)))
	case StatusOf(err) == NotFound:
		return WithStatus(NotFound, fmt.Errorf("why: there is no session %s, and none of the last 10,000 that ended is it", id))
	}
	return err
}

// endColumns returns the columns of a list of ends.
func endColumns(now time.Time) []Column[api.End] {
	return []Column[api.End]{
		{Name: "id", Cell: func(e api.End) string { return e.ID }},
		{Name: "ended", AlignRight: true, Cell: func(e api.End) string { return formatAge(now, e.EndedAt) + " ago" }},
		{Name: "reason", Cell: func(e api.End) string { return e.Reason }, Tint: func(e api.End) Tint { return tintIf(e.Reason != "closed", Yellow) }},
		{Name: "by", Cell: func(e api.End) string { return orDash(e.EndedBy) }},
		{Name: "member", AlignRight: true, Cell: func(e api.End) string { return formatMember(e.MemberID) }},
		{Name: "address", Cell: func(e api.End) string { return orDash(e.Address) }},
		{Name: "silent", AlignRight: true, Cell: func(e api.End) string { return formatMillis(&e.SilentMs) }},
		{Name: "timeout", AlignRight: true, Cell: func(e api.End) string { return formatMillis(&e.TimeoutMs) }},
		{Name: "ephemerals", AlignRight: true, Cell: func(e api.End) string { return strconv.Itoa(e.EphemeralCount) }},
		{Name: "at", WideOnly: true, Cell: func(e api.End) string { return formatMillisecond(e.EndedAt) }},
		{Name: "leader", WideOnly: true, AlignRight: true, Cell: func(e api.End) string { return formatMember(e.LeaderID) }},
		{Name: "term", WideOnly: true, AlignRight: true, Cell: func(e api.End) string { return strconv.FormatUint(e.Term, 10) }},
		{Name: "zxid", WideOnly: true, AlignRight: true, Cell: func(e api.End) string { return e.Zxid }},
	}
}

// formatMillisecond returns a point in time in UTC, with milliseconds.
func formatMillisecond(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// pathHistory is what rollcall why says about a path: the node, and what removed earlier ones there.
type pathHistory struct {
	Path     string        `json:"path"`
	Node     api.Owner     `json:"node"`
	Removals []api.Removal `json:"removals"` // newest first
}

// printPathHistory prints what removed the node at a path, and its owner if it exists.
func (a *whyCommand) printPathHistory(ctx context.Context, path string) error {
	full, err := a.fullPath(path)
	if err != nil {
		return err
	}
	node, err := getOne[api.Owner](ctx, a.adminCommand, "owner", url.Values{"path": {full}})
	if err != nil {
		return err
	}
	node.Path = path
	answer := pathHistory{Path: path, Node: node}
	if answer.Removals, err = a.listRemovals(ctx, url.Values{"path": {full}}); err != nil {
		return err
	}
	switch {
	case node.Kind == kindNone && len(answer.Removals) == 0:
		return WithStatus(NotFound, fmt.Errorf("why: there is no node %s, and its removal is not among those that the ensemble remembers%s", path, a.withinText()))
	case !a.IsText():
		return printRow(a.Output, nil, answer)
	}
	if node.Kind != kindNone {
		_, err = fmt.Fprintln(a.Out, EscapeUnprintable("It exists: "+formatOwner(node)))
	}
	if len(answer.Removals) > 0 {
		err = errors.Join(err, PrintRows(a.Output, removalColumns(a.Now()), rowsOf(answer.Removals)))
	}
	return err
}

// removalColumns returns the columns of a list of removals.
func removalColumns(now time.Time) []Column[api.Removal] {
	return []Column[api.Removal]{
		{Name: "removed", AlignRight: true, Cell: func(r api.Removal) string { return formatAge(now, r.RemovedAt) + " ago" }},
		{Name: "cause", Cell: formatCause},
		{Name: "session", Cell: func(r api.Removal) string { return orDash(r.SessionID) }},
		{Name: "member", AlignRight: true, Cell: func(r api.Removal) string { return formatMember(r.MemberID) }},
		{Name: "address", Cell: func(r api.Removal) string { return orDash(r.Address) }},
		{Name: "path", Cell: func(r api.Removal) string { return r.Path }},
		{Name: "at", WideOnly: true, Cell: func(r api.Removal) string { return formatMillisecond(r.RemovedAt) }},
		{Name: "zxid", WideOnly: true, AlignRight: true, Cell: func(r api.Removal) string { return r.Zxid }},
	}
}

// formatCause returns what removed a node, with how its session ended if that did.
func formatCause(r api.Removal) string {
	if r.End == nil {
		return r.Cause
	}
	text := r.Cause + ": " + r.End.Reason
	if r.End.EndedBy != "" {
		text += " by " + r.End.EndedBy
	}
	if r.End.Reason == "expired" {
		text += fmt.Sprintf(" after %s of silence", formatMillis(&r.End.SilentMs))
	}
	return text
}
