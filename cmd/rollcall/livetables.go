package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"rollcall/cli"
	"rollcall/operator/api"
	"rollcall/operator/view"
)

// On a terminal, rollcall up keeps tables of the members and sessions below its other lines.

const (
	// liveInterval is the time between two polls.
	liveInterval = time.Second
	// At most liveSessions sessions are shown: those that expire first among the first livePage of the
	// ensemble.
	liveSessions = 10
	livePage     = 1000
)

// liveBlock is the block of lines at the bottom of a terminal.
type liveBlock []string

// eraseText returns the control sequence that erases the block.
func (b liveBlock) eraseText() string {
	if len(b) == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dF\x1b[0J", len(b)) // to the start of the first line, and delete what follows
}

func (b liveBlock) drawText() string {
	return cli.JoinFunc(b, "", func(line string) string { return line + "\n" })
}

// keepLiveTables updates the tables below out's lines until ctx ends.
func keepLiveTables(ctx context.Context, w cli.IOStreams, members []*upMember, out *eventPrinter) {
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	defer out.replaceBelow(nil)
	for {
		l := pollAnyMember(ctx, members)
		if ctx.Err() != nil {
			return
		}
		columns, rows := w.TerminalSize()
		out.replaceBelow(l.renderLines(w, columns, rows))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ensembleState is the result of one poll.
type ensembleState struct {
	members      []api.Member
	sessions     []api.Session // at most livePage
	moreSessions bool          // beyond these
	err          error         // of polling the sessions
}

// pollAnyMember queries the members in turn until one replies.
func pollAnyMember(ctx context.Context, members []*upMember) (e ensembleState) {
	for _, u := range members {
		m := u.newest.Load()
		status, err := m.View().MemberStatuses(ctx)
		if err != nil {
			e.err = err
			continue
		}
		sessions, err := m.View().Sessions(ctx, view.SessionFilter{}, view.Page{Limit: livePage})
		e = ensembleState{members: status.Items, sessions: sessions.Items, moreSessions: sessions.NextCursor != "", err: err}
		if err == nil {
			return e
		}
	}
	return e
}

// renderLines returns the lines for a terminal of this size, at most half of its height.
func (e *ensembleState) renderLines(w cli.IOStreams, columns, rows int) liveBlock {
	lines := append([]string{""}, tableLines(w, memberColumns, e.members)...)
	shown := slices.Clone(e.sessions)
	slices.SortStableFunc(shown, func(a, b api.Session) int { return cmp.Compare(timeLeft(a), timeLeft(b)) })
	shown = shown[:min(len(shown), liveSessions)]
	switch {
	case e.err != nil:
		lines = append(lines, "", "sessions: "+cli.EscapeUnprintable(e.err.Error()))
	case len(shown) == 0:
		lines = append(lines, "", "no sessions")
	default:
		lines = append(append(lines, ""), tableLines(w, sessionColumns, shown)...)
		if len(e.sessions) > len(shown) || e.moreSessions {
			lines = append(lines, fmt.Sprintf("and others; rollcall sessions --hosts %s lists all", e.members[0].ClientAddress))
		}
	}
	lines = lines[:min(len(lines), max(1, rows/2))]
	for i := range lines {
		if line := []rune(lines[i]); len(line) > columns {
			lines[i] = string(line[:columns]) // a longer line would wrap, and erasing would leave its rest
		}
	}
	return lines
}

// timeLeft orders sessions by their end. Sessions of unknown end come last.
func timeLeft(s api.Session) int64 {
	if s.LeftMs == nil {
		return math.MaxInt64
	}
	return *s.LeftMs
}

func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

var memberColumns = []cli.Column[api.Member]{
	{Name: "member", Cell: func(s api.Member) string { return fmt.Sprint(s.MemberID) }},
	{Name: "role", Cell: func(s api.Member) string { return cmp.Or(s.Role, "not serving") }},
	{Name: "term", AlignRight: true, Cell: func(s api.Member) string { return cli.FormatTerm(s.Term) }},
	{Name: "clients", Cell: func(s api.Member) string { return s.ClientAddress }},
	{Name: "connections", AlignRight: true, Cell: func(s api.Member) string { return fmt.Sprint(s.Connections) }},
	{Name: "watches", AlignRight: true, Cell: func(s api.Member) string { return fmt.Sprint(s.Watches) }},
	{Name: "applied", AlignRight: true, Cell: func(s api.Member) string { return fmt.Sprint(s.AppliedIndex) }},
}

var sessionColumns = []cli.Column[api.Session]{
	{Name: "session", Cell: func(s api.Session) string { return s.ID }},
	{Name: "state", Cell: func(s api.Session) string { return s.State }},
	{Name: "member", AlignRight: true, Cell: func(s api.Session) string { return fmt.Sprint(s.MemberID) }},
	{Name: "address", Cell: func(s api.Session) string { return s.Address }},
	{Name: "timeout", AlignRight: true, Cell: func(s api.Session) string { return fromMillis(s.TimeoutMs).String() }},
	{Name: "left", AlignRight: true, Cell: func(s api.Session) string {
		if s.LeftMs == nil {
			return ""
		}
		return fromMillis(*s.LeftMs).Round(100 * time.Millisecond).String()
	}},
	{Name: "ephemerals", AlignRight: true, Cell: func(s api.Session) string { return fmt.Sprint(s.EphemeralCount) }},
	{Name: "watches", AlignRight: true, Cell: func(s api.Session) string { return fmt.Sprint(s.WatchCount) }},
}

// tableLines returns the lines of a table, without colours, so that they can be cut to the terminal.
func tableLines[T any](w cli.IOStreams, columns []cli.Column[T], rows []T) []string {
	var text bytes.Buffer
	w.Out, w.OutTerminal = &text, false
	_ = cli.PrintRows(cli.NewOutput(w), columns, cli.RowsOf(rows)) // a buffer takes everything
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}
