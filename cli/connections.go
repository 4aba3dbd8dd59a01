package cli

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

func newConnections(w IOStreams) *cobra.Command {
	return newListCommand(w, rowList[api.Connection]{
		noun: "connections", columns: connectionColumns,
		key: func(c api.Connection) string { return fmt.Sprintf("%d/%d", c.MemberID, c.Number) },
	}).register(&cobra.Command{
		Use: "connections [flags]", Short: "list the client connections of all members",
		Long:    "Lists the client connections of all members, by member.",
		Example: "  rollcall connections --sort rate --limit 10 --watch\n  rollcall connections --sort slowest --limit 10",
	})
}

func connectionColumns(now time.Time) []Column[api.Connection] {
	return []Column[api.Connection]{
		numberColumn("member", func(c api.Connection) uint32 { return c.MemberID }, formatMember),
		sortedColumn("address", func(c api.Connection) string { return c.Address }, orDash),
		{Name: "tls", Cell: func(c api.Connection) string { return orDash(c.TLS) }},
		sessionIDColumn("session", func(c api.Connection) string { return c.SessionID }).marked(),
		ageColumn(now, func(c api.Connection) time.Time { return c.EstablishedAt }),
		numberColumn("received", func(c api.Connection) uint64 { return c.Received }, formatNumber),
		numberColumn("sent", func(c api.Connection) uint64 { return c.Sent }, formatNumber),
		// its changes are not marked: the rate of any busy client changes a little each time
		numberColumn("rate", func(c api.Connection) float64 { return c.RequestsPerS }, formatRate).greatestFirst(),
		numberColumn("bytes", func(c api.Connection) int64 { return c.BytesPerS }, formatByteRate).greatestFirst(),
		numberColumn("queued", func(c api.Connection) int { return c.QueuedRequests }, formatNumber).marked().tinted(queueTint),
		{Name: "last", Cell: func(c api.Connection) string { return orDash(c.LastOp) }},
		numberColumn("average", func(c api.Connection) int64 { return c.AvgUs }, formatLatency).greatestFirst(),
		numberColumn("slowest", func(c api.Connection) int64 { return c.MaxUs }, formatLatency).greatestFirst(),
		{Name: "number", WideOnly: true, AlignRight: true, Cell: func(c api.Connection) string { return formatNumber(c.Number) }},
		{Name: "timeout", WideOnly: true, AlignRight: true, Cell: func(c api.Connection) string { return formatMillis(&c.TimeoutMs) }},
		{Name: "zxid", WideOnly: true, AlignRight: true, Cell: func(c api.Connection) string { return c.LastZxid }},
		{Name: "cipher", WideOnly: true, Cell: func(c api.Connection) string { return orDash(c.Cipher) }},
	}
}

func queueTint(c api.Connection) Tint { return tintIf(c.QueuedRequests > 0, Yellow) }

// formatRate formats requests per second. A client that only pings does less than one.
func formatRate(perSecond float64) string {
	if perSecond < 9.95 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}

func formatByteRate(perSecond int64) string { return FormatSize(perSecond) + "/s" }

func formatLatency(us int64) string {
	if us < 10_000 {
		return fmt.Sprintf("%.1fms", float64(us)/1000)
	}
	return FormatDuration(time.Duration(us) * time.Microsecond)
}

func newWatches(w IOStreams) *cobra.Command {
	a, session, limit := newAdminCommand(w), "", 0
	cmd := a.registerFlags(&cobra.Command{
		Use: "watches [flags] [PATH]", Short: "list the watches that a change at a path would fire, or those of a session",
		GroupID: InspectGroup, Args: RangeArgs(0, 1, "one path, or --session ID"),
		Long: "Lists the watches that a change at a path would fire. Recursive watches on the nodes above it are among " +
			"them. With --session it lists those of a session.",
		Example: "  rollcall watches /config\n  rollcall watches --session 0x1000012f99a0001",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, query, err := watchesQuery(a, args, session)
			if err != nil {
				return err
			}
			rows := listWatches(cmd.Context(), a, path, query, limit)
			return PrintRows(a.output, watchColumns(), withRowProgress(a.streams, "watches", rows))
		},
	})
	cmd.Flags().StringVar(&session, "session", "", "list the watches of the session with this `id`")
	addLimitFlag(cmd, &limit)
	return cmd
}

// listWatches lists watches with paths relative to the user's root.
func listWatches(ctx context.Context, a *adminCommand, path string, query url.Values, limit int) iter.Seq2[api.Watch,
	error] {
	return relativeRows(a, listRows[api.Watch](ctx, a, path, query, limit), func(w *api.Watch) *string { return &w.Path })
}

// queryWithoutEmpty returns pairs of names and values as parameters, without empty values.
func queryWithoutEmpty(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

func watchesQuery(a *adminCommand, args []string, session string) (path string, query url.Values, err error) {
	switch {
	case (len(args) == 1) == (session != ""):
		return "", nil, UsageError.Errorf("watches: it takes one path, or --session ID")
	case session != "":
		return "sessions/" + url.PathEscape(session) + "/watches", url.Values{}, checkSessionID(session)
	}
	full, err := a.fullPath(args[0])
	return "watches", url.Values{"path": {full}}, err
}

func watchColumns() []Column[api.Watch] {
	return []Column[api.Watch]{
		{Name: "member", AlignRight: true, Cell: func(w api.Watch) string { return formatMember(w.MemberID) }},
		{Name: "session", Cell: func(w api.Watch) string { return w.SessionID }},
		{Name: "kind", Cell: formatWatchKind},
		{Name: "connection", WideOnly: true, AlignRight: true, Cell: func(w api.Watch) string { return formatNumber(w.Connection) }},
		{Name: "path", Cell: func(w api.Watch) string { return w.Path }},
	}
}

func formatWatchKind(w api.Watch) string {
	var kinds []string
	for _, k := range []struct {
		is   bool
		name string
	}{
		{w.Data, "data"},
		{w.Children, "children"},
		{w.Recursive, "recursive"},
		{w.Persistent && !w.Recursive, "persistent"},
	} {
		if k.is {
			kinds = append(kinds, k.name)
		}
	}
	return strings.Join(kinds, ",")
}
