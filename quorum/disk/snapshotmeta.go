package disk

import (
	"hash/crc64"
	"io"
	"path/filepath"
	"time"
)

// The files of a snapshot in its directory.
const (
	SnapshotMetaFile  = metaFile
	SnapshotStateFile = stateFile
	MaxSnapshotMeta   = maxMeta // limits SnapshotMetaFile, in bytes
	SnapshotsDirName  = snapshotsDir
	LogDirName        = logDirName
)

// SnapshotMeta is what SnapshotMetaFile says of a snapshot.
type SnapshotMeta struct {
	Name        string // of its directory
	Index, Term uint64 // of the last entry in it
	Size        int64  // of its state, in bytes
	At          time.Time
	Taken       bool   // of the member's own state: its log has reached Index
	LogID       uint64 // of the log beside it when it was stored; 0: not known

	meta *snapshotMeta
}

// ParseSnapshotMeta checks the contents of SnapshotMetaFile in the directory dir. The error wraps ErrDamaged.
func ParseSnapshotMeta(dir string, data []byte) (SnapshotMeta, error) {
	name := filepath.Base(dir)
	m, err := parseMeta(filepath.Join(dir, metaFile), name, data)
	if err != nil {
		return SnapshotMeta{}, err
	}
	s := SnapshotMeta{
		Name: name, Index: m.Index, Term: m.Term, Size: m.Size, At: snapshotTime(name), Taken: m.Taken, meta: m,
	}
	if end, err := decodeLogEnd(m.Log); err == nil {
		s.LogID = end.logID
	}
	return s, nil
}

// IsSnapshotName reports whether a directory of this name has a finished snapshot.
func IsSnapshotName(name string) bool {
	_, _, ok := parseSnapshotName(name)
	return ok
}

// ReadState returns a reader of the state of the snapshot, whose bytes come from r. It returns ErrDamaged instead of the last bytes
// if they have changed. source is named in errors.
func (s SnapshotMeta) ReadState(r io.ReadCloser, source string) io.ReadCloser {
	return &stateReader{file: r, source: source, meta: s.meta, remaining: s.meta.Size, checksum: crc64.New(crc64Table)}
}
