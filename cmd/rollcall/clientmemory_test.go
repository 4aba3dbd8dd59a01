package main

import (
	"runtime/debug"
	"testing"

	"rollcall/config"
)

// Without a configured value, the memory for clients is a share of GOMEMLIMIT, which Go has read.
// It is divided among the members. A configured value is used as it is.
func TestClientMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	debug.SetMemoryLimit(256 << 20)
	for _, tt := range []struct {
		configured int64
		members    int
		want       int64
	}{{0, 1, 32 << 20}, {0, 4, 8 << 20}, {0, 9, config.MinClientMemory}, {5 << 20, 1, 5 << 20}} {
		if got := clientMemoryBudget(tt.configured, tt.members); got != tt.want {
			t.Errorf("%d configured, %d members: %d, want %d", tt.configured, tt.members, got, tt.want)
		}
	}
}
