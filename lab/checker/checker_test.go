package checker

import (
	"slices"
	"testing"
	"time"
)

const lock = "/lock"

func mutex(events ...Event) History {
	for i := range events {
		events[i].Subject = lock
	}
	return History{Events: events, Limits: map[string]int{lock: 1}}
}

// written is a history whose only content are writes.
func written(writes ...Written) History {
	h := mutex()
	h.Written = map[string][]Written{lock: writes}
	for _, w := range writes {
		h.Events = append(h.Events, Event{Kind: Write, Subject: lock, Text: w.ID, Outcome: Acked})
	}
	return h
}

func withLimit(limit int, h History) History {
	h.Limits = map[string]int{lock: limit}
	return h
}

func sample(h ...Holder) Event { return Event{Kind: Sample, Holders: h} }

// Each history breaks the one rule that is named, or none.
func TestHistories(t *testing.T) {
	first, second := Holder{Client: 1, Token: 5, Exclusive: true}, Holder{Client: 2, Token: 7, Exclusive: true}
	reader, other := Holder{Client: 3, Token: 8}, Holder{Client: 4, Token: 9}
	queue := func(rest []string, events ...Event) History {
		h := mutex(events...)
		h.Rest = map[string][]string{lock: rest}
		return h
	}
	counter := func(total int64, events ...Event) History {
		h := mutex(events...)
		h.Totals = map[string]int64{lock: total}
		return h
	}
	put := Event{Kind: Put, Text: "a", Outcome: Acked}
	take := Event{Kind: Take, Text: "a"}
	done := Event{Kind: Done, Text: "a", Outcome: Acked}
	add := func(n int64, o Outcome) Event { return Event{Kind: Add, N: n, Outcome: o} }
	at := func(kind Kind) Event { return Event{Kind: kind, Client: 1} }
	double := func(events ...Event) History {
		h := withLimit(0, mutex(events...))
		h.Parties = map[string]int{lock: 2}
		return h
	}
	come := func(client int) Event { return Event{Kind: Want, Client: client} }
	enter := func(client int) Event { return Event{Kind: Hold, Client: client, Token: int64(client)} }
	leave := func(client int) Event { return Event{Kind: Release, Client: client, Token: int64(client)} }
	pass := func(client int, members ...int) Event {
		e := Event{Kind: Pass, Client: client, Token: int64(client)}
		for _, m := range members {
			e.Holders = append(e.Holders, Holder{Client: m, Token: int64(m)})
		}
		return e
	}
	left := History{Left: []string{"/lock/_c_1"}}
	missing := mutex(Event{Kind: Write, Text: "a", Outcome: Acked})
	refused := written(Written{ID: "a", Token: 5})
	refused.Events[0].Outcome = Refused
	twice := written(Written{ID: "a", Token: 5}, Written{ID: "a", Token: 5})
	invented := written(Written{ID: "a", Token: 5})
	invented.Events = nil

	for _, c := range []struct {
		name, rule string
		h          History
	}{
		{"one after the other", "", mutex(sample(first), sample(second))},
		{"two holders", "holders", mutex(sample(first, second))},
		{"a writer and a reader", "holders", withLimit(0, mutex(sample(first, reader)))},
		{"two readers", "", withLimit(0, mutex(sample(reader, other)))},
		{"too many holders of a semaphore", "holders", withLimit(2, mutex(sample(reader, other, Holder{Client: 5, Token: 2})))},
		{"held after its release", "holders", mutex(sample(Holder{Client: 1, Token: 5, Released: true}))},

		{
			"held after an operator ended it", "",
			mutex(
				Event{Kind: Ousted, Session: 9}, Event{Kind: Hold, Client: 1, Token: 5, Session: 9},
				sample(first, second),
			),
		},
		{
			"held after an operator deleted another node", "holders",
			mutex(
				Event{Kind: Hold, Client: 1, Token: 5, Node: "/lock/1"}, Event{Kind: Ousted, Node: "/lock/2"},
				sample(first, second),
			),
		},

		{"two clients with one token", "tokens", mutex(Event{Kind: Hold, Client: 1, Token: 5}, Event{Kind: Hold, Client: 2, Token: 5})},
		{"downgrade", "", mutex(Event{Kind: Hold, Client: 1, Token: 5}, Event{Kind: Hold, Client: 1, Token: 5})},
		{
			"a smaller token", "tokens",
			mutex(Event{Kind: Hold, Client: 1, Token: 5, Exclusive: true}, Event{Kind: Hold, Client: 2, Token: 4, Exclusive: true}),
		},

		{"writes in order", "", written(Written{"a", 5, true}, Written{"b", 5, true}, Written{"c", 7, true})},
		{"a late write", "order of writes", written(Written{"a", 5, true}, Written{"b", 7, true}, Written{"c", 5, true})},
		{"a late write of a reader", "order of writes", withLimit(0, written(Written{"a", 7, true}, Written{"b", 5, false}))},
		{"a late write of a writer", "order of writes", withLimit(0, written(Written{"a", 7, false}, Written{"b", 5, true}))},
		{"readers in any order", "", withLimit(0, written(Written{"a", 7, false}, Written{"b", 5, false}))},
		{"an acked write that is not there", "outcome of writes", missing},
		{"a refused write that is there", "outcome of writes", refused},
		{"a write that is there twice", "outcome of writes", twice},
		{"a write of no client", "outcome of writes", invented},

		{"waits for ever", "waiters", mutex(Event{Kind: Want, Client: 1})},
		{
			"gets it too late", "waiters",
			mutex(Event{Kind: Want, Client: 1}, Event{Kind: Calm, At: time.Minute}, Event{Kind: Hold, Client: 1, At: time.Minute + Bound + 1}),
		},
		{
			"gives up too late", "waiters",
			mutex(Event{Kind: Calm}, Event{Kind: Want, Client: 1, At: 1}, Event{Kind: Fail, Client: 1, At: Bound + 2}),
		},
		{"its session ends", "", mutex(Event{Kind: Want, Client: 1}, Event{Kind: Vanished, Client: 1})},
		{"gets it while there are faults", "", mutex(Event{Kind: Want, Client: 1}, Event{Kind: Hold, Client: 1, At: 9 * Bound})},
		{"a node is left", "nodes left", left},
		{"an error", "surprises", mutex(Event{Kind: Surprise, Text: "no such thing"})},

		{"an element is done", "", queue(nil, put, take, done)},
		{"an element is still there", "", queue([]string{"a"}, put)},
		{"an element is lost", "queue", queue(nil, put, take)},
		{"an element is done twice", "queue", queue(nil, put, take, done, done)},
		{"an element is done and there", "queue", queue([]string{"a"}, put, take, done)},
		{"an element is there twice", "queue", queue([]string{"a", "a"}, put)},
		{"an element was never put", "queue", queue(nil, take)},
		{"an element is taken again", "queue", queue(nil, put, take, done, take)},
		{"an element is given again", "", queue(nil, put, take, take, done)},
		{"a put has failed", "queue", queue([]string{"a"}, Event{Kind: Put, Text: "a", Outcome: Refused})},

		{"adds", "", counter(5, add(2, Acked), add(3, Acked), add(1, Refused))},
		{"an add counts twice", "counter", counter(7, add(2, Acked), add(3, Acked))},
		{"an unknown add counts", "", counter(5, add(2, Acked), add(3, Unknown))},
		{"an unknown add does not count", "", counter(2, add(2, Acked), add(3, Unknown))},
		{"an unknown add counts twice", "counter", counter(8, add(2, Acked), add(3, Unknown))},
		{"a refused add counts", "counter", counter(3, add(2, Acked), add(1, Refused))},

		{"both meet", "", double(come(1), come(2), enter(1), enter(2), leave(1), leave(2), pass(1), pass(2))},
		{"enters alone", "double barrier", double(come(1), enter(1))},
		{
			"enters when the other one has left", "double barrier",
			double(come(1), come(2), enter(1), enter(2), leave(1), leave(2), pass(1), pass(2), come(1), enter(1)),
		},
		{"leaves alone", "double barrier", double(come(1), come(2), enter(1), enter(2), leave(1), pass(1, 2))},
		{"the other one is gone", "", double(come(1), come(2), enter(1), enter(2), leave(1), pass(1))},

		{"the barrier is removed", "", mutex(at(Arrive), at(Lift), at(Through))},
		{"the barrier was removed before", "", mutex(at(Lift), at(Arrive), at(Through))},
		{"the barrier is set", "barrier", mutex(at(Arrive), at(Through))},
		{"the barrier is set again", "barrier", mutex(at(Lift), at(Lower), at(Arrive), at(Through))},

		{"a member", "", mutex(Event{Kind: Present, Client: 1}, Event{Kind: Listed, Client: 1})},
		{"a member is not listed", "group", mutex(Event{Kind: Present, Client: 1})},
		{"a member is listed twice", "group", mutex(Event{Kind: Present, Client: 1}, Event{Kind: Listed, Client: 1}, Event{Kind: Listed, Client: 1})},
		{"a stranger is listed", "group", mutex(Event{Kind: Listed, Client: 1})},
	} {
		var broken []string
		for _, v := range Check(c.h) {
			broken = append(broken, v.Rule)
		}
		broken = slices.Compact(broken)
		if c.rule == "" && len(broken) > 0 || c.rule != "" && !slices.Equal(broken, []string{c.rule}) {
			t.Errorf("%s: breaks %q, want %q", c.name, broken, c.rule)
		}
	}
}

