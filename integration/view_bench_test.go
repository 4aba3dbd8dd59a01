package integration

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/wire"
	"rollcall/operator/view"
)

const (
	// viewTick allows sessions so long timeouts that none expires while the others are opened.
	viewTick      = 10 * time.Second
	viewOpeners   = 32
	viewConnected = 3000 // sessions of each size that keep their connections: this process has both ends open
)

// BenchmarkViewSessions lists all sessions of three members on one of them, page by page, again and
// again. Most have no connection, because one process cannot hold so many. It also measures the latency
// of writes at a fixed rate meanwhile, compared with writes before, and by how much the heap of the three
// members grows.
func BenchmarkViewSessions(b *testing.B) {
	sizes := []int{10_000, 100_000}
	if testing.Short() {
		sizes = []int{1000}
	}
	e := startBench(b, viewTick)
	opened := 0
	for _, n := range sizes {
		e.openSessions(b, n-opened)
		opened = n
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			ctx, stop := context.WithTimeout(b.Context(), closeLimit*time.Duration(b.N))
			defer stop()
			w := writeSteadily(ctx, b, e.clients[0])
			pause(ctx, closeIdle)
			before, most := heap(), uint64(0)
			begun := time.Now()
			for range b.N {
				most = max(most, listAll(ctx, b, e.members[1].View(), n))
			}
			over := time.Now()
			pause(ctx, closeAfter) // so that a write is due however short the lists are
			b.ReportMetric(float64(over.Sub(begun).Microseconds())/1000/float64(b.N), "ms/list")
			b.ReportMetric(float64(most-min(most, before))/(1<<20), "MiB-more")
			b.ReportMetric(0, "ns/op")
			idle, beside := w.stopAndSplit(begun, over)
			reportLatency(b, "idle", idle)
			reportLatency(b, "listing", beside)
		})
	}
}

// heap returns the bytes of the heap in use, after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// listAll lists all sessions, and returns the greatest number of bytes that the heap had, garbage
// included, after a page.
func listAll(ctx context.Context, b *testing.B, c *view.Collector, least int) (most uint64) {
	b.Helper()
	listed := 0
	for p := (view.Page{}); ; {
		a, err := c.Sessions(ctx, view.SessionFilter{}, p)
		if err != nil || len(a.Silent) > 0 {
			b.Fatalf("after %d sessions: %v, silent %+v", listed, err, a.Silent)
		}
		if listed += len(a.Items); a.NextCursor == "" {
			break
		}
		p.Cursor = a.NextCursor
	}
	if listed < least {
		b.Fatalf("%d sessions listed, want at least %d", listed, least)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// openSessions opens n sessions, in turn of the members. The first viewConnected of each call keep their
// connections until the benchmark ends.
func (e *benchEnsemble) openSessions(b *testing.B, n int) {
	b.Helper()
	var opened atomic.Int64
	var done sync.WaitGroup
	for range viewOpeners {
		done.Go(func() {
			for i := opened.Add(1) - 1; i < int64(n); i = opened.Add(1) - 1 {
				conn, err := net.Dial("tcp", e.clients[i%3])
				if err == nil {
					_, err = wire.New(conn).Open(20 * viewTick)
				}
				if err != nil {
					b.Error(err)
					return
				}
				if i < viewConnected {
					b.Cleanup(func() { _ = conn.Close() })
					continue
				}
				_ = conn.(*net.TCPConn).SetLinger(0) // its port is free again at once
				_ = conn.Close()
			}
		})
	}
	done.Wait()
	if b.Failed() {
		b.FailNow()
	}
}
