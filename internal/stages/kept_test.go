package stages

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A kept request has only the beginning of its path, and not the memory of the rest: a client chooses how long a path is.
func TestKeptPathsAreShort(t *testing.T) {
	const longPath = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(100*time.Millisecond), time.Now)
		time.Sleep(time.Minute)
		before := heapInUse()
		for range maxKept {
			now := r.Now()
			r.Keep(&Request{Path: strings.Repeat("a", longPath), Received: now - Time(time.Second), Queued: now})
			time.Sleep(time.Second)
		}
		slow, _ := r.Kept()
		if len(slow) != maxKept {
			t.Fatalf("%d requests are kept", len(slow))
		}
		for _, s := range slow {
			if len(s.Path) != MaxPath {
				t.Fatalf("a path of %d bytes is kept", len(s.Path))
			}
		}
		if grown := heapInUse() - before; grown > 8*longPath {
			t.Errorf("%d requests with paths of %d bytes keep %d bytes", maxKept, longPath, grown)
		}
		runtime.KeepAlive(r)
	})
}

// heapInUse returns the bytes of the objects in the heap that are still used.
func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
