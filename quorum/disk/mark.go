package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// incompleteName is the file that Plant makes first in the data directory, and removes there last; both are durable. A data directory that has it, whatever
// it contains, is refused. Without it the directory is complete, or Plant has not begun. In the log's directory the file only allows Plant to clear it.
const incompleteName = "incomplete"

// maxIncompleteMark limits the mark, in bytes: the longest command that it names. A longer command is left out.
const maxIncompleteMark = 16 << 10

// defaultSeedCommand stands for the command that fills a data directory if its mark does not name it.
const defaultSeedCommand = "rollcall backup restore or rollcall import"

// markIncomplete makes the mark in the directory. The file counts as soon as it has its name, so it is not written beside and renamed: on a full disk
// an empty file may be all that there is room for. After an error the mark may exist.
func (f *directory) markIncomplete(command string) error {
	text := incompleteMarkText(command)
	file, err := os.OpenFile(filepath.Join(f.dir, incompleteName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Sync(), file.Close())
	}
	if err == nil {
		err = syncDir(f.dir)
	}
	if err != nil {
		return fmt.Errorf("quorum: mark data directory: %w", err)
	}
	return nil
}

// incompleteMarkText returns the contents of a mark: a line with the command that fills the directory, and a line with its checksum.
func incompleteMarkText(command string) string {
	line := strings.ReplaceAll(command, "\n", " ")
	if text := line + "\n" + metaChecksumLine([]byte(line)); command != "" && len(text) <= maxIncompleteMark {
		return text
	}
	return ""
}

// removeIncompleteMark removes the mark, if there is one. Its end is durable then, also if an earlier process removed it.
func (f *directory) removeIncompleteMark() error {
	err := os.Remove(filepath.Join(f.dir, incompleteName))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = syncDir(f.dir)
	}
	if err != nil {
		return fmt.Errorf("quorum: mark data directory: %w", err)
	}
	return nil
}

// isIncomplete reports whether a member's own directory has a mark.
func isIncomplete(own string) (bool, error) {
	there, err := pathExists(filepath.Join(own, incompleteName))
	if err != nil {
		return false, fmt.Errorf("quorum: read data directory: %w", err)
	}
	return there, nil
}

// incompleteCommand returns the command that a mark names. If the mark is not whole, it returns "".
func incompleteCommand(own string) string {
	data, err := readUpTo(filepath.Join(own, incompleteName), maxIncompleteMark)
	line, _, _ := strings.Cut(string(data), "\n")
	if err != nil || line == "" || incompleteMarkText(line) != string(data) {
		return ""
	}
	return line
}

// checkComplete returns ErrPlanting if a member's own directory has a mark.
func checkComplete(own string) error {
	there, err := isIncomplete(own)
	if err != nil || !there {
		return err
	}
	return explainedError{fmt.Errorf("quorum: data directory %s %w: it has the file %s, so what it holds is not used. The way out: run the command that fills it again: %s. "+
		"To give up, and start without the data, remove this directory (and the one in dataLogDir)", own, ErrIncomplete, incompleteName, cmp.Or(incompleteCommand(own), defaultSeedCommand))}
}

// explainSeedError adds advice to an error of Plant. begun says whether the data directory has a mark.
func explainSeedError(err error, begun bool, command string) error {
	command = cmp.Or(command, defaultSeedCommand)
	before, space := "Nothing was written: the data directories are as they were, and a member that starts there begins without data. ", ""
	if begun {
		before = "No member starts there until the data directories are filled. "
	}
	switch {
	case err == nil, errors.Is(err, errExplained):
		return err
	case isDiskFull(err):
		err, space = fmt.Errorf("%w (%w)", ErrFull, err), "free space there, and "
	case !begun:
		return asUnusable(err)
	}
	return explainedError{fmt.Errorf("%w. %sThe way out: %srun the command again: %s", err, before, space, command)}
}
