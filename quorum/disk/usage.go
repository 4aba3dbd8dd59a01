package disk

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Usage returns how many bytes the files of the log take, and all others of this member;
// 0 if the stores are not files. It reads the folders, which hold a few files.
func (d *Data) Usage() (data, log int64, err error) {
	for _, f := range d.folders {
		segments := filepath.Join(f.dir, walName)
		err := filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return gone(err)
			}
			info, err := d.Info()
			switch {
			case err != nil:
				return gone(err)
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

// gone passes over a file that is removed while others are looked at, as old snapshots are.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
