package disk

import "syscall"

// FreeSpace returns the bytes that this process can still write to the disk of the data and to the disk of the
// log. Both are 0 if the stores are not files.
func (d *Data) FreeSpace() (data, log int64, err error) {
	if len(d.directories) == 0 {
		return 0, 0, nil
	}
	if data, err = freeSpaceAt(d.directories[0].dir); err != nil {
		return 0, 0, err
	}
	log, err = freeSpaceAt(d.logDirectory().dir)
	return data, log, err
}

func freeSpaceAt(dir string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil // the types depend on the system
}
