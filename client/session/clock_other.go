//go:build !linux

package session

import "time"

// processStart and processClock are shared by all sessions: a suspend concerns the whole process.
var (
	processStart = time.Now()
	processClock twoClocks
)

func bootTime() time.Duration {
	now := time.Now()
	return processClock.read(now.Sub(processStart), time.Duration(now.UnixNano()))
}

// newClock returns a clock that begins at 1 ns: 0 stands for no time.
func newClock() Clock {
	origin := time.Now()
	clock := new(twoClocks)
	return func() time.Duration {
		now := time.Now()
		return 1 + clock.read(now.Sub(origin), time.Duration(now.UnixNano()))
	}
}
