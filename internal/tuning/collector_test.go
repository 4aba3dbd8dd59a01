package tuning

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	tests := []struct {
		live uint64
		free int64
		want int
	}{
		{0, 0, 100},
		{0, plentyOfMemory - 1, 100},
		{roomyHeap / 2, 0, 100},
		{0, plentyOfMemory, 800},
		{roomyHeap / 8, plentyOfMemory, 800},
		{roomyHeap / 4, plentyOfMemory, 400},
		{roomyHeap / 3, plentyOfMemory, 300},
		{roomyHeap, plentyOfMemory, 100},
		{roomyHeap, 0, 100},
		{roomyHeap + roomyHeap/4, plentyOfMemory, 80},
		{roomyHeap + roomyHeap/4, 0, 80},
		{roomyHeap + roomyHeap/2, 0, 60}, // 66, rounded down to a step
		{2 * roomyHeap, plentyOfMemory, 50},
		{1 << 40, plentyOfMemory, 50},
	}
	for _, tt := range tests {
		if got := gcPercent(tt.live, tt.free); got != tt.want {
			t.Errorf("%d bytes in use, %d free: %d %%, want %d %%", tt.live, tt.free, got, tt.want)
		}
	}
}

// Memory goes back when little has been allocated for a while, enough is spare, and as much has been
// allocated since the last time.
func TestCalm(t *testing.T) {
	const mib = 1 << 20
	c := heapReleaser{}
	h := heapUse{live: 300 * mib, objects: 300 * mib}
	look := func(allocated, objects, free uint64) bool {
		h.allocated, h.objects, h.free = h.allocated+allocated, objects*mib, free*mib
		return c.shouldRelease(h)
	}
	looks := func(what string, n int, allocated, objects, free uint64) {
		t.Helper()
		for i := range n {
			if look(allocated, objects, free) {
				t.Fatalf("%s: memory went back at look %d", what, i+1)
			}
		}
	}
	looks("busy", 3*quietChecksNeeded, 4*mib, 440, 10)
	looks("calm for too short a time", quietChecksNeeded-1, maxQuietGrowth, 440, 10)
	if !look(maxQuietGrowth, 440, 10) {
		t.Error("calm, with 150 MiB to spare: nothing went back")
	}
	looks("it went back before, and little came since", quietChecksNeeded, 0, 440, 10)
	looks("busy again", 1, 100*mib, 310, 22)
	looks("nothing to spare", 2*quietChecksNeeded, 0, 310, 22)
	if !look(0, 310, 23) {
		t.Error("calm, with 33 MiB to spare: nothing went back")
	}
	looks("busy once more", 1, 100*mib, 440, 10)
	looks("calm", quietChecksNeeded-1, 0, 440, 10)
	looks("a moment of load", 1, maxQuietGrowth+1, 440, 10)
	looks("calm for too short a time again", quietChecksNeeded-1, 0, 440, 10)
	if !look(0, 440, 10) {
		t.Error("calm after a moment of load: nothing went back")
	}
}

// The runtime has every metric that readHeap reads.
func TestReadHeap(t *testing.T) {
	runtime.GC()
	before := readHeap()
	kept := make([]byte, 8<<20)
	after := readHeap()
	if before.live == 0 || after.objects < uint64(len(kept)) || after.allocated-before.allocated < uint64(len(kept)) {
		t.Errorf("before %+v, after 8 MiB %+v", before, after)
	}
	runtime.KeepAlive(kept)
}

// A heap that grows between two checks gets its percentage after each run of the collector. Here there are no checks.
func TestPercentFollowsCollector(t *testing.T) {
	var live atomic.Uint64 // bytes, instead of this process's own heap, which other tests have filled
	live.Store(roomyHeap)  // for which the percentage is the same on all machines
	read := func() heapUse { return heapUse{live: live.Load()} }
	ctx, cancel := context.WithCancel(t.Context())
	set := make(chan int)
	var tuning sync.WaitGroup
	defer tuning.Wait()
	defer cancel()
	tuning.Go(func() {
		heapControl{read: read, setPercent: func(percent int) {
			select {
			case set <- percent:
			case <-ctx.Done():
			}
		}}.keepTuned(ctx, nil)
	})
	if first := <-set; first != roomyPercent {
		t.Fatalf("with %d bytes in use: %d %%, want %d", roomyHeap, first, roomyPercent)
	}
	for _, c := range []struct {
		live    uint64
		percent int
	}{{roomyHeap * 10 / 7, 70}, {4 * roomyHeap, tightPercent}} {
		live.Store(c.live)
		percent, limit := 0, time.After(time.Minute)
		for percent == 0 {
			runtime.GC() // more than once: a run may begin before the object that it must collect is there
			select {
			case percent = <-set:
			case <-time.After(5 * time.Millisecond):
			case <-limit:
				t.Fatalf("with %d bytes in use no percentage was set", c.live)
			}
		}
		if percent != c.percent {
			t.Errorf("with %d bytes in use: %d %%, want %d", c.live, percent, c.percent)
		}
	}
}

