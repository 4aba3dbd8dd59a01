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

// Schedule says when a member makes backups by itself, and how many it keeps.
type Schedule struct {
	Dir       string        // where they go; "": there are none
	Interval  time.Duration // default DefaultEvery
	KeptFiles int           // how many files are kept; default DefaultKeep
}

// Defaults of Schedule.
const (
	DefaultInterval  = 24 * time.Hour
	DefaultKeptFiles = 7
)

// DefaultRate is how fast a backup is made unless somebody asks for another rate, in bytes in a second: it takes
// little of the processor, the disk and the network from the clients.
const DefaultRate = 8 << 20

// RestoreRate is how fast a member that serves takes in a backup to restore, in bytes in a second. Somebody waits for
// that, so it is faster than DefaultRate.
const RestoreRate = 16 << 20

// MaxRate is the highest rate that may be asked for, in MiB in a second: no disk and no network of today is faster.
const MaxRate = 4096

// Keeper keeps the backups that a member makes by itself in a directory. Other files stay as they are.
type Keeper struct {
	dir        string
	namePrefix string // of the member's files
	keptFiles  int
}

// NewKeeper returns the keeper of a member's backups, of which it keeps the newest.
func NewKeeper(dir string, member uint32, keep int) *Keeper {
	return &Keeper{dir: dir, namePrefix: fmt.Sprintf("member-%d-", member), keptFiles: keep}
}

// stampedName matches what follows the prefix in the name of a backup.
var stampedName = regexp.MustCompile(`^(\d{8}T\d{6}Z)-\d+\` + Suffix + `$`)

// listFiles returns the names of the member's files, oldest first.
func (k *Keeper) listFiles() (names []string, err error) {
	entries, err := os.ReadDir(k.dir)
	for _, e := range entries {
		if rest, own := strings.CutPrefix(e.Name(), k.namePrefix); own && stampedName.MatchString(rest) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err // os.ReadDir sorts them
}

// LastTime returns when the newest backup was made, or the zero time if there is none.
func (k *Keeper) LastTime() (time.Time, error) {
	names, err := k.listFiles()
	if err != nil || len(names) == 0 {
		return time.Time{}, err
	}
	text := stampedName.FindStringSubmatch(strings.TrimPrefix(names[len(names)-1], k.namePrefix))[1]
	return time.Parse(timeInName, text)
}

// Save makes a backup: write writes it. Save reads it back, gives it its name, and then deletes the member's oldest
// files beyond those that are kept. It checks first whether there is room for size bytes. If ctx ends, it returns
// early. After an error the files are as they were.
func (k *Keeper) Save(ctx context.Context, h Head, size int64, write func(io.Writer) error) (name string, err error) {
	if err := k.removeParts(); err != nil {
		return "", err
	}
	if err := k.checkRoom(size); err != nil {
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

// verifyWritten reads a part back at DefaultRate, and returns an error unless it is a backup with this head.
func (p *PartFile) verifyWritten(ctx context.Context, want Head) error {
	if _, err := p.Seek(0, io.SeekStart); err != nil {
		return err
	}
	got, _, err := Verify(io.TeeReader(p, NewPacedWriter(ctx, io.Discard, DefaultRate)))
	if err == nil && (got.Index != want.Index || got.Digest != want.Digest) {
		err = fmt.Errorf("%w: another one was read back than was written", ErrCorrupt)
	}
	return err
}

// removeParts removes parts that a process of this member has left when it was killed.
func (k *Keeper) removeParts() error {
	parts, err := os.ReadDir(k.dir)
	for _, e := range parts {
		if own := strings.TrimSuffix(k.namePrefix, "-") + "."; strings.HasPrefix(e.Name(), own) && strings.HasSuffix(e.Name(), partSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(k.dir, e.Name())))
		}
	}
	return err
}

// checkRoom returns an error if there is no room for size bytes.
func (k *Keeper) checkRoom(size int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(k.dir, &fs); err != nil {
		return fmt.Errorf("%s: %w", k.dir, err)
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < size { // the types depend on the system
		return fmt.Errorf("%s has %d bytes left, and the backup may take %d; delete files, lower backup.keep, or set backup.dir to a larger disk", k.dir, free, size)
	}
	return nil
}

// deleteOldest deletes the oldest files beyond those that are kept.
func (k *Keeper) deleteOldest() error {
	names, err := k.listFiles()
	for _, name := range names[:max(0, len(names)-k.keptFiles)] {
		err = errors.Join(err, os.Remove(filepath.Join(k.dir, name)))
	}
	return err
}
