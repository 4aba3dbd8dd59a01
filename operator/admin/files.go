package admin

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// namesAtOnce is the number of names of /proc/self/fd that are read at a time.
const namesAtOnce = 1024

// fileDescriptors returns the number of open file descriptors of this process, and its limit. A number
// that the system does not report is -1.
func fileDescriptors() (open, most int64) {
	open, most = unknownCount, unknownCount
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		most = int64(limit.Cur)
	}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return open, most
	}
	defer func() { _ = dir.Close() }() // it was only read from
	for n := int64(-1); ; {            // dir itself does not count
		names, err := dir.Readdirnames(namesAtOnce)
		if n += int64(len(names)); err != nil {
			if errors.Is(err, io.EOF) {
				open = n
			}
			return open, most
		}
	}
}
