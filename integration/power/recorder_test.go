package power

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	gosync "sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rollcall/lab/process"
)

// recorder has what some processes did to their files, in one order. Safe for concurrent use.
type recorder struct {
	mu       gosync.Mutex
	changes  []change
	nodes    int // the last number that was given to a file or directory
	problems []error
}

// recorded is a directory whose files a recorder knows. At most one process at a time changes them.
type recorded struct {
	process.Calls
	recorder *recorder
	number   int    // of the disk
	root     string // the directory
	nodes    map[inode]int
	refuses  func(*process.Call) syscall.Errno // an error for the process in place of a change; nil: none
}

// inode is the system's name of a file. It may be reused for another file once all names of the file are gone.
type inode struct{ device, number uint64 }

// calls are the system calls that change files, as far as Go's library and golang.org/x/sys use them, and those that might.
var calls = []int{
	unix.SYS_OPENAT, unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_TRUNCATE, unix.SYS_FALLOCATE,
	unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE,
	unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_MMAP,
	unix.SYS_OPENAT2, unix.SYS_SYMLINKAT, unix.SYS_MKNODAT, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_IO_URING_SETUP,
}

// record records the changes of root by processes that run binary. The current contents of the directory are on the
// disk. number is the disk's number. At the end the test fails if a process made a change that the recorder does not
// know.
func (r *recorder) record(t *testing.T, binary, root string, number int) *recorded {
	t.Helper()
	d := &recorded{recorder: r, number: number, root: root}
	d.format(t)
	d.Calls = process.NewCalls(t, binary, process.Uninterrupted, calls, d.handle, func() {})
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, err := range r.problems {
			t.Error(err)
		}
		r.problems = nil
	})
	return d
}

// place returns the number of changes so far. All that was done before it was called is below it.
func (r *recorder) place() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.changes)
}

// since returns the changes so far.
func (r *recorder) all() []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.changes)
}

