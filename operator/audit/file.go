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
	// lookPause is how often the file is looked for under its name: somebody may have moved or removed it.
	lookPause = time.Second
	// maxLine is more than the longest line has, in bytes. A crash leaves a part of one at most.
	maxLine = 256 << 10
	// fileMode is that of the files: the owner writes them, and the group may read them.
	fileMode = 0o640
	// directoryMode is that of the audit log's own directory, likewise.
	directoryMode = 0o750
	// headSize is how many bytes of a file show whether it is an audit log: the beginning of a line in the longer format.
	headSize = len(zooKeeperStamp + zooKeeperName)
)

// sink is where lines go. write takes whole lines; if it fails, none of them is there.
type sink interface {
	write(lines []byte) error
	close() error
}

// stream is a sink that is not a file: standard output.
type stream struct{ io.Writer }

func (s stream) write(lines []byte) error {
	_, err := s.Write(lines)
	return err
}

func (s stream) close() error { return nil }

// file is a sink that is a file. When the file would be longer than its limit, it gets the name path.1, and
// path.1 gets path.2, and so on. If somebody else moves or removes the file, as logrotate does, file makes another
// one.
type file struct {
	path   string
	most   int64 // bytes
	kept   int   // old files
	synced bool  // a write returns when the lines are on the disk
	warn   func(msg string, args ...any)
	f      *os.File
	size   int64
	due    int64 // the size at which to rotate
	looked time.Time
}

// openFile opens a file to append to. If a crash has left a part of a line, openFile removes it.
func openFile(path string, most int64, kept int, synced bool, warn func(msg string, args ...any)) (*file, error) {
	w := &file{path: path, most: most, kept: kept, synced: synced, warn: warn}
	return w, w.open()
}

func (w *file) open() error {
	f, err := os.OpenFile(w.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", w.path)
	}
	if err == nil {
		w.size, err = recoverLines(f, info.Size())
	}
	if err == nil && w.synced {
		err = durable.SyncDirectory(filepath.Dir(w.path)) // the file may be new
	}
	if err != nil {
		_ = f.Close() // the error before is the one that matters
		return err
	}
	w.f, w.due, w.looked = f, w.most, time.Now()
	return nil
}

// recoverLines removes what a crash has left of lines, and returns the new size. It returns an error for a file that is no audit log.
func recoverLines(f *os.File, size int64) (int64, error) {
	lost, err := lostBeginning(f, size)
	if err != nil {
		return size, err
	}
	if lost {
		return 0, f.Truncate(0)
	}
	if err := checkLog(f); err != nil {
		return size, err
	}
	return trim(f, size)
}

// sectorSize is the size of a sector, or a part of it, in bytes: a loss of power leaves a whole one, or none of it.
const sectorSize = 512

// lostBeginning reports whether a file has only what a loss of power may leave of the first lines, which were not on the disk
// yet: the size, zeros at the beginning, and some sectors.
func lostBeginning(f *os.File, size int64) (bool, error) {
	if size < int64(headSize) || size > maxLine { // a line is longer, and no more is written before it is synced
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

// checkLog returns an error unless a file is empty or begins as an audit log does. A wrong path must not cost another
// file its last line, or its name when the log is rotated. A crash may leave a part of the first line.
func checkLog(f *os.File) error {
	head := make([]byte, headSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head = head[:n]
	isJSON := bytes.HasPrefix(head, []byte(jsonBegin)) || bytes.HasPrefix([]byte(jsonBegin), head)
	isZooKeepers := n == headSize && string(head[len(zooKeeperStamp):]) == zooKeeperName
	if isJSON || isZooKeepers {
		return nil
	}
	return fmt.Errorf("%s has something else than an audit log, and is left as it is", f.Name())
}

// trim removes the end of a file that is no whole line, and returns the new size.
func trim(f *os.File, size int64) (int64, error) {
	tail := make([]byte, min(size, maxLine))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return size, err
	}
	torn := int64(len(tail) - bytes.LastIndexByte(tail, '\n') - 1)
	if torn == 0 || torn == int64(len(tail)) && size > maxLine {
		return size, nil // the second: not a file of lines, which is left alone
	}
	return size - torn, f.Truncate(size - torn)
}

// write writes lines. The first ones are on the disk under the file's name when it returns, so that a file that has lost its
// beginning to a loss of power has no others: see lostBeginning.
func (w *file) write(lines []byte) error {
	if err := w.ready(int64(len(lines))); err != nil {
		return err
	}
	first := w.size == 0
	n, err := w.f.Write(lines)
	if err == nil && (w.synced || first) {
		err = w.f.Sync()
	}
	if err == nil && first {
		err = durable.SyncDirectory(filepath.Dir(w.path))
	}
	if err != nil && n > 0 {
		if e := w.f.Truncate(w.size); e != nil {
			w.drop() // open removes what is there of a line
			return errors.Join(err, e)
		}
		n = 0
	}
	w.size += int64(n)
	return err
}

// ready sees to it that the file is open, still has its name, and has room for so many bytes.
func (w *file) ready(more int64) error {
	if w.f != nil && time.Since(w.looked) >= lookPause {
		w.look()
	}
	if w.f == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if w.size > 0 && w.size+more > w.due {
		return w.rotate()
	}
	return nil
}

// look closes the file if it does not have its name any more. It also finds out whether somebody has emptied it.
func (w *file) look() {
	w.looked = time.Now()
	here, err := w.f.Stat()
	there, gone := os.Stat(w.path)
	if err != nil || gone != nil || !os.SameFile(here, there) {
		w.drop()
		return
	}
	w.size = here.Size()
}

// drop closes the file, which is opened again when it is needed.
func (w *file) drop() {
	_ = w.f.Close() // every write was checked
	w.f = nil
}

// rotate gives the file the name of the first old one, and opens a new one. The oldest one goes. The system writes
// the old file to the disk when it likes: to wait for that would hold up the log of the ensemble on the same disk. If a file cannot
// be renamed, or an old one is no audit log, no line is lost for that: the present file goes on, and rotate is tried again
// when it has grown as much.
func (w *file) rotate() error {
	w.drop()
	if err := w.shift(); err != nil {
		w.warn("the audit log is not rotated, so it grows; this user must be able to rename files in its directory", "err", err)
	}
	err := w.open()
	w.due = w.size + w.most
	return err
}

// shift gives each file the name of the next older one.
func (w *file) shift() error {
	for i := 1; i <= w.kept; i++ {
		if err := checkOld(w.old(i)); err != nil {
			return err
		}
	}
	for i := w.kept - 1; i >= 0; i-- {
		if err := os.Rename(w.old(i), w.old(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkOld returns an error if there is a file of this name and it is no audit log.
func checkOld(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return checkLog(f)
}

// old returns the name of the i-th old file, from 1; of 0 that of the file itself.
func (w *file) old(i int) string {
	if i == 0 {
		return w.path
	}
	return w.path + "." + strconv.Itoa(i)
}

// close writes the file to the disk and closes it.
func (w *file) close() error {
	if w.f == nil {
		return nil
	}
	err := errors.Join(w.f.Sync(), w.f.Close())
	w.f = nil
	return err
}
