package disk

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// warnOfReaders logs a warning if other users of the machine may read a member's data, which
// hold the passwords of sessions. Files made by earlier versions are like that, and so is what an
// operator has copied or opened up. It changes nothing.
func warnOfReaders(folders []*folder, logger *slog.Logger) {
	for _, f := range folders {
		if open := f.readable(); len(open) > 0 {
			logger.Warn("other users may read the data of this member, passwords of sessions among them; to end that, run the command",
				"command", "chmod -R go-rwx "+strings.Join(open, " "))
		}
	}
}

// readable returns which of a member's files and folders others may read or enter. What lies in a
// folder that they cannot enter is safe. In a folder that is shared with the operator's files only
// the member's are looked at.
func (f *folder) readable() (open []string) {
	if loose, err := isLoose(f.dir); err != nil || !loose {
		return nil // what cannot be looked at will fail elsewhere
	}
	if f.own {
		return []string{f.dir}
	}
	for _, name := range []string{identityName, logName, walName, snapshotsDir} {
		path := filepath.Join(f.dir, name)
		if loose, err := isLoose(path); err == nil && loose {
			open = append(open, path)
		}
	}
	return open
}

func isLoose(path string) (bool, error) {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Perm()&0o077 != 0, err
}
