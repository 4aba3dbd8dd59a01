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

// partSuffix ends the name of a file that is not whole yet.
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

// ErrExists says that there is a file of that name.
var ErrExists = errors.New("there is such a file already; name another one, or remove it")

// PartFile is a file that is being written. It gets its name by Commit. Until then its name ends in .part. It reaches the
// disk while it is written. If the system wrote all of it in Commit, a log on the same disk would wait for that.
type PartFile struct {
	*disk.GradualFile
	dir string
}

// CreatePart makes a file in dir that is to become a backup, or a bundle for support. name is a part of its name meanwhile. Its owner alone
// can read it, because a backup has the passwords of sessions and all data.
func CreatePart(dir, name string) (*PartFile, error) {
	f, err := os.CreateTemp(dir, name+".*"+partSuffix)
	if err != nil {
		return nil, err
	}
	return &PartFile{disk.NewGradualFile(f), dir}, nil
}

// Commit makes the file durable under a name in its directory, and replaces no other file. After an error there is no
// file, unless the directory could not be made durable.
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
