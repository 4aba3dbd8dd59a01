package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"rollcall/internal/durable"
)

const (
	// nameCheckInterval is the time between two checks that the file still has its name: another process may rename it.
	nameCheckInterval = time.Second
	// maxLineBytes is above the length of any line. A crash leaves a part of one line at most.
	maxLineBytes = 256 << 10
	// fileMode lets the owner write the files and the group read them.
	fileMode = 0o640
	// directoryMode is for the audit log's own directory.
	directoryMode = 0o750
	// headSize is the number of bytes that identify an audit log: the beginning of a line in the longer format.
	headSize = len(zooKeeperTimeLayout + zooKeeperLogger)
)

// sink stores lines. write takes whole lines. If it fails, it stores none of them.
type sink interface {
	write(lines []byte) error
	close() error
}

// streamSink is a sink that is not a file: standard output.
type streamSink struct{ io.Writer }

func (s streamSink) write(lines []byte) error {
	_, err := s.Write(lines)
	return err
}

func (s streamSink) close() error { return nil }

// fileSink is a sink that is a file. When the file would be longer than its limit, it gets the name path.1, and
// path.1 gets path.2, and so on. If another process, such as logrotate, moves or removes the file, fileSink makes a
// new one.
type fileSink struct {
	path          string
	maxSize       int64 // bytes
	keptFiles     int   // old files
	syncWrites    bool  // a write returns when the lines are on the disk
	logWarning    func(msg string, args ...any)
	f             *os.File
	size          int64
	rotateSize    int64 // the size at which to rotate
	lastNameCheck time.Time
}

// newFileSink opens a file to append to. It removes a partial line that a crash has left.
func newFileSink(path string, most int64, kept int, synced bool, warn func(msg string, args ...any)) (*fileSink,
	error,
) {
	w := &fileSink{path: path, maxSize: most, keptFiles: kept, syncWrites: synced, logWarning: warn}
	return w, w.openForAppend()
}

func (w *fileSink) openForAppend() error {
	f, err := os.OpenFile(w.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", w.path)
	}
	if err == nil {
		w.size, err = removePartialLines(f, info.Size())
	}
	if err == nil && w.syncWrites {
		err = durable.SyncDirectory(filepath.Dir(w.path)) // the file may be new
	}
	if err != nil {
		_ = f.Close() // the error before is the one that matters
		return err
	}
	w.f, w.rotateSize, w.lastNameCheck = f, w.maxSize, time.Now()
	return nil
}

// removePartialLines removes partial lines that a crash has left, and returns the new size. It returns an error
// for a file that is no audit log.
func removePartialLines(f *os.File, size int64) (int64, error) {
	lost, err := lostBeginning(f, size)
	if err != nil {
		return size, err
	}
	if lost {
		return 0, f.Truncate(0)
	}
	if err := checkIsAuditLog(f); err != nil {
		return size, err
	}
	return trimPartialLine(f, size)
}

// sectorSize divides the size of a sector, in bytes: a loss of power leaves a whole sector, or nothing of it.
const sectorSize = 512

// lostBeginning reports whether a loss of power has destroyed the first lines before they were on the disk. It leaves
// the size, zeros at the beginning, and some sectors.
func lostBeginning(f *os.File, size int64) (bool, error) {
	if size < int64(headSize) || size > maxLineBytes { // a line is longer, and no more is written before it is synced
		return false, nil
	}
	text := make([]byte, size)
	if _, err := f.ReadAt(text, 0); err != nil {
		return false, err
	}
	for sector := range slices.Chunk(text, sectorSize) {
		lost := len(bytes.Trim(sector, "\x00")) == 0
		if !lost && bytes.IndexByte(sector, 0) >= 0 {
			return false, nil
		}
	}
	return text[0] == 0, nil
}

