package election

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// A hand-over passes over the candidates before the successor, apart from the leader: up to maxPassedOver.
func TestBetween(t *testing.T) {
	candidates := []string{"leader"}
	for i := range maxPassedOver + 2 {
		candidates = append(candidates, fmt.Sprint(i))
	}
	for _, tt := range []struct {
		leader, successor string
		want              int
		err               error
	}{
		{"leader", "0", 0, nil},
		{"leader", "1", 1, nil},
		{"0", "1", 1, nil},
		{"gone", "1", 2, nil},
		{"leader", fmt.Sprint(maxPassedOver), maxPassedOver, nil},
		{"leader", fmt.Sprint(maxPassedOver + 1), 0, ErrTooMany},
		{"leader", "none", 0, ErrNoCandidate},
	} {
		got, err := candidatesBetween(slices.Clone(candidates), tt.leader, tt.successor)
		if len(got) != tt.want || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s to %s: %d are passed over, %v; want %d, %v", tt.leader, tt.successor, len(got), err, tt.want, tt.err)
		}
		if slices.Contains(got, tt.leader) || slices.Contains(got, tt.successor) {
			t.Errorf("%s to %s: %q are passed over", tt.leader, tt.successor, got)
		}
	}
}
