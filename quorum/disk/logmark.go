package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	logMarkName  = "durable"
	logMarkMagic = "RCMARK2\n"
	// logMarkSize is the size of a mark in bytes: the magic, the log's id, a segment, an index and a checksum. It is far
	// below a sector, so after a crash either the old mark or the new one is there.
	logMarkSize = len(logMarkMagic) + 8 + 8 + 8 + checksumSize
)

// logMark has the last durable index of the log's last segment, in a file outside of that segment. Without the mark, a
// lost end would look like the end of a log. It may lag behind the log and is never ahead of it: see docs/dev/log.md.
type logMark struct {
	file *os.File // nil: there is no file yet
	logEnd
}

// logEnd is the end of a log.
type logEnd struct {
	logID, segment uint64
	index          uint64 // the last one in that segment; 0: the log has none, and began anew in it
}

func (e logEnd) encode() []byte {
	b := []byte(logMarkMagic)
	for _, v := range []uint64{e.logID, e.segment, e.index} {
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
	for i, v := range []*uint64{&e.logID, &e.segment, &e.index} {
		*v = binary.BigEndian.Uint64(b[len(logMarkMagic)+8*i:])
	}
	return e, nil
}

// openLogMark opens the mark in dir, if there is one.
func openLogMark(dir string) (m logMark, err error) {
	path := filepath.Join(dir, logMarkName)
	m.file, err = openMark(path, logMarkSize, "the log's end", func(b []byte) (err error) {
		m.logEnd, err = decodeLogEnd(b)
		return err
	})
	return m, err
}

// check returns an error if the log now ends before the mark.
func (m *logMark) check(now logEnd) error {
	switch {
	case m.file == nil:
		return nil
	case m.logID != now.logID:
		return fmt.Errorf("%w: %s is the mark of another log", ErrDamaged, logMarkName)
	case m.segment > now.segment:
		return fmt.Errorf("%w: segment %d is gone, and the log was durable up to its entry %d", ErrDamaged, m.segment, m.index)
	case m.segment == now.segment && m.index > now.index:
		return fmt.Errorf("%w: segment %d ends with entry %d, and was durable up to entry %d", ErrDamaged, now.segment,
			now.index, m.index)
	}
	return nil
}

// create makes the mark in dir if there is none.
func (m *logMark) create(dir string, now logEnd) (err error) {
	if m.file != nil {
		return nil
	}
	path := filepath.Join(dir, logMarkName)
	if err := replaceFile(path, now.encode()); err != nil {
		return err
	}
	m.file, err = os.OpenFile(path, os.O_RDWR, 0)
	return err
}

// record records that the log is durable up to an end. If sync is set, the mark is durable, too, when record returns.
func (m *logMark) record(now logEnd, sync bool) error {
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

// openMark opens a mark of size bytes, and decodes it. It returns nil if there is none. compared is what is compared with
// the mark.
func openMark(path string, size int, compared string, decode func([]byte) error) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, int64(size)+1))
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
