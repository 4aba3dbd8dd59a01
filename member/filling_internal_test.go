package member

import "testing"

func TestNextFilling(t *testing.T) {
	before := 0
	for _, step := range []struct{ used, want int64 }{
		{0, 0}, {799, 0}, {800, 1}, {790, 1}, {751, 1}, {749, 0}, {790, 0}, {949, 1}, {950, 2}, {901, 2}, {899, 1}, {940, 1}, {2000, 2}, {0, 0}, {1000, 2},
	} {
		if got := nextFilling(before, step.used, 1000); int64(got) != step.want {
			t.Errorf("%d of 1000 after %d: %d, want %d", step.used, before, got, step.want)
		} else {
			before = got
		}
	}
	if got := nextFilling(2, 1000, 0); got != 0 {
		t.Errorf("without a quota: %d", got)
	}
}
