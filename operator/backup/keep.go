package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Schedule describes the backups that a member makes by itself.
type Schedule struct {
	Dir       string        // for the files; "": no backups
	Interval  time.Duration // default DefaultInterval
	KeptFiles int           // default DefaultKeptFiles
}

// Defaults of Schedule.
const (
	DefaultInterval  = 24 * time.Hour
	DefaultKeptFiles = 7
)

// DefaultRate is the default rate of a backup, in bytes per second: it takes little of the processor, the disk and the
// network from the clients.
const DefaultRate = 8 << 20

// RestoreRate is the rate at which a serving member reads a backup to restore, in bytes per second. An operator waits
// for it, so it is faster than DefaultRate.
const RestoreRate = 16 << 20

// MaxRate limits the rate of a backup, in MiB per second: disks and networks of today are slower.
const MaxRate = 4096

// Keeper manages the backups that a member makes by itself, in a directory. It leaves other files alone.
type Keeper struct {
	dir        string
	namePrefix string // of the member's files
	keptFiles  int
}

// NewKeeper returns a Keeper of a member's newest backups.
func NewKeeper(dir string, member uint32, keep int) *Keeper {
	return &Keeper{dir: dir, namePrefix: fmt.Sprintf("member-%d-", member), keptFiles: keep}
}

// stampedName matches the part after the prefix in the name of a backup.
var stampedName = regexp.MustCompile(`^(\d{8}T\d{6}Z)-\d+\` + Suffix + `$`)

// listFiles returns the names of the member's files, oldest first.
func (k *Keeper) listFiles() (names []string, err error) {
	entries, err := os.ReadDir(k.dir)
	for _, e := range entries {
		if rest, own := strings.CutPrefix(e.Name(), k.namePrefix); own && stampedName.MatchString(rest) &&
			e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err // os.ReadDir sorts them
}

// LastTime returns the time of the newest backup, or the zero time if there is none.
func (k *Keeper) LastTime() (time.Time, error) {
	names, err := k.listFiles()
	if err != nil || len(names) == 0 {
		return time.Time{}, err
	}
	text := stampedName.FindStringSubmatch(strings.TrimPrefix(names[len(names)-1], k.namePrefix))[1]
	return time.Parse(timeInName, text)
}

// Save makes a backup with write, reads it back, gives it its name, and then deletes the member's oldest files. It
// returns an error if there is no room for size bytes. If ctx ends, it returns early. An error leaves the files
// unchanged.
func (k *Keeper) Save(ctx context.Context, h Head, size int64, write func(io.Writer) error) (name string, err error) {
	if err := k.removeParts(); err != nil {
		return "", err
	}
	if err := k.checkFreeSpace(size); err != nil {
		return "", err
	}
	p, err := CreatePart(k.dir, strings.TrimSuffix(k.namePrefix, "-"))
	if err != nil {
		return "", err
	}
	if err := errors.Join(write(p), p.verifyWritten(ctx, h)); err != nil {
		return "", errors.Join(err, p.Abort())
	}
	name = prefixedName(k.namePrefix, h)
	if err := p.Commit(name); err != nil {
		return "", err
	}
	return name, k.deleteOldest()
}

// verifyWritten reads the file back at DefaultRate, and returns an error unless it is a backup with this head.
func (p *PartFile) verifyWritten(ctx context.Context, want Head) error {
	if _, err := p.Seek(0, io.SeekStart); err != nil {
		return err
	}
	got, _, err := Verify(io.TeeReader(p, NewPacedWriter(ctx, io.Discard, DefaultRate)))
	if err == nil && (got.Index != want.Index || got.Digest != want.Digest) {
		err = fmt.Errorf("%w: the backup that was read back differs from the written one", ErrCorrupt)
	}
	return err
}

// removeParts removes incomplete files of earlier processes of this member.
func (k *Keeper) removeParts() error {
	parts, err := os.ReadDir(k.dir)
	for _, e := range parts {
		if own := strings.TrimSuffix(k.namePrefix, "-") + "."; strings.HasPrefix(e.Name(), own) &&
			strings.HasSuffix(e.Name(), partSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(k.dir, e.Name())))
		}
	}
	return err
}

// checkFreeSpace returns an error if there is no room for size bytes.
func (k *Keeper) checkFreeSpace(size int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(k.dir, &fs); err != nil {
		return fmt.Errorf("%s: %w", k.dir, err)
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < size { // the types depend on the system
		return fmt.Errorf("%s has %d bytes left, and the backup may take %d; delete files, lower backup.keep, or set "+
			"backup.dir to a larger disk", k.dir, free, size)
	}
	return nil
}

// deleteOldest deletes all but the newest keptFiles files.
func (k *Keeper) deleteOldest() error {
	names, err := k.listFiles()
	for _, name := range names[:max(0, len(names)-k.keptFiles)] {
		err = errors.Join(err, os.Remove(filepath.Join(k.dir, name)))
	}
	return err
}
