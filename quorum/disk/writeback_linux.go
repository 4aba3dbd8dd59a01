package disk

import (
	"os"
	"syscall"
)

// flushRange makes the kernel write a part of f to the disk, and waits until it has. Unlike a sync it does not use
// the file system's journal, which would delay the log's own syncs. It returns no error: an error shows when the
// file is synced.
func flushRange(f *os.File, from, size int64) {
	const waitBefore, write, waitAfter = 1, 2, 4 // SYNC_FILE_RANGE_*
	_ = syscall.SyncFileRange(int(f.Fd()), from, size, waitBefore|write|waitAfter)
}
