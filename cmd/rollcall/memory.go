package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
)

// How much garbage a member may have before the collector runs. While up to roomyHeap is in use, it
// is as much as is in use, which is Go's own setting. Above that it is roomyHeap, or half of the
// memory in use if that is more.
const (
	roomyHeap    = 64 << 20 // bytes
	roomyPercent = 100
	tightPercent = 50
	// percentStep keeps the setting from following every small change: each stops the
	// process for some ten microseconds.
	percentStep = 10
	// heapCheckInterval is how often the heap is looked at.
	heapCheckInterval = 2 * time.Second
	// spareHeap is how much memory a calm member may keep without using it. What is above goes back to
	// the system, which costs a run of the collector.
	spareHeap = 32 << 20 // bytes
	// A member is calm after calmLooks looks in a row, 10 s, at which it had allocated at most
	// calmGrowth since the look before. At that rate it takes a minute to fill spareHeap.
	quietChecksNeeded = 5
	maxQuietGrowth    = spareHeap / 30 // bytes
)

// heapUse is what Go's runtime says of the heap, in bytes.
type heapUse struct {
	live      uint64 // in use when the collector ran last
	objects   uint64 // in use, or garbage
	free      uint64 // not in use, and not given back to the system
	allocated uint64 // since the process began
}

// heapSamples names what readHeap reads.
var heapSamples = [...]string{"/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes", "/gc/heap/allocs:bytes"}

func readHeap() heapUse {
	var samples [len(heapSamples)]metrics.Sample
	for i, name := range heapSamples {
		samples[i].Name = name
	}
	metrics.Read(samples[:])
	return heapUse{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}

// heapReleaser decides when memory goes back to the system. Go's own scavenger keeps as much as the heap may grow
// to, so a member that was written to would keep its garbage, half as much as its data, for as long as it
// runs.
type heapReleaser struct {
	quietChecks        int    // in a row at which little had been allocated
	lastAllocated      uint64 // at the last look
	allocatedAtRelease uint64 // allocated, when memory was given back last
}

// shouldRelease reports whether memory is to be given back now. It is called at each look.
func (c *heapReleaser) shouldRelease(h heapUse) bool {
	if c.quietChecks++; h.allocated-c.lastAllocated > maxQuietGrowth {
		c.quietChecks = 0
	}
	c.lastAllocated = h.allocated
	if c.quietChecks < quietChecksNeeded || h.allocated-c.allocatedAtRelease <= spareHeap || h.objects+h.free <= h.live+spareHeap {
		return false
	}
	c.allocatedAtRelease = h.allocated
	return true
}

// gcPercent returns Go's setting for so many bytes in use.
func gcPercent(live uint64) int {
	if live <= roomyHeap {
		return roomyPercent
	}
	return max(tightPercent, int(roomyPercent*roomyHeap/live)/percentStep*percentStep)
}

// tuneCollector sets the collector for a member until ctx ends. While the member starts, the setting is tight,
// because a snapshot may fill the heap in a second. When ready is closed, memory that the start needed
// goes back to the system, and gcPercent makes the setting. From then on memory goes back whenever the
// member is calm. keepSmall does nothing if the environment sets the collector.
func tuneCollector(ctx context.Context, env []string, ready <-chan struct{}) {
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=") }) {
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
