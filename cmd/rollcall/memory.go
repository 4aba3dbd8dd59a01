package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
)

// The collector runs when garbage reaches a limit. Up to roomyHeap in use, the limit is the memory in use,
// which is Go's default. Above that it is roomyHeap, or half of the memory in use if that is more.
const (
	roomyHeap    = 64 << 20 // bytes
	roomyPercent = 100
	tightPercent = 50
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

// gcPercent returns Go's GC percentage for a heap of live bytes.
func gcPercent(live uint64) int {
	if live <= roomyHeap {
		return roomyPercent
	}
	return max(tightPercent, int(roomyPercent*roomyHeap/live)/percentStep*percentStep)
}

// tuneCollector sets the collector for a member until ctx ends. During the start the setting is tight, because
// a snapshot may fill the heap in a second. When ready is closed, memory of the start is released, and
// gcPercent counts. After that, memory is released whenever the member is quiet. If the environment sets the
// collector, tuneCollector does nothing.
func tuneCollector(ctx context.Context, env []string, ready <-chan struct{}) {
	if slices.ContainsFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v,
			"GOMEMLIMIT=")
	}) {
		return
	}
	percent := tightPercent
	debug.SetGCPercent(percent)
	select {
	case <-ctx.Done():
		return
	case <-ready:
	}
	debug.FreeOSMemory()
	h := readHeap()
	c := heapReleaser{lastAllocated: h.allocated, allocatedAtRelease: h.allocated}
	ticker := time.NewTicker(heapCheckInterval)
	defer ticker.Stop()
	for {
		if p := gcPercent(h.live); p != percent {
			percent = p
			debug.SetGCPercent(p)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if h = readHeap(); c.shouldRelease(h) {
			debug.FreeOSMemory()
			h = readHeap()
		}
	}
}
