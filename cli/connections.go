package cli

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

// newConnections returns the command that lists the client connections.
func newConnections(w IOStreams) *cobra.Command {
	a, address, limit, of := newAdminCommand(w), "", 0, ""
	cmd := &cobra.Command{
		Use: "connections [flags]", Short: "list the client connections of all members", GroupID: InspectGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: "Lists the client connections of all members, by member.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return WithStatus(UsageError, fmt.Errorf("connections: --limit %d; allowed is a number from 1 on, or 0 for all", limit))
			}
			query := url.Values{}
			for name, value := range map[string]string{"member": of, "address": address} {
				if value != "" {
					query.Set(name, value)
				}
			}
			rows, err := listRows[api.Connection](cmd.Context(), a, "connections", query, limit)
			if err != nil {
				return err
			}
			return PrintRows(a.Output, connectionColumns(w.Now()), countRows(a.IOStreams, "connections", rows))
		},
	}
	cmd.Flags().StringVar(&of, "member", "", "only connections of the member with this `number`")
	cmd.Flags().StringVar(&address, "address", "", "only connections of a client at this `address`, an IP with or without a port")
	cmd.Flags().IntVar(&limit, "limit", 0, "print the first `N` only")
	a.Register(cmd)
	return cmd
}

// connectionColumns returns the columns of a list of connections.
func connectionColumns(now time.Time) []Column[api.Connection] {
	return []Column[api.Connection]{
		{Name: "member", AlignRight: true, Cell: func(c api.Connection) string { return formatMember(c.MemberID) }},
		{Name: "address", Cell: func(c api.Connection) string { return c.Address }},
		{Name: "tls", Cell: func(c api.Connection) string { return orDash(c.TLS) }},
		{Name: "session", Cell: func(c api.Connection) string { return orDash(c.SessionID) }},
		{Name: "age", AlignRight: true, Cell: func(c api.Connection) string { return formatAge(now, c.EstablishedAt) }},
		{Name: "received", AlignRight: true, Cell: func(c api.Connection) string { return strconv.FormatUint(c.Received, 10) }},
		{Name: "sent", AlignRight: true, Cell: func(c api.Connection) string { return strconv.FormatUint(c.Sent, 10) }},
		{Name: "queued", AlignRight: true, Cell: func(c api.Connection) string { return strconv.Itoa(c.QueuedRequests) }, Tint: func(c api.Connection) Tint { return tintIf(c.QueuedRequests > 0, Yellow) }},
		{Name: "last", Cell: func(c api.Connection) string { return orDash(c.LastOp) }},
		{Name: "average", AlignRight: true, Cell: func(c api.Connection) string { return formatLatency(c.AvgUs) }},
		{Name: "slowest", AlignRight: true, Cell: func(c api.Connection) string { return formatLatency(c.MaxUs) }},
		{Name: "number", WideOnly: true, AlignRight: true, Cell: func(c api.Connection) string { return strconv.FormatUint(c.Number, 10) }},
		{Name: "timeout", WideOnly: true, AlignRight: true, Cell: func(c api.Connection) string { return formatMillis(&c.TimeoutMs) }},
		{Name: "zxid", WideOnly: true, AlignRight: true, Cell: func(c api.Connection) string { return c.LastZxid }},
		{Name: "cipher", WideOnly: true, Cell: func(c api.Connection) string { return orDash(c.Cipher) }},
	}
}

// formatLatency returns microseconds for people.
func formatLatency(us int64) string {
	if us < 10_000 {
		return fmt.Sprintf("%.1fms", float64(us)/1000)
	}
	return FormatDuration(time.Duration(us) * time.Microsecond)
}

// newWatches returns the command that lists watches.
func newWatches(w IOStreams) *cobra.Command {
	a, session, limit := newAdminCommand(w), "", 0
	cmd := &cobra.Command{
		Use: "watches [flags] [PATH]", Short: "list the watches that a change at a path would fire, or those of a session", GroupID: InspectGroup, Args: RangeArgs(0, 1, "one path, or --session ID"),
		Long:    "Lists the watches that a change at a path would fire. Recursive watches on the nodes above it are among them. With --session it lists those of a session.",
		Example: "  rollcall watches /config\n  rollcall watches --session 0x1000012f99a0001",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return WithStatus(UsageError, fmt.Errorf("watches: --limit %d; allowed is a number from 1 on, or 0 for all", limit))
			}
			path, query, err := watchesQuery(a, args, session)
			if err != nil {
				return err
			}
			rows, err := listWatches(cmd.Context(), a, path, query, limit)
			if err != nil {
				return err
			}
			return PrintRows(a.Output, watchColumns(), countRows(a.IOStreams, "watches", rows))
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "list the watches of the session with this `id`")
	cmd.Flags().IntVar(&limit, "limit", 0, "print the first `N` only")
	a.Register(cmd)
	return cmd
}

// listWatches is list for watches, with their paths as the user would write them.
func listWatches(ctx context.Context, a *adminCommand, path string, query url.Values, limit int) (iter.Seq2[api.Watch, error], error) {
	space, err := a.rootSpace()
	if err != nil {
		return nil, err
	}
	rows, err := listRows[api.Watch](ctx, a, path, query, limit)
	if err != nil {
		return nil, err
	}
	return func(yield func(api.Watch, error) bool) {
		for row, err := range rows {
			if err == nil {
				row.Path = space.RelativePath(row.Path)
			}
			if !yield(row, err) {
				return
			}
		}
	}, nil
}

// watchesQuery returns the path below /v1/ and its parameters.
func watchesQuery(a *adminCommand, args []string, session string) (path string, query url.Values, err error) {
	switch {
	case (len(args) == 1) == (session != ""):
		return "", nil, WithStatus(UsageError, fmt.Errorf("watches: it takes one path, or --session ID"))
	case session != "":
		return "sessions/" + url.PathEscape(session) + "/watches", url.Values{}, checkID(session)
	}
	full, err := a.fullPath(args[0])
	return "watches", url.Values{"path": {full}}, err
}

// watchColumns returns the columns of a list of watches.
func watchColumns() []Column[api.Watch] {
	return []Column[api.Watch]{
		{Name: "member", AlignRight: true, Cell: func(w api.Watch) string { return formatMember(w.MemberID) }},
		{Name: "session", Cell: func(w api.Watch) string { return w.SessionID }},
		{Name: "kind", Cell: formatWatchKind},
		{Name: "connection", WideOnly: true, AlignRight: true, Cell: func(w api.Watch) string { return strconv.FormatUint(w.Connection, 10) }},
		{Name: "path", Cell: func(w api.Watch) string { return w.Path }},
	}
}

// formatWatchKind returns what a watch is for.
func formatWatchKind(w api.Watch) string {
	var kinds []string
	for _, k := range []struct {
		is   bool
		name string
	}{{w.Data, "data"}, {w.Children, "children"}, {w.Recursive, "recursive"}, {w.Persistent && !w.Recursive, "persistent"}} {
		if k.is {
			kinds = append(kinds, k.name)
		}
	}
	return strings.Join(kinds, ",")
}