// format records that the directory holds what it holds now, durably. No process changes it meanwhile.
func (d *recorded) format(t *testing.T) {
	t.Helper()
	r := d.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	d.nodes = map[inode]int{}
	c := change{disk: d.number, kind: format}
	paths := map[string]int{}
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		id, err := d.learn(path)
		if err != nil {
			return err
		}
		if paths[path] = id; path == d.root {
			c.on = id
			return nil
		}
		f := file{parent: paths[filepath.Dir(path)], node: id, name: e.Name(), directory: e.IsDir()}
		if !f.directory {
			f.data, err = os.ReadFile(path)
			f.size = int64(len(f.data))
		}
		c.everything = append(c.everything, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.changes = append(r.changes, c)
}

// learn gives a file that the recorder has not known a number.
func (d *recorded) learn(path string) (int, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	d.recorder.nodes++
	d.nodes[inode{stat.Dev, stat.Ino}] = d.recorder.nodes
	return d.recorder.nodes, nil
}

// setRefusal sets the function that decides whether the process gets an error in place of a change. If refuses is nil, it
// never does.
func (d *recorded) setRefusal(refuses func(*process.Call) syscall.Errno) {
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	d.refuses = refuses
}

// handle notes what a call changes, and does it or lets the kernel do it.
func (d *recorded) handle(c *process.Call) {
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	if d.refuses != nil {
		if errno := d.refuses(c); errno != 0 {
			c.ReturnValue(0, errno)
			return
		}
	}
	switch c.Number {
	case unix.SYS_OPENAT:
		d.open(c)
	case unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		d.changeName(c)
	default:
		d.changeFile(c)
	}
}

// problem notes that the process did something that the recorder does not know. It notes nothing if the process has been killed
// meanwhile: then the call changes nothing.
func (d *recorded) problem(c *process.Call, format string, args ...any) {
	const enough = 10
	gone := slices.ContainsFunc(args, func(arg any) bool {
		err, ok := arg.(error)
		return ok && errors.Is(err, unix.ESRCH)
	})
	if !gone && len(d.recorder.problems) < enough {
		d.recorder.problems = append(d.recorder.problems, fmt.Errorf("system call %d: "+format, append([]any{c.Number}, args...)...))
	}
}

func (d *recorded) note(c change) {
	c.disk = d.number
	d.recorder.changes = append(d.recorder.changes, c)
}

// open makes a file or empties it, and gives it to the process. The kernel opens all others.
func (d *recorded) open(c *process.Call) {
	flags := int(c.Args[2])
	if flags&(unix.O_CREAT|unix.O_TRUNC|unix.O_DSYNC|unix.O_TMPFILE&^unix.O_DIRECTORY) == 0 {
		c.Continue()
		return
	}
	path, ours := d.path(c, 0, 1)
	if !ours {
		c.Continue()
		return
	}
	if flags&(unix.O_DSYNC|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 {
		d.problem(c, "%s is opened with flags %#x", path, flags)
	}
	id, there := d.known(path)
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, uint32(c.Args[3]))
	if err != nil {
		c.ReturnValue(0, errnoOf(err))
		return
	}
	defer unix.Close(fd)
	switch {
	case !there:
		if id, err = d.learn(path); err != nil {
			d.problem(c, "%w", err)
		}
		d.note(change{kind: makes, on: d.parent(c, path), name: filepath.Base(path), node: id})
	case flags&unix.O_TRUNC != 0:
		d.note(change{kind: resize, on: id})
	}
	c.ReturnFile(fd)
}

// changeName does a call that changes the names in a directory.
func (d *recorded) changeName(c *process.Call) {
	path, ours := d.path(c, 0, 1)
	to, both := path, ours
	if c.Number == unix.SYS_LINKAT || c.Number == unix.SYS_RENAMEAT || c.Number == unix.SYS_RENAMEAT2 {
		to, both = d.path(c, 2, 3)
	}
	var before unix.Stat_t
	if !ours && !both || unix.Lstat(path, &before) == nil && before.Mode&unix.S_IFMT == unix.S_IFSOCK {
		c.Continue() // sockets do not matter
		return
	}
	id, there := d.known(path)
	switch {
	case c.Number != unix.SYS_MKDIRAT && !there && before.Mode != 0:
		d.problem(c, "%s was made by somebody else", path)
	case ours != both:
		d.problem(c, "from %s to %s, another disk", path, to)
	case c.Number == unix.SYS_LINKAT && filepath.Dir(path) != filepath.Dir(to):
		d.problem(c, "a link from %s to %s, another directory", path, to)
	}
	n := change{on: d.parent(c, to), name: filepath.Base(to), node: id}
	var err error
	switch c.Number {
	case unix.SYS_MKDIRAT:
		n.kind, n.directory = makes, true
		if err = unix.Mkdir(path, uint32(c.Args[2])); err == nil {
			n.node, err = d.learn(path)
		}
	case unix.SYS_UNLINKAT:
		n.kind = remove
		err = unix.Unlinkat(unix.AT_FDCWD, path, int(c.Args[2]))
	case unix.SYS_LINKAT:
		n.kind = link
		err = unix.Link(path, to)
	default:
		if n.kind, n.from = rename, filepath.Base(path); filepath.Dir(path) != filepath.Dir(to) {
			n.kind, n.source = move, d.parent(c, path)
		}
		err = unix.Rename(path, to)
	}
	if err == nil {
		d.note(n)
	}
	c.ReturnValue(0, errnoOf(err))
}

// changeFile notes a call that changes a file that the process has open.
func (d *recorded) changeFile(c *process.Call) {
	fd := c.Args[0]
	switch c.Number {
	case unix.SYS_MMAP:
		fd = c.Args[4]
		if c.Args[3]&unix.MAP_SHARED == 0 || c.Args[2]&unix.PROT_WRITE == 0 {
			c.Continue()
			return
		}
	case unix.SYS_COPY_FILE_RANGE, unix.SYS_SPLICE:
		fd = c.Args[2]
	case unix.SYS_TRUNCATE:
		if path, ours := d.pathAt(c, unix.AT_FDCWD, c.Args[0]); ours {
			if id, ok := d.known(path); ok {
				d.note(change{kind: resize, on: id, size: int64(c.Args[1])})
			}
		}
		c.Continue()
		return
	case unix.SYS_OPENAT2, unix.SYS_SYMLINKAT, unix.SYS_MKNODAT, unix.SYS_SYNC, unix.SYS_IO_URING_SETUP:
		d.problem(c, "not known")
		c.Continue()
		return
	}
	id, ours := d.opened(c.Thread, fd)
	if !ours {
		c.Continue()
		return
	}
	switch c.Number {
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		if name, err := d.openName(c.Thread, fd); err != nil {
			d.problem(c, "%w", err)
		} else {
			d.note(change{kind: sync, on: id, name: name})
		}
		c.ReturnValue(0, 0)
		return
	case unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE: // Go's library then writes the bytes
		c.ReturnValue(0, unix.EINVAL)
		return
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		d.noteWrite(c, id)
	case unix.SYS_FTRUNCATE:
		d.note(change{kind: resize, on: id, size: int64(c.Args[1])})
	case unix.SYS_FALLOCATE:
		if c.Args[1] != 0 {
			d.problem(c, "mode %#x", c.Args[1])
		}
		d.note(change{kind: grow, on: id, size: int64(c.Args[2] + c.Args[3])})
	default:
		d.problem(c, "not known")
	}
	c.Continue()
}

func (d *recorded) noteWrite(c *process.Call, id int) {
	data, err := c.ReadMemory(c.Args[1], int(c.Args[2]))
	at := int64(c.Args[3])
	if err == nil && c.Number == unix.SYS_WRITE {
		at, err = position(c.Thread, c.Args[0])
	}
	if err != nil {
		d.problem(c, "%w", err)
		return
	}
	d.note(change{kind: write, on: id, at: at, data: data})
}

// hasEnded reports whether a thread has been killed. Its descriptors go while it ends: it is no zombie yet, but has the kernel's flag
// PF_EXITING in the seventh field after its name.
func hasEnded(thread int) bool {
	const exiting = 0x4
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", thread))
	if err != nil {
		return true
	}
	_, text, _ := strings.Cut(string(stat), ") ") // the name before it may have any characters but this end
	fields := strings.Fields(text)
	if len(fields) < 7 {
		return true
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err == nil && flags&exiting != 0
}

// unlessEnded returns the error of reading what a thread has open, or ESRCH if it has been killed meanwhile.
func unlessEnded(thread int, err error) error {
	if errors.Is(err, os.ErrNotExist) && hasEnded(thread) {
		return unix.ESRCH
	}
	return err
}

// position returns the offset of the next write of an open file.
func position(thread int, fd uint64) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", thread, int32(fd)))
	if err != nil {
		return 0, unlessEnded(thread, err)
	}
	var at, flags int64
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); name {
		case "pos":
			at, err = strconv.ParseInt(value, 10, 64)
		case "flags":
			flags, err = strconv.ParseInt(value, 8, 64)
		}
		if err != nil {
			return 0, err
		}
	}
	if flags&unix.O_APPEND != 0 {
		info, err := os.Stat(descriptor(thread, fd))
		if err != nil {
			return 0, unlessEnded(thread, err)
		}
		at = info.Size()
	}
	return at, nil
}

