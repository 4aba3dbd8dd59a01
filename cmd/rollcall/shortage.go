package main

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"time"

	"rollcall/config"
	"rollcall/internal/admission"
)

const (
	// memoryCheckInterval is how often the memory in use is looked at. A look takes a few microseconds. Clients can
	// write more than 40 MB in a second, and a small machine has no more room than that beyond the limit. The
	// collector runs several times a second then.
	memoryCheckInterval = 100 * time.Millisecond
	// collectPause and collectShare bound how often the collector is started while writes are refused,
	// because a member that takes few writes may not start it for two minutes, and would not see what
	// was deleted. A run takes at most one part in collectShare of the time.
	collectPause = 5 * time.Second
	collectShare = 20
)

// memoryLimit returns the bytes that a configured limit stands for, where so many are available. 0 is no
// limit. If it is not known how many are available, a share of them is no limit either.
func memoryLimit(configured config.MemoryLimit, available int64) int64 {
	if configured.Percent > 0 {
		return available / 100 * int64(configured.Percent)
	}
	return configured.Bytes
}

// newMemory returns what limits the memory of this process, or nil. It warns of a limit that the process
// may not live to reach.
func newMemory(configured config.MemoryLimit, available int64, log *slog.Logger) *admission.MemoryLimiter {
	limit := memoryLimit(configured, available)
	if most := available / 100 * collectorShare; available > 0 && limit > most {
		log.Warn("memoryLimit is larger than the collector can keep to; the system may kill this process first", "memoryLimit", limit, "most", most)
	}
	return admission.NewMemoryLimiter(limit)
}

// watchMemory tells m how much memory is in use until ctx ends, and logs when it is full and when it is not
// any more. What counts is the heap that the last run of the collector has found in use, so garbage does
// not count.
func watchMemory(ctx context.Context, m *admission.MemoryLimiter, log *slog.Logger) {
	if m == nil {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(memoryCheckInterval)
	defer ticker.Stop()
	next := time.Now() // for the collector
	for {
		if now := time.Now(); m.IsFull() && !now.Before(next) {
			runtime.GC()
			next = now.Add(max(collectPause, collectShare*time.Since(now)))
		}
		metrics.Read(live)
		if m.SetUsed(int64(live[0].Value.Uint64())) {
			logMemory(m, log)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func logMemory(m *admission.MemoryLimiter, log *slog.Logger) {
	limit, used, refused := m.Usage()
	if m.IsFull() {
		log.Warn("this member is short of memory: it refuses writes that add data; delete nodes, or give it more memory", "used", used, "memoryLimit", limit)
		return
	}
	log.Info("this member has enough memory again", "used", used, "memoryLimit", limit, "refused", refused)
}
