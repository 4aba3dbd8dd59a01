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

// sessionsFlags are the flags of rollcall sessions.
type sessionsFlags struct {
	*ask
	state, member, address string
	sort                   string
	limit                  int
	watch                  bool
	every                  time.Duration
}

// newSessions returns the command that lists the sessions.
func newSessions(w World) *cobra.Command {
	f := &sessionsFlags{ask: newAsk(w)}
	cmd := &cobra.Command{
		Use: "sessions [flags]", Short: "list the sessions: where each is connected, when it was last heard", GroupID: Look, Args: Takes(0, 0, "flags only"),
		Long: fmt.Sprintf("Lists the sessions of the ensemble, by id. It prints them as they arrive, in bounded memory. With --sort it reads all sessions before it prints the first. "+
			"It then holds up to %d of them in memory, or few more than N with --limit N. It sorts by one of %s.", maxSorted, strings.Join(sessionOrders(), ", ")),
		Example: "  rollcall sessions --member 2 --sort -ephemerals --limit 10\n  rollcall sessions --state disconnected --watch\n  rollcall sessions -o json | jq -r '.[].address'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.limit < 0 {
				return With(WrongUse, fmt.Errorf("sessions: --limit %d; allowed is a number from 1 on, or 0 for all", f.limit))
			}
			if f.watch {
				return repeat(cmd.Context(), w, f.every, func(w World, lines int) error { return f.print(cmd.Context(), w, lines) })
			}
			return f.print(cmd.Context(), w, 0)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.state, "state", "", "only sessions in this `state`: connected, disconnected or unknown")
	fs.StringVar(&f.member, "member", "", "only sessions of the member with this `number`")
	fs.StringVar(&f.address, "address", "", "only sessions of a client at this `address`, an IP with or without a port")
	fs.StringVar(&f.sort, "sort", "", "`column` to sort by, such as heard; with a minus in front, the greatest first")
	fs.IntVar(&f.limit, "limit", 0, "print the first `N` only")
	fs.BoolVar(&f.watch, "watch", false, "print the list again and again, until Ctrl-C")
	fs.DurationVar(&f.every, "every", watchEvery, "with --watch: the `time` between two lists")
	f.Register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sessionOrders(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"connected", "disconnected", "unknown"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// print prints the list once. lines is how many lines there are on the screen; 0: there is none.
func (f *sessionsFlags) print(ctx context.Context, w World, lines int) error {
	out := *f.Output
	out.world = w
	if out.format == "json" && f.byID() {
		rows, err := inOrder[json.RawMessage](ctx, f, lines) // as the member writes them: decoding costs most of the time
		if err != nil {
			return err
		}
		return Print(&out, nil, rows)
	}
	columns := sessionColumns(w.Now())
	rows, err := f.rows(ctx, columns, lines)
	if err != nil {
		return err
	}
	return Print(&out, columns, rows)
}

// byID reports whether the sessions are wanted in the order in which members list them.
func (f *sessionsFlags) byID() bool { return f.sort == "" || f.sort == "id" }

// rows returns the sessions that are asked for, in the order that is asked for. If lines is not 0, it
// returns no more of them than that.
func (f *sessionsFlags) rows(ctx context.Context, columns []Column[api.Session], lines int) (iter.Seq2[api.Session, error], error) {
	if f.byID() {
		return inOrder[api.Session](ctx, f, lines)
	}
	by, err := orderOf(columns, f.sort)
	if err != nil {
		return nil, err
	}
	rows, err := list[api.Session](ctx, f.ask, "sessions", f.query(), 0)
	if err != nil {
		return nil, err
	}
	held, err := by.sorted(counted(f.World, "sessions", rows), f.most(lines))
	return rowsOf(held), err
}

// inOrder returns the sessions that are asked for by id, as values of type T, at most lines of them unless
// that is 0.
func inOrder[T any](ctx context.Context, f *sessionsFlags, lines int) (iter.Seq2[T, error], error) {
	rows, err := list[T](ctx, f.ask, "sessions", f.query(), f.most(lines))
	if err != nil || f.OutTerminal {
		return rows, err
	}
	return counted(f.World, "sessions", rows), nil
}

// query returns the parameters that select the sessions.
func (f *sessionsFlags) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"state": f.state, "member": f.member, "address": f.address} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// most returns how many sessions are printed at most; 0: all.
func (f *sessionsFlags) most(lines int) int {
	if lines > 0 && (f.limit == 0 || f.limit > lines) {
		return lines
	}
	return f.limit
}

// sessionColumns returns the columns of a list of sessions.
func sessionColumns(now time.Time) []Column[api.Session] {
	return []Column[api.Session]{
		{Name: "id", Cell: func(s api.Session) string { return s.ID }, Compare: func(a, b api.Session) int { return cmp.Compare(idNumber(a.ID), idNumber(b.ID)) }},
		{Name: "state", Cell: func(s api.Session) string { return s.State }, Compare: by(func(s api.Session) string { return s.State }), Tint: stateTint},
		{Name: "member", Right: true, Cell: func(s api.Session) string { return member(s.Member) }, Compare: by(func(s api.Session) uint32 { return s.Member })},
		{Name: "address", Cell: func(s api.Session) string { return orDash(s.Address) }, Compare: by(func(s api.Session) string { return s.Address })},
		{Name: "timeout", Right: true, Cell: func(s api.Session) string { return millis(&s.TimeoutMs) }, Compare: by(func(s api.Session) int64 { return s.TimeoutMs })},
		{Name: "left", Right: true, Cell: func(s api.Session) string { return millis(s.LeftMs) }, Compare: by(func(s api.Session) int64 { return known(s.LeftMs) }), Tint: leftTint},
		{Name: "heard", Right: true, Cell: func(s api.Session) string { return millis(s.HeardMs) }, Compare: by(func(s api.Session) int64 { return known(s.HeardMs) })},
		{Name: "ephemerals", Right: true, Cell: func(s api.Session) string { return strconv.Itoa(s.Ephemerals) }, Compare: by(func(s api.Session) int { return s.Ephemerals })},
		{Name: "watches", Right: true, Cell: func(s api.Session) string { return strconv.Itoa(s.Watches) }, Compare: by(func(s api.Session) int { return s.Watches })},
		{Name: "age", Wide: true, Right: true, Cell: func(s api.Session) string { return age(now, s.Created) }, Compare: func(a, b api.Session) int { return b.Created.Compare(a.Created) }},
		ofConnection("received", func(c *api.Connection) uint64 { return c.Received }),
		ofConnection("sent", func(c *api.Connection) uint64 { return c.Sent }),
		ofConnection("queued", func(c *api.Connection) uint64 { return uint64(c.Queued) }),
	}
}

// by compares rows by a key.
func by[T any, K cmp.Ordered](key func(T) K) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(key(a), key(b)) }
}

// known returns a number, or -1 if it is not known.
func known(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// idNumber returns the number of a session's id. Ids have no leading zeroes, so that their texts would not
// sort as their numbers do.
func idNumber(id string) uint64 {
	n, _ := jute.ParseSessionID(id)
	return uint64(n)
}

// ofConnection returns a column with a number of the session's connection, if it has one.
func ofConnection(name string, number func(*api.Connection) uint64) Column[api.Session] {
	of := func(s api.Session) uint64 {
		if s.Connection == nil {
			return 0
		}
		return number(s.Connection)
	}
	return Column[api.Session]{Name: name, Wide: true, Right: true, Compare: by(of), Cell: func(s api.Session) string {
		if s.Connection == nil {
			return unknown
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
