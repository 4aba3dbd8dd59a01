package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft-wal/types"

	"rollcall/internal/fifo"
)

const (
	// removePiece is the number of bytes by which a file is shortened at a time. A concurrent write of the log
	// waits for it: 0.4 ms for a piece of 1 MiB, and 4.7 ms for a segment of 16 MiB that is removed as a whole
	// (medians of 80 and 5, ext4).
	removePiece = 1 << 20
	// removePause limits the pause after each piece.
	removePause = 10 * time.Millisecond
	// removeWithin limits the pauses of one file: together they last at most removeWithin, divided by the number
	// of files that are left to remove. So no more files wait than come in this time, and they do not fill the
	// disk.
	removeWithin = 5 * time.Second
)

// remover is raft-wal's file system. It removes files in a goroutine, piece by piece, with pauses in which the log
// can be written. After a snapshot raft-wal removes all segments that are no longer needed, and the log waits
// meanwhile: 150 to 840 ms for every write after a burst of long entries. Errors are logged, as raft-wal does. If
// the process ends before a file is removed, the next start removes it, because raft-wal's list does not name it.
//
// A file may be removed late only if no file of the same name is made meanwhile. While the log is being opened, a
// segment may get the name of a leftover file. So Delete removes files at once until startBackground is called.
// After that every segment gets a new number. At most one name per segment waits.
type remover struct {
	types.VFS
	logger    hclog.Logger
	closeOnce sync.Once // of closed
	closed    chan struct{}
	wg        sync.WaitGroup

	mu           sync.Mutex
	idle         sync.Cond // running has become false
	started      bool
	running      bool
	skipPauses   bool               // waitUntilEmpty waits
	pendingPaths fifo.Queue[string] // paths
}

func newRemover(vfs types.VFS, logger hclog.Logger) *remover {
	r := &remover{VFS: vfs, logger: logger, closed: make(chan struct{})}
	r.idle.L = &r.mu
	return r
}

// startBackground makes Delete remove files in the background from now on.
func (r *remover) startBackground() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
}

// Delete implements types.VFS. In the background mode it does not wait, and after Close it leaves the file.
func (r *remover) Delete(dir, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started {
		return r.VFS.Delete(dir, name)
	}
	if r.isClosed() {
		return nil
	}
	r.pendingPaths.Push(filepath.Join(dir, name))
	if !r.running {
		r.running = true
		r.wg.Go(r.removeLoop)
	}
	return nil
}

// Create implements types.VFS. If the disk is full, it retries once the pending files are removed. Otherwise a
// member could end for lack of space that it is about to free.
func (r *remover) Create(dir, name string, size uint64) (types.WritableFile, error) {
	file, err := r.VFS.Create(dir, name, size)
	if !isDiskFull(err) || !r.waitUntilEmpty() {
		return file, err
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// it has not got its size
		return nil, err
	}
	return r.VFS.Create(dir, name, size)
}

// waitUntilEmpty waits until no file is pending, or the log is closed. The files are removed without pauses
// meanwhile, except the one in progress. It reports whether there was a file.
func (r *remover) waitUntilEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waited := r.running
	r.skipPauses = true
	for r.running {
		r.idle.Wait()
	}
	r.skipPauses = false
	return waited
}

// removeLoop removes the pending files, and ends when there are none.
func (r *remover) removeLoop() {
	for {
		path, within := r.nextFile()
		if path == "" {
			return
		}
		if err := r.removeInPieces(path, within); err != nil {
			r.logger.Error("a segment of the log that is not needed any more could not be removed", "path", path, "err", err)
		}
	}
}

// nextFile returns the file to remove next, and the limit of its pauses. It returns "" if removeLoop must end.
func (r *remover) nextFile() (path string, within time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running = r.pendingPaths.Len() > 0 && !r.isClosed(); !r.running {
		r.idle.Broadcast()
		return "", 0
	}
	if path = r.pendingPaths.Pop(); r.skipPauses {
		return path, 0
	}
	return path, removeWithin / time.Duration(1+r.pendingPaths.Len())
}

// removeInPieces removes a file, with pauses of at most within in total. If the remover is closed meanwhile, it
// leaves the file. It does not sync the directory, because a start removes leftover files.
func (r *remover) removeInPieces(path string, within time.Duration) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	pieces := (info.Size() + removePiece - 1) / removePiece
	rest := min(removePause, within/time.Duration(max(1, pieces)))
	for n := pieces - 1; n > 0; n-- {
		if os.Truncate(path, n*removePiece) != nil {
			break // on a full btrfs a file can be removed but not made shorter
		}
		if !r.pauseUnlessClosed(rest) {
			return nil
		}
	}
	err = os.Remove(path)
	r.pauseUnlessClosed(rest)
	return err
}

// pauseUnlessClosed waits for d, or until the remover is closed. It reports whether the remover is still open.
func (r *remover) pauseUnlessClosed(d time.Duration) bool {
	select {
	case <-r.closed:
		return false
	case <-time.After(d):
		return true
	}
}

func (r *remover) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// Close ends the removal, and leaves the pending files. A second call does nothing.
func (r *remover) Close() {
	r.closeOnce.Do(func() {
		r.mu.Lock() // no Delete begins a removal while Close waits
		defer r.mu.Unlock()
		close(r.closed)
	})
	r.wg.Wait()
}
