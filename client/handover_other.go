//go:build !linux

package client

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// machineClock returns the wall clock: no other one is the same in all processes.
func machineClock() (boot string, now time.Duration) { return "", time.Duration(time.Now().UnixNano()) }

func peerUser(*net.UnixConn) (uid int, err error) {
	return 0, fmt.Errorf("hand over by a socket: %w here; use a file", errors.ErrUnsupported)
}
