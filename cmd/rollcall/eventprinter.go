package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"rollcall/cli"
	"rollcall/member"
	"rollcall/znode"
)

// eventPrinter prints one line per event, with the seconds since the start. Safe for
// concurrent use.
type eventPrinter struct {
	mu      sync.Mutex
	out     io.Writer
	started time.Time
	below   liveBlock // the lines that stay below
}

func (t *eventPrinter) printLine(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%8.3f  %s\n", time.Since(t.started).Seconds(), fmt.Sprintf(format, args...))
	// A reader that went away is no reason to stop serving.
	_, _ = io.WriteString(t.out, t.below.eraseText()+line+t.below.drawText())
}

// writerAbove returns a writer of whole lines to other, which is the same terminal. They appear above the
// lines that stay.
func (t *eventPrinter) writerAbove(other io.Writer) io.Writer { return lineWriter{t, other} }

type lineWriter struct {
	printer *eventPrinter
	target  io.Writer
}

// Write implements io.Writer.
func (l lineWriter) Write(line []byte) (int, error) {
	l.printer.mu.Lock()
	defer l.printer.mu.Unlock()
	_, _ = io.WriteString(l.printer.out, l.printer.below.eraseText())
	n, err := l.target.Write(line)
	_, _ = io.WriteString(l.printer.out, l.printer.below.drawText())
	return n, err
}

// replaceBelow replaces the lines that stay below.
func (t *eventPrinter) replaceBelow(lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.below.eraseText()
	t.below = lines
	_, _ = io.WriteString(t.out, text+t.below.drawText())
}

func (t *eventPrinter) printEvent(e member.Event) {
	switch e.Kind {
	case member.EventLeader:
		t.printLine("leader elected: member %d, term %s: %v", e.Member, cli.FormatTerm(e.Term), e.Cause)
	case member.EventOpened:
		t.printLine("session opened: %v from %s on member %d, timeout %v", e.Session, e.Address, e.Member, e.Timeout)
	case member.EventMoved:
		if e.FromMember == e.Member {
			t.printLine("session resumed: %v from %s on member %d, timeout %v", e.Session, e.Address, e.Member, e.Timeout)
			return
		}
		t.printLine("session moved: %v from member %d to %d, timeout %v", e.Session, e.FromMember, e.Member, e.Timeout)
	case member.EventExpired, member.EventClosed:
		t.printLine("%s: %v%s", e.Kind, e.Session, ephemeralsText(e.Ephemerals))
	case member.EventKilled:
		t.printLine("%s: %v by %s%s", e.Kind, e.Session, e.By, ephemeralsText(e.Ephemerals))
	case member.EventQuotaOverused:
		t.printLine("quota overused: %s has %d nodes of %d, %d bytes of %d", e.Quota.Path, e.Quota.Count, e.Quota.CountLimit,
			e.Quota.Bytes, e.Quota.BytesLimit)
	case member.EventQuotaWarning:
		t.printLine("%s: %d bytes of %d", e.Kind, e.Quota.Bytes, e.Quota.BytesLimit)
	case member.EventRulesDiffer:
		t.printLine("%s: leader %d, term %s: %s", e.Kind, e.Member, cli.FormatTerm(e.Term), strings.Join(e.Keys, " "))
	case member.EventNamesWarning, member.EventNamesEnded:
		t.printLine("%s: %d numbers of %d below %s", e.Kind, e.Names.Created, znode.MaxCreated, e.Names.Path)
	}
}

func ephemeralsText(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + cli.FormatCount(n, "ephemeral", "ephemerals") + " with it"
}
