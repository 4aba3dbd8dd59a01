package main

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/internal/admission"
)

func TestMemoryLimit(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		configured      config.MemoryLimit
		available, want int64
		warns           bool
	}{
		{config.MemoryLimit{}, gib, 0, false},
		{config.MemoryLimit{Bytes: 5}, 0, 5, false},
		{config.MemoryLimit{Bytes: gib / 2}, gib, gib / 2, false},
		{config.MemoryLimit{Bytes: gib}, gib, gib, true},
		{config.MemoryLimit{Percent: 75}, 1000, 750, false},
		{config.MemoryLimit{Percent: 90}, 1000, 900, false},
		{config.MemoryLimit{Percent: 75}, 0, 0, false},
	} {
		var out bytes.Buffer
		limit, _, _ := newMemoryLimiter(tt.configured, tt.available, slog.New(slog.NewTextHandler(&out, nil))).Usage()
		if warns := strings.Contains(out.String(), "larger than the collector can keep to"); limit != tt.want || warns != tt.warns {
			t.Errorf("%+v of %d: %d, want %d; warning: %q", tt.configured, tt.available, limit, tt.want, &out)
		}
	}
}

// inUse returns the bytes that the collector finds in use now. Other tests may have left some: cobra keeps the
// flags of every command line that has run in this process.
func inUse() int64 {
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// The log says when memory is short, and when it is enough again, once each. While it is short, the collector
// is started from time to time, so that freed memory is seen.
func TestWatchMemory(t *testing.T) {
	limit := inUse() + 48<<20
	held := make([]byte, 64<<20)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	m := admission.NewMemoryLimiter(limit)
	m.SetUsed(limit + 1) // as a look would, after the collector has run
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go feedMemoryLimiter(ctx, m, log)
		defer cancel()
		synctest.Wait()
		if _, used, _ := m.Usage(); used < int64(len(held)) || !m.IsFull() {
			t.Errorf("%d bytes are in use, %d are held; full: %t", used, len(held), m.IsFull())
		}
	})
	held = nil
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go feedMemoryLimiter(ctx, m, log)
		defer cancel()
		synctest.Wait()
		if m.IsFull() {
			t.Error("memory is not short any more, and full")
		}
	})
	if text := out.String(); strings.Count(text, "enough memory again") != 1 || strings.Contains(text, "this member is short of memory") {
		t.Errorf("log: %s", text)
	}
	m.SetUsed(1 << 40)
	logMemory(m, log)
	if !strings.Contains(out.String(), "this member is short of memory") {
		t.Errorf("log: %s", &out)
	}
	feedMemoryLimiter(t.Context(), nil, log) // returns at once
}

// A client can write tens of megabytes in a second, so a fraction of one passes at most before writes are
// refused.
func TestWatchMemorySoon(t *testing.T) {
	m := admission.NewMemoryLimiter(inUse() + 48<<20)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go feedMemoryLimiter(ctx, m, slog.New(slog.DiscardHandler))
		synctest.Wait()
		if m.IsFull() {
			t.Fatal("memory is short at the start")
		}
		held := make([]byte, 64<<20)
		runtime.GC()
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if !m.IsFull() {
			t.Error("0.2 s after the collector has found 64 MiB more in use, of 48 MiB, memory is not short")
		}
		runtime.KeepAlive(held)
	})
}
