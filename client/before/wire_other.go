//go:build !linux

package before

import "syscall"

func readNow(fd int, b []byte) (int, error)  { return syscall.Read(fd, b) }
func writeNow(fd int, b []byte) (int, error) { return syscall.Write(fd, b) }
