package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// ErrFull is wrapped by the error of a member that ended because its disk is full.
var ErrFull = errors.New("the disk is full")

// isDiskFull reports whether err means that a disk, or a quota on it, has no space left.
func isDiskFull(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}, func(reason syscall.Errno) bool {
		return errors.Is(err, reason) || failedToGrow(err, reason)
	})
}

// failedToGrow reports whether err is bbolt's error for a file that could not grow because of reason. bbolt does
// not wrap the reason.
func failedToGrow(err error, reason syscall.Errno) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.HasSuffix(text, reason.Error()) &&
		(strings.Contains(text, "file resize error: ") || strings.Contains(text, "file sync error: "))
}

// ErrUnusable is matched by errors for a data or log directory that this user may not create, read or write, or
// that is not a directory. Errors for other files never match it.
var ErrUnusable = errors.New("the directory is unusable")

// unusableError makes an error match ErrUnusable and keeps its text.
type unusableError struct{ error }

func (u unusableError) Unwrap() error   { return u.error }
func (unusableError) Is(err error) bool { return err == ErrUnusable }

// asUnusable makes err match ErrUnusable if its cause is the directory and not its contents. A file that is
// missing from the data is damage, and does not match.
func asUnusable(err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) || errors.Is(err, ErrDamaged) {
		return err
	}
	if !slices.Contains([]error{syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.EROFS, syscall.ENOENT}, path.Err) {
		return err
	}
	return unusableError{err}
}

// WithAdvice adds advice to an error that ends this member: to free space on a full disk, or to replace damaged data.
// The result matches ErrUnusable if the cause is the directory itself. others reports whether the ensemble has
// other members.
func WithAdvice(err error, others bool) error {
	switch {
	case err == nil, errors.Is(err, ErrFull), errors.Is(err, errExplained), errors.Is(err, ErrNewerFormat):
		return err
	case isDiskFull(err):
		return fmt.Errorf("%w (%w). Free space there, at least %d MiB, and start this member again: nothing that was "+
			"acknowledged is lost", ErrFull, err, (minFreeToStart+1<<20-1)>>20)
	case !errors.Is(err, ErrDamaged):
		return asUnusable(err)
	case others:
		return explainedError{fmt.Errorf("%w. The way out: if the other members have their data, move this member's data "+
			"directory and log directory away "+
			"and start it with empty ones: it gets everything from them. If not, put a copy of the directories in their place",
			err)}
	}
	return explainedError{fmt.Errorf("%w. The way out: put a copy of the data directory and of the log directory in "+
		"their place", err)}
}

// minFreeToStart is the space, in bytes, with which a start never lacks any: it may need one segment of the log for itself,
// and one for the first entries.
const minFreeToStart = 2 * maxSegmentBytes

// errExplained is matched by errors that already contain advice.
var errExplained = errors.New("explained")

type explainedError struct{ error }

func (e explainedError) Unwrap() error   { return e.error }
func (explainedError) Is(err error) bool { return err == errExplained }
