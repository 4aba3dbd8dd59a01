package admission

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// LogInterval is the least time between two lines about failed handshakes, logins or accepts, because a
// stranger may retry for ever.
const LogInterval = time.Second

// LogLimiter limits the log lines of one kind that strangers can cause. Safe for concurrent use.
type LogLimiter struct {
	mu           sync.Mutex
	lineLimiter  *rate.Limiter
	skippedLines int
}

// NewLogLimiter returns a limiter of LogInterval.
func NewLogLimiter() *LogLimiter { return NewLogLimiterOf(LogInterval) }

// NewLogLimiterOf returns a limiter with so much time between two lines.
func NewLogLimiterOf(interval time.Duration) *LogLimiter {
	return &LogLimiter{lineLimiter: rate.NewLimiter(rate.Every(interval), 1)}
}

// AllowLine reports whether a line is due at now, and the number of lines skipped since the last one. The
// first line is due.
func (l *LogLimiter) AllowLine(now time.Time) (skipped int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lineLimiter.AllowN(now, 1) {
		l.skippedLines++
		return 0, false
	}
	skipped, l.skippedLines = l.skippedLines, 0
	return skipped, true
}
