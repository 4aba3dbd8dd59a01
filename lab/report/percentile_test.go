package report

import (
	"testing"

	"rollcall/lab/result"
)

// The nearest rank, and only percentiles that n allows.
func TestPercentile(t *testing.T) {
	values := func(n int) (all []result.Millis) {
		for i := 1; i <= n; i++ {
			all = append(all, result.Millis(i))
		}
		return all
	}
	tests := []struct {
		n, p  int
		want  result.Millis
		shown bool
	}{
		{0, 50, 0, false},
		{1, 50, 0, false},
		{9, 50, 0, false},
		{10, 50, 5, true},
		{11, 50, 6, true}, // the rank 5.5 is rounded up
		{10, 90, 9, true},
		{11, 90, 10, true},
		{16, 90, 15, true}, // and so is 14.4
		{99, 99, 0, false},
		{100, 99, 99, true},
		{101, 99, 100, true},
		{250, 99, 248, true},
	}
	for _, tt := range tests {
		if got, shown := percentile(values(tt.n), tt.p); got != tt.want || shown != tt.shown {
			t.Errorf("p%d of %d values is %v, %t, want %v, %t", tt.p, tt.n, got, shown, tt.want, tt.shown)
		}
	}
}
