package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

type whyCommand struct {
	*adminCommand
	limit int
	since time.Duration // 0: however long ago
}

func newWhy(w IOStreams) *cobra.Command {
	a := &whyCommand{adminCommand: newAdminCommand(w), limit: 20}
	cmd := a.registerPast(a.registerFlags(&cobra.Command{
		Use: "why [flags] [ID|PATH|ADDRESS]", Short: "say how sessions ended, and what removed nodes", GroupID: InspectGroup,
		Args: RangeArgs(0, 1, "the id of a session, a path, or the address of a client"),
		Long: "Says how a session ended, how the sessions of a client's address ended, or what removed the node at a " +
			"path. If the node exists, it names the owner. Without an argument it lists the " +
			"sessions that ended last, and the nodes that were removed last, the newest first. The ensemble stores its last " +
			"10,000 ended sessions, and each member remembers the last 10,000 removals in memory. What they do not remember of a session, " +
			"an address or a path, such as a removal before their restart, the command searches in the log that a member keeps, which " +
			"takes longer and needs the credentials of an administrator. The list without an argument has only what they remember.",
		Example: "  rollcall why --since 10m\n  rollcall why 0x1000012f99a0001\n  rollcall why /locks/backup\n  rollcall " +
			"why 10.0.0.7",
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
	}), true)
	addIntFlag(cmd, &a.limit, "limit", "print the newest `N` of each list only", 1, noMaximum)
	cmd.Flags().DurationVar(&a.since, "since", 0, "only what happened within this `duration`, such as 90s or 24h")
	return cmd
}

// validate returns an error if about is neither empty nor a session id, a path or an address.
func (a *whyCommand) validate(about string) error {
	id := strings.HasPrefix(about, "0x")
	switch {
	case a.since < 0:
		return UsageError.Errorf("why: --since %v: must be a duration, such as 10m, or 0 for no limit", a.since)
	case id && a.since != 0:
		return UsageError.Errorf("why: --since is for lists; a session ends once, so leave it out")
	case id:
		return checkSessionID(about)
	case about == "" || strings.HasPrefix(about, "/") || isAddress(about):
		return nil
	}
	return UsageError.Errorf("why: %.100q is none of: the id of a session such as 0x1000012f99a0001, a path such as "+
		"/locks/a, an IP address with or without a port", about)
}

