package stages

import (
	"runtime"
	"slices"
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

// A pause is kept beside the slower requests of its second, in the order in which both ended, and for an hour.
func TestKeptPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(100*time.Millisecond), time.Now)
		time.Sleep(time.Minute)
		keepRequests := func() {
			for range 2 * maxPerSecond {
				now := r.Now()
				r.Keep(&Request{Op: "setData", Received: now - 5*Time(time.Second), Queued: now})
			}
		}
		keepRequests()
		r.KeepPause(2, 930*time.Millisecond, 41)
		keepRequests()
		slow, _ := r.Kept()
		if len(slow) != maxPerSecond+1 || !slices.IsSortedFunc(slow, func(a, b Slow) int { return int(b.Number) - int(a.Number) }) {
			t.Fatalf("%d rows are kept, or not in order: %+v", len(slow), slow)
		}
		pause := slow[slices.IndexFunc(slow, func(s Slow) bool { return s.Op == PauseOp })]
		want := []Stage{{Kind: StagePaused, Member: 2, Took: 930 * time.Millisecond}}
		if began := time.Now().Add(-pause.Total); !slices.Equal(pause.Stages, want) || !pause.At.Equal(began) ||
			pause.Connections != 41 || !pause.Joined {
			t.Errorf("the pause is %+v", pause)
		}
		time.Sleep(keepFor + time.Second)
		if slow, _ = r.Kept(); len(slow) != 0 {
			t.Errorf("after an hour, %d rows are kept", len(slow))
		}
	})
}

// Of many pauses, the longest are kept, and the others are counted.
func TestManyPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(100*time.Millisecond), time.Now)
		time.Sleep(time.Minute)
		for i := range maxPauses + 10 {
			r.KeepPause(1, time.Second+time.Duration(i)*time.Millisecond, 0)
		}
		slow, notKept := r.Kept()
		if len(slow) != maxPauses || notKept != 10 || slow[len(slow)-1].Total != time.Second+10*time.Millisecond {
			t.Errorf("%d pauses are kept, and %d not: %+v", len(slow), notKept, slow)
		}
	})
}

// heapInUse returns the bytes of the objects in the heap that are still used.
func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