// Runs of the collector are not watched any more when the context has ended.
func TestWatchCollectorEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	collected := make(chan struct{}, 1)
	watchCollector(ctx, collected)
	<-collected // the one at once
	runtime.GC()
	<-collected
	cancel()
	begun := time.Now()
	for quiet := 0; quiet < 10; quiet++ {
		runtime.GC()
		select {
		case <-collected:
			quiet = 0
		case <-time.After(5 * time.Millisecond):
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the collector is still watched")
		}
	}
}

// A member has a tight heap during its start, whose memory it then releases.
func TestTuneAfterStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready, released, percents := make(chan struct{}), make(chan struct{}), make(chan int)
	var tuning sync.WaitGroup
	tuning.Go(func() {
		heapControl{
			read: func() heapUse { return heapUse{live: roomyHeap} }, release: func() { close(released) },
			setPercent: func(percent int) { percents <- percent },
		}.tune(ctx, ready)
	})
	if percent := <-percents; percent != tightPercent {
		t.Errorf("during the start: %d %%, want %d", percent, tightPercent)
	}
	select {
	case <-released:
		t.Error("memory is released during the start")
	default:
	}
	close(ready)
	<-released
	if percent := <-percents; percent != roomyPercent {
		t.Errorf("after the start: %d %%, want %d", percent, roomyPercent)
	}
	cancel()
	tuning.Wait()
}

// A member releases memory that it does not need, once, when its checks have found it quiet.
func TestReleasesWhileQuiet(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var allocated, releases atomic.Uint64
	checks := make(chan time.Time)
	var tuning sync.WaitGroup
	tuning.Go(func() {
		heapControl{
			read: func() heapUse {
				return heapUse{live: roomyHeap, objects: roomyHeap, free: 2 * spareHeap, allocated: allocated.Load()}
			},
			release: func() { releases.Add(1) }, setPercent: func(int) {},
		}.keepTuned(ctx, checks)
	})
	checks <- time.Time{} // it may find the member busy already
	allocated.Store(2 * spareHeap)
	for range quietChecksNeeded - 1 {
		checks <- time.Time{}
	}
	if n := releases.Load(); n != 0 {
		t.Errorf("memory was released %d times before the member was quiet", n)
	}
	for range 2 * quietChecksNeeded { // when the last one begins, the others are done
		checks <- time.Time{}
	}
	if n := releases.Load(); n != 1 {
		t.Errorf("memory was released %d times, want once", n)
	}
	cancel()
	tuning.Wait()
}

// FreeMemory is not the whole memory of the machine.
func TestFreeMemory(t *testing.T) {
	before := readMeminfo(os.DirFS("/"), "MemAvailable:")
	free := FreeMemory()
	available := max(before, readMeminfo(os.DirFS("/"), "MemAvailable:")) // another process may free some meanwhile
	if available > 0 && free > available+available/100 {
		t.Errorf("%d bytes are free, and Linux has %d available", free, available)
	}
}

// TuneCollector does not override settings of the collector in the environment.
func TestKeepSmallYields(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	for _, env := range []string{"GOGC=off", "GOMEMLIMIT=1GiB"} {
		TuneCollector(t.Context(), []string{"HOME=/", env}, nil) // returns at once
		if p := debug.SetGCPercent(77); p != 77 {
			t.Errorf("%s: %d %%", env, p)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	TuneCollector(ctx, []string{"GOGCX=1"}, nil)
	if p := debug.SetGCPercent(77); p != tightPercent {
		t.Errorf("while it starts: %d %%", p)
	}
}
