package formats

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// pack writes the regular files in some directories below dir to a tar.gz, in the order of their names. Files of a log have
// their whole size from the start, so most of their bytes are zeros.
func pack(t *testing.T, dir, to string, names ...string) {
	t.Helper()
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, _ := gzip.NewWriterLevel(file, gzip.BestCompression)
	archive := tar.NewWriter(compressed)
	for _, name := range names {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			return addFile(archive, dir, path)
		}))
	}
	if err := errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
}

func addFile(archive *tar.Writer, dir, path string) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: int64(info.Mode().Perm()), Size: int64(len(b))}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(b)
	return err
}

// unpack writes the files of a tar.gz to a directory.
func unpack(t *testing.T, path, dir string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(header.Name) {
			t.Fatalf("%s: %v", path, err)
		}
		b, err := io.ReadAll(archive)
		to := filepath.Join(dir, filepath.FromSlash(header.Name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, fs.FileMode(header.Mode)))
		if err != nil {
			t.Fatal(err)
		}
	}
}
