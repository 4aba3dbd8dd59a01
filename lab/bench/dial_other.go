//go:build !linux

package bench

import "syscall"

// choosePortLate does nothing on systems other than Linux.
func choosePortLate(_, _ string, _ syscall.RawConn) error { return nil }
