package trials

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// image is the content of a directory, by path relative to it.
type image map[string]file

// file is one file. Zeros at its end are not kept: a segment of the log has many.
type file struct {
	data []byte
	size int
}

// fileOf returns the file with this content.
func fileOf(b []byte) file { return file{bytes.TrimRight(b, "\x00"), len(b)} }

// bytes returns the file's content.
func (f file) bytes() []byte { return append(bytes.Clone(f.data), make([]byte, f.size-len(f.data))...) }

// take reads a directory.
func take(t *testing.T, dir string) image {
	t.Helper()
	i := image{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		i[name] = fileOf(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// put makes dir hold exactly what the image holds.
func (i image) put(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, f := range i {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, f.data, 0o600)
		}
		if err == nil {
			err = os.Truncate(path, int64(f.size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// names returns the paths of all files, in order.
func (i image) names() []string { return slices.Sorted(maps.Keys(i)) }