// newestRows returns the rows that are not older than --since. rows must be in descending order of at.
func newestRows[T any](a *whyCommand, rows iter.Seq2[T, error], at func(T) time.Time) ([]T, error) {
	found, first := []T{}, a.streams.Now().Add(-a.since)
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

func endedAt(e api.End) time.Time { return e.EndedAt }

func removedAt(r api.Removal) time.Time { return r.RemovedAt }

func (a *whyCommand) listEnds(ctx context.Context, query url.Values) ([]api.End, error) {
	rows := listRows[api.End](ctx, a.adminCommand, "ends", query, a.limit)
	return newestRows(a, rows, endedAt)
}

// listRemovals lists removals with paths relative to the user's root.
func (a *whyCommand) listRemovals(ctx context.Context, query url.Values) ([]api.Removal, error) {
	rows := relativeRows(a.adminCommand, listRows[api.Removal](ctx, a.adminCommand, "removals", query, a.limit),
		func(r *api.Removal) *string { return &r.Path })
	return newestRows(a, rows, removedAt)
}

func (a *whyCommand) withinText() string {
	if a.since == 0 {
		return ""
	}
	return " within " + FormatDuration(a.since)
}

// latestHistory is printed without an argument, newest first.
type latestHistory struct {
	Ends     []api.End     `json:"ends"`
	Removals []api.Removal `json:"removals"`
}

func (a *whyCommand) printLatest(ctx context.Context) (err error) {
	var reply latestHistory
	if reply.Ends, err = a.listEnds(ctx, url.Values{}); err != nil {
		return err
	}
	if reply.Removals, err = a.listRemovals(ctx, url.Values{}); err != nil {
		return err
	}
	if len(reply.Removals) < a.limit && a.ensemble.pastClient == nil {
		warnf(a.streams, "these are the removals that the members remember since they started; older ones are in the log that they "+
			"keep: see rollcall why PATH and rollcall changes")
	}
	if !a.output.IsText() {
		return printRow(a.output, nil, reply)
	}
	_, err = fmt.Fprintf(a.streams.Out, "Sessions that ended%s, the newest first:\n", a.withinText())
	err = errors.Join(err, PrintRows(a.output, endColumns(a.streams.Now()), RowsOf(reply.Ends)))
	_, werr := fmt.Fprintf(a.streams.Out, "\nNodes that were removed%s, the newest first:\n", a.withinText())
	return errors.Join(err, werr, PrintRows(a.output, removalColumns(a.streams.Now()), RowsOf(reply.Removals)))
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	_, withPort := netip.ParseAddrPort(text)
	return err == nil || withPort == nil
}

// printEnds prints the newest ends of the sessions selected by a query parameter.
func (a *whyCommand) printEnds(ctx context.Context, parameter, value string) error {
	ends, err := a.listEnds(ctx, url.Values{parameter: {value}})
	if err == nil && len(ends) == 0 {
		ends, err = a.olderEnds(ctx, parameter, value)
	}
	if err != nil {
		return err
	}
	return PrintRows(a.output, endColumns(a.streams.Now()), RowsOf(ends))
}

// olderEnds returns ends that the ensemble does not remember, from the kept log.
func (a *whyCommand) olderEnds(ctx context.Context, parameter, value string) ([]api.End, error) {
	notFound := NotFound.Errorf("why: none of the last 10,000 sessions that ended%s had a client at %s", a.withinText(), value)
	if parameter == "session" {
		var ended bool
		if ended, notFound = noEndError(ctx, a.adminCommand, value); !ended {
			return nil, notFound
		}
	}
	if a.past.isSet() {
		return nil, notFound
	}
	return a.pastEnds(ctx, parameter, value, notFound)
}

// noEndError returns the error for a session without an end, and whether it may have ended long ago.
func noEndError(ctx context.Context, a *adminCommand, id string) (mayHaveEnded bool, err error) {
	s, err := getObject[api.OneSession](ctx, a, "sessions/"+url.PathEscape(id), nil)
	switch {
	case err == nil:
		return false, NotFound.Errorf("why: session %s has not ended: it is %s, of %s on member %s", id, s.State,
			orDash(s.Address), formatMember(s.MemberID))
	case StatusOf(err) == NotFound:
		return true, NotFound.Errorf("why: there is no session %s, and none of the last 10,000 that ended is it", id)
	}
	return false, err
}

func endColumns(now time.Time) []Column[api.End] {
	return []Column[api.End]{
		{Name: "id", Cell: func(e api.End) string { return e.ID }},
		{Name: "ended", AlignRight: true, Cell: func(e api.End) string { return formatAge(now, e.EndedAt) + " ago" }},
		{
			Name: "reason", Cell: func(e api.End) string { return e.Reason },
			Tint: func(e api.End) Tint { return tintIf(e.Reason != "closed", Yellow) },
		},
		{Name: "by", Cell: func(e api.End) string { return orDash(e.EndedBy) }},
		{Name: "member", AlignRight: true, Cell: func(e api.End) string { return formatMember(e.MemberID) }},
		{Name: "address", Cell: func(e api.End) string { return orDash(e.Address) }},
		{Name: "silent", AlignRight: true, Cell: func(e api.End) string { return formatMillis(&e.SilentMs) }},
		{Name: "timeout", AlignRight: true, Cell: func(e api.End) string { return formatMillis(&e.TimeoutMs) }},
		{Name: "ephemerals", AlignRight: true, Cell: func(e api.End) string { return strconv.Itoa(e.EphemeralCount) }},
		{Name: "at", WideOnly: true, Cell: func(e api.End) string { return formatMillisecond(e.EndedAt) }},
		{Name: "leader", WideOnly: true, AlignRight: true, Cell: func(e api.End) string { return formatMember(e.LeaderID) }},
		{Name: "term", WideOnly: true, AlignRight: true, Cell: func(e api.End) string { return FormatTerm(e.Term) }},
		{Name: "zxid", WideOnly: true, AlignRight: true, Cell: func(e api.End) string { return e.Zxid }},
	}
}

func formatMillisecond(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// pathHistory is a node and the removals of earlier nodes at its path.
type pathHistory struct {
	Path     string        `json:"path"`
	Node     api.Owner     `json:"node"`
	Removals []api.Removal `json:"removals"` // newest first
}

// printPathHistory prints the removals at a path, and the owner if the node exists.
func (a *whyCommand) printPathHistory(ctx context.Context, path string) error {
	full, err := a.fullPath(path)
	if err != nil {
		return err
	}
	node, err := getObject[api.Owner](ctx, a.adminCommand, "owner", url.Values{"path": {full}})
	if err != nil {
		return err
	}
	node.Path = path
	reply := pathHistory{Path: path, Node: node}
	if reply.Removals, err = a.listRemovals(ctx, url.Values{"path": {full}}); err != nil {
		return err
	}
	if node.Kind == kindNone && len(reply.Removals) == 0 {
		notFound := NotFound.Errorf("why: there is no node %s, and its removal is not among those that the "+
			"ensemble remembers%s", path, a.withinText())
		if a.past.isSet() {
			return notFound
		}
		if reply.Removals, err = a.pastRemovals(ctx, full, notFound); err != nil {
			return err
		}
	}
	if !a.output.IsText() {
		return printRow(a.output, nil, reply)
	}
	if node.Kind != kindNone {
		_, err = fmt.Fprintln(a.streams.Out, EscapeUnprintable("It exists: "+formatOwner(node)))
	}
	if len(reply.Removals) > 0 {
		err = errors.Join(err, PrintRows(a.output, removalColumns(a.streams.Now()), RowsOf(reply.Removals)))
	}
	return err
}

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

const kindNone = "none"

func newWhoOwns(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	return a.registerPast(a.registerFlags(&cobra.Command{
		Use: "who-owns [flags] PATH", Short: "name the session that an ephemeral node belongs to, or who waits for a lock",
		GroupID: InspectGroup, Args: RangeArgs(1, 1, "one path"),
		Long: "Names the session that an ephemeral node belongs to, with its client. For other nodes it " +
			"lists the sessions of their ephemeral children, in the order of the numbers in their names, at most 100. If all " +
			"of them have names of a lock or an election of package client, Curator, kazoo or go-zookeeper/zk, it says which " +
			"sessions hold it and which wait. The holders of a semaphore are only listed.",
		Example: "  rollcall who-owns /leader/_c_6b4fb4ad-latch-0000000003\n  rollcall who-owns /locks/backup\n  rollcall " +
			"who-owns -o json /locks/backup | jq -r '.children[] | select(.turn == \"holds\") | .id'",
		RunE: func(cmd *cobra.Command, args []string) error {
			full, err := a.fullPath(args[0])
			if err != nil {
				return err
			}
			node, err := getObject[api.Owner](cmd.Context(), a, "owner", url.Values{"path": {full}})
			if err != nil {
				return err
			}
			node.Path = args[0]
			if node.Kind == kindNone {
				return NotFound.Errorf("who-owns: there is no node %s; rollcall why %s says what removed it", args[0], args[0])
			}
			for _, s := range node.Silent {
				a.warnSilent(s)
			}
			return printRow(a.output, ownerColumns(knownColumns(a, sessionColumns(a.streams.Now()), liveSessionColumns), node), node)
		},
	}), false)
}

// fullPath adds the root of --hosts. The member checks the rest.
func (a *adminCommand) fullPath(text string) (full string, err error) {
	if !strings.HasPrefix(text, "/") {
		return "", UsageError.Errorf("%.100q is not a path: that begins with /", text)
	}
	space, err := a.ensemble.rootOnlySpace()
	return space.FullPath(text), err
}

// ownerColumns returns the node's lines, and those of its session if it is known.
func ownerColumns(session []Column[api.Session], node api.Owner) []Column[api.Owner] {
	columns := []Column[api.Owner]{
		{Name: "path", Cell: func(o api.Owner) string { return o.Path }},
		{Name: "kind", Cell: func(o api.Owner) string { return o.Kind }},
		{Name: "owner", Cell: func(o api.Owner) string { return formatOwner(o) }},
	}
	columns = append(columns, childColumns(node)...)
	if node.Session == nil {
		return columns
	}
	for _, c := range session {
		if c.Name != "id" {
			c.Tint = nil
			columns = append(columns, columnOf(c, func(o api.Owner) *api.Session { return o.Session }))
		}
	}
	return columns
}

// turnNames are the names of the lines of a node's ephemeral children, by their turns.
var turnNames = map[string]string{"holds": "held by", "waits": "then waiting", "": "ephemerals"}

// childColumns returns a line for each ephemeral child.
func childColumns(node api.Owner) []Column[api.Owner] {
	var lines fixedLines[api.Owner]
	for _, child := range node.Children {
		lines.add(turnNames[child.Turn], formatChild(child))
	}
	if more := node.EphemeralCount - len(node.Children); more > 0 {
		lines.add("and", fmt.Sprintf("%d more", more))
	}
	if node.ChildrenCut {
		lines.add("but", "the node has too many children to look at all of them: others may come before these")
	}
	return lines.columns
}

func formatChild(child api.OwnedChild) string {
	switch {
	case child.SessionEnded:
		return fmt.Sprintf("session %s, which has ended; %s is about to be removed", child.SessionID, child.Name)
	case child.MemberID == 0:
		return fmt.Sprintf("session %s, by %s", child.SessionID, child.Name)
	}
	return fmt.Sprintf("session %s of %s on member %s, by %s", child.SessionID, orDash(child.Address),
		formatMember(child.MemberID), child.Name)
}

func formatOwner(o api.Owner) string {
	switch {
	case o.SessionID == "":
		return "none: the node is " + o.Kind
	case o.SessionEnded:
		return fmt.Sprintf("session %s, which has ended; the node is about to be removed", o.SessionID)
	case o.Session != nil:
		return fmt.Sprintf("session %s of %s on member %s", o.SessionID, orDash(o.Session.Address),
			formatMember(o.Session.MemberID))
	}
	return "session " + o.SessionID
}
