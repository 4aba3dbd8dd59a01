package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"rollcall/internal/durable"
	"rollcall/quorum/disk"
)

// partSuffix ends the name of an incomplete file.
const partSuffix = ".part"

// Suffix ends the name of a backup that this package names.
const Suffix = ".backup"

// FileName returns the name of a backup, with the time and the index in its head. Names sort by time.
func FileName(h Head) string { return prefixedName("rollcall-", h) }

func prefixedName(prefix string, h Head) string {
	return fmt.Sprintf("%s%s-%d%s", prefix, h.Time.UTC().Format(timeInName), h.Index, Suffix)
}

// timeInName is the time in the name of a backup.
const timeInName = "20060102T150405Z"

// ErrExists means that a file of that name exists.
var ErrExists = errors.New("there is such a file already; name another one, or remove it")

// PartFile is a file that is being written. Commit gives it its name. Until then its name ends in .part. It is
// synced while it is written, because a log on the same disk would wait for a long sync in Commit.
type PartFile struct {
	*disk.GradualFile
	dir string
}

// CreatePart creates a file in dir for a backup or a support bundle. Its temporary name contains name. Only its owner
// can read it, because a backup has all data and the passwords of sessions.
func CreatePart(dir, name string) (*PartFile, error) {
	f, err := os.CreateTemp(dir, name+".*"+partSuffix)
	if err != nil {
		return nil, err
	}
	return &PartFile{disk.NewGradualFile(f), dir}, nil
}

// Commit makes the file durable under a name in its directory. It never replaces a file. After an error the file does
// not exist, unless only the sync of the directory failed.
func (p *PartFile) Commit(name string) error {
	path := filepath.Join(p.dir, name)
	err := errors.Join(p.Sync(), p.Close())
	if err == nil {
		err = os.Link(p.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s: %w", path, ErrExists)
	}
	if err := errors.Join(err, os.Remove(p.Name())); err != nil {
		return err
	}
	return durable.SyncDirectory(p.dir)
}

// Abort removes the file.
func (p *PartFile) Abort() error { return errors.Join(p.Close(), os.Remove(p.Name())) }
