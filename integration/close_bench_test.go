package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/client"
)

const (
	closeRate  = 500              // writes per second during the close
	closeIdle  = 3 * time.Second  // how long to write with nothing else going on
	closeAfter = time.Second      // how long to write after the close
	closeLimit = 5 * time.Minute  // for each request of a client
	perCreate  = 500              // nodes created by one transaction
	creates    = 4                // such transactions in flight
	aSession   = 40 * time.Second // session timeout
)

// BenchmarkClose measures the end of a session with many ephemeral nodes, from the call of close to its reply. It also
// measures the latency of writes at a fixed rate that were due meanwhile, compared with writes in an idle ensemble. It
// runs on three members in this process, or on the servers that ROLLCALL_SERVERS names.
func BenchmarkClose(b *testing.B) {
	sizes := []int{1_000, 10_000, 100_000, 1_000_000}
	if testing.Short() {
		sizes = sizes[:1]
	}
	servers := strings.FieldsFunc(os.Getenv("ROLLCALL_SERVERS"), func(r rune) bool { return r == ',' })
	if len(servers) == 0 {
		servers = startBench(b, 2*time.Second).clients
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("ephemerals=%d", n), func(b *testing.B) {
			ctx, stop := context.WithTimeout(b.Context(), closeLimit*time.Duration(b.N))
			defer stop()
			var closing time.Duration
			var idle, beside []time.Duration
			for range b.N {
				owner := owning(ctx, b, servers, n)
				w := writeSteadily(ctx, b, servers[len(servers)-1])
				pause(ctx, closeIdle)
				begun := time.Now()
				if err := owner.Close(ctx); err != nil {
					b.Fatal(err)
				}
				over := time.Now()
				pause(ctx, closeAfter)
				closing += over.Sub(begun)
				i, m := w.stopAndSplit(begun, over)
				idle, beside = append(idle, i...), append(beside, m...)
			}
			b.ReportMetric(float64(closing.Microseconds())/1000/float64(b.N), "ms/close")
			b.ReportMetric(0, "ns/op")
			reportLatency(b, "idle", idle)
			reportLatency(b, "closing", beside)
		})
	}
}

// reportLatency reports percentiles. If there are fewer than 100 writes, p99 is the longest.
func reportLatency(b *testing.B, name string, took []time.Duration) {
	if len(took) == 0 {
		b.Fatalf("no write was due: %s", name)
	}
	slices.Sort(took)
	for figure, at := range map[string]int{"p50": len(took) / 2, "p99": min(len(took)*99/100, len(took)-1), "max": len(took) - 1} {
		b.ReportMetric(float64(took[at].Microseconds())/1000, name+"-"+figure+"-ms")
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// owning opens a session with n ephemeral nodes.
func owning(ctx context.Context, b *testing.B, servers []string, n int) *client.Client {
	b.Helper()
	c, err := client.Dial(ctx, strings.Join(servers, ","), client.Config{Timeout: aSession})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Abandon)
	directory, _, err := c.Create(ctx, "/close-", nil, client.PersistentSequential)
	if err != nil {
		b.Fatal(err)
	}
	room := make(chan struct{}, creates)
	var made sync.WaitGroup
	for from := 0; from < n; from += perCreate {
		var ops []client.Operation
		for i := from; i < min(from+perCreate, n); i++ {
			ops = append(ops, client.CreateOp(fmt.Sprintf("%s/%07d", directory, i), nil, client.Ephemeral))
		}
		room <- struct{}{}
		made.Go(func() {
			defer func() { <-room }()
			if _, err := c.Multi(ctx, ops...); err != nil {
				b.Error(err)
			}
		})
	}
	made.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return c
}

// steady is a client that writes at a fixed rate.
type steady struct {
	b    *testing.B
	c    *client.Client
	stop context.CancelFunc
	over chan struct{}

	mu   sync.Mutex
	sent sync.WaitGroup
	due  []time.Time
	took []time.Duration // counted from when each was due
}

func writeSteadily(ctx context.Context, b *testing.B, server string) *steady {
	b.Helper()
	c, err := client.Dial(ctx, server, client.Config{Timeout: aSession, MaxInFlight: closeRate * 60})
	if err != nil {
		b.Fatal(err)
	}
	path, _, err := c.Create(ctx, "/beside-", nil, client.PersistentSequential)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	w := &steady{b: b, c: c, stop: stop, over: make(chan struct{})}
	go w.run(ctx, path)
	return w
}

func (w *steady) run(ctx context.Context, path string) {
	defer close(w.over)
	data := make([]byte, 100)
	ticker := time.NewTicker(time.Second / closeRate)
	defer ticker.Stop()
	for due := time.Now(); ; due = due.Add(time.Second / closeRate) {
		for time.Until(due) > 0 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		w.sent.Add(1)
		always := context.WithoutCancel(ctx)
		err := w.c.Pipeline().Set(always, path, data, client.AnyVersion, func(_ client.Stat, err error) {
			defer w.sent.Done()
			if err != nil {
				w.b.Errorf("a write beside the close: %v", err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.due, w.took = append(w.due, due), append(w.took, time.Since(due))
		})
		if err != nil {
			w.sent.Done()
			w.b.Error(err)
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// stopAndSplit stops the writes. It returns the durations of the writes that were due before the close, and of the ones
// that were due during it or right after it. There is at least one of the latter.
func (w *steady) stopAndSplit(begun, over time.Time) (idle, beside []time.Duration) {
	w.stop()
	<-w.over
	w.sent.Wait()
	w.c.Abandon()
	for i, due := range w.due {
		switch {
		case due.Before(begun):
			idle = append(idle, w.took[i])
		case due.Before(over.Add(time.Second / closeRate)):
			beside = append(beside, w.took[i])
		}
	}
	return idle, beside
}
