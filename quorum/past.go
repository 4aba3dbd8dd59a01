package quorum

import (
	"errors"

	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// ErrNoDirectories is the error for the past of a member without directories.
var ErrNoDirectories = errors.New("quorum: this member keeps its data in memory, and has no past")

// Past is what a member keeps of the past. Its methods may be called by any goroutine, and wait for the disk.
type Past struct {
	keeper *history.Keeper
	data   *disk.Data
	fsm    *fsm
	dirs   history.Directories
}

// List lists the past up to the last entry that this member has applied and has on its disk. The error is ErrNoDirectories, or
// ErrNotRunning before the first entry is applied, or that of the disk.
func (p Past) List() (history.Listing, error) {
	last, err := p.last()
	if err != nil {
		return history.Listing{}, err
	}
	return history.List(p.dirs, last)
}

// Source returns a source of the files, up to the entry that is the last one now. It has the same errors as List.
func (p Past) Source() (history.Source, error) {
	last, err := p.last()
	return history.CommittedSource{DirectorySource: history.DirectorySource{Directories: p.dirs}, Last: last}, err
}

func (p Past) last() (uint64, error) {
	if p.keeper == nil {
		return 0, ErrNoDirectories
	}
	last := p.data.Durability().LimitToDurable(p.fsm.appliedIndex.Load())
	if last == 0 {
		return 0, ErrNotRunning
	}
	return last, nil
}

// Stats returns figures of what is kept, of the last check. It does not wait.
func (p Past) Stats() history.Stats {
	if p.keeper == nil {
		return history.Stats{}
	}
	return p.keeper.Stats()
}
