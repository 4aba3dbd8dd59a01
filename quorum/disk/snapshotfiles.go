package disk

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/internal/durable"
)

const (
	snapshotsDir = "snapshots"
	metaFile     = "meta.json"
	stateFile    = "state.bin"
	// maxMeta limits meta.json, in bytes: 255 servers with names of 253 bytes fit.
	maxMeta = 256 << 10
)

// snapshotFiles is a raft.SnapshotStore in a directory. Unlike raft's own store, it has a
// checksum of the metadata, reads the state only once, and makes files that only their owner can
// read.
//
// A snapshot is a directory <term>-<index>-<milliseconds> with two files:
//
//   - meta.json: a line of JSON, snapshotMeta, and a line with its checksum.
//   - state.bin: the bytes that the state machine has written.
//
// The metadata contain a checksum of the state, so an exchange of one of the files is noticed too.
type snapshotFiles struct {
	dir    string
	logger hclog.Logger
	// of the log beside them; nil: there is none
	logEnd   func() logEnd
	onStored func(index uint64)
	retired  *retired // takes the snapshots that no start needs
}

// snapshotMeta is the first line of meta.json.
type snapshotMeta struct {
	raft.SnapshotMeta
	CRC   []byte // of the state: CRC-64 with the ECMA polynomial
	Taken bool   // of this member's own state, so its log had reached the index; otherwise it was received or imported
	Log   []byte // the end of the log when the snapshot was stored: see knownEnd
}

var crc64Table = crc64.MakeTable(crc64.ECMA)

// newSnapshotFiles returns the store in dir. It makes dir if it does not exist.
func newSnapshotFiles(dir string, hl hclog.Logger) (*snapshotFiles, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	return &snapshotFiles{dir: dir, logger: hl}, nil
}

func snapshotName(term, index uint64, at time.Time) string {
	return fmt.Sprintf("%d-%d-%d", term, index, at.UnixMilli())
}

// parseSnapshotName returns the term and the index in the directory name of a finished snapshot.
func parseSnapshotName(name string) (term, index uint64, ok bool) {
	part := strings.Split(name, "-")
	if len(part) != 3 || strings.HasSuffix(name, tmpSuffix) {
		return 0, 0, false
	}
	term, terr := strconv.ParseUint(part[0], 10, 64)
	index, ierr := strconv.ParseUint(part[1], 10, 64)
	return term, index, terr == nil && ierr == nil
}

// snapshotTime returns the time at which the snapshot was written, according to its name.
func snapshotTime(name string) time.Time {
	ms, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Create implements raft.SnapshotStore. The snapshot exists once the sink is closed.
func (s *snapshotFiles) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64,
	_ raft.Transport,
) (raft.SnapshotSink, error) {
	if v != 1 {
		return nil, fmt.Errorf("quorum: snapshots of raft's version %d are not known", v)
	}
	name := snapshotName(term, index, time.Now())
	k := &fileSink{store: s, tmpDir: filepath.Join(s.dir, name+tmpSuffix), checksum: crc64.New(crc64Table)}
	k.meta.SnapshotMeta = raft.SnapshotMeta{
		Version: v, ID: name, Index: index, Term: term, Configuration: c,
		ConfigurationIndex: ci,
	}
	if err := os.Mkdir(k.tmpDir, dirMode); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(k.tmpDir, stateFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	k.file = NewGradualFile(f)
	return k, nil
}

// List implements raft.SnapshotStore. It returns the newest snapshots, newest first, without those whose metadata
// are damaged; see newestUnreadable.
func (s *snapshotFiles) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.listSound()
	if err != nil {
		return nil, err
	}
	var list []*raft.SnapshotMeta
	for _, m := range all[:min(len(all), retainedSnapshots)] {
		list = append(list, &m.SnapshotMeta)
	}
	return list, nil
}

// listSound returns all snapshots with sound metadata, newest first.
func (s *snapshotFiles) listSound() ([]*snapshotMeta, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []*snapshotMeta
	for _, e := range entries {
		if _, _, ok := parseSnapshotName(e.Name()); !ok {
			continue
		}
		m, err := s.readMeta(e.Name())
		if err != nil {
			s.logger.Warn("a snapshot cannot be used", "error", err)
			continue
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *snapshotMeta) int {
		return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Index, a.Index), strings.Compare(b.ID, a.ID))
	})
	return all, nil
}

// newestUnreadable returns the highest index among the snapshots with damaged metadata, and the reason. The index
// comes from the snapshot's name, and is 0 if there is no such snapshot.
func (s *snapshotFiles) newestUnreadable() (index uint64, reason error, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		_, at, ok := parseSnapshotName(e.Name())
		if !ok || at <= index {
			continue
		}
		if _, merr := s.readMeta(e.Name()); merr != nil {
			index, reason = at, merr
		}
	}
	return index, reason, err
}

// readMeta reads and checks the metadata of a snapshot. They must match the name of the directory.
func (s *snapshotFiles) readMeta(name string) (*snapshotMeta, error) {
	path := filepath.Join(s.dir, name, metaFile)
	data, err := readUnlessLonger(path, maxMeta)
	if err != nil {
		return nil, err
	}
	return parseMeta(path, name, data)
}

