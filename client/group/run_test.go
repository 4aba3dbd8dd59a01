package group

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// following runs a sharer of one partition in a bubble. Its shares have no receiver. following returns a function that
// passes a list of members to it, and the times at which shares were made, since the begin.
func following(t *testing.T, settle time.Duration) (list func(ids ...string), shared *[]time.Duration) {
	t.Helper()
	begin := time.Now()
	shared = &[]time.Duration{}
	s := &partitionOwner{
		cfg: PartitionsConfig{ID: "me", Partitions: 1, Settle: settle, Shares: func(members []string, _ int) []string {
			*shared = append(*shared, time.Since(begin))
			return []string{""}
		}},
		running: map[int]*tenure{}, ended: make(chan *tenure),
	}
	lists := make(chan []Member)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.followMembers(ctx, lists) }()
	t.Cleanup(func() {
		reason := errors.New("over")
		cancel(reason)
		if err := <-done; !errors.Is(err, reason) {
			t.Errorf("the end: %v, want %v", err, reason)
		}
	})
	return func(ids ...string) {
		var members []Member
		for _, id := range ids {
			members = append(members, Member{ID: id})
		}
		lists <- members
	}, shared
}

// Partitions are shared when the members have stayed the same for Settle, and after maxSettles changes in any case.
func TestPartitionsSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, shared := following(t, time.Second)
		list("a")
		time.Sleep(900 * time.Millisecond)
		list("a") // no change
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if want := []time.Duration{time.Second}; !slices.Equal(*shared, want) {
			t.Errorf("shared at %v, want %v", *shared, want)
		}
		for round := range 2 {
			*shared = nil
			begin := 0
			for change := range 2 * maxSettles {
				if len(*shared) > 0 {
					break
				}
				list("a", strings.Repeat("b", change+1+begin))
				begin = change + 1
				time.Sleep(900 * time.Millisecond)
				synctest.Wait()
			}
			if len(*shared) != 1 || begin != maxSettles+1 {
				t.Errorf("round %d: shared %d times after %d changes, want once after %d", round, len(*shared), begin, maxSettles+1)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
	})
}

// With a negative Settle, partitions are shared at each change, at once.
func TestPartitionsWithoutSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, shared := following(t, -1)
		list("a")
		synctest.Wait()
		list("a", "b")
		synctest.Wait()
		if want := []time.Duration{0, 0}; !slices.Equal(*shared, want) {
			t.Errorf("shared at %v, want %v", *shared, want)
		}
	})
}
