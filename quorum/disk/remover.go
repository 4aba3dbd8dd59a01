package disk

import (
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"rollcall/internal/durable"
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

// remover removes the segments that a log no longer needs, in a goroutine, piece by piece, with pauses in which the log
// can be written. After a snapshot all segments before it go, and the log waited meanwhile: 150 to 840 ms for every write
// after a burst of long entries. Errors are logged. If the process ends before a file is removed, the next start removes
// it.
type remover struct {
	dir       string
	logger    hclog.Logger
	closeOnce sync.Once // of closed
	closed    chan struct{}
	wg        sync.WaitGroup

	mu           sync.Mutex
	idle         sync.Cond // running has become false
	running      bool
	renamed      bool               // a file has been renamed since the directory was last synced
	skipPauses   bool               // waitUntilEmpty waits
	pendingPaths fifo.Queue[string] // at most one for each segment of the log
}

func newRemover(dir string, logger hclog.Logger) *remover {
	r := &remover{dir: dir, logger: logger, closed: make(chan struct{})}
	r.idle.L = &r.mu
	return r
}

// remove takes a segment's name away and lets its file be removed. It does not wait, and after Close it leaves the file.
func (r *remover) remove(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isClosed() {
		return
	}
	if err := os.Rename(path, path+removedSuffix); err != nil {
		r.logError(path, err)
		return
	}
	r.renamed = true
	r.pendingPaths.Push(path + removedSuffix)
	if !r.running {
		r.running = true
		r.wg.Go(r.removeLoop)
	}
}

func (r *remover) logError(path string, err error) {
	r.logger.Error("a segment of the log that is not needed any more could not be removed", "path", path, "err", err)
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
		path, renamed, within := r.nextFile()
		if path == "" {
			return
		}
		if renamed {
			if err := durable.SyncDirectory(r.dir); err != nil {
				r.noteUnsynced()
				r.logError(path, err)
				continue // a loss of power may bring the old name back, and then the file must have its size
			}
		}
		if err := r.removeInPieces(path, within); err != nil {
			r.logError(path, err)
		}
	}
}

func (r *remover) noteUnsynced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renamed = true
}

// nextFile returns the file to remove next, whether the directory must be synced before, and the limit of its pauses. It
// returns "" if removeLoop must end.
func (r *remover) nextFile() (path string, renamed bool, within time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running = r.pendingPaths.Len() > 0 && !r.isClosed(); !r.running {
		r.idle.Broadcast()
		return "", false, 0
	}
	path, renamed, r.renamed = r.pendingPaths.Pop(), r.renamed, false
	if r.skipPauses {
		return path, renamed, 0
	}
	return path, renamed, removeWithin / time.Duration(1+r.pendingPaths.Len())
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
		r.mu.Lock() // no remove begins a removal while Close waits
		defer r.mu.Unlock()
		close(r.closed)
	})
	r.wg.Wait()
}