// A release wakes one client at most, besides its owner.
func TestWakes(t *testing.T) {
	owner := Event{Kind: Hold, Client: 1, Node: "/lock/1"}
	woken := func(client int) Event { return Event{Kind: Woken, Client: client, Text: "/lock/1"} }
	if v := Wakes(mutex(owner, woken(1), woken(2))); len(v) > 0 {
		t.Errorf("one client was woken: %v", v)
	}
	if v := Wakes(mutex(owner, woken(2), woken(3))); len(v) != 1 {
		t.Errorf("two clients were woken: %v", v)
	}
}

// The line of an event has what the event has.
func TestLineOfEvent(t *testing.T) {
	for _, tt := range []struct {
		event Event
		want  string
	}{
		{Event{Kind: Add, Subject: "/a", Client: 3, At: 1500 * time.Millisecond, N: 2, Outcome: Acked}, "  1.500000 client 3 " + string(Add) + " /a " + string(Acked) + " 2"},
		{Event{Kind: Hold, Subject: "/a", Token: 16, Node: "n", Text: "t"}, "  0.000000 client 0 " + string(Hold) + " /a token 0x10 n t"},
		{sample(Holder{Client: 1, Token: 2}), "  0.000000 client 0 " + string(Sample) + "  [{Client:1 Token:2 Exclusive:false Released:false}]"},
	} {
		if got := tt.event.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
