package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Directory names a server's dataDir and dataLogDir, or the directories version-2 in them.
type Directory struct {
	Data string // snapshots, and the epochs
	Logs string // transaction logs; "": in Data
}

func (f Directory) String() string {
	if f.Logs == "" || f.Logs == f.Data {
		return f.Data
	}
	return f.Data + " and " + f.Logs
}

// versionDirName is the directory in which all releases keep their files.
const versionDirName = "version-2"

// dirFiles are the files of a directory.
type dirFiles struct {
	snapshots     []dataFile // the newest first
	logs          []dataFile // the oldest first
	currentEpoch  int64      // the epoch that the server joined last; 0: none
	acceptedEpoch int64      // the highest epoch that it promised to join
	notes         []string
}

// dataFile is a snapshot or a log. Its name has the zxid of the last transaction that is surely in the
// snapshot, or of the first one in the log.
type dataFile struct {
	path string
	zxid int64
}

// logsAfter returns the logs that may have transactions after zxid: the last one that begins at or before zxid, and all
// later ones.
func (fs *dirFiles) logsAfter(zxid int64) []dataFile {
	first := 0
	for i, log := range fs.logs {
		if log.zxid <= zxid {
			first = i
		}
	}
	return fs.logs[first:]
}

// listFiles finds the files of a directory.
func (f Directory) listFiles() (*dirFiles, error) {
	data, err := versionDirectory(f.Data)
	if err != nil {
		return nil, err
	}
	found := &dirFiles{}
	if err := found.appendFiles(data, "snapshot", &found.snapshots); err != nil {
		return nil, err
	}
	logs := data
	if f.Logs != "" {
		if logs, err = versionDirectory(f.Logs); err != nil {
			return nil, err
		}
	}
	if err := found.appendFiles(logs, "log", &found.logs); err != nil {
		return nil, err
	}
	if len(found.snapshots)+len(found.logs) == 0 {
		return nil, fmt.Errorf("%s has no snapshot and no log: name the dataDir of a ZooKeeper, and its dataLogDir if it "+
			"has one", f)
	}
	slices.Reverse(found.snapshots)
	if found.currentEpoch, err = readEpoch(filepath.Join(data, "currentEpoch")); err != nil {
		return nil, err
	}
	if found.acceptedEpoch, err = readEpoch(filepath.Join(data, "acceptedEpoch")); err != nil {
		return nil, err
	}
	return found, nil
}

// versionDirectory returns dir, or the directory version-2 in it.
func versionDirectory(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is no directory: name the dataDir of a ZooKeeper", dir)
	}
	sub := filepath.Join(dir, versionDirName)
	switch info, err = os.Stat(sub); {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is no directory: name the dataDir of a ZooKeeper", sub)
	}
	return sub, nil
}

// appendFiles appends the files of dir whose names are kind, a dot and a zxid, by zxid.
func (fs *dirFiles) appendFiles(dir, kind string, to *[]dataFile) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), kind+".")
		if !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		digits, extension, _ := strings.Cut(rest, ".")
		zxid, err := strconv.ParseInt(digits, 16, 64)
		known := extension == "" || kind == "snapshot" && (extension == "gz" || extension == "snappy" || extension == "tmp")
		if err != nil || zxid < 0 || !known || !mayBeRegular(path) {
			fs.notes = append(fs.notes, path+": this is not the name of one of ZooKeeper's files; the file is not read")
			continue
		}
		*to = append(*to, dataFile{path, zxid})
	}
	slices.SortFunc(*to, func(a, b dataFile) int {
		return cmp.Or(cmp.Compare(a.zxid, b.zxid), -cmp.Compare(a.path, b.path))
	})
	return nil
}

// mayBeRegular reports whether path is a file, or a broken link, whose error comes from opening it. It follows
// links, as ZooKeeper does.
func mayBeRegular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// maxEpochFileBytes is above the length of any epoch file.
const maxEpochFileBytes = 64

// readEpoch reads a file with an epoch. It returns 0 if there is no file: standalone servers have none.
func readEpoch(path string) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxEpochFileBytes))
	if err != nil {
		return 0, err
	}
	epoch, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || epoch < 0 || epoch > maxEpoch {
		return 0, &Damage{
			File: path, Problem: fmt.Sprintf("%.40q is no epoch; it must be 0 to %d", text, int64(maxEpoch)),
			Remedy: "write the upper half of the newest zxid into it as a decimal number, or " + useOtherMember,
		}
	}
	return epoch, nil
}

// maxEpoch is the highest epoch: zxids have 31 bits for it.
const maxEpoch = 1<<31 - 1
