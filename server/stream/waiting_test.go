package stream

import (
	"testing"
	"time"
)

// A stream that waits for more than a quarter of the budget waits for a quarter. If there is as much room, its request
// is granted, and no other stream is dropped for it, however long it has waited. If there is not, a stream that takes
// nothing is dropped before.
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
		b.allStreams = func() []*Stream { return []*Stream{&idle.Stream, &waiter.Stream} }
		held := tt.idle(b.limit)
		idle.Account.heldBytes.Store(held)
		b.usedBytes.Store(held)
		b.waiters = []budgetWaiter{{&waiter.Stream, 3 * b.limit, time.Now()}}
		b.dropAndGrant(time.Now().Add(2 * MaxBudgetWait))
		if dropped := !idle.Life.isAlive(); dropped != tt.dropped || len(b.waiters) != 0 {
			t.Errorf("%s: the other stream is dropped: %t; %d streams wait", tt.name, dropped, len(b.waiters))
		}
		if !tt.dropped {
			idle.Account.heldBytes.Store(0)
			b.usedBytes.Store(0)
		}
	}
}
