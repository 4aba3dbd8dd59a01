package member

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/znode"
)

// shownBy says which field of Event shows each field of znode.SessionEnd. "" means that none does, and that
// only Member.SessionEnds has it.
var shownBy = map[string]string{
	"Number":         "",
	"Session":        "Session",
	"Address":        "Address",
	"Member":         "Member",
	"Leader":         "",
	"Term":           "",
	"AtMs":           "",
	"Zxid":           "",
	"Reason":         "Kind",
	"SilentFor":      "Silent",
	"Timeout":        "",
	"EphemeralCount": "Ephemerals",
	"RequestedBy":    "By",
}

// What the state says about a session's end is reported, field by field. Each is changed alone.
func TestEndsAreShown(t *testing.T) {
	show := func(end znode.SessionEnd) map[string]string {
		all := map[string]string{}
		for _, f := range fieldsOf(endEvent(end)) {
			all[f.name] = fmt.Sprint(f.value)
		}
		return all
	}
	var end znode.SessionEnd
	fields := leaves(t, reflect.ValueOf(&end).Elem(), "")
	for i, f := range fields {
		f.set(i)
	}
	for _, end.Reason = range []znode.EndReason{znode.ReasonClosed, znode.ReasonExpired} { // change makes the next one of it
		before := show(end)
		for _, f := range fields {
			want, known := shownBy[f.name]
			if !known {
				t.Errorf("znode.SessionEnd.%s is new: say in shownBy what shows it", f.name)
				continue
			}
			undo := f.change()
			var changed []string
			for name, value := range show(end) {
				if value != before[name] {
					changed = append(changed, name)
				}
			}
			undo()
			slices.Sort(changed)
			if got := strings.Join(changed, " "); got != want {
				t.Errorf("znode.SessionEnd.%s changes %q, want %q", f.name, got, want)
			}
		}
	}
}

// Each field of an event is in the log line of at least one kind.
func TestEventsAreLogged(t *testing.T) {
	var e Event
	fields := leaves(t, reflect.ValueOf(&e).Elem(), "")
	for i, f := range fields {
		f.set(i)
	}
	for _, f := range fields {
		if f.name == "Kind" {
			continue // the message of the line
		}
		seen := false
		for _, kind := range []EventKind{EventLeader, EventOpened, EventMoved, EventExpired, EventClosed, EventKilled, EventQuotaOverused, EventQuotaWarning, EventNamesWarning, EventNamesEnded, EventRulesDiffer} {
			e.Kind = kind
			before := e.LogValue().String()
			undo := f.change()
			seen = seen || e.LogValue().String() != before
			undo()
		}
		if !seen {
			t.Errorf("no log line has Event.%s", f.name)
		}
	}
}

// Events that come too fast are lost, and the log counts them once.
func TestEventsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, log := newEventQueue(), new(bytes.Buffer)
		for range maxEvents + 2 {
			q.enqueueOrDrop(Event{Kind: EventOpened})
		}
		ctx, stop := context.WithCancel(t.Context())
		handled := 0
		go func() { _ = q.deliverLoop(ctx, func(Event) { handled++ }, slog.New(slog.NewTextHandler(log, nil))) }()
		synctest.Wait()
		stop()
		synctest.Wait()
		if lines := strings.Count(log.String(), "\n"); handled != maxEvents || lines != 1 || !strings.HasSuffix(log.String(), "count=2\n") {
			t.Errorf("%d events are handled, want %d; the log: %s", handled, maxEvents, log)
		}
	})
}

// fieldsOf returns the fields of a struct.
func fieldsOf(v any) (all []leaf) {
	of := reflect.ValueOf(v)
	for i := range of.NumField() {
		all = append(all, leaf{of.Type().Field(i).Name, of.Field(i)})
	}
	return all
}
