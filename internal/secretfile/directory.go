package secretfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"rollcall/internal/durable"
)

// othersWriteBits are the bits of a mode that let users besides the owner change the content of a directory.
const othersWriteBits fs.FileMode = 0o022

// OwnerOf returns the user that a file belongs to.
func OwnerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1 // not a file of this system
}

// IsTrusted reports whether a user is root, the user of this process, or one of others.
func IsTrusted(owner int, others []int) bool {
	return owner == 0 || owner == os.Geteuid() || slices.Contains(others, owner)
}

// ResolveTrustedDirectory resolves the links in the path of a directory, and checks that only root, the user of this
// process and the users others can change its content, or put another directory in its place:
//
//   - the directory and all above it belong to one of these users,
//   - no other user may write in the directory itself,
//   - no other user may write in those above it, except where the sticky bit keeps users from replacing files of others,
//     as in /tmp.
//
// A group counts as others. The caller must use the returned path, because another user may own a link in the
// original one.
func ResolveTrustedDirectory(path string, others ...int) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	for part, end := path, true; ; part, end = filepath.Dir(part), false {
		if err := checkPart(part, end, others); err != nil {
			return "", err
		}
		if part == filepath.Dir(part) {
			return path, nil
		}
	}
}

// checkPart checks one directory of a path. end marks the last one.
func checkPart(part string, end bool, others []int) error {
	info, err := os.Lstat(part)
	if err != nil {
		return err
	}
	sticky := !end && info.Mode()&fs.ModeSticky != 0
	switch owner := OwnerOf(info); {
	case !info.IsDir():
		return &fs.PathError{Op: "open", Path: part, Err: syscall.ENOTDIR}
	case !IsTrusted(owner, others):
		return fmt.Errorf("the directory %s belongs to the user %d, who could change what is in it; use a directory of "+
			"your own", part, owner)
	case info.Mode()&othersWriteBits != 0 && !sticky:
		return fmt.Errorf("other users may write in the directory %s (mode %#o); chmod go-w it, or use another directory",
			part, info.Mode().Perm())
	}
	return nil
}

// MakeTrustedDirectory durably makes a directory and missing ones above it, and returns the result of
// ResolveTrustedDirectory. It makes nothing below a directory that other users could change.
func MakeTrustedDirectory(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for there := path; ; there = filepath.Dir(there) {
		_, err := os.Lstat(there)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the root directory exists
		}
		if err != nil {
			return "", err
		}
		if there == path {
			return ResolveTrustedDirectory(path)
		}
		if err := checkUpToRoot(there); err != nil {
			return "", err
		}
		break
	}
	if err := durable.MakeDirectory(path, 0o700); err != nil {
		return "", err
	}
	return ResolveTrustedDirectory(path) // another process may have been faster
}

// checkUpToRoot checks a directory in which another one is to be made. It may be sticky, as /tmp is.
func checkUpToRoot(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if err := checkPart(path, false, nil); err != nil || path == filepath.Dir(path) {
		return err
	}
	return checkUpToRoot(filepath.Dir(path))
}
