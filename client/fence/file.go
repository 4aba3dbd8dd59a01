//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rollcall/client"
)

// File is a Fence for a file on a local file system. The greatest token is in a file beside it, with the suffix .fence,
// and so outlives processes and crashes of the machine. Processes exclude each other by flock on that file. File is
// available on Unix systems. It is safe for concurrent use.
type File struct {
	Path string // of the file that is written; its directory must exist
}

// The suffixes of the file with the token, and of the new content of the file until it is complete.
const (
	fenceSuffix = ".fence"
	newSuffix   = ".new"
)

// lockPause is the time between two tries to lock the file with the token: a write to a local disk takes about as long.
const lockPause = 5 * time.Millisecond

// ErrDamaged means that the file with the greatest token cannot be read.
var ErrDamaged = errors.New(
	"the file with the greatest token is damaged: remove it when no earlier holder can run any more")

// Do calls act if no greater token has been seen, and returns its error. It implements Fence. The token is on the disk
// before act is called. act runs under an exclusive lock, which its process loses when it ends.
func (f File) Do(ctx context.Context, token client.Token, act func() error) error {
	if err := check(token, 0); err != nil {
		return err
	}
	tokens, err := os.OpenFile(f.Path+fenceSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	defer func() { _ = tokens.Close() }() // releases the lock
	if err := lockFile(ctx, tokens); err != nil {
		return fmt.Errorf("fence: lock %s: %w", tokens.Name(), err)
	}
	greatest, err := readToken(tokens)
	if err != nil {
		return fmt.Errorf("fence: %s: %w", tokens.Name(), err)
	}
	if err := check(token, greatest); err != nil {
		return err
	}
	if token > greatest {
		if err := f.storeToken(tokens, token); err != nil {
			return fmt.Errorf("fence: %w", err)
		}
	}
	return act()
}

// Write replaces the content of the file, within Do. A crash leaves either the old or the new content. perm is the mode
// of a new file, before the umask.
func (f File) Write(ctx context.Context, token client.Token, data []byte, perm fs.FileMode) error {
	return f.Do(ctx, token, func() error {
		if err := f.replace(data, perm); err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		return nil
	})
}

func (f File) replace(data []byte, perm fs.FileMode) error {
	if err := os.Remove(f.Path + newSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a crash
		return err
	}
	fresh, err := os.OpenFile(f.Path+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm) // follows no link
	if err != nil {
		return err
	}
	_, err = fresh.Write(data)
	if err = errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh.Name(), f.Path); err != nil {
		return err
	}
	return f.syncDirectory()
}

// lockFile locks a file exclusively, until it is closed. It tries until ctx ends.
func lockFile(ctx context.Context, file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// recordLength is the length of the content of the file with the token: 20 digits, and the checksum of them in
// hexadecimal. It is always the same, and a disk writes so few bytes entirely or not at all.
const recordLength = 30

// readToken returns the token in a file, or 0 if the file is empty.
func readToken(file *os.File) (client.Token, error) {
	record := make([]byte, recordLength+1)
	n, err := file.ReadAt(record, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return 0, err
	case n == 0:
		return 0, nil // a new file, or a crash before the first token was stored
	}
	digits, _, _ := strings.Cut(string(record[:n]), " ")
	token, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || string(record[:n]) != formatRecord(token) {
		return 0, ErrDamaged
	}
	return client.Token(token), nil
}

func formatRecord(token int64) string {
	digits := fmt.Sprintf("%020d", token)
	return fmt.Sprintf("%s %08x\n", digits, crc32.ChecksumIEEE([]byte(digits)))
}

// storeToken writes the token, and returns when it is on the disk.
func (f File) storeToken(file *os.File, token client.Token) error {
	_, err := file.WriteAt([]byte(formatRecord(int64(token))), 0)
	if err = errors.Join(err, file.Sync()); err != nil {
		return err
	}
	return f.syncDirectory()
}

// syncDirectory makes the names of new files durable.
func (f File) syncDirectory() error {
	directory, err := os.Open(filepath.Dir(f.Path))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
