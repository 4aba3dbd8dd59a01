package main

import (
	"context"
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

// keepSmall does not override settings of the collector in the environment.
func TestKeepSmallYields(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	for _, env := range []string{"GOGC=off", "GOMEMLIMIT=1GiB"} {
		keepSmall(t.Context(), []string{"HOME=/", env}, nil) // returns at once
		if p := debug.SetGCPercent(77); p != 77 {
			t.Errorf("%s: %d %%", env, p)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	keepSmall(ctx, []string{"GOGCX=1"}, nil)
	if p := debug.SetGCPercent(77); p != tightPercent {
		t.Errorf("while it starts: %d %%", p)
	}
}
