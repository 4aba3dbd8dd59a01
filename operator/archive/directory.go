package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"rollcall/internal/durable"
)

// partSuffix ends the names of files that are being written.
const partSuffix = ".part"

// Directory is a Store in a directory, such as one of a network file system, which must have hard links.
//
// A file is written under a name that ends in .part, synced, linked to its own name, which fails if that is taken, and the directory is
// synced. So after a crash an object is whole or not there. Files that end in .part are none of the archive.
type Directory struct {
	dir   string
	files fileSystem
}

// fileSystem is what a Directory needs of a file system.
type fileSystem interface {
	// CheckDirectory returns an error if a directory is not there.
	CheckDirectory(path string) error
	// MakeDirectory makes a directory and those above it, durably.
	MakeDirectory(path string) error
	// WriteNew writes a file that is new, syncs it, and returns its name, which begins with prefix.
	WriteNew(prefix string, content []byte) (name string, err error)
	// Link gives a file a second name. The error wraps fs.ErrExist if that is taken.
	Link(from, to string) error
	Remove(path string) error
	// SyncDirectory makes the names in a directory durable.
	SyncDirectory(path string) error
	Open(path string) (io.ReadCloser, error)
	ReadDirectory(path string) ([]fs.DirEntry, error)
}

// NewDirectory returns a Store in a directory. Whoever mounts it may do that later: while the directory does not exist, the methods return
// an error, and nothing is made in its place.
func NewDirectory(dir string) *Directory { return &Directory{dir: dir, files: operatingSystem{}} }

func (d *Directory) checkExists() error {
	switch err := d.files.CheckDirectory(d.dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("archive: the directory %s does not exist; make it, or mount what has it", d.dir)
	case err != nil:
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

func (d *Directory) filePath(name string) string {
	return filepath.Join(d.dir, filepath.FromSlash(name))
}

// Location implements Store.
func (d *Directory) Location(name string) string { return d.filePath(name) }

// Put implements Store.
func (d *Directory) Put(ctx context.Context, name string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.checkExists(); err != nil {
		return err
	}
	path := d.filePath(name)
	dir := filepath.Dir(path)
	if err := d.files.MakeDirectory(dir); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	part, err := d.files.WriteNew(path, content)
	if err == nil {
		err = d.files.Link(part, path)
	}
	if part != "" {
		err = errors.Join(err, d.files.Remove(part))
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s: %w", path, ErrExists)
	case err != nil:
		return fmt.Errorf("archive: %w", err)
	}
	if err := d.files.SyncDirectory(dir); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// Open implements Store.
func (d *Directory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if err := d.checkExists(); err != nil {
		return nil, err
	}
	f, err := d.files.Open(d.filePath(name))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return f, nil
}

// List implements Store.
func (d *Directory) List(ctx context.Context, dir, after string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := d.checkExists(); err != nil {
			yield(Item{}, err)
			return
		}
		entries, err := d.files.ReadDirectory(d.filePath(dir)) // sorted
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Item{}, fmt.Errorf("archive: %w", err))
			return
		}
		for _, e := range entries {
			item := Item{Name: dir + e.Name()}
			if item.Name <= after || strings.HasSuffix(item.Name, partSuffix) {
				continue
			}
			if e.IsDir() {
				item.Name += "/"
			} else if info, err := e.Info(); err == nil {
				item.Bytes = info.Size()
			} else if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err := ctx.Err(); !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// operatingSystem is the fileSystem of this process.
type operatingSystem struct{}

func (operatingSystem) CheckDirectory(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	return err
}

func (operatingSystem) MakeDirectory(path string) error { return durable.MakeDirectory(path, 0o700) }

func (operatingSystem) WriteNew(prefix string, content []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(prefix), filepath.Base(prefix)+".*"+partSuffix) // only its owner can read it
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return f.Name(), errors.Join(err, f.Close())
}

func (operatingSystem) Link(from, to string) error      { return os.Link(from, to) }
func (operatingSystem) Remove(path string) error        { return os.Remove(path) }
func (operatingSystem) SyncDirectory(path string) error { return durable.SyncDirectory(path) }

// Open opens a file. To open a pipe would wait for its other end, so whatever is no file is an error.
func (operatingSystem) Open(path string) (io.ReadCloser, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errNoFile}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

var errNoFile = errors.New("it is no regular file")

func (operatingSystem) ReadDirectory(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
