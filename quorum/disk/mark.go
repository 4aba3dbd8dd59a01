package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// markName is the file that Plant makes first in the data directory, and removes there last; both are durable. A data directory that has it, whatever
// it contains, is refused. Without it the directory is complete, or Plant has not begun. In the log's directory the file only allows Plant to clear it.
const markName = "incomplete"

// maxMark limits the mark, in bytes: the longest command that it names. A longer command is left out.
const maxMark = 16 << 10

// anyCommand stands for the command that fills a data directory if its mark does not name it.
const anyCommand = "rollcall backup restore or rollcall import"

// mark makes the mark in the directory. The file counts as soon as it has its name, so it is not written beside and renamed: on a full disk
// an empty file may be all that there is room for. After an error the mark may exist.
func (f *directory) mark(command string) error {
	text := markText(command)
	file, err := os.OpenFile(filepath.Join(f.dir, markName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
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

// markText returns the contents of a mark: a line with the command that fills the directory, and a line with its checksum.
func markText(command string) string {
	line := strings.ReplaceAll(command, "\n", " ")
	if text := line + "\n" + metaSum([]byte(line)); command != "" && len(text) <= maxMark {
		return text
	}
	return ""
}

// unmark removes the mark, if there is one. Its end is durable then, also if an earlier process removed it.
func (f *directory) unmark() error {
	err := os.Remove(filepath.Join(f.dir, markName))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = syncDir(f.dir)
	}
	if err != nil {
		return fmt.Errorf("quorum: mark data directory: %w", err)
	}
	return nil
}

// marked reports whether a member's own directory has a mark.
func marked(own string) (bool, error) {
	there, err := exists(filepath.Join(own, markName))
	if err != nil {
		return false, fmt.Errorf("quorum: read data directory: %w", err)
	}
	return there, nil
}

// markedCommand returns the command that a mark names. If the mark is not whole, it returns "".
func markedCommand(own string) string {
	data, err := readUpTo(filepath.Join(own, markName), maxMark)
	line, _, _ := strings.Cut(string(data), "\n")
	if err != nil || line == "" || markText(line) != string(data) {
		return ""
	}
	return line
}

// checkMark returns ErrPlanting if a member's own directory has a mark.
func checkMark(own string) error {
	there, err := marked(own)
	if err != nil || !there {
		return err
	}
	return explained{fmt.Errorf("quorum: data directory %s %w: it has the file %s, so what it holds is not used. The way out: run the command that fills it again: %s. "+
		"To give up, and start without the data, remove this directory (and the one in dataLogDir)", own, ErrPlanting, markName, cmp.Or(markedCommand(own), anyCommand))}
}

// planted adds advice to an error of Plant. begun says whether the data directory has a mark.
func planted(err error, begun bool, command string) error {
	command = cmp.Or(command, anyCommand)
	before, space := "Nothing was written: the data directories are as they were, and a member that starts there begins without data. ", ""
	if begun {
		before = "No member starts there until the data directories are filled. "
	}
	switch {
	case err == nil, errors.Is(err, errExplained):
		return err
	case full(err):
		err, space = fmt.Errorf("%w (%w)", ErrFull, err), "free space there, and "
	case !begun:
		return markUnusable(err)
	}
	return explained{fmt.Errorf("%w. %sThe way out: %srun the command again: %s", err, before, space, command)}
}
