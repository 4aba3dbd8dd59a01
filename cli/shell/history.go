package shell

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

const (
	// maxHistory is how many lines of former shells are kept, and twice as many are in the file at
	// most before a shell shortens it.
	maxHistory = 1000
	// maxHistoryFile is how many bytes at the end of the file are read. A line has at most 16 KiB.
	maxHistoryFile = 4 << 20
)

// history holds the lines that the arrow keys reach: those of former shells, from a file that only
// this user can read, and those of this one. It implements term.History.
type history struct {
	lines []string // the newest last
	file  *os.File // nil: there is none
	hint  func(string)
}

// openHistory reads the file, and makes it if it is missing. Without a file the history is that of
// this shell, and hint says why.
func openHistory(name string, hint func(string)) *history {
	h := &history{hint: hint}
	if name == "" {
		return h
	}
	if err := h.open(name); err != nil {
		h.give(err)
	}
	return h
}

// give gives the file up because of err.
func (h *history) give(err error) {
	h.close()
	h.hint(fmt.Sprintf("The history is not kept: %v", err))
}

func (h *history) close() {
	if h.file != nil {
		_ = h.file.Close() // each line has been written
	}
	h.file = nil
}

func (h *history) open(name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	h.file = f
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	return h.read()
}

// read takes the last lines of the file, and shortens it if it has become long.
func (h *history) read() error {
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
		h.keep(strings.TrimSuffix(line, "\n"))
	}
	if lines <= 2*maxHistory && size <= maxHistoryFile {
		return nil
	}
	if err := h.file.Truncate(0); err != nil {
		return err
	}
	_, err = h.file.WriteString(strings.Join(h.lines, "\n") + "\n")
	return err
}

// keep takes a line that is worth it, and reports whether it is. Passwords are not written to a file,
// and what a terminal would not simply show is not shown again.
func (h *history) keep(line string) bool {
	words := split(line)
	if len(words) == 0 || strings.TrimSpace(line) == "" || words[0] == "addauth" ||
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
	if !h.keep(line) || h.file == nil {
		return
	}
	if _, err := h.file.WriteString(line + "\n"); err != nil {
		h.give(err)
	}
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
