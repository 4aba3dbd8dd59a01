package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// sessionsCommand are the flags of rollcall sessions.
type sessionsCommand struct {
	*adminCommand
	state, member, address string
	sort                   string
	limit                  int
	watch                  bool
	every                  time.Duration
}

// newSessions returns the command that lists the sessions.
func newSessions(w IOStreams) *cobra.Command {
	f := &sessionsCommand{adminCommand: newAdminCommand(w)}
	cmd := &cobra.Command{
		Use: "sessions [flags]", Short: "list the sessions: where each is connected, when it was last heard", GroupID: InspectGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: fmt.Sprintf("Lists the sessions of the ensemble, by id. It prints them as they arrive, in bounded memory. With --sort it reads all sessions before it prints the first. "+
			"It then holds up to %d of them in memory, or few more than N with --limit N. It sorts by one of %s.", maxSorted, strings.Join(sessionOrders(), ", ")),
		Example: "  rollcall sessions --member 2 --sort -ephemerals --limit 10\n  rollcall sessions --state disconnected --watch\n  rollcall sessions -o json | jq -r '.[].address'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.limit < 0 {
				return WithStatus(UsageError, fmt.Errorf("sessions: --limit %d; allowed is a number from 1 on, or 0 for all", f.limit))
			}
			if f.watch {
				return printRepeatedly(cmd.Context(), w, f.every, func(w IOStreams, lines int) error { return f.printOnce(cmd.Context(), w, lines) })
			}
			return f.printOnce(cmd.Context(), w, 0)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.state, "state", "", "only sessions in this `state`: connected, disconnected or unknown")
	fs.StringVar(&f.member, "member", "", "only sessions of the member with this `number`")
	fs.StringVar(&f.address, "address", "", "only sessions of a client at this `address`, an IP with or without a port")
	fs.StringVar(&f.sort, "sort", "", "`column` to sort by, such as heard; with a minus in front, the greatest first")
	fs.IntVar(&f.limit, "limit", 0, "print the first `N` only")
	fs.BoolVar(&f.watch, "watch", false, "print the list again and again, until Ctrl-C")
	fs.DurationVar(&f.every, "every", defaultWatchInterval, "with --watch: the `time` between two lists")
	f.Register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sessionOrders(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"connected", "disconnected", "unknown"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// printOnce prints the list once. lines is how many lines there are on the screen; 0: there is none.
func (f *sessionsCommand) printOnce(ctx context.Context, w IOStreams, lines int) error {
	out := *f.Output
	out.streams = w
	if out.format == "json" && f.byID() {
		rows, err := rowsByID[json.RawMessage](ctx, f, lines) // as the member writes them: decoding costs most of the time
		if err != nil {
			return err
		}
		return PrintRows(&out, nil, rows)
	}
	columns := sessionColumns(w.Now())
	rows, err := f.orderedRows(ctx, columns, lines)
	if err != nil {
		return err
	}
	return PrintRows(&out, columns, rows)
}

// byID reports whether the sessions are wanted in the order in which members list them.
func (f *sessionsCommand) byID() bool { return f.sort == "" || f.sort == "id" }

// orderedRows returns the sessions that are asked for, in the order that is asked for. If lines is not 0, it
// returns no more of them than that.
func (f *sessionsCommand) orderedRows(ctx context.Context, columns []Column[api.Session], lines int) (iter.Seq2[api.Session, error], error) {
	if f.byID() {
		return rowsByID[api.Session](ctx, f, lines)
	}
	by, err := parseOrder(columns, f.sort)
	if err != nil {
		return nil, err
	}
	rows, err := listRows[api.Session](ctx, f.adminCommand, "sessions", f.queryValues(), 0)
	if err != nil {
		return nil, err
	}
	held, err := by.sortRows(countRows(f.IOStreams, "sessions", rows), f.rowLimit(lines))
	return rowsOf(held), err
}

// rowsByID returns the sessions that are asked for by id, as values of type T, at most lines of them unless
// that is 0.
func rowsByID[T any](ctx context.Context, f *sessionsCommand, lines int) (iter.Seq2[T, error], error) {
	rows, err := listRows[T](ctx, f.adminCommand, "sessions", f.queryValues(), f.rowLimit(lines))
	if err != nil || f.OutTerminal {
		return rows, err
	}
	return countRows(f.IOStreams, "sessions", rows), nil
}

// queryValues returns the parameters that select the sessions.
func (f *sessionsCommand) queryValues() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"state": f.state, "member": f.member, "address": f.address} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// rowLimit returns how many sessions are printed at most; 0: all.
func (f *sessionsCommand) rowLimit(lines int) int {
	if lines > 0 && (f.limit == 0 || f.limit > lines) {
		return lines
	}
	return f.limit
}

