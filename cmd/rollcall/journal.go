package main

import (
	"fmt"
	"os"
	"syscall"

	"rollcall/cli"
)

// isJournal reports whether systemd's journal reads the standard error of this process: then JOURNAL_STREAM
// names its device and its inode.
func isJournal(w cli.IOStreams) bool {
	f, ok := w.Err.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && w.Getenv("JOURNAL_STREAM") == journalStream(*stat)
}

// journalStream returns what JOURNAL_STREAM is if the journal reads a file.
func journalStream(stat syscall.Stat_t) string { return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) }
