// Package tuning sets what a member's process needs of Go's runtime and of the system: when the collector runs, and how exact
// timers are. It also finds how much memory there is.
package tuning

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
)

// The collector runs when garbage reaches a limit: roomyHeap, or half of the memory in use if that is more. If the
// machine has less than plentyOfMemory to take, the limit is the memory in use while that is less than roomyHeap, which
// is Go's default.
const (
	roomyHeap      = 64 << 20       // bytes
	plentyOfMemory = 16 * roomyHeap // so three members on one machine take a fifth of it
	roomyPercent   = 100
	tightPercent   = 50
	// A heap of a few MiB has no use for more than mostPercent.
	mostPercent = 800
	// percentStep avoids frequent changes: each stops the process for some ten microseconds.
	percentStep       = 10
	heapCheckInterval = 2 * time.Second
	// spareHeap is the unused memory that a quiet member may keep. The rest is released to the system, which
	// costs a run of the collector.
	spareHeap = 32 << 20 // bytes
	// A member is quiet after quietChecksNeeded checks in a row, 10 s, each of which found at most
	// maxQuietGrowth of new allocations. At that rate it takes a minute to fill spareHeap.
	quietChecksNeeded = 5
	maxQuietGrowth    = spareHeap / 30 // bytes
)

// heapUse is the state of the heap, in bytes.
type heapUse struct {
	live      uint64 // at the last run of the collector
	objects   uint64 // in use, or garbage
	free      uint64 // unused and not released
	allocated uint64 // since the process started
}

// heapSamples are the metrics for readHeap.
var heapSamples = [...]string{
	"/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/free:bytes", "/gc/heap/allocs:bytes",
}

func readHeap() heapUse {
	var samples [len(heapSamples)]metrics.Sample
	for i, name := range heapSamples {
		samples[i].Name = name
	}
	metrics.Read(samples[:])
	return heapUse{
		samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(),
		samples[3].Value.Uint64(),
	}
}

// heapReleaser decides when to release memory to the system. Go's own scavenger keeps as much as the heap may
// grow to, so a member that was written to would keep its garbage, half as much as its data, until it ends.
type heapReleaser struct {
	quietChecks        int    // in a row
	lastAllocated      uint64 // at the last check
	allocatedAtRelease uint64
}

// shouldRelease reports whether to release memory now. It is called at each check.
func (c *heapReleaser) shouldRelease(h heapUse) bool {
	if c.quietChecks++; h.allocated-c.lastAllocated > maxQuietGrowth {
		c.quietChecks = 0
	}
	c.lastAllocated = h.allocated
	if c.quietChecks < quietChecksNeeded || h.allocated-c.allocatedAtRelease <= spareHeap ||
		h.objects+h.free <= h.live+spareHeap {
		return false
	}
	c.allocatedAtRelease = h.allocated
	return true
}

// gcPercent returns Go's GC percentage for a heap of live bytes, on a machine with so many free bytes (0: unknown).
func gcPercent(live uint64, free int64) int {
	most := mostPercent
	if free < plentyOfMemory {
		most = roomyPercent
	}
	percent := roomyPercent * roomyHeap / max(live, 1)
	if percent >= uint64(most) {
		return most
	}
	return max(tightPercent, int(percent)/percentStep*percentStep)
}

// watchCollector signals on collected, which has one place, after each run of the collector until ctx ends. An object
// that nothing refers to is cleaned up by each run.
func watchCollector(ctx context.Context, collected chan<- struct{}) {
	var watch func(struct{})
	watch = func(struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
		if ctx.Err() == nil {
			// The object is a pointer: one without pointers may share its memory with others, and live as long as they.
			runtime.AddCleanup(new(*byte), watch, struct{}{})
		}
	}
	watch(struct{}{})
}

// TuneCollector sets the collector for a member until ctx ends. During the start the setting is tight, because
// a snapshot may fill the heap in a second. When ready is closed, memory of the start is released, and
// keepTuned begins. If the environment sets the collector, TuneCollector does nothing.
func TuneCollector(ctx context.Context, env []string, ready <-chan struct{}) {
	if slices.ContainsFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v,
			"GOMEMLIMIT=")
	}) {
		return
	}
	heapControl{readHeap, func(percent int) { debug.SetGCPercent(percent) }, debug.FreeOSMemory}.tune(ctx, ready)
}

// heapControl has the functions of Go's runtime that tune calls. Tests have their own.
type heapControl struct {
	read       func() heapUse
	setPercent func(int)
	release    func() // memory to the system
}

func (c heapControl) tune(ctx context.Context, ready <-chan struct{}) {
	c.setPercent(tightPercent)
	select {
	case <-ctx.Done():
		return
	case <-ready:
	}
	c.release()
	ticker := time.NewTicker(heapCheckInterval)
	defer ticker.Stop()
	c.keepTuned(ctx, ticker.C)
}

// keepTuned sets gcPercent after each run of the collector, and at each check. Otherwise a heap that grows fast would
// have several times as much garbage before the next check: the percentage of a small heap is large. At each check it also
// releases memory if the member is quiet.
func (c heapControl) keepTuned(ctx context.Context, checks <-chan time.Time) {
	h := c.read()
	releaser := heapReleaser{lastAllocated: h.allocated, allocatedAtRelease: h.allocated}
	collected := make(chan struct{}, 1)
	watchCollector(ctx, collected)
	for percent := tightPercent; ; {
		if p := gcPercent(h.live, FreeMemory()); p != percent {
			percent = p
			c.setPercent(p)
		}
		select {
		case <-ctx.Done():
			return
		case <-collected:
			h = c.read()
		case <-checks:
			if h = c.read(); releaser.shouldRelease(h) {
				c.release()
				h = c.read()
			}
		}
	}
}
