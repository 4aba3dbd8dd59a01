package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGCPercent(t *testing.T) {
	tests := []struct {
		live uint64
		want int
	}{
		{0, 100},
		{roomyHeap, 100},
		{roomyHeap + roomyHeap/4, 80},
		{roomyHeap + roomyHeap/2, 60}, // 66, rounded down to a step
		{2 * roomyHeap, 50},
		{1 << 40, 50},
	}
	for _, tt := range tests {
		if got := gcPercent(tt.live); got != tt.want {
			t.Errorf("%d bytes: %d %%, want %d %%", tt.live, got, tt.want)
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

// tuneCollector does not override settings of the collector in the environment.
func TestKeepSmallYields(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	for _, env := range []string{"GOGC=off", "GOMEMLIMIT=1GiB"} {
		tuneCollector(t.Context(), []string{"HOME=/", env}, nil) // returns at once
		if p := debug.SetGCPercent(77); p != 77 {
			t.Errorf("%s: %d %%", env, p)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tuneCollector(ctx, []string{"GOGCX=1"}, nil)
	if p := debug.SetGCPercent(77); p != tightPercent {
		t.Errorf("while it starts: %d %%", p)
	}
}
