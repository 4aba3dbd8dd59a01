package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"rollcall/member"
)

// teller prints one line per event, with the seconds since the start. Safe for
// concurrent use.
type teller struct {
	mu    sync.Mutex
	w     io.Writer
	begun time.Time
	below block // the lines that stand below
}

func (t *teller) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%8.3f  %s\n", time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
	// A reader that went away is no reason to stop serving.
	_, _ = io.WriteString(t.w, t.below.erase()+line+t.below.draw())
}

// above returns what writes whole lines to other, which is the same terminal, above the lines that stay.
func (t *teller) above(other io.Writer) io.Writer { return lineWriter{t, other} }

type lineWriter struct {
	t     *teller
	other io.Writer
}

// Write implements io.Writer.
func (l lineWriter) Write(line []byte) (int, error) {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	_, _ = io.WriteString(l.t.w, l.t.below.erase())
	n, err := l.other.Write(line)
	_, _ = io.WriteString(l.t.w, l.t.below.draw())
	return n, err
}

// show replaces the lines that stand below.
func (t *teller) show(lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.below.erase()
	t.below = lines
	_, _ = io.WriteString(t.w, text+t.below.draw())
}

func (t *teller) tell(e member.Event) {
	switch e.Kind {
	case member.EventLeader:
		t.say("leader elected: member %d, term %d", e.Member, e.Term)
	case member.EventOpened:
		t.say("session opened: %v from %s on member %d, timeout %v", e.Session, e.Address, e.Member, e.Timeout)
	case member.EventMoved:
		if e.FromMember == e.Member {
			t.say("session resumed: %v from %s on member %d, timeout %v", e.Session, e.Address, e.Member, e.Timeout)
			return
		}
		t.say("session moved: %v from member %d to %d, timeout %v", e.Session, e.FromMember, e.Member, e.Timeout)
	case member.EventExpired, member.EventClosed:
		t.say("%s: %v%s", e.Kind, e.Session, ephemerals(e.Ephemerals))
	case member.EventKilled:
		t.say("%s: %v by %s%s", e.Kind, e.Session, e.By, ephemerals(e.Ephemerals))
	case member.EventQuotaOverused:
		t.say("quota overused: %s has %d nodes of %d, %d bytes of %d", e.Quota.Path, e.Quota.Count, e.Quota.CountLimit, e.Quota.Bytes, e.Quota.BytesLimit)
	case member.EventQuotaWarning:
		t.say("%s: %d bytes of %d", e.Kind, e.Quota.Bytes, e.Quota.BytesLimit)
	}
}

func ephemerals(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", 1 ephemeral with it"
	}
	return fmt.Sprintf(", %d ephemerals with it", n)
}
