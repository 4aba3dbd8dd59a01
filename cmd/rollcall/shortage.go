package main

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"time"

	"rollcall/config"
	"rollcall/internal/admission"
	"rollcall/internal/tuning"
)

const (
	// A check takes a few microseconds. Clients can write more than 40 MB in a second, and a small machine has
	// no more memory than that beyond the limit. The collector then runs several times a second.
	memoryCheckInterval = 100 * time.Millisecond
	// collectPause and collectShare limit forced runs of the collector while writes are rejected. Without them
	// a member with few writes might not collect for two minutes, and would not notice deletions. A run takes
	// at most one collectShare-th of the time.
	collectPause = 5 * time.Second
	collectShare = 20
)

// memoryLimit returns a configured limit in bytes. 0 is no limit. A percentage of unknown memory is no limit
// either.
func memoryLimit(configured config.MemoryLimit, available int64) int64 {
	if configured.Percent > 0 {
		return available / 100 * int64(configured.Percent)
	}
	return configured.Bytes
}

// newMemoryLimiter returns the memory limit of this process, or nil. It warns of a limit above the collector's.
func newMemoryLimiter(configured config.MemoryLimit, available int64, log *slog.Logger) *admission.MemoryLimiter {
	limit := memoryLimit(configured, available)
	if most := available / 100 * tuning.CollectorShare; available > 0 && limit > most {
		log.Warn("memoryLimit is larger than the collector can keep to; the system may kill this process first",
			"memoryLimit", limit, "most", most)
	}
	return admission.NewMemoryLimiter(limit)
}

// feedMemoryLimiter reports the memory in use to m until ctx ends, and logs when the limit is reached and when it is
// not any more. It measures the live heap of the last collection, so garbage does not count.
func feedMemoryLimiter(ctx context.Context, m *admission.MemoryLimiter, log *slog.Logger) {
	if m == nil {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(memoryCheckInterval)
	defer ticker.Stop()
	next := time.Now() // forced collection
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
		log.Warn("this member is short of memory: it refuses writes that add data; delete nodes, or give it more memory",
			"used", used, "memoryLimit", limit)
		return
	}
	log.Info("this member has enough memory again", "used", used, "memoryLimit", limit, "refused", refused)
}
