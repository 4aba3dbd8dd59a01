package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"rollcall/internal/secretfile"
)

// upFiles writes the files of rollcall up. Another user may have prepared the directory with links to this
// user's files. So upFiles follows no links, and the directory must be writable by this user alone.
type upFiles struct {
	*os.Root
	dir string // without links
}

// openUpFiles opens the directory, and makes it if it is missing.
func openUpFiles(dir string) (*upFiles, error) {
	dir, err := secretfile.MakeTrustedDirectory(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	u := &upFiles{root, dir}
	if err := u.checkOwned("."); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return u, nil
}

// checkOwned returns an error unless name is a directory or a regular file of this user.
func (u *upFiles) checkOwned(name string) error {
	info, err := u.Lstat(name)
	switch {
	case err != nil:
		return err
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%s in %s is neither a file nor a directory (mode %v); remove it, or use another directory", name,
			u.dir, info.Mode())
	case secretfile.OwnerOf(info) != os.Geteuid():
		return fmt.Errorf("%s in %s belongs to the user %d; use a directory of your own", name, u.dir,
			secretfile.OwnerOf(info))
	}
	return nil
}

// makeDirectory makes a directory durably, unless it exists.
func (u *upFiles) makeDirectory(name string) error {
	err := u.Mkdir(name, 0o700)
	if err == nil {
		err = u.syncDirectory(filepath.Dir(name))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := u.checkOwned(name); err != nil {
		return err
	}
	return u.Chmod(name, 0o700)
}

// writeIfMissing writes a file, unless it exists.
func (u *upFiles) writeIfMissing(name, text string) error {
	switch err := u.checkOwned(name); {
	case err == nil:
		return u.Chmod(name, 0o600)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return u.replaceFile(name, text)
}

// syncDirectory makes the names in a directory durable.
func (u *upFiles) syncDirectory(directory string) error {
	d, err := u.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// replaceFile writes a new file durably and renames it to name. It replaces a file or link of that name.
func (u *upFiles) replaceFile(name, text string) error {
	next := name + "." + rand.Text()
	f, err := u.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = u.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, u.Remove(next))
	}
	return u.syncDirectory(filepath.Dir(name))
}
