package cli

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/zk/jute"
)

func newSessions(w IOStreams) *cobra.Command {
	state := ""
	f := newListCommand(w, rowList[api.Session]{
		noun: "sessions", columns: sessionColumns, key: func(s api.Session) string { return s.ID }, inOrderOf: "id",
	})
	f.moreQuery = func() url.Values { return queryWithoutEmpty("state", state) }
	cmd := f.register(&cobra.Command{
		Use: "sessions [flags]", Short: "list the sessions: where each is connected, when it was last heard, how much it asks",
		Long: "Lists the sessions of the ensemble, by id.",
		Example: "  rollcall sessions --sort rate --limit 10 --watch\n  rollcall sessions --member 2 --sort -ephemerals " +
			"--limit 10\n  rollcall sessions --state disconnected --watch\n  rollcall sessions -o json | jq -r '.[].address'",
	})
	cmd.Flags().StringVar(&state, "state", "", "only sessions in this `state`: connected, disconnected or unknown")
	completeFlag(cmd, "state", "connected", "disconnected", "unknown")
	return cmd
}

func sessionColumns(now time.Time) []Column[api.Session] {
	return []Column[api.Session]{
		{
			Name: "id", Cell: func(s api.Session) string { return s.ID },
			Compare: func(a, b api.Session) int { return cmp.Compare(parseIDNumber(a.ID), parseIDNumber(b.ID)) },
		},
		{
			Name: "state", Cell: func(s api.Session) string { return s.State },
			Compare: compareBy(func(s api.Session) string { return s.State }), Tint: stateTint, MarkChanges: true,
		},
		{
			Name: "member", AlignRight: true, Cell: func(s api.Session) string { return formatMember(s.MemberID) },
			Compare: compareBy(func(s api.Session) uint32 { return s.MemberID }), MarkChanges: true,
		},
		{
			Name: "address", Cell: func(s api.Session) string { return orDash(s.Address) },
			Compare: compareBy(func(s api.Session) string { return s.Address }), MarkChanges: true,
		},
		{
			Name: "timeout", AlignRight: true, Cell: func(s api.Session) string { return formatMillis(&s.TimeoutMs) },
			Compare: compareBy(func(s api.Session) int64 { return s.TimeoutMs }),
		},
		{
			Name: "left", AlignRight: true, Cell: func(s api.Session) string { return formatMillis(s.LeftMs) },
			Compare: compareBy(func(s api.Session) int64 { return orMinusOne(s.LeftMs) }), Tint: timeLeftTint,
		},
		{
			Name: "heard", AlignRight: true, Cell: func(s api.Session) string { return formatMillis(s.HeardMs) },
			Compare: compareBy(func(s api.Session) int64 { return orMinusOne(s.HeardMs) }),
		},
		{
			Name: "ephemerals", AlignRight: true, Cell: func(s api.Session) string { return strconv.Itoa(s.EphemeralCount) },
			Compare: compareBy(func(s api.Session) int { return s.EphemeralCount }), MarkChanges: true,
		},
		{
			Name: "watches", AlignRight: true, Cell: func(s api.Session) string { return strconv.Itoa(s.WatchCount) },
			Compare: compareBy(func(s api.Session) int { return s.WatchCount }), MarkChanges: true,
		},
		ofSession(rateColumn()), ofSession(bytesColumn()),
		{
			Name: "age", WideOnly: true, AlignRight: true,
			Cell:    func(s api.Session) string { return formatAge(now, s.CreatedAt) },
			Compare: func(a, b api.Session) int { return b.CreatedAt.Compare(a.CreatedAt) },
		},
		wideOnly(ofSession(receivedColumn())), wideOnly(ofSession(sentColumn())), wideOnly(ofSession(queuedColumn())),
		wideOnly(ofSession(averageColumn())), wideOnly(ofSession(slowestColumn())),
	}
}

func compareBy[T any, K cmp.Ordered](key func(T) K) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(key(a), key(b)) }
}

func orMinusOne(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// parseIDNumber parses a session's id for sorting. Ids have no leading zeroes, so that their texts do not
// sort like numbers.
func parseIDNumber(id string) uint64 {
	n, _ := jute.ParseSessionID(id)
	return uint64(n)
}

// ofSession makes a column of connections one of sessions. A session without a connection has no value, and comes as if
// it were 0.
func ofSession(c Column[api.Connection]) Column[api.Session] {
	of := Column[api.Session]{
		Name: c.Name, AlignRight: c.AlignRight, GreatestFirst: c.GreatestFirst, MarkChanges: c.MarkChanges,
		Cell: func(s api.Session) string {
			if s.Connection == nil {
				return unknownText
			}
			return c.Cell(*s.Connection)
		},
		Compare: func(a, b api.Session) int { return c.Compare(connectionOf(a), connectionOf(b)) },
	}
	if c.Tint != nil {
		of.Tint = func(s api.Session) Tint { return c.Tint(connectionOf(s)) }
	}
	return of
}

func connectionOf(s api.Session) api.Connection {
	if s.Connection == nil {
		return api.Connection{}
	}
	return *s.Connection
}

func wideOnly[T any](c Column[T]) Column[T] {
	c.WideOnly, c.MarkChanges = true, false // a mark would name a column that is not there
	return c
}

func stateTint(s api.Session) Tint {
	switch s.State {
	case "connected":
		return Green
	case "disconnected":
		return Yellow
	}
	return Dim
}

// timeLeftTint warns if less than a third of the timeout is left: the client should have pinged.
func timeLeftTint(s api.Session) Tint {
	return tintIf(s.LeftMs != nil && *s.LeftMs < s.TimeoutMs/3, Yellow)
}

const (
	defaultWatchInterval = 2 * time.Second
	// minWatchInterval bounds --every, because each list queries all members.
	minWatchInterval = 200 * time.Millisecond
	homeAndClear     = "\x1b[H\x1b[J"
)

// printRepeatedly calls print until ctx ends, which is no error. On a terminal each output replaces the
// previous one, and lines is the number of rows that fit. Elsewhere an empty line separates the outputs, and
// lines is 0.
func printRepeatedly(ctx context.Context, w IOStreams, every time.Duration,
	print func(w IOStreams, lines int) error,
) error {
	if every < minWatchInterval {
		return usageErrorf("--every %v: must be %v or longer", every, minWatchInterval)
	}
	for first := true; ; first = false {
		text, lines, separator := new(bytes.Buffer), 0, ""
		screen := w
		screen.Out = text
		switch {
		case w.TerminalSize != nil:
			_, height := w.TerminalSize()
			lines, separator = max(1, height-2), homeAndClear // the head of the table, and the cursor's line
		case !first:
			separator = "\n"
		}
		if err := print(screen, lines); err != nil {
			return ignoreCanceled(ctx, err)
		}
		if _, err := io.WriteString(w.Out, separator+text.String()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
