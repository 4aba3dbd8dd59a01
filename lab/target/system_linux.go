package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// startOf returns when a process started, as text that no other process with its number has, or "" if there is none. A
// process that has ended and was not waited for counts as none.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	// The name of the program, in parentheses, may have any characters. State is field 3, and the start is field 22.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state, start = 0, 19 // the third field is the first one after the name
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has no start", pid)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", nil
	}
	return strings.TrimSpace(string(boot)) + " " + fields[start], nil
}

// The requests of ioctl that the kernel has for file systems, on amd64 and arm64. Package unix does not have them.
const (
	fifreeze      = 0xc0045877
	fithaw        = 0xc0045878
	ext4Shutdown  = 0x8004587d
	shutdownNoLog = 2 // no flush of the journal: what was not synced is lost
)

// freezeWrites makes all writes to a mounted file system wait.
func freezeWrites(path string) error {
	if err := checkOwnDisk(path); err != nil {
		return err
	}
	return controlFileSystem(path, "freeze", fifreeze)
}

// thawWrites ends freeze. A file system that is not frozen, or not mounted, is right.
func thawWrites(path string) error {
	err := controlFileSystem(path, "thaw", fithaw)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP) {
		return nil
	}
	return err
}

// shutdownDisk makes all reads and writes of an ext4 file system fail, until it is mounted again.
func shutdownDisk(path string) error {
	if err := checkOwnDisk(path); err != nil {
		return err
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // a directory
	if err := unix.IoctlSetPointerInt(int(d.Fd()), ext4Shutdown, shutdownNoLog); err != nil {
		return fmt.Errorf("shut down the file system %s: %w", path, err)
	}
	return nil
}

// checkOwnDisk returns an error unless a file system is mounted at path. Otherwise the machine's own one would be
// broken.
func checkOwnDisk(path string) error {
	var here, above unix.Stat_t
	if err := errors.Join(unix.Lstat(path, &here), unix.Lstat(filepath.Dir(path), &above)); err != nil {
		return err
	}
	if here.Dev == above.Dev {
		return fmt.Errorf("no file system is mounted at %s, so it is not broken", path)
	}
	return nil
}

func controlFileSystem(path, what string, request uint) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // a directory
	if err := unix.IoctlSetInt(int(d.Fd()), request, 0); err != nil {
		return fmt.Errorf("%s the file system %s: %w", what, path, err)
	}
	return nil
}

// unmountLazily unmounts a file system, also if files of it are open. If it is not mounted, there is nothing to do.
func unmountLazily(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("unmount %s: %w", path, err)
}

// fillDisk allocates all space of a file system for the new file path, without writing it.
func fillDisk(path string) error {
	if err := checkOwnDisk(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	size := int64(0)
	for part := int64(diskBytes); part >= 1<<9 && err == nil; { // the last blocks too
		err = unix.Fallocate(int(f.Fd()), 0, size, part)
		switch {
		case err == nil:
			size += part
		case errors.Is(err, syscall.ENOSPC):
			part, err = part/2, nil
		case errors.Is(err, syscall.EINTR):
			err = nil
		}
	}
	return errors.Join(err, f.Close())
}
