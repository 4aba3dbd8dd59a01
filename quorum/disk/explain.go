package disk

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/hashicorp/raft-wal/types"
)

// ErrFull is wrapped by the error of a member that ended because its disk is full.
var ErrFull = errors.New("the disk is full")

// full reports whether err means that a disk, or a quota on it, has no space left.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Explain adds advice to an error that ends this member, if there is any: to free space on a full
// disk, or to get damaged data from elsewhere. others says whether the ensemble has other members.
func Explain(err error, others bool) error {
	switch {
	case err == nil, errors.Is(err, ErrFull), errors.Is(err, errExplained), errors.Is(err, ErrNewerFormat):
		return err
	case full(err):
		return fmt.Errorf("%w (%w). Free space there, at least %d MiB, and start this member again: nothing that was acknowledged is lost", ErrFull, err, (freeToStart+1<<20-1)>>20)
	case !errors.Is(err, ErrDamaged) && !errors.Is(err, types.ErrCorrupt):
		return err
	case others:
		return explained{fmt.Errorf("%w. The way out: if the other members have their data, move this member's data folder and log folder away "+
			"and start it with empty ones: it gets everything from them. If not, put a copy of the folders in their place", err)}
	}
	return explained{fmt.Errorf("%w. The way out: put a copy of the data folder and of the log folder in their place", err)}
}

// freeToStart is how much space a start needs at most before it frees any, in bytes, because it
// rewrites the log's last segment.
const freeToStart = 2 * walSegment

// errExplained is matched by errors that already contain advice.
var errExplained = errors.New("explained")

// explained is an error that contains advice.
type explained struct{ error }

func (e explained) Unwrap() error   { return e.error }
func (explained) Is(err error) bool { return err == errExplained }
