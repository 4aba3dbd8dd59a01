package client

import (
	"fmt"
	"slices"
	"testing"
)

// all returns the events of a queue, as lines, and empties it.
func (q *eventQueue) all() (lines []string) {
	for e, ok := q.pop(); ok; e, ok = q.pop() {
		lines = append(lines, text(e))
	}
	return lines
}

// fullQueue returns a queue of MaxWatchEvents events, of which the first popped ones are popped and pushed anew.
func fullQueue(popped int) *eventQueue {
	q := &eventQueue{}
	for i := range MaxWatchEvents + popped {
		if i >= MaxWatchEvents {
			q.pop()
		}
		q.push(Event{Type: NodeCreated, Path: fmt.Sprintf("/a/%d", i), Zxid: Zxid(i + 1)}, "/a", MaxWatchEvents)
	}
	return q
}

// A queue keeps MaxWatchEvents events as they are, and one more is joined to the last one of its path, or to all.
func TestFullEventQueue(t *testing.T) {
	for _, popped := range []int{0, 1, 700} {
		first, last := popped, MaxWatchEvents+popped-1
		if lines := fullQueue(popped).all(); len(lines) != MaxWatchEvents || lines[0] != fmt.Sprintf("created /a/%d %d", first, first+1) {
			t.Fatalf("%d events, %q first", len(lines), lines[0])
		}
		for _, tt := range []struct {
			name string
			more Event
			want string // "" if no event is joined to another of its path
			at   int
		}{
			{"the first path", Event{Type: DataChanged, Path: fmt.Sprintf("/a/%d", first), Zxid: 5000}, fmt.Sprintf("gap /a/%d %d-5000", first, first), 0},
			{"the last path", Event{Type: DataChanged, Path: fmt.Sprintf("/a/%d", last), Zxid: 5000}, fmt.Sprintf("gap /a/%d %d-5000", last, last), MaxWatchEvents - 1},
			{"below", Event{Type: Gap, Path: fmt.Sprintf("/a/%d", last), From: 4000, Zxid: 5000, Below: true}, fmt.Sprintf("gap /a/%d %d-5000 below", last, last), MaxWatchEvents - 1},
			{"from before", Event{Type: Gap, Path: fmt.Sprintf("/a/%d", last), From: 0, Zxid: 1}, fmt.Sprintf("gap /a/%d 0-%d", last, last+1), MaxWatchEvents - 1},
			{"a deletion", Event{Type: NodeDeleted, Path: fmt.Sprintf("/a/%d", last), From: 3, Zxid: NoZxid}, fmt.Sprintf("gap /a/%d 3-%d", last, last+1), MaxWatchEvents - 1},
			{"another path", Event{Type: NodeCreated, Path: "/a/new", Zxid: 5000}, "", 0},
		} {
			q := fullQueue(popped)
			q.push(tt.more, "/a", MaxWatchEvents)
			lines := q.all()
			if tt.want == "" {
				if want := []string{fmt.Sprintf("gap /a %d-5000 below", first)}; !slices.Equal(lines, want) {
					t.Errorf("%s: %q, want %q", tt.name, lines, want)
				}
				continue
			}
			if len(lines) != MaxWatchEvents || lines[tt.at] != tt.want {
				t.Errorf("%s: %d events, and %q, want %q", tt.name, len(lines), lines[tt.at], tt.want)
			}
		}
	}
}

// A queue whose reader keeps pace, but for a few events, keeps its size, and no event that was popped.
func TestEventQueueKeepsItsSize(t *testing.T) {
	var q eventQueue
	for i := range 10 * MaxWatchEvents {
		q.push(Event{Path: fmt.Sprint(i)}, "/", MaxWatchEvents)
		if i >= 3 {
			if e, ok := q.pop(); !ok || e.Path != fmt.Sprint(i-3) {
				t.Fatalf("got %+v, %t at %d", e, ok, i)
			}
		}
	}
	if cap(q.events) > 16 {
		t.Errorf("room for %d events, of which 3 wait", cap(q.events))
	}
	for _, e := range q.events[:q.first] {
		if e != (Event{}) {
			t.Errorf("%+v is kept", e)
		}
	}
	q.all()
	if !q.isEmpty() || q.first != 0 || len(q.events) != 0 {
		t.Errorf("an empty queue has %d events from %d on", len(q.events), q.first)
	}
}
