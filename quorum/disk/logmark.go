package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

const (
	logMarkName  = "durable"
	logMarkMagic = "RCMARK3\n"
	// logMarkSize is the size of a mark in bytes: the magic, the log's id, a start, a segment, two indexes and a checksum.
	// It is far below a sector, so after a crash either the old mark or the new one is there.
	logMarkSize = len(logMarkMagic) + 5*8 + checksumSize
)

// logMark has the last durable index of the log's last segment, in a file outside of that segment. Without the mark, a
// lost end would look like the end of a log. It may lag behind the log and is never ahead of it: see docs/dev/log.md.
type logMark struct {
	path string
	file *os.File // nil: there is no file yet
	logEnd
}

// logEnd is the end of a log. What a log has reached it never falls back from: starts and segments are counted, and in a
// segment the index only grows.
type logEnd struct {
	logID   uint64
	start   uint64 // number of the last start with this log
	segment uint64
	index   uint64 // the last one in that segment; 0: the log has none, and began anew in it
	// snapshot is the highest index of a snapshot that was stored by then. The log may have been emptied for it.
	snapshot uint64
}

func (e logEnd) encode() []byte {
	b := []byte(logMarkMagic)
	for _, v := range []uint64{e.logID, e.start, e.segment, e.index, e.snapshot} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoliTable))
}

func decodeLogEnd(b []byte) (e logEnd, err error) {
	at := logMarkSize - checksumSize
	if len(b) != logMarkSize || string(b[:len(logMarkMagic)]) != logMarkMagic {
		return e, fmt.Errorf("%w: not a mark of %d bytes", ErrDamaged, logMarkSize)
	}
	if binary.BigEndian.Uint32(b[at:]) != crc32.Checksum(b[:at], castagnoliTable) {
		return e, fmt.Errorf("%w: the checksum is wrong", ErrDamaged)
	}
	for i, v := range []*uint64{&e.logID, &e.start, &e.segment, &e.index, &e.snapshot} {
		*v = binary.BigEndian.Uint64(b[len(logMarkMagic)+8*i:])
	}
	return e, nil
}

// check returns an error unless the log that now ends there had reached e. source is the file that says so.
func (e logEnd) check(now logEnd, source string) error {
	switch {
	case e.logID != now.logID:
		return fmt.Errorf("%w: it is not the log of which %s has the end", ErrDamaged, source)
	case e.start > now.start:
		return fmt.Errorf("%w: it is an older copy, of start %d of this member, and %s is of start %d", ErrDamaged, now.start,
			source, e.start)
	case e.segment > now.segment:
		return fmt.Errorf("%w: segment %d is gone, and the log was durable up to its entry %d (%s says so)", ErrDamaged, e.segment,
			e.index, source)
	case e.segment == now.segment && e.index > now.index:
		return fmt.Errorf("%w: segment %d ends with entry %d, and was durable up to entry %d (%s says so)", ErrDamaged, now.segment,
			now.index, e.index, source)
	}
	return nil
}

// checkSnapshot returns an error if the data once had a snapshot, and now go to a lower index.
func (e logEnd) checkSnapshot(data uint64, source string) error {
	if e.snapshot <= data {
		return nil
	}
	return fmt.Errorf("%w: the snapshot of index %d is gone, and the data go to index %d (%s knows it)", ErrDamaged, e.snapshot, data,
		source)
}

// openLogMark opens a mark of the log, if there is one. If required is set, a missing mark is damage.
func openLogMark(path string, required bool) (m logMark, err error) {
	m.path = path
	m.file, err = openMark(path, logMarkSize, required, func(b []byte) (err error) {
		m.logEnd, err = decodeLogEnd(b)
		return err
	})
	return m, err
}

// record records that the log is durable up to an end. It makes the file, durably, if there is none. If sync is set, the mark
// is durable, too, when record returns.
func (m *logMark) record(now logEnd, sync bool) (err error) {
	if m.file == nil {
		if err := replaceFile(m.path, now.encode()); err != nil {
			return err
		}
		m.file, err = os.OpenFile(m.path, os.O_RDWR, 0)
		return err
	}
	if _, err := m.file.WriteAt(now.encode(), 0); err != nil || !sync {
		return err
	}
	return syncData(m.file)
}

func (m *logMark) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// openMark opens a mark of size bytes, and decodes it. If there is none, it returns nil, or an error if the mark is required.
func openMark(path string, size int, required bool, decode func([]byte) error) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) && required:
		return nil, fmt.Errorf("%s is %w: it is gone", path, ErrDamaged)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, int64(size)+1))
	if err == nil {
		err = decode(b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return file, nil
}
