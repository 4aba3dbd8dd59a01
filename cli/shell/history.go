package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

const (
	// maxHistory limits the lines that are kept of former shells. A shell shortens a file of more than twice
	// as many.
	maxHistory = 1000
	// maxHistoryFile limits the bytes that are read from the end of the file, and its growth while a shell
	// runs. A line has at most 16 KiB.
	maxHistoryFile = 4 << 20
)

// history holds the lines of former shells and of this one, for the arrow keys. A file that only this user can
// read keeps them. It implements term.History.
type history struct {
	lines    []string // the newest last
	file     *os.File // or nil
	showHint func(string)
}

// openHistory reads the file, and creates it if it is missing. If that fails, the history is this shell's
// alone, and hint gets the reason.
func openHistory(name string, hint func(string)) *history {
	h := &history{showHint: hint}
	if name == "" {
		return h
	}
	if err := h.openFile(name); err != nil {
		h.disableFile(err)
	}
	return h
}

// disableFile closes the file and shows err as the reason.
func (h *history) disableFile(err error) {
	h.close()
	h.showHint(fmt.Sprintf("The history is not kept: %v", err))
}

func (h *history) close() {
	if h.file != nil {
		_ = h.file.Close() // each line has been written
	}
	h.file = nil
}

func (h *history) openFile(name string) error {
	// O_NOFOLLOW protects other files of the user, and O_NONBLOCK avoids waiting for a pipe.
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("%s is a symbolic link, which is not followed; make it a file, or remove it", name)
	}
	if err != nil {
		return err
	}
	h.file = f
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a regular file", name), err)
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	return h.readFile()
}

// readFile reads the last lines of the file, and shortens it if it has become long.
func (h *history) readFile() error {
	size, err := h.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	text := make([]byte, min(size, maxHistoryFile))
	if _, err := h.file.ReadAt(text, size-int64(len(text))); err != nil && err != io.EOF {
		return err
	}
	if int64(len(text)) < size { // the first line is not whole
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		lines++
		h.rememberLine(strings.TrimSuffix(line, "\n"))
	}
	if lines <= 2*maxHistory && size <= maxHistoryFile {
		return nil
	}
	return h.shortenFile()
}

// shortenFile rewrites the file with the last lines alone, so that half of its capacity is free.
func (h *history) shortenFile() error {
	text := strings.Join(append(slices.Clone(h.lines), ""), "\n")
	if more := len(text) - maxHistoryFile/2; more > 0 { // the first line is not whole
		_, text, _ = strings.Cut(text[more:], "\n")
	}
	if err := h.file.Truncate(0); err != nil {
		return err
	}
	_, err := h.file.WriteString(text)
	return err
}

// rememberLine keeps a line, and reports whether it did. It leaves out passwords, repetitions and characters
// that are not printable.
func (h *history) rememberLine(line string) bool {
	words := splitLine(line)
	if len(words) == 0 || strings.TrimSpace(line) == "" || mayHoldPassword(words) ||
		strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return false
	}
	if len(h.lines) == maxHistory {
		h.lines = h.lines[1:]
	}
	h.lines = append(h.lines, line)
	return true
}

// Add implements term.History.
func (h *history) Add(line string) {
	if !h.rememberLine(line) || h.file == nil {
		return
	}
	if err := h.appendToFile(line + "\n"); err != nil {
		h.disableFile(err)
	}
}

// appendToFile appends text to the file. If the file would become too long, it is shortened instead: the text
// is among the lines already.
func (h *history) appendToFile(text string) error {
	info, err := h.file.Stat()
	if err != nil {
		return err
	}
	if info.Size()+int64(len(text)) > maxHistoryFile {
		return h.shortenFile()
	}
	_, err = h.file.WriteString(text)
	return err
}

// A word within maxTypos edits of addauth counts as addauth. With three edits addWatch would.
const maxTypos = 2

// mayHoldPassword reports whether a line may contain a password: of addauth, or of a misspelt addauth.
func mayHoldPassword(words []string) bool {
	for i, word := range words {
		word = strings.ToLower(word)
		switch {
		case word == "digest", i == 0 && strings.Contains(word, "auth"):
			return true
		case !strings.HasPrefix(word, "/") && editDistance(word, "addauth") <= maxTypos:
			return true
		}
	}
	return false
}

// editDistance returns the Levenshtein distance of word and meant. For a word longer than meant by more than
// maxTypos it returns maxTypos+1.
func editDistance(word, meant string) int {
	runes := []rune(word)
	if len(runes) > len(meant)+maxTypos {
		return maxTypos + 1
	}
	row := make([]int, len(meant)+1) // the distance for each prefix of meant
	for j := range row {
		row[j] = j
	}
	for i, r := range runes {
		before := row[0]
		row[0] = i + 1
		for j, m := range meant {
			replaced := before
			if r != m {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(meant)]
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
