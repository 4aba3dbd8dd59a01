package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"rollcall/config"
)

// warnMissingParent logs a warning if the parent of a data directory does not exist. A disk may not be
// mounted, and the data would go to the disk of its mount point.
func warnMissingParent(cfg config.Config, logger *slog.Logger) {
	for _, place := range [][2]string{{"dataDir", cfg.Dir}, {"dataLogDir", cfg.LogDir}} {
		above := filepath.Dir(filepath.Clean(place[1]))
		if _, err := os.Stat(above); place[1] != "" && errors.Is(err, fs.ErrNotExist) {
			logger.Warn("the directory above a data directory is missing, and is made now; if a disk belongs there, stop "+
				"this member, mount the disk, and start it again", "key", place[0], "directory", place[1], "missing", above)
		}
	}
}
