package hostile

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// mostWait bounds the wait of each write of another client. A client with the shortest session timeout, two ticks, gives
// its connection up if it gets no reply for two thirds of that. A p99 does not show a stall that affects less than one
// write in a hundred.
const mostWait = 2 * tick * 2 / 3

// written is the time when a write was sent, and the wait for its reply.
type written struct {
	at   time.Time
	took time.Duration
}

type writes []written

// write lets all of them write their nodes every othersEvery, for the time d.
func (o *others) write(t *testing.T, d time.Duration) writes {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return o.writeUntil(ctx, t)
}

// writeUntil does the same until ctx ends.
func (o *others) writeUntil(ctx context.Context, t *testing.T) writes {
	t.Helper()
	var (
		mu      sync.Mutex
		all     writes
		working sync.WaitGroup
	)
	for _, c := range o.sessions {
		working.Go(func() {
			var mine writes
			for ctx.Err() == nil {
				at := time.Now()
				if _, err := c.try(jute.OpSetData, jute.SetDataRequest{Path: c.path, Data: []byte("x"), Version: -1}); err != nil {
					t.Error(err)
					break
				}
				mine = append(mine, written{at, time.Since(at)})
				time.Sleep(time.Until(at.Add(othersEvery)))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	working.Wait()
	return all
}

// p99 returns the 99th percentile of how long they took.
func (w writes) p99(t *testing.T, when string) time.Duration {
	t.Helper()
	if len(w) == 0 {
		t.Fatalf("nothing was written %s", when)
	}
	slices.SortFunc(w, func(a, b written) int { return int(a.took - b.took) })
	p99 := w[len(w)*99/100].took
	t.Logf("others %s: %d writes, p50 %v, p99 %v, longest %v", when, len(w), w[len(w)/2].took, p99, w[len(w)-1].took)
	return p99
}

// longest returns the duration of the slowest write.
func (w writes) longest() time.Duration {
	var longest time.Duration
	for _, one := range w {
		longest = max(longest, one.took)
	}
	return longest
}

// median returns the median of how long they took.
func (w writes) median() time.Duration {
	took := make([]time.Duration, 0, len(w))
	for _, one := range w {
		took = append(took, one.took)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// before returns the writes that were sent before a time.
func (w writes) before(at time.Time) writes {
	return slices.DeleteFunc(slices.Clone(w), func(one written) bool { return !one.at.Before(at) })
}

// since returns the writes that were answered at a time or later.
func (w writes) since(at time.Time) writes {
	return slices.DeleteFunc(slices.Clone(w), func(one written) bool { return one.at.Add(one.took).Before(at) })
}
