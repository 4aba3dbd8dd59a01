package disk

import (
	"log/slog"
	"os"
	"strings"
)

// warnOfLooseModes logs a warning if other users can read a member's data, which contain session passwords.
// Directories that an operator has copied may have such modes. It changes nothing.
func warnOfLooseModes(directories []*directory, logger *slog.Logger) {
	var open []string
	for _, f := range directories { // the mode of the directory protects its files
		if info, err := os.Lstat(f.dir); err == nil && info.Mode().Perm()&0o077 != 0 { // an error fails elsewhere
			open = append(open, f.dir)
		}
	}
	if len(open) > 0 {
		logger.Warn("other users may read the data of this member, passwords of sessions among them; to end that, run the "+
			"command",
			"command", "chmod -R go-rwx "+strings.Join(open, " "))
	}
}
