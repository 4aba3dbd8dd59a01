package sessiontracker

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// Run with -cpu 1,2.

// each runs a benchmark for several numbers of sessions.
func each(b *testing.B, run func(b *testing.B, n int)) {
	sizes := []int{10_000, 100_000, 1_000_000}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			run(b, n)
		})
	}
}

// perSession reports what an op took for each of n sessions.
func perSession(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
}

// shuffled returns the ids of million(n) that belong to one member, in random order.
func shuffled(n int) []int64 {
	var ids []int64
	for s := range million(n) {
		if s.OwnerMember == 1 {
			ids = append(ids, int64(s.ID))
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// BenchmarkTouch measures one touch, by a connection on the leader's own member.
func BenchmarkTouch(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		table, ids := NewGlobalTable(start, tick, million(n)), shuffled(n)
		var from atomic.Int64
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			i := int(from.Add(int64(len(ids) / 2)))
			for pb.Next() {
				i++
				table.Touch(jute.SessionID(ids[i%len(ids)]), start.Add(time.Duration(i)), 10*time.Second)
			}
		})
	})
}

// BenchmarkTouchAll measures one touch of a batch, as pings bring them.
func BenchmarkTouchAll(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		table, ids := NewGlobalTable(start, tick, million(n)), shuffled(n)
		timeouts := slices.Repeat([]uint32{10_000}, len(ids))
		var from atomic.Int64
		const batch = 1000
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			at, k := int(from.Add(int64(len(ids)/2)))%(len(ids)-batch), 0
			for now := start; pb.Next(); {
				if k++; k == batch {
					now = now.Add(time.Microsecond)
					table.TouchAll(1, touchesAt(now, ids[at:at+k], timeouts[:k]), nil)
					at, k = (at+k)%(len(ids)-batch), 0
				}
			}
		})
	})
}

// BenchmarkExpire measures a bucket that falls due, with a tenth of all sessions: 100,000 of a
// million. They are decided for one entry after the other, and forgotten as the entries are
// applied.
func BenchmarkExpire(b *testing.B) {
	const entry = 1024 // as many as the leader puts into one
	each(b, func(b *testing.B, n int) {
		var due []OverdueSession
		var closed []jute.SessionID
		for b.Loop() {
			b.StopTimer()
			table := NewGlobalTable(start, tick, million(n))
			ids := shuffled(n)[:n/10]
			for _, id := range ids {
				table.AttachSession(TrackedSession{ID: jute.SessionID(id), Timeout: 1500 * ms}, start)
			}
			table.AdvanceIfDue(start.Add(tick / 2))
			b.StartTimer()
			table.AdvanceIfDue(start.Add(tick))
			for table.HasDue() {
				due = table.TakeOverdue(due[:0], entry)
				closed = closed[:0]
				for _, s := range due {
					closed = append(closed, s.ID)
				}
				table.RemoveSessions(closed)
			}
			if table.Len() != n-len(ids) {
				b.Fatalf("%d are left, want %d", table.Len(), n-len(ids))
			}
		}
		perSession(b, n/10)
	})
}

// BenchmarkRemove measures the removal of a tenth of all sessions that their clients close, in
// random order, 64 in an entry.
func BenchmarkRemove(b *testing.B) {
	const entry = 64
	each(b, func(b *testing.B, n int) {
		for b.Loop() {
			b.StopTimer()
			table := NewGlobalTable(start, tick, million(n))
			var ids []jute.SessionID
			for _, id := range shuffled(n)[:n/10] {
				ids = append(ids, jute.SessionID(id))
			}
			b.StartTimer()
			for part := range slices.Chunk(ids, entry) {
				table.RemoveSessions(part)
			}
		}
		perSession(b, n/10)
	})
}

// BenchmarkRefile measures a bucket that falls due after all its sessions have been touched, as
// usually most are. This is the work that a touch saves by not moving its session.
func BenchmarkRefile(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		for b.Loop() {
			b.StopTimer()
			table, ids := NewGlobalTable(start, tick, million(n)), shuffled(n)
			now := start
			for range 11 {
				now = now.Add(tick / 2)
				table.AdvanceIfDue(now)
			}
			timeouts := slices.Repeat([]uint32{10_000}, len(ids))
			for member := range uint32(3) {
				for i := range ids {
					ids[i] = ids[i]&countMask | int64(member+1)<<countBits
				}
				table.TouchAll(member+1, touchesAt(now, ids, timeouts), nil)
			}
			b.StartTimer()
			table.AdvanceIfDue(now.Add(tick / 2))
		}
		perSession(b, n)
	})
}

// BenchmarkPromote measures making the table of a new leader, and reports its memory.
func BenchmarkPromote(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		seeds := slices.Collect(million(n))
		var table *GlobalTable
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for b.Loop() {
			table = NewGlobalTable(start, tick, slices.Values(seeds))
		}
		perSession(b, n)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/session")
		runtime.KeepAlive(seeds)
		runtime.KeepAlive(table)
	})
}

// BenchmarkBuckets measures counting the sessions by buckets, as for an operator who looks on.
func BenchmarkBuckets(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		table := NewGlobalTable(start, tick, million(n))
		for b.Loop() {
			table.BucketCounts(start, 1000)
		}
		perSession(b, n)
	})
}

// BenchmarkTouchMap measures a touch, while all sessions are flushed and acknowledged in turn.
func BenchmarkTouchMap(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		var m TouchMap
		ids := shuffled(n)
		var from, number atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			i := int(from.Add(int64(len(ids) / 2)))
			for pb.Next() {
				if i++; i%len(ids) == 0 {
					m.Flush(start)
					m.AckThrough(uint64(number.Add(1)))
				}
				m.Touch(jute.SessionID(ids[i%len(ids)]), 10*time.Second, start)
			}
		})
	})
}

// BenchmarkTouchMapFlush measures a flush of so many touches. Either no batch waits for an
// acknowledgement, or as many as may wait do, and then every two of them are joined.
func BenchmarkTouchMapFlush(b *testing.B) {
	for _, waiting := range []int{0, maxBatches} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			for _, n := range []int{10_000, 100_000} {
				b.Run(fmt.Sprintf("touches=%d", n), func(b *testing.B) {
					ids := shuffled(3 * n)
					b.ReportAllocs()
					for b.Loop() {
						b.StopTimer()
						var m TouchMap
						for k := range waiting {
							for _, id := range ids[k*n/maxBatches : (k+1)*n/maxBatches] {
								m.Touch(jute.SessionID(id), 10*time.Second, start)
							}
							m.Flush(start)
						}
						for _, id := range ids {
							m.Touch(jute.SessionID(id), 10*time.Second, start)
						}
						b.StartTimer()
						m.Flush(start)
					}
					perSession(b, n)
				})
			}
		})
	}
}
