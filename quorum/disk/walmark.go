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
	// walMarkName is the file with the walMark, next to the segments.
	walMarkName = "durable"
	// walMarkMagic begins a mark.
	walMarkMagic = "RCMARK1\n"
	// walMarkSize is the size of a mark in bytes: the magic, a segment, an index and a checksum. It is
	// far below a sector, so after a crash either the old mark or the new one is there.
	walMarkSize = len(walMarkMagic) + 8 + 8 + checksumSize
)

// walMark says how far the log's last segment is durable, in a file outside of that segment. If a
// segment ends before the mark, it has lost entries. Without the mark, a lost end could not be told
// from the end of a log.
//
// The mark may lag behind the log and is never ahead of it, because it is written after the log's
// fsync has returned. It is synced once for each segment, with the first batch, before that is
// acknowledged. After that it is only written, which costs a batch some microseconds. If the
// process is killed, no mark is lost. If the machine loses its power, marks are lost that the
// kernel had not written yet.
//
// The mark counts only for the segment that it names. raft-wal never shortens a segment. When
// entries are removed from the end of the log, it begins a new segment, with a number that was
// never used before. The mark therefore never has to be lowered.
//
// Only one goroutine at a time may call its methods, as with raft-wal's writers.
type walMark struct {
	file    *os.File
	segment uint64 // the segment's number plus 1, because raft-wal's numbers begin with 0; 0: none
	index   uint64
}

// openWALMark opens the mark in dir. If there is none, it makes one that names no segment.
func openWALMark(dir string) (*walMark, error) {
	path := filepath.Join(dir, walMarkName)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := replaceFile(path, encodeWALMark(0, 0)); err != nil {
			return nil, err
		}
		file, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	m := &walMark{file: file}
	b, err := io.ReadAll(io.LimitReader(file, int64(walMarkSize)+1))
	if err == nil {
		m.segment, m.index, err = decodeWALMark(b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w; if that is the only damaged file, remove it: the member then starts without comparing the log's end with it", path, err), file.Close())
	}
	return m, nil
}

func encodeWALMark(segment, index uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte(walMarkMagic), segment)
	b = binary.BigEndian.AppendUint64(b, index)
	return binary.BigEndian.AppendUint32(b, entryChecksum(index, b))
}

func decodeWALMark(b []byte) (segment, index uint64, err error) {
	if len(b) != walMarkSize || string(b[:len(walMarkMagic)]) != walMarkMagic {
		return 0, 0, fmt.Errorf("%w: not a mark of %d bytes", ErrDamaged, walMarkSize)
	}
	segment = binary.BigEndian.Uint64(b[len(walMarkMagic):])
	index = binary.BigEndian.Uint64(b[len(walMarkMagic)+8:])
	at := walMarkSize - checksumSize
	if binary.BigEndian.Uint32(b[at:]) != entryChecksum(index, b[:at]) {
		return 0, 0, fmt.Errorf("%w: the checksum is wrong", ErrDamaged)
	}
	return segment, index, nil
}

// record records that a segment is durable up to index.
func (m *walMark) record(segment, index uint64) error {
	first := m.segment != segment+1
	if _, err := m.file.WriteAt(encodeWALMark(segment+1, index), 0); err != nil {
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

// durableIndex returns the index up to which the mark says that a segment is durable, or 0 if it does
// not say.
func (m *walMark) durableIndex(segment uint64) uint64 {
	if m.segment != segment+1 {
		return 0
	}
	return m.index
}

// isBelow reports whether the mark's segment has a number below next.
func (m *walMark) isBelow(next uint64) bool { return m.segment <= next }

func (m *walMark) Close() error { return m.file.Close() }
