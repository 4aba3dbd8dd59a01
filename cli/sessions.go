package cli

import (
	"bytes"
	"context"
	"io"
	"net/url"
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
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.past.isSet() && f.watch:
			return UsageError.Errorf("sessions: --watch shows the present, and --at the past; leave one of them out")
		case f.past.isSet() && state != "":
			return UsageError.Errorf("sessions: only running members know which sessions are connected; leave --state out")
		}
		return run(cmd, args)
	}
	return f.registerPast(cmd, false)
}

func sessionColumns(now time.Time) []Column[api.Session] {
	of := map[string]Column[api.Session]{} // the columns of the session's connection
	for _, c := range connectionColumns(now) {
		of[c.Name] = columnOf(c, func(s api.Session) *api.Connection { return s.Connection })
	}
	return []Column[api.Session]{
		sessionIDColumn("id", func(s api.Session) string { return s.ID }),
		sortedColumn("state", func(s api.Session) string { return s.State }, orDash).marked().tinted(stateTint),
		numberColumn("member", func(s api.Session) uint32 { return s.MemberID }, formatMember).marked(),
		sortedColumn("address", func(s api.Session) string { return s.Address }, orDash).marked(),
		numberColumn("timeout", func(s api.Session) int64 { return s.TimeoutMs }, func(ms int64) string { return formatMillis(&ms) }),
		millisColumn("left", func(s api.Session) *int64 { return s.LeftMs }).tinted(timeLeftTint),
		millisColumn("heard", func(s api.Session) *int64 { return s.HeardMs }),
		numberColumn("ephemerals", func(s api.Session) int { return s.EphemeralCount }, formatNumber).marked(),
		numberColumn("watches", func(s api.Session) int { return s.WatchCount }, formatNumber).marked(),
		of["rate"], of["bytes"],
		ageColumn(now, func(s api.Session) time.Time { return s.CreatedAt }).wide(),
		of["received"].wide(), of["sent"].wide(), of["queued"].wide(), of["average"].wide(), of["slowest"].wide(),
	}
}

// sessionIDColumn orders ids by their numbers: they have no leading zeroes, so that their texts do not sort like numbers.
func sessionIDColumn[T any](name string, id func(T) string) Column[T] {
	number := func(row T) uint64 {
		n, _ := jute.ParseSessionID(id(row)) // 0 if there is none
		return uint64(n)
	}
	return Column[T]{Name: name, Cell: func(row T) string { return orDash(id(row)) }, Compare: compareBy(number)}
}

// millisColumn is a column of times that may not be known, which come first.
func millisColumn[T any](name string, ms func(T) *int64) Column[T] {
	known := func(row T) int64 {
		if n := ms(row); n != nil {
			return *n
		}
		return -1
	}
	return Column[T]{Name: name, AlignRight: true, Cell: func(row T) string { return formatMillis(ms(row)) }, Compare: compareBy(known)}
}

// ageColumn orders rows by their age.
func ageColumn[T any](now time.Time, since func(T) time.Time) Column[T] {
	return Column[T]{
		Name: "age", AlignRight: true, Cell: func(row T) string { return formatAge(now, since(row)) },
		Compare: func(a, b T) int { return since(b).Compare(since(a)) },
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
		return UsageError.Errorf("--every %v: must be %v or longer", every, minWatchInterval)
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
