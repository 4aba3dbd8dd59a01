package stream

import (
	"testing"
	"time"
)

// A stream that waits for more than a quarter of the budget waits for a quarter. If there is as much room, it is granted what it asked
// for, and no other stream is dropped for it, however long it has waited. If there is not, a stream that takes nothing is dropped before.
func TestLongWaitersForMuch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		idle    func(most int64) int64 // how many bytes the other stream holds
		dropped bool
	}{
		{"room for a quarter", func(most int64) int64 { return most / 2 }, false},
		{"just room for a quarter", func(most int64) int64 { return most/8*7 - most/4 }, false},
		{"no room", func(most int64) int64 { return most/8*7 - most/4 + 1 }, true},
	} {
		idle, _ := opened(t, nil)
		waiter, _ := opened(t, nil)
		b := idle.group.Budget
		b.all = func() []*Stream { return []*Stream{&idle.Stream, &waiter.Stream} }
		held := tt.idle(b.most)
		idle.Account.held.Store(held)
		b.used.Store(held)
		b.waiting = []place{{&waiter.Stream, 3 * b.most, time.Now()}}
		b.relieve(time.Now().Add(2 * BudgetPatience))
		if dropped := !idle.Life.alive(); dropped != tt.dropped || len(b.waiting) != 0 {
			t.Errorf("%s: the other stream is dropped: %t; %d streams wait", tt.name, dropped, len(b.waiting))
		}
		if !tt.dropped {
			idle.Account.held.Store(0)
			b.used.Store(0)
		}
	}
}
