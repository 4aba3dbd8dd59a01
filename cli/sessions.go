package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/zk/jute"
)

type sessionsCommand struct {
	*adminCommand
	state, member, address string
	sort                   string
	limit                  int
	watch                  bool
	every                  time.Duration
}

func newSessions(w IOStreams) *cobra.Command {
	f := &sessionsCommand{adminCommand: newAdminCommand(w)}
	cmd := f.registerFlags(&cobra.Command{
		Use: "sessions [flags]", Short: "list the sessions: where each is connected, when it was last heard",
		GroupID: InspectGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: fmt.Sprintf("Lists the sessions of the ensemble, by id. It prints them as they arrive, in bounded memory. "+
			"With --sort it reads all sessions before it prints the first. "+
			"It then holds up to %d of them in memory, or few more than N with --limit N. It sorts by one of %s.", maxSorted,
			strings.Join(sessionSortKeys(), ", ")),
		Example: "  rollcall sessions --member 2 --sort -ephemerals --limit 10\n  rollcall sessions --state disconnected " +
			"--watch\n  rollcall sessions -o json | jq -r '.[].address'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.watch {
				return printRepeatedly(cmd.Context(), w, f.every,
					func(w IOStreams, lines int) error { return f.printOnce(cmd.Context(), w, lines) })
			}
			return f.printOnce(cmd.Context(), w, 0)
		},
	})
	fs := cmd.Flags()
	fs.StringVar(&f.state, "state", "", "only sessions in this `state`: connected, disconnected or unknown")
	fs.StringVar(&f.member, "member", "", "only sessions of the member with this `number`")
	fs.StringVar(&f.address, "address", "", "only sessions of a client at this `address`, an IP with or without a port")
	fs.StringVar(&f.sort, "sort", "", "`column` to sort by, such as heard; with a minus in front, the greatest first")
	addLimitFlag(cmd, &f.limit)
	fs.BoolVar(&f.watch, "watch", false, "print the list again and again, until Ctrl-C")
	fs.DurationVar(&f.every, "every", defaultWatchInterval, "with --watch: the `time` between two lists")
	completeFlag(cmd, "sort", sessionSortKeys()...)
	completeFlag(cmd, "state", "connected", "disconnected", "unknown")
	return cmd
}

// printOnce prints the list once. lines is the height of the screen, or 0.
func (f *sessionsCommand) printOnce(ctx context.Context, w IOStreams, lines int) error {
	out := *f.Output
	out.streams = w
	if out.format == "json" && f.isSortedByID() {
		// not decoded, which would take most of the time
		return PrintRows(&out, nil, rowsByID[json.RawMessage](ctx, f, lines))
	}
	columns := sessionColumns(w.Now())
	return PrintRows(&out, columns, f.orderedRows(ctx, columns, lines))
}

func (f *sessionsCommand) isSortedByID() bool { return f.sort == "" || f.sort == "id" }

// orderedRows returns at most lines sessions; 0 means no limit.
func (f *sessionsCommand) orderedRows(ctx context.Context, columns []Column[api.Session],
	lines int,
) iter.Seq2[api.Session, error] {
	if f.isSortedByID() {
		return rowsByID[api.Session](ctx, f, lines)
	}
	by, err := parseOrder(columns, f.sort)
	if err != nil {
		return failedRows[api.Session](err)
	}
	rows := listRows[api.Session](ctx, f.adminCommand, "sessions", f.queryValues(), 0)
	held, err := by.sortRows(withRowProgress(f.IOStreams, "sessions", rows), f.rowLimit(lines))
	if err != nil {
		return failedRows[api.Session](err)
	}
	return rowsOf(held)
}

// rowsByID returns at most lines sessions by id, decoded as T; 0 means no limit.
func rowsByID[T any](ctx context.Context, f *sessionsCommand, lines int) iter.Seq2[T, error] {
	rows := listRows[T](ctx, f.adminCommand, "sessions", f.queryValues(), f.rowLimit(lines))
	if f.OutTerminal {
		return rows
	}
	return withRowProgress(f.IOStreams, "sessions", rows)
}

func (f *sessionsCommand) queryValues() url.Values {
	return queryWithoutEmpty("state", f.state, "member", f.member, "address", f.address)
}

func (f *sessionsCommand) rowLimit(lines int) int {
	if lines > 0 && (f.limit == 0 || f.limit > lines) {
		return lines
	}
	return f.limit
}

func sessionColumns(now time.Time) []Column[api.Session] {
	return []Column[api.Session]{
		{
			Name: "id", Cell: func(s api.Session) string { return s.ID },
			Compare: func(a, b api.Session) int { return cmp.Compare(parseIDNumber(a.ID), parseIDNumber(b.ID)) },
		},
		{
			Name: "state", Cell: func(s api.Session) string { return s.State },
			Compare: compareBy(func(s api.Session) string { return s.State }), Tint: stateTint,
		},
		{
			Name: "member", AlignRight: true, Cell: func(s api.Session) string { return formatMember(s.MemberID) },
			Compare: compareBy(func(s api.Session) uint32 { return s.MemberID }),
		},
		{
			Name: "address", Cell: func(s api.Session) string { return orDash(s.Address) },
			Compare: compareBy(func(s api.Session) string { return s.Address }),
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
			Compare: compareBy(func(s api.Session) int { return s.EphemeralCount }),
		},
		{
			Name: "watches", AlignRight: true, Cell: func(s api.Session) string { return strconv.Itoa(s.WatchCount) },
			Compare: compareBy(func(s api.Session) int { return s.WatchCount }),
		},
		{
			Name: "age", WideOnly: true, AlignRight: true,
			Cell:    func(s api.Session) string { return formatAge(now, s.CreatedAt) },
			Compare: func(a, b api.Session) int { return b.CreatedAt.Compare(a.CreatedAt) },
		},
		connectionColumn("received", func(c *api.Connection) uint64 { return c.Received }),
		connectionColumn("sent", func(c *api.Connection) uint64 { return c.Sent }),
		connectionColumn("queued", func(c *api.Connection) uint64 { return uint64(c.QueuedRequests) }),
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

func connectionColumn(name string, number func(*api.Connection) uint64) Column[api.Session] {
	of := func(s api.Session) uint64 {
		if s.Connection == nil {
			return 0
		}
		return number(s.Connection)
	}
	return Column[api.Session]{
		Name: name, WideOnly: true, AlignRight: true, Compare: compareBy(of),
		Cell: func(s api.Session) string {
			if s.Connection == nil {
				return unknownText
			}
			return strconv.FormatUint(of(s), 10)
		},
	}
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

func sessionSortKeys() (names []string) {
	for _, c := range sessionColumns(time.Time{}) {
		names = append(names, c.Name)
	}
	return names
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
