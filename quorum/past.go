package quorum

import (
	"errors"

	"github.com/hashicorp/raft"

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
	last, err := p.LastIndex()
	if err != nil {
		return history.Listing{}, err
	}
	return history.List(p.dirs, last)
}

// Source returns a source of the files, up to the entry that is the last one now. It has the same errors as List.
func (p Past) Source() (history.Source, error) {
	last, err := p.LastIndex()
	return history.CommittedSource{DirectorySource: history.DirectorySource{Directories: p.dirs}, Last: last}, err
}

// ErrEntriesGone is the error for entries that the log does not have any more.
var ErrEntriesGone = errors.New("quorum: the log begins after that entry")

// ReadEntries reads the committed entries after an index, of mostBytes bytes or a little more, from the log. It returns none if
// there is none yet. The error is ErrEntriesGone if the next one is not in the log any more.
func (p Past) ReadEntries(after uint64, mostBytes int) (entries []*raft.Log, err error) {
	last, err := p.LastIndex()
	if err != nil {
		return nil, err
	}
	first, err := p.data.Log().FirstIndex()
	if err != nil {
		return nil, err
	}
	if first == 0 || after+1 < first {
		return nil, ErrEntriesGone
	}
	for size := 0; after < last && size < mostBytes; {
		after++
		e := new(raft.Log)
		if err := p.data.Log().GetLog(after, e); err != nil {
			return entries, ErrEntriesGone // a snapshot has replaced it meanwhile
		}
		size += len(e.Data)
		entries = append(entries, e)
	}
	return entries, nil
}

// LastIndex returns the index of the last entry that this member has applied and has on its disk. It does not wait. The error is
// ErrNoDirectories or ErrNotRunning.
func (p Past) LastIndex() (uint64, error) {
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
