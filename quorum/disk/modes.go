package disk

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// warnOfLooseModes logs a warning if other users of the machine may read a member's data, which
// contain passwords of sessions. Files made by earlier versions have such modes, and so may files
// that an operator has copied. It changes nothing.
func warnOfLooseModes(folders []*folder, logger *slog.Logger) {
	for _, f := range folders {
		if open := f.readable(); len(open) > 0 {
			logger.Warn("other users may read the data of this member, passwords of sessions among them; to end that, run the command",
				"command", "chmod -R go-rwx "+strings.Join(open, " "))
		}
	}
}

// readable returns the member's files and folders that other users may read or enter. Files in a
// folder that they cannot enter are safe. In a folder shared with the operator's files it checks
// only the member's.
func (f *folder) readable() (open []string) {
	if loose, err := isLoose(f.dir); err != nil || !loose {
		return nil // if it cannot be checked, opening it will fail elsewhere
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
