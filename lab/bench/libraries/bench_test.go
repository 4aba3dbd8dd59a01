package libraries

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
)

func BenchmarkGet(b *testing.B) {
	eachLibrary(b, func(b *testing.B, _ library, c connection, path string) {
		for b.Loop() {
			if err := c.get(path); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSet(b *testing.B) {
	eachLibrary(b, func(b *testing.B, _ library, c connection, path string) {
		for b.Loop() {
			if err := c.set(path); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// fromGoroutines calls do b.N times from inFlight goroutines.
func fromGoroutines(b *testing.B, do func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for range inFlight {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// Requests of 64 goroutines on one session.
func BenchmarkGet64(b *testing.B) {
	eachLibrary(b, func(b *testing.B, _ library, c connection, path string) {
		fromGoroutines(b, func() error { return c.get(path) })
	})
}

func BenchmarkSet64(b *testing.B) {
	eachLibrary(b, func(b *testing.B, _ library, c connection, path string) {
		fromGoroutines(b, func() error { return c.set(path) })
	})
}

// pipelined sends b.N requests through a Pipeline. MaxInFlight limits them.
func pipelined(b *testing.B, send func(ctx context.Context, p client.Pipeline, path string, done func(error)) error) {
	b.Run("client", func(b *testing.B) {
		c, err := client.Dial(b.Context(), servers(b)[0], client.Config{Timeout: sessionTimeout, MaxInFlight: inFlight})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Abandon()
		path := fmt.Sprintf("/bench-%d", time.Now().UnixNano())
		if err := (clientConnection{c}).create(path); err != nil {
			b.Fatal(err)
		}
		var pending sync.WaitGroup
		done := func(err error) {
			if err != nil {
				b.Error(err)
			}
			pending.Done()
		}
		b.ResetTimer()
		for range b.N {
			pending.Add(1)
			if err := send(context.Background(), c.Pipeline(), path, done); err != nil {
				b.Fatal(err)
			}
		}
		pending.Wait()
	})
}

// The same number of requests in flight through a Pipeline, which go-zookeeper/zk does not have.
func BenchmarkGetPipeline(b *testing.B) {
	pipelined(b, func(ctx context.Context, p client.Pipeline, path string, done func(error)) error {
		return p.Get(ctx, path, func(_ []byte, _ client.Stat, err error) { done(err) })
	})
}

func BenchmarkSetPipeline(b *testing.B) {
	pipelined(b, func(ctx context.Context, p client.Pipeline, path string, done func(error)) error {
		return p.Set(ctx, path, data, client.AnyVersion, func(_ client.Stat, err error) { done(err) })
	})
}

// A session sets a watch, writes, and waits for the event.
func BenchmarkWatchEvent(b *testing.B) {
	eachLibrary(b, func(b *testing.B, _ library, c connection, path string) {
		for b.Loop() {
			fired, err := c.watch(path)
			if err == nil {
				err = c.set(path)
			}
			if err == nil {
				err = fired()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// idleSessions is the number of sessions whose memory is measured. A server accepts 60 connections from one address.
const idleSessions = 50

// The memory of a session that only pings, in this process.
func BenchmarkIdleSession(b *testing.B) {
	eachLibrary(b, func(b *testing.B, l library, _ connection, _ string) {
		for b.Loop() {
			before := memoryInUse()
			all := make([]connection, idleSessions)
			for i := range all {
				all[i] = l.open(b)
			}
			b.ReportMetric(float64(memoryInUse()-before)/idleSessions, "B/session")
			for _, c := range all {
				c.end()
			}
		}
	})
}

func memoryInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Two sessions pass a lock to each other: the time from the release to the moment when the other one holds it.
func BenchmarkLockHandOver(b *testing.B) {
	eachLibrary(b, func(b *testing.B, l library, first connection, path string) {
		second := l.open(b)
		defer second.end()
		folder := path + "/lock"
		holders := [2]connection{first, second}
		release, err := holders[0].lock(folder)
		if err != nil {
			b.Fatal(err)
		}
		var took []time.Duration
		for i := 1; b.Loop(); i++ {
			entering := make(chan func() error, 1)
			go func() {
				next, err := holders[i%2].lock(folder)
				if err != nil {
					b.Error(err)
				}
				entering <- next
			}()
			<-time.After(contenderPause) // it waits now
			begun := time.Now()
			if err := release(); err != nil {
				b.Fatal(err)
			}
			release = <-entering
			took = append(took, time.Since(begun))
		}
		reportQuantiles(b, took)
		_ = release()
	})
}

// contenderPause is the time in which the next contender creates its node and sets its watch. It is not measured.
const contenderPause = 20 * time.Millisecond

func reportQuantiles(b *testing.B, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// Contenders of one lock, over some sessions.
const (
	contenders        = 1000
	contendersSession = 20 // sessions that share them
)

// All contenders hold the lock once.
func BenchmarkThousandContenders(b *testing.B) {
	eachLibrary(b, func(b *testing.B, l library, _ connection, path string) {
		sessions := make([]connection, contendersSession)
		for i := range sessions {
			sessions[i] = l.open(b)
			defer sessions[i].end()
		}
		for round := 0; b.Loop(); round++ {
			var all sync.WaitGroup
			for i := range contenders {
				all.Go(func() {
					release, err := sessions[i%len(sessions)].lock(fmt.Sprintf("%s/lock-%d", path, round))
					if err == nil {
						err = release()
					}
					if err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/contenders*1e6, "µs/holder")
	})
}
