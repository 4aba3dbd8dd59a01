package server

import (
	"math"
	"testing"
)

// Clients' connections leave files for the member itself, at least 2,048 or a quarter of a low limit.
func TestConnLimit(t *testing.T) {
	for _, tt := range []struct {
		maxConns  int
		openFiles int64
		want      int
	}{
		{0, 20_000, 17_952},
		{-1, 20_000, 17_952},
		{100, 20_000, 100},
		{19_000, 20_000, 17_952},
		{0, 8192, 6144},
		{0, 1024, 768},
		{0, 0, 0},
		{-1, -1, 0}, // unlimited
		{100, -1, 100},
		{0, math.MaxInt64, math.MaxInt64 - 2048},
	} {
		if got := connLimit(tt.maxConns, tt.openFiles); got != tt.want {
			t.Errorf("of %d, with %d files: %d, want %d", tt.maxConns, tt.openFiles, got, tt.want)
		}
	}
}
