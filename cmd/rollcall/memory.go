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
	// lookInterval is how often the heap is looked at.
	lookInterval = 2 * time.Second
)

// gcPercent returns Go's setting for so many bytes in use.
func gcPercent(live uint64) int {
	if live <= roomyHeap {
		return roomyPercent
	}
	return max(tightPercent, int(roomyPercent*roomyHeap/live)/percentStep*percentStep)
}

// keepSmall sets the collector for a member until ctx ends. While the member starts, the setting is tight,
// because a snapshot may fill the heap in a second. When ready is closed, memory that the start needed
// goes back to the system, and gcPercent makes the setting. keepSmall does nothing if the environment
// sets the collector.
func keepSmall(ctx context.Context, env []string, ready <-chan struct{}) {
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
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		metrics.Read(live)
		if p := gcPercent(live[0].Value.Uint64()); p != percent {
			percent = p
			debug.SetGCPercent(p)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
