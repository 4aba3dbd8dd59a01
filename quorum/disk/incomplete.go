package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"rollcall/internal/durable"
)

// incompleteName is the file that Seed creates first in the data directory, and removes there last, both durably.
// A data directory with this mark is rejected, whatever else it contains. Without the mark the directory is
// complete, or Seed has not marked. In the log's directory the mark only allows Seed to clear the directory.
const incompleteName = "incomplete"

// maxIncompleteMark limits the mark, in bytes. A longer command is left out.
const maxIncompleteMark = 16 << 10

// defaultSeedCommand is advised if a mark names no command.
const defaultSeedCommand = "rollcall backup restore or rollcall import"

// markIncomplete creates the mark in the directory. It counts as soon as it has its name, so it is not written
// beside and renamed: a full disk may only have space for an empty file. After an error the mark may exist.
func (f *directory) markIncomplete(command string) error {
	text := incompleteMarkText(command)
	file, err := os.OpenFile(filepath.Join(f.dir, incompleteName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Sync(), file.Close())
	}
	if err == nil {
		err = durable.SyncDirectory(f.dir)
	}
	if err != nil {
		return fmt.Errorf("quorum: mark data directory: %w", err)
	}
	return nil
}

// incompleteMarkText returns the contents of a mark: a line with the seed command, and a line with its checksum.
func incompleteMarkText(command string) string {
	line := strings.ReplaceAll(command, "\n", " ")
	if text := line + "\n" + metaChecksumLine([]byte(line)); command != "" && len(text) <= maxIncompleteMark {
		return text
	}
	return ""
}

// removeIncompleteMark removes the mark, if there is one, durably: also if an earlier process removed it.
func (f *directory) removeIncompleteMark() error {
	err := os.Remove(filepath.Join(f.dir, incompleteName))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = durable.SyncDirectory(f.dir)
	}
	if err != nil {
		return fmt.Errorf("quorum: mark data directory: %w", err)
	}
	return nil
}

// isIncomplete reports whether a member's own directory has the mark.
func isIncomplete(memberDir string) (bool, error) {
	exists, err := pathExists(filepath.Join(memberDir, incompleteName))
	if err != nil {
		return false, fmt.Errorf("quorum: read data directory: %w", err)
	}
	return exists, nil
}

// incompleteCommand returns the command that a mark names, or "" if the mark is not whole.
func incompleteCommand(memberDir string) string {
	data, err := readUnlessLonger(filepath.Join(memberDir, incompleteName), maxIncompleteMark)
	line, _, _ := strings.Cut(string(data), "\n")
	if err != nil || line == "" || incompleteMarkText(line) != string(data) {
		return ""
	}
	return line
}

// checkComplete returns ErrIncomplete if a member's own directory has the mark.
func checkComplete(memberDir string) error {
	incomplete, err := isIncomplete(memberDir)
	if err != nil || !incomplete {
		return err
	}
	return explainedError{fmt.Errorf("quorum: data directory %s %w: it has the file %s, so what it holds is not used. "+
		"The way out: run the command that fills it again: %s. "+
		"To give up, and start without the data, remove this directory (and the one in dataLogDir)", memberDir, ErrIncomplete,
		incompleteName, cmp.Or(incompleteCommand(memberDir), defaultSeedCommand))}
}

// explainSeedError adds advice to an error of Seed. marked reports whether the data directory has the mark.
func explainSeedError(err error, marked bool, command string) error {
	command = cmp.Or(command, defaultSeedCommand)
	before, space := "Nothing was written: the data directories are as they were, and a member that starts there "+
		"begins without data. ", ""
	if marked {
		before = "No member starts there until the data directories are filled. "
	}
	switch {
	case err == nil, errors.Is(err, errExplained):
		return err
	case isDiskFull(err):
		err, space = fmt.Errorf("%w (%w)", ErrFull, err), "free space there, and "
	case !marked:
		return asUnusable(err)
	}
	return explainedError{fmt.Errorf("%w. %sThe way out: %srun the command again: %s", err, before, space, command)}
}
