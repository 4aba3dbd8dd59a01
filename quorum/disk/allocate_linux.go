package disk

import (
	"errors"
	"os"
	"syscall"
)

// allocate gives a new file its size, and reserves the space.
func allocate(file *os.File, size int64) error {
	for {
		switch err := syscall.Fallocate(int(file.Fd()), 0, 0, size); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS): // NFS, for example
			return allocateByWriting(file, size)
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
}

// syncData makes what was written to a file durable, and its size.
func syncData(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