// checkIsAuditLog returns an error unless a file is empty or begins as an audit log. A wrong path must not cost
// another file its last line, or its name when the log is rotated. A crash may leave a part of the first line.
func checkIsAuditLog(f *os.File) error {
	head := make([]byte, headSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head = head[:n]
	isJSON := bytes.HasPrefix(head, []byte(jsonPrefix)) || bytes.HasPrefix([]byte(jsonPrefix), head)
	isZooKeepers := n == headSize && string(head[len(zooKeeperTimeLayout):]) == zooKeeperLogger
	if isJSON || isZooKeepers {
		return nil
	}
	return fmt.Errorf("%s has something else than an audit log, and is left as it is", f.Name())
}

// trimPartialLine removes a partial line at the end of a file, and returns the new size.
func trimPartialLine(f *os.File, size int64) (int64, error) {
	tail := make([]byte, min(size, maxLineBytes))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return size, err
	}
	torn := int64(len(tail) - bytes.LastIndexByte(tail, '\n') - 1)
	if torn == 0 || torn == int64(len(tail)) && size > maxLineBytes {
		return size, nil // the second case is not a file of lines
	}
	return size - torn, f.Truncate(size - torn)
}

// write writes lines. The first lines of a file are on the disk when it returns, so a file that has lost its beginning
// has no others: see lostBeginning.
func (w *fileSink) write(lines []byte) error {
	if err := w.prepareWrite(int64(len(lines))); err != nil {
		return err
	}
	first := w.size == 0
	n, err := w.f.Write(lines)
	if err == nil && (w.syncWrites || first) {
		err = w.f.Sync()
	}
	if err == nil && first {
		err = durable.SyncDirectory(filepath.Dir(w.path))
	}
	if err != nil && n > 0 {
		if e := w.f.Truncate(w.size); e != nil {
			w.closeFile() // openForAppend removes a partial line
			return errors.Join(err, e)
		}
		n = 0
	}
	w.size += int64(n)
	return err
}

// prepareWrite makes sure that the file is open, still has its name, and has room for more bytes.
func (w *fileSink) prepareWrite(more int64) error {
	if w.f != nil && time.Since(w.lastNameCheck) >= nameCheckInterval {
		w.closeIfRenamed()
	}
	if w.f == nil {
		if err := w.openForAppend(); err != nil {
			return err
		}
	}
	if w.size > 0 && w.size+more > w.rotateSize {
		return w.rotateFiles()
	}
	return nil
}

// closeIfRenamed closes the file if it has lost its name. It also reads its size, because another process may have
// truncated it.
func (w *fileSink) closeIfRenamed() {
	w.lastNameCheck = time.Now()
	here, err := w.f.Stat()
	there, gone := os.Stat(w.path)
	if err != nil || gone != nil || !os.SameFile(here, there) {
		w.closeFile()
		return
	}
	w.size = here.Size()
}

// closeFile closes the file. The next write opens it again.
func (w *fileSink) closeFile() {
	_ = w.f.Close() // every write was checked
	w.f = nil
}

// rotateFiles gives the file the name of the first old one, drops the oldest, and opens a new file. It does not sync
// the old file, because that would delay the ensemble's log on the same disk. If a file cannot be renamed, or an old
// one is no audit log, the present file continues, and rotateFiles is tried again after another maxSize bytes.
func (w *fileSink) rotateFiles() error {
	w.closeFile()
	if err := w.renameFiles(); err != nil {
		w.logWarning("the audit log is not rotated, so it grows; this user must be able to rename files in its directory",
			"err", err)
	}
	err := w.openForAppend()
	w.rotateSize = w.size + w.maxSize
	return err
}

// renameFiles gives each file the name of the next older one.
func (w *fileSink) renameFiles() error {
	for i := 1; i <= w.keptFiles; i++ {
		if err := checkOldFile(w.oldPath(i)); err != nil {
			return err
		}
	}
	for i := w.keptFiles - 1; i >= 0; i-- {
		if err := os.Rename(w.oldPath(i), w.oldPath(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkOldFile returns an error if there is a file of this name and it is no audit log.
func checkOldFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return checkIsAuditLog(f)
}

// oldPath returns the path of the i-th old file, from 1. For 0 it returns the path of the file itself.
func (w *fileSink) oldPath(i int) string {
	if i == 0 {
		return w.path
	}
	return w.path + "." + strconv.Itoa(i)
}

// close writes the file to the disk and closes it.
func (w *fileSink) close() error {
	if w.f == nil {
		return nil
	}
	err := errors.Join(w.f.Sync(), w.f.Close())
	w.f = nil
	return err
}
