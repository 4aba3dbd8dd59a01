package applications

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// pause is the time that an inserter waits after an insert or an error, before it continues.
const pause = 100 * time.Millisecond

// inserter inserts rows into one replica, one at a time. It repeats each until the replica
// acknowledges it. ClickHouse drops a repeated block that it has already.
type inserter struct {
	id      int
	replica replica
	end     context.CancelFunc
	done    chan struct{}

	mu   sync.Mutex
	acks []time.Time // when each row was acknowledged, in order
	last error       // of the last attempt
}

// startInserters begins to insert into each replica, and continues until stop is called or the test ends.
func startInserters(t *testing.T, replicas []replica) (inserters []*inserter) {
	t.Helper()
	for n, r := range replicas {
		ctx, end := context.WithCancel(context.Background())
		i := &inserter{id: n + 1, replica: r, end: end, done: make(chan struct{})}
		t.Cleanup(func() { i.stop() })
		go i.run(ctx)
		inserters = append(inserters, i)
	}
	return inserters
}

func (i *inserter) run(ctx context.Context) {
	defer close(i.done)
	for n := 0; ctx.Err() == nil; time.Sleep(pause) {
		// An insert that was begun is finished, so that its outcome is known.
		_, err := i.replica.query(context.WithoutCancel(ctx), fmt.Sprintf("INSERT INTO inserts VALUES (%d, %d)", i.id, n))
		i.mu.Lock()
		if i.last = err; err == nil {
			i.acks = append(i.acks, time.Now())
			n++
		}
		i.mu.Unlock()
	}
}

// stop ends the inserts and returns the number of acknowledged ones.
func (i *inserter) stop() int {
	i.end()
	<-i.done
	return i.countAcknowledged()
}

// countAcknowledged returns the number of acknowledged inserts so far.
func (i *inserter) countAcknowledged() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.acks)
}

// goOn waits until two more inserts of each inserter are acknowledged. The second of them was begun
// after the call.
func goOn(t *testing.T, inserters []*inserter) {
	t.Helper()
	for _, i := range inserters {
		enough := i.countAcknowledged() + 2
		end := time.Now().Add(recovery)
		for i.countAcknowledged() < enough {
			if time.Sleep(glance); time.Now().After(end) {
				i.mu.Lock()
				defer i.mu.Unlock()
				t.Fatalf("%s takes no inserts for %v: %v", i.replica.name, recovery, i.last)
			}
		}
	}
}

// longestGap returns the longest time between two successive acknowledgements of any one inserter. It covers the time from
// the beginning of fault until a while after all inserters have continued.
func longestGap(t *testing.T, inserters []*inserter, fault func()) (gap time.Duration) {
	t.Helper()
	began := time.Now()
	fault()
	goOn(t, inserters)
	time.Sleep(calm)
	for _, i := range inserters {
		i.mu.Lock()
		first := slices.IndexFunc(i.acks, func(at time.Time) bool { return at.After(began) })
		for n := max(first, 1); n < len(i.acks); n++ {
			gap = max(gap, i.acks[n].Sub(i.acks[n-1]))
		}
		i.mu.Unlock()
	}
	return gap
}

// gaps prints the longest of some times, and then each of them.
type gaps []time.Duration

func (g gaps) String() string {
	text := fmt.Sprintf("%.1f s (", slices.Max(g).Seconds())
	for n, gap := range g {
		if n > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.1f", gap.Seconds())
	}
	return text + ")"
}
