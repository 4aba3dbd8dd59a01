// Package durable makes the names of files and directories durable. An fsync of a file keeps its bytes; its
// name is kept by an fsync of its directory, and so is the name of that directory.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// SyncDirectory makes the names in dir durable.
func SyncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeDirectory makes dir and missing directories above it with the given mode, and makes their names
// durable. If dir exists, it does nothing.
func MakeDirectory(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := MakeDirectory(filepath.Dir(dir), mode); err != nil {
			return err
		}
		err = os.Mkdir(dir, mode)
	}
	if errors.Is(err, fs.ErrExist) {
		if info, serr := os.Stat(dir); serr != nil || info.IsDir() {
			return serr
		}
		return err
	}
	if err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(dir))
}
