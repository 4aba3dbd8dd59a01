package admission

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// LogPause is the least time between two lines about failed handshakes, logins or accepts, because a stranger may retry
// for ever.
const LogPause = time.Second

// LogLimiter limits the lines of one kind that strangers can cause. The first one is due. Safe for concurrent use.
type LogLimiter struct {
	mu      sync.Mutex
	lines   *rate.Limiter
	skipped int
}

// NewLogLimiter returns a limiter.
func NewLogLimiter() *LogLimiter {
	return &LogLimiter{lines: rate.NewLimiter(rate.Every(LogPause), 1)}
}

// Due reports whether a line is due at now, and the number of those since the last one that were not.
func (l *LogLimiter) Due(now time.Time) (skipped int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lines.AllowN(now, 1) {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}
