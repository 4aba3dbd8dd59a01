package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// walMarkName is the file, beside the segments, that a walMark is in.
	walMarkName = "durable"
	// markMagic begins a mark.
	markMagic = "RCMARK1\n"
	// markSize is that of a mark in bytes: the magic, a segment, an index and a checksum. It is
	// far below a sector, so a crash leaves the former mark or the new one.
	markSize = len(markMagic) + 8 + 8 + checksumSize
)

// walMark says how far the log's last segment is durable, in a file outside of that segment. A
// segment that ends before the mark has lost entries. Without the mark a lost end cannot be told
// from the end of a log.
//
// The mark lags and never leads: it is written after the log's fsync has returned. It is synced
// once for each segment, with the first batch, before that is acknowledged; after that it is only
// written, which costs a batch some microseconds. A process that is killed loses nothing of it; a
// machine that loses its power loses as much as the kernel had not yet written.
//
// The mark counts for the segment that it names and for no other. raft-wal never shortens a
// segment: whatever removes entries from the log's end, or all of them, begins a new segment, under a
// number that was never used before. So nothing has to lower the mark.
//
// Its methods are called by one goroutine at a time, as raft-wal's writers are.
type walMark struct {
	file    *os.File
	segment uint64 // 0: none; raft-wal begins with 0, so this is the number plus 1
	index   uint64
}

// openMark opens the mark in dir, or makes one that names no segment. A folder of an older
// version has none.
func openMark(dir string) (*walMark, error) {
	path := filepath.Join(dir, walMarkName)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := replaceFile(path, encodeMark(0, 0)); err != nil {
			return nil, err
		}
		file, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	m := &walMark{file: file}
	b, err := io.ReadAll(io.LimitReader(file, int64(markSize)+1))
	if err == nil {
		m.segment, m.index, err = decodeMark(b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w; if that is the only damaged file, remove it: the member then starts without comparing the log's end with it", path, err), file.Close())
	}
	return m, nil
}

func encodeMark(segment, index uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte(markMagic), segment)
	b = binary.BigEndian.AppendUint64(b, index)
	return binary.BigEndian.AppendUint32(b, checksum(index, b))
}

func decodeMark(b []byte) (segment, index uint64, err error) {
	if len(b) != markSize || string(b[:len(markMagic)]) != markMagic {
		return 0, 0, fmt.Errorf("%w: not a mark of %d bytes", ErrDamaged, markSize)
	}
	segment = binary.BigEndian.Uint64(b[len(markMagic):])
	index = binary.BigEndian.Uint64(b[len(markMagic)+8:])
	at := markSize - checksumSize
	if binary.BigEndian.Uint32(b[at:]) != checksum(index, b[:at]) {
		return 0, 0, fmt.Errorf("%w: the checksum is wrong", ErrDamaged)
	}
	return segment, index, nil
}

// set notes that a segment is durable up to index.
func (m *walMark) set(segment, index uint64) error {
	first := m.segment != segment+1
	if _, err := m.file.WriteAt(encodeMark(segment+1, index), 0); err != nil {
		return err
	}
	if first {
		if err := m.file.Sync(); err != nil {
			return err
		}
	}
	m.segment, m.index = segment+1, index
	return nil
}

// of returns the index up to which a segment is durable, as far as the mark knows; 0: it does
// not know.
func (m *walMark) of(segment uint64) uint64 {
	if m.segment != segment+1 {
		return 0
	}
	return m.index
}

// below reports whether the mark's segment has a number below next.
func (m *walMark) below(next uint64) bool { return m.segment <= next }

func (m *walMark) Close() error { return m.file.Close() }
