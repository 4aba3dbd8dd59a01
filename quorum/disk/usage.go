package disk

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// UsedSpace returns the bytes that the files of the log take, and the bytes of this member's other files, without what is kept of
// the past. Both are 0 if the stores are not files. It reads the directories, which hold only a few files.
func (d *Data) UsedSpace() (data, log int64, err error) {
	for _, f := range d.directories {
		segments := filepath.Join(f.dir, logDirName)
		err := filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == KeptDirName {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() {
				return ignoreMissing(err)
			}
			info, err := d.Info()
			switch {
			case err != nil:
				return ignoreMissing(err)
			case d.Name() == logName, filepath.Dir(path) == segments:
				log += info.Size()
			default:
				data += info.Size()
			}
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return data, log, nil
}

// ignoreMissing ignores the error for a file that is removed during the walk, as old snapshots are.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
