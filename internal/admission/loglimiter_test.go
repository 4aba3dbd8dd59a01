package admission

import (
	"testing"
	"time"
)

// A line is due once in LogInterval, and names the lines that were not due before it.
func TestLogLimiter(t *testing.T) {
	l, now := NewLogLimiter(), time.Now()
	for i, want := range []struct {
		after   time.Duration
		skipped int
		due     bool
	}{{0, 0, true}, {0, 0, false}, {LogInterval - time.Microsecond, 0, false}, {time.Microsecond, 2, true}, {3 * LogInterval, 0, true}, {0, 0, false}, {LogInterval, 1, true}} {
		now = now.Add(want.after)
		if skipped, due := l.AllowLine(now); skipped != want.skipped || due != want.due {
			t.Errorf("line %d: %d skipped, due %t; want %d, %t", i, skipped, due, want.skipped, want.due)
		}
	}
}