// descriptor returns a path of the file that a process has open.
func descriptor(thread int, fd uint64) string {
	return fmt.Sprintf("/proc/%d/fd/%d", thread, int32(fd))
}

// opened returns the number of the file or directory that a process has open.
func (d *recorded) opened(thread int, fd uint64) (int, bool) {
	var stat unix.Stat_t
	if unix.Stat(descriptor(thread, fd), &stat) != nil {
		return 0, false
	}
	id, ok := d.nodes[inode{stat.Dev, stat.Ino}]
	return id, ok
}

// nameOf returns the path of what a process has open, relative to the root, or why it has none.
func (d *recorded) nameOf(thread int, fd uint64) string {
	name, err := d.openName(thread, fd)
	if err != nil {
		return err.Error()
	}
	return name
}

func (d *recorded) openName(thread int, fd uint64) (string, error) {
	path, err := os.Readlink(descriptor(thread, fd))
	if err != nil {
		return "", unlessEnded(thread, err)
	}
	return filepath.Rel(d.root, path)
}

// known returns the number of the file at a path.
func (d *recorded) known(path string) (int, bool) {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil {
		return 0, false
	}
	id, ok := d.nodes[inode{stat.Dev, stat.Ino}]
	return id, ok
}

// parent returns the number of the directory of a path.
func (d *recorded) parent(c *process.Call, path string) int {
	id, ok := d.known(filepath.Dir(path))
	if _, err := os.Lstat(filepath.Dir(path)); !ok && err == nil {
		d.problem(c, "the directory of %s was made by somebody else", path)
	}
	return id
}

// path returns the path that a call names with two of its arguments, and whether it is below the root.
func (d *recorded) path(c *process.Call, directory, name int) (string, bool) {
	return d.pathAt(c, int(int32(c.Args[directory])), c.Args[name])
}

func (d *recorded) pathAt(c *process.Call, directory int, name uint64) (string, bool) {
	path, err := c.ReadText(name)
	if err != nil {
		d.problem(c, "%w", err)
		return "", false
	}
	if !filepath.IsAbs(path) {
		base := fmt.Sprintf("/proc/%d/cwd", c.Thread)
		if directory != unix.AT_FDCWD {
			base = descriptor(c.Thread, uint64(directory))
		}
		if base, err = os.Readlink(base); err != nil {
			d.problem(c, "%w", unlessEnded(c.Thread, err))
		}
		path = filepath.Join(base, path)
	}
	path = filepath.Clean(path)
	return path, strings.HasPrefix(path, d.root+"/")
}

func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return unix.EIO
}

// A process counts as ended as soon as what it has open is closed.
func TestHasEnded(t *testing.T) {
	if hasEnded(os.Getpid()) {
		t.Error("the test itself has ended")
	}
	c := exec.CommandContext(t.Context(), "true")
	in, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, in) // ends when the process closes what it has open
	if !hasEnded(c.Process.Pid) {
		t.Error("a process that has closed what it has open has not ended")
	}
	_ = c.Wait()
}
