package kills

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/lab/process"
	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// errApart says that the directories were copied at moments too far apart to be compared.
var errApart = errors.New("no index that all directories reach and none is past")

// image is the copy of a data directory as SIGKILL would have left it.
type image struct {
	log      disk.LogReader
	snap     *raft.SnapshotMeta // the newest one; nil: none
	snaps    *raft.FileSnapshotStore
	last     uint64 // index of the last entry, or of the snapshot
	compacts bool   // the log does not begin with its first entry
}

// freeze copies all members' directories while none of their processes runs.
func freeze(members []*process.Member, dir string) (err error) {
	for _, m := range members {
		if err := m.Process.Stop(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Process.Continue()) }()
	}
	for _, m := range members {
		if err := process.CopyData(directory(dir, m), m.Data); err != nil {
			return fmt.Errorf("copy the directory of member %d: %w", m.ID, err)
		}
	}
	return nil
}

func directory(dir string, m *process.Member) string { return filepath.Join(dir, fmt.Sprint(m.ID)) }

// openImage opens a copied directory's stores.
func openImage(dir string) (i *image, err error) {
	i = &image{}
	own, err := disk.MemberDirectory(dir)
	if err != nil {
		return nil, err
	}
	if i.snaps, err = raft.NewFileSnapshotStoreWithLogger(own, 1, hclog.NewNullLogger()); err != nil {
		return nil, err
	}
	list, err := i.snaps.List()
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		i.snap = list[0]
		i.last = i.snap.Index
	}
	if i.log, err = disk.OpenLogReader(dir); err != nil {
		return nil, err
	}
	first, err := i.log.FirstIndex()
	if err == nil {
		var last uint64
		last, err = i.log.LastIndex()
		i.last, i.compacts = max(i.last, last), first > 1
	}
	if err != nil {
		return nil, errors.Join(err, i.log.Close())
	}
	return i, nil
}

// state returns the state of the directory up to an index: its snapshot, and the log after it.
func (i *image) state(upTo uint64) (*znode.State, error) {
	s := znode.New(znode.Config{EnsembleText: []byte{}})
	next := uint64(1)
	if i.snap != nil {
		_, r, err := i.snaps.Open(i.snap.ID)
		if err != nil {
			return nil, fmt.Errorf("snapshot %s: %w", i.snap.ID, err)
		}
		if err := errors.Join(s.RestoreSnapshot(r), r.Close()); err != nil {
			return nil, fmt.Errorf("snapshot %s: %w", i.snap.ID, err)
		}
		next = i.snap.Index + 1
	}
	s.Lock()
	defer s.Unlock()
	var l raft.Log
	for ; next <= upTo; next++ {
		if err := i.log.GetLog(next, &l); err != nil {
			return nil, fmt.Errorf("entry %d: %w", next, err)
		}
		var entry *proto.Entry // nil: an entry of raft's own
		if l.Type == raft.LogCommand && len(l.Data) > 0 {
			entry = &proto.Entry{}
			if err := protobuf.Unmarshal(l.Data, entry); err != nil {
				return nil, fmt.Errorf("entry %d: %w", next, err)
			}
		}
		if err := s.ApplyEntry(l.Index, l.Term, entry); err != nil {
			return nil, err
		}
	}
	// If a snapshot ends with an entry of raft's own, the state does not know that entry's index.
	return s, s.ApplyEntry(upTo+1, l.Term, nil)
}

// term returns the term of an entry, or 0 if the log does not have it.
func (i *image) term(index uint64) uint64 {
	if i.snap != nil && i.snap.Index == index {
		return i.snap.Term
	}
	var l raft.Log
	if err := i.log.GetLog(index, &l); err != nil {
		return 0
	}
	return l.Term
}

// common returns the last index at which all images can be compared.
func common(images []*image) (uint64, error) {
	last, least := images[0].last, uint64(0)
	for _, i := range images {
		last = min(last, i.last)
		if i.snap != nil {
			least = max(least, i.snap.Index)
		}
	}
	for ; last >= max(least, 1); last-- {
		term := images[0].term(last)
		alike := term != 0
		for _, i := range images {
			alike = alike && i.term(last) == term
		}
		if alike {
			return last, nil
		}
	}
	return 0, errApart
}

// compare opens the copied directories and brings all to one index. It returns the state there, and how
// many of the logs have been shortened.
func compare(dirs []string) (s *znode.State, shortened int, err error) {
	var images []*image
	defer func() {
		for _, i := range images {
			err = errors.Join(err, i.log.Close())
		}
	}()
	for _, dir := range dirs {
		i, err := openImage(dir)
		if err != nil {
			return nil, 0, fmt.Errorf("directory %s: %w", filepath.Base(dir), err)
		}
		if images = append(images, i); i.compacts {
			shortened++
		}
	}
	index, err := common(images)
	if err != nil {
		return nil, 0, err
	}
	for n, i := range images {
		other, err := i.state(index)
		if err != nil {
			return nil, 0, fmt.Errorf("directory %s: %w", filepath.Base(dirs[n]), err)
		}
		if n == 0 {
			s = other
		} else if d := znode.Diff(s, other); d != "" {
			return nil, 0, fmt.Errorf("directories %s and %s differ at index %d: %s", filepath.Base(dirs[0]), filepath.Base(dirs[n]), index, d)
		}
	}
	return s, shortened, nil
}
