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