// parseMeta checks the contents of meta.json of the snapshot in a directory of that name. path is named in errors.
func parseMeta(path, name string, data []byte) (*snapshotMeta, error) {
	damaged := func(reason string) error {
		return fmt.Errorf("quorum: %s is %w: %s", path, ErrDamaged, reason)
	}
	line, sum, _ := bytes.Cut(data, []byte("\n"))
	var m snapshotMeta
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, damaged(err.Error())
	}
	term, index, _ := parseSnapshotName(name)
	switch {
	case string(sum) != metaChecksumLine(line):
		return nil, damaged("its checksum is wrong")
	case m.ID != name || m.Term != term || m.Index != index:
		return nil, damaged(fmt.Sprintf("it belongs to snapshot %q, index %d, term %d", m.ID, m.Index, m.Term))
	case m.ConfigurationIndex > m.Index:
		return nil, damaged(fmt.Sprintf("its configuration is of index %d, after its end at %d", m.ConfigurationIndex,
			m.Index))
	case m.Version != 1:
		return nil, damaged(fmt.Sprintf("raft's version %d is not known", m.Version))
	}
	return &m, nil
}

// metaChecksumLine returns the second line of meta.json.
func metaChecksumLine(line []byte) string { return fmt.Sprintf("sha256 %x\n", sha256.Sum256(line)) }

func readUnlessLonger(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("quorum: %s is %w: longer than %d bytes", path, ErrDamaged, limit)
	}
	return data, nil
}

// Open implements raft.SnapshotStore. The reader verifies the checksum while it reads: if the state has changed,
// it returns ErrDamaged instead of the last bytes.
func (s *snapshotFiles) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, err := s.readMeta(id)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Open(filepath.Join(s.dir, id, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("quorum: snapshot %s is %w: %w", filepath.Join(s.dir, id), ErrDamaged, err)
	} else if err != nil {
		return nil, nil, err
	}
	return &m.SnapshotMeta, &stateReader{
		file: file, source: file.Name(), meta: m, remaining: m.Size, checksum: crc64.New(crc64Table),
	}, nil
}

// stateReader reads the state of a snapshot.
type stateReader struct {
	file      io.ReadCloser
	source    string // of the bytes, for errors
	meta      *snapshotMeta
	remaining int64 // bytes still to be read
	checksum  hash.Hash64
}

func (r *stateReader) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	r.remaining -= int64(n)
	_, _ = r.checksum.Write(p[:n]) // never fails
	switch {
	case r.remaining < 0:
		return 0, r.damagedError(fmt.Sprintf("it is longer than %d bytes", r.meta.Size))
	case err == io.EOF && r.remaining > 0:
		return 0, r.damagedError(fmt.Sprintf("it has %d of %d bytes", r.meta.Size-r.remaining, r.meta.Size))
	case r.remaining == 0 && !bytes.Equal(r.checksum.Sum(nil), r.meta.CRC):
		return 0, r.damagedError("its checksum is wrong")
	}
	return n, err
}

func (r *stateReader) Close() error { return r.file.Close() }

func (r *stateReader) damagedError(reason string) error {
	return fmt.Errorf("quorum: %s is %w: %s", r.source, ErrDamaged, reason)
}

func (s *snapshotFiles) removeOld() error {
	all, err := s.listSound()
	if err != nil {
		return err
	}
	for _, old := range all[min(len(all), retainedSnapshots):] {
		if s.retired.take(filepath.Join(s.dir, old.ID)) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, old.ID)); err != nil {
			return err
		}
	}
	return nil
}

// fileSink is a snapshot that is being written.
type fileSink struct {
	store    *snapshotFiles
	tmpDir   string       // its directory until it is finished
	file     *GradualFile // the state
	meta     snapshotMeta
	checksum hash.Hash64
	closed   bool
}

func (k *fileSink) ID() string { return k.meta.ID }

// Write implements io.Writer. A full disk has space again once what is kept of the past gives way.
func (k *fileSink) Write(p []byte) (int, error) {
	n, err := k.file.Write(p)
	for isDiskFull(err) && k.store.retired.freeSpace() {
		var more int
		more, err = k.file.Write(p[n:])
		n += more
	}
	_, _ = k.checksum.Write(p[:n]) // never fails
	k.meta.Size += int64(n)
	return n, err
}

// Close implements raft.SnapshotSink. It returns once the snapshot is durable.
func (k *fileSink) Close() error {
	if k.closed {
		return nil
	}
	k.closed = true
	err := errors.Join(k.file.Sync(), k.file.Close())
	if err == nil {
		err = k.publish()
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(k.tmpDir))
	}
	return k.store.removeOld()
}

// publish writes the metadata, and renames the directory.
func (k *fileSink) publish() error {
	k.meta.CRC = k.checksum.Sum(nil)
	if k.store.logEnd != nil {
		end := k.store.logEnd()
		if durable := max(end.index, end.snapshot); k.meta.Taken && durable < k.meta.Index {
			return fmt.Errorf("quorum: the snapshot goes to index %d, and the data on the disk to %d", k.meta.Index, durable)
		}
		k.meta.Log = end.encode()
	}
	line, err := json.Marshal(&k.meta)
	if err != nil {
		return err
	}
	data := append(append(line, '\n'), metaChecksumLine(line)...)
	if err := replaceFile(filepath.Join(k.tmpDir, metaFile), data); err != nil {
		return err
	}
	if err := os.Rename(k.tmpDir, filepath.Join(k.store.dir, k.meta.ID)); err != nil {
		return err
	}
	err = durable.SyncDirectory(k.store.dir)
	if err == nil && k.store.onStored != nil {
		k.store.onStored(k.meta.Index)
	}
	return err
}

func (k *fileSink) Cancel() error {
	if k.closed {
		return nil
	}
	k.closed = true
	return errors.Join(k.file.Close(), os.RemoveAll(k.tmpDir))
}
