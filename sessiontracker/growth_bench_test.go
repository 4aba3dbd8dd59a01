package sessiontracker

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// BenchmarkGrowth measures what a session costs in memory and time, without its connection, for
// several numbers of sessions. lab/bench/growth.sh draws the results.
func BenchmarkGrowth(b *testing.B) {
	sizes := []int{1_000, 10_000, 100_000, 1_000_000}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		size := fmt.Sprintf("/sessions=%d", n)
		b.Run("promote"+size, func(b *testing.B) { growPromote(b, n) })
		b.Run("touch"+size, func(b *testing.B) { growTouch(b, n) })
		b.Run("flush"+size, func(b *testing.B) { growFlush(b, n) })
	}
}

// growPromote makes the table of a new leader, and measures its memory.
func growPromote(b *testing.B, n int) {
	seeds := slices.Collect(million(n))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := NewGlobalTable(start, tick, slices.Values(seeds))
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(table)
	b.ResetTimer()
	for range b.N {
		if got := NewGlobalTable(start, tick, slices.Values(seeds)).Len(); got != n {
			b.Fatalf("%d sessions in the table", got)
		}
	}
	perSession(b, n)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/session")
	runtime.KeepAlive(seeds)
}

// growTouch touches all sessions of one member in random order, as one ping brings them.
func growTouch(b *testing.B, n int) {
	table, ids := NewGlobalTable(start, tick, million(n)), shuffled(n)
	timeouts := slices.Repeat([]uint32{10_000}, len(ids))
	b.ResetTimer()
	for i := range b.N {
		if refused := table.TouchAll(1, touchesAt(start.Add(time.Duration(i)), ids, timeouts), nil); len(refused) > 0 {
			b.Fatalf("%d refused", len(refused))
		}
	}
	perSession(b, len(ids))
}

// growFlush touches each of n sessions of a member, and flushes them all.
func growFlush(b *testing.B, n int) {
	var m TouchMap
	number := uint64(0)
	for range b.N {
		for i := range n {
			m.Touch(jute.SessionID(1<<countBits+i), 10*time.Second, start)
		}
		number++
		m.Flush(start)
		m.AckThrough(number)
	}
	perSession(b, n)
}
