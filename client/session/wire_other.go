//go:build !linux && !windows

package session

import "syscall"

const canCallSockets = true

func readNow(fd int, b []byte) (int, error)  { return syscall.Read(fd, b) }
func writeNow(fd int, b []byte) (int, error) { return syscall.Write(fd, b) }
