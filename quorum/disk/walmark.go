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
	walMarkName  = "durable"
	walMarkMagic = "RCMARK1\n"
	// walMarkSize is the size of a mark in bytes: the magic, a segment, an index and a checksum. It is far below a
	// sector, so after a crash either the old mark or the new one is there.
	walMarkSize = len(walMarkMagic) + 8 + 8 + checksumSize
)

// walMark has the last durable index of the log's last segment, in a file outside of that segment. A segment that
// ends before the mark has lost entries. Without the mark, a lost end would look like the end of a log.
//
// The mark may lag behind the log and is never ahead of it, because it is written after the log's fsync has
// returned. It is synced once for each segment, with the first batch, before that is acknowledged. After that it
// is only written, which costs a batch some microseconds. If the process is killed, no mark is lost. If the
// machine loses its power, marks are lost that the kernel had not written yet.
//
// The mark counts only for the segment that it names. raft-wal never shortens a segment. When entries are removed
// from the end of the log, it begins a new segment, with a number that was never used before. The mark therefore
// never has to be lowered.
//
// Only one goroutine at a time may call its methods, as with raft-wal's writers.
type walMark struct {
	file    *os.File
	segment uint64 // the segment's number plus 1, because raft-wal's numbers begin with 0; 0: none
	index   uint64
}

// openWALMark opens the mark in dir, or makes one that names no segment.
func openWALMark(dir string) (m *walMark, err error) {
	m = new(walMark)
	m.file, err = openMarkFile(filepath.Join(dir, walMarkName), encodeWALMark(0, 0), "the log's end",
		func(b []byte) (err error) {
			m.segment, m.index, err = decodeWALMark(b)
			return err
		})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// openMarkFile opens a mark, or creates it with the contents initial, and decodes it. compared is the part of the log
// that is compared with the mark.
func openMarkFile(path string, initial []byte, compared string, decode func([]byte) error) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := replaceFile(path, initial); err != nil {
			return nil, err
		}
		file, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, int64(len(initial))+1))
	if err == nil {
		err = decode(b)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w; if that is the only damaged file, remove it: the member then starts without comparing "+
			"%s with it", path, err, compared)
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
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

// durableIndex returns the last durable index of a segment, or 0 if the mark is of another segment.
func (m *walMark) durableIndex(segment uint64) uint64 {
	if m.segment != segment+1 {
		return 0
	}
	return m.index
}

// isBelow reports whether the mark's segment has a number below next.
func (m *walMark) isBelow(next uint64) bool { return m.segment <= next }

func (m *walMark) Close() error { return m.file.Close() }
