package sessiontracker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/jute"
)

// Run with -cpu 1,2.

var sizes = []int{10_000, 100_000, 1_000_000}

// shuffled returns all ids of million(n) that one member owns, in no order.
func shuffled(n int) []int64 {
	var ids []int64
	for s := range million(n) {
		if s.Member == 1 {
			ids = append(ids, int64(s.ID))
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

func each(b *testing.B, run func(b *testing.B, n int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) { run(b, n) })
	}
}

func BenchmarkTouch(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		table, ids := NewGlobalTable(start, tick, million(n)), shuffled(n)
		var from atomic.Int64
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			i := int(from.Add(int64(len(ids) / 2)))
			for pb.Next() {
				i++
				table.Touch(jute.SessionID(ids[i%len(ids)]), start, 10*time.Second)
			}
		})
	})
}

// One op is one touch of a batch.
func BenchmarkTouchAll(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		table, ids := NewGlobalTable(start, tick, million(n)), shuffled(n)
		timeouts := slices.Repeat([]uint32{10_000}, len(ids))
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			k := 0
			for i := 0; pb.Next(); i++ {
				if k++; k == min(1000, len(ids)) {
					at := i % (len(ids) - k + 1)
					table.TouchAll(1, start, ids[at:at+k], timeouts[:k], nil)
					k = 0
				}
			}
		})
	})
}

// A bucket of a tenth of all, 100,000 of a million, falls due and is decided.
func BenchmarkExpire(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		for b.Loop() {
			b.StopTimer()
			table := NewGlobalTable(start, tick, million(n))
			ids := shuffled(n)[:n/10]
			for _, id := range ids {
				table.Attach(Seed{ID: jute.SessionID(id), Timeout: 1500 * ms}, start)
			}
			table.Advance(start.Add(tick / 2))
			b.StartTimer()
			table.Advance(start.Add(tick))
			if got := table.Decide(nil, n); len(got) != len(ids) {
				b.Fatalf("%d expired, want %d", len(got), len(ids))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n/10), "ns/session")
	})
}

// A bucket falls due whose sessions have all been touched, as most are: the cost of not
// moving them at the touch.
func BenchmarkRefile(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		for b.Loop() {
			b.StopTimer()
			table, ids := NewGlobalTable(start, tick, million(n)), shuffled(n)
			now := start
			for range 11 {
				now = now.Add(tick / 2)
				table.Advance(now)
			}
			timeouts := slices.Repeat([]uint32{10_000}, len(ids))
			for member := range uint32(3) {
				for i := range ids {
					ids[i] = ids[i]&countMask | int64(member+1)<<countBits
				}
				table.TouchAll(member+1, now, ids, timeouts, nil)
			}
			b.StartTimer()
			table.Advance(now.Add(tick / 2))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
	})
}

func BenchmarkPromote(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		seeds := slices.Collect(million(n))
		b.ReportAllocs()
		for b.Loop() {
			NewGlobalTable(start, tick, slices.Values(seeds))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
	})
}

func BenchmarkTouchMap(b *testing.B) {
	each(b, func(b *testing.B, n int) {
		var m TouchMap
		ids := shuffled(n)
		var from, number atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			i := int(from.Add(int64(len(ids) / 2)))
			for pb.Next() {
				if i++; i%len(ids) == 0 {
					m.Flush(start)
					m.Ack(uint64(number.Add(1)))
				}
				m.Touch(jute.SessionID(ids[i%len(ids)]), 10*time.Second)
			}
		})
	})
}
