package disk

import (
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
)

// KeptDirName is the directory, beside the log and beside the snapshots, of what no start needs any more. Package history keeps it.
const KeptDirName = "history"

// Retirement says what becomes of the files that no start needs any more. They are moved to directories named KeptDirName
// beside them. The zero value removes them.
type Retirement struct {
	// Moved is called after a file was moved. It must not wait.
	Moved func()
	// FreeSpace removes some of the files that were moved, the oldest first, and reports whether there were any. It is called when
	// the disk is full, and may wait for the disk.
	FreeSpace func() bool
}

// retired moves files of one directory to another one. A nil retired takes none.
type retired struct {
	Retirement
	dir    string // on the same file system
	logger hclog.Logger
}

// newRetired returns nil unless how keeps files. beside is the directory above the one that has the files.
func newRetired(how Retirement, beside string, logger hclog.Logger) (*retired, error) {
	if how.Moved == nil {
		return nil, nil
	}
	r := &retired{how, filepath.Join(beside, KeptDirName), logger}
	return r, os.MkdirAll(r.dir, dirMode)
}

// take moves a file or directory, and reports whether it has. It does not make that durable: after a loss of power the file may
// be back, and the next start moves it again.
func (r *retired) take(path string) bool {
	if r == nil {
		return false
	}
	if err := os.Rename(path, filepath.Join(r.dir, filepath.Base(path))); err != nil {
		r.logger.Error("a file of the past could not be kept", "path", path, "err", err)
		return false
	}
	r.Moved()
	return true
}

// freeSpace removes some of what is kept, and reports whether there was any.
func (r *retired) freeSpace() bool { return r != nil && r.FreeSpace() }
