package main

import (
	"os"
	"syscall"
)

// syncData waits until the bytes of a file are on the disk. The time of its last change need not be.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
