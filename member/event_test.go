package member

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"rollcall/znode"
)

// shownBy says which fields of Death and of Event show each field of znode.Ending. "" means that
// operators need not see it.
var shownBy = map[string]string{
	"AtMs":       "Death.At Death.Heard",
	"By.Member":  "", // Death and Event have the session's own member
	"By.Conn":    "", // a number that only the server knows
	"Expired":    "Death.Expired Death.Heard Event.Kind",
	"Silent":     "Death.Heard Event.Silent",
	"Ephemerals": "Death.Ephemerals Event.Ephemerals",
	"Later":      "", // Ephemerals counts the nodes that are still to be removed, too
}

// What the log says about a session's end is remembered and reported, field by field. Each is changed
// alone.
func TestEndingsAreShown(t *testing.T) {
	state := znode.New(znode.Config{Self: 1})
	show := func(end znode.Ending) map[string]string {
		all := map[string]string{}
		for _, f := range fieldsOf(death(state, znode.Session{}, end)) {
			all["Death."+f.name] = fmt.Sprint(f.value)
		}
		for _, f := range fieldsOf(endOf(znode.Session{}, end)) {
			all["Event."+f.name] = fmt.Sprint(f.value)
		}
		return all
	}
	var end znode.Ending
	fields := leaves(t, reflect.ValueOf(&end).Elem(), "")
	for i, f := range fields {
		f.set(i)
	}
	before := show(end)
	for _, f := range fields {
		want, known := shownBy[f.name]
		if !known {
			t.Errorf("znode.Ending.%s is new: say in shownBy what shows it", f.name)
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
			t.Errorf("znode.Ending.%s changes %q, want %q", f.name, got, want)
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
		for _, kind := range []EventKind{EventLeader, EventOpened, EventMoved, EventExpired, EventClosed, EventQuota} {
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

// fieldsOf returns the fields of a struct.
func fieldsOf(v any) (all []leaf) {
	of := reflect.ValueOf(v)
	for i := range of.NumField() {
		all = append(all, leaf{of.Type().Field(i).Name, of.Field(i)})
	}
	return all
}