// sessionColumns returns the columns of a list of sessions.
func sessionColumns(now time.Time) []Column[api.Session] {
	return []Column[api.Session]{
		{Name: "id", Cell: func(s api.Session) string { return s.ID }, Compare: func(a, b api.Session) int { return cmp.Compare(parseIDNumber(a.ID), parseIDNumber(b.ID)) }},
		{Name: "state", Cell: func(s api.Session) string { return s.State }, Compare: compareBy(func(s api.Session) string { return s.State }), Tint: stateTint},
		{Name: "member", AlignRight: true, Cell: func(s api.Session) string { return formatMember(s.MemberID) }, Compare: compareBy(func(s api.Session) uint32 { return s.MemberID })},
		{Name: "address", Cell: func(s api.Session) string { return orDash(s.Address) }, Compare: compareBy(func(s api.Session) string { return s.Address })},
		{Name: "timeout", AlignRight: true, Cell: func(s api.Session) string { return formatMillis(&s.TimeoutMs) }, Compare: compareBy(func(s api.Session) int64 { return s.TimeoutMs })},
		{Name: "left", AlignRight: true, Cell: func(s api.Session) string { return formatMillis(s.LeftMs) }, Compare: compareBy(func(s api.Session) int64 { return orMinusOne(s.LeftMs) }), Tint: leftTint},
		{Name: "heard", AlignRight: true, Cell: func(s api.Session) string { return formatMillis(s.HeardMs) }, Compare: compareBy(func(s api.Session) int64 { return orMinusOne(s.HeardMs) })},
		{Name: "ephemerals", AlignRight: true, Cell: func(s api.Session) string { return strconv.Itoa(s.EphemeralCount) }, Compare: compareBy(func(s api.Session) int { return s.EphemeralCount })},
		{Name: "watches", AlignRight: true, Cell: func(s api.Session) string { return strconv.Itoa(s.WatchCount) }, Compare: compareBy(func(s api.Session) int { return s.WatchCount })},
		{Name: "age", WideOnly: true, AlignRight: true, Cell: func(s api.Session) string { return formatAge(now, s.CreatedAt) }, Compare: func(a, b api.Session) int { return b.CreatedAt.Compare(a.CreatedAt) }},
		connectionColumn("received", func(c *api.Connection) uint64 { return c.Received }),
		connectionColumn("sent", func(c *api.Connection) uint64 { return c.Sent }),
		connectionColumn("queued", func(c *api.Connection) uint64 { return uint64(c.QueuedRequests) }),
	}
}

// compareBy compares rows by a key.
func compareBy[T any, K cmp.Ordered](key func(T) K) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(key(a), key(b)) }
}

// orMinusOne returns a number, or -1 if it is not known.
func orMinusOne(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// parseIDNumber returns the number of a session's id. Ids have no leading zeroes, so that their texts would not
// sort as their numbers do.
func parseIDNumber(id string) uint64 {
	n, _ := jute.ParseSessionID(id)
	return uint64(n)
}

// connectionColumn returns a column with a number of the session's connection, if it has one.
func connectionColumn(name string, number func(*api.Connection) uint64) Column[api.Session] {
	of := func(s api.Session) uint64 {
		if s.Connection == nil {
			return 0
		}
		return number(s.Connection)
	}
	return Column[api.Session]{Name: name, WideOnly: true, AlignRight: true, Compare: compareBy(of), Cell: func(s api.Session) string {
		if s.Connection == nil {
			return unknownText
		}
		return strconv.FormatUint(of(s), 10)
	}}
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

// leftTint warns of a session of which less than a third of the timeout is left: its client should have
// pinged.
func leftTint(s api.Session) Tint {
	return tintIf(s.LeftMs != nil && *s.LeftMs < s.TimeoutMs/3, Yellow)
}

// sessionOrders returns the names by which rollcall sessions sorts.
func sessionOrders() (names []string) {
	for _, c := range sessionColumns(time.Time{}) {
		names = append(names, c.Name)
	}
	return names
}
