package main

import (
	"fmt"
	"os"
	"syscall"

	"rollcall/cli"
)

// stderrIsJournal reports whether standard error goes to systemd's journal, whose device and inode JOURNAL_STREAM
// has.
func stderrIsJournal(w cli.IOStreams) bool {
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

func journalStream(stat syscall.Stat_t) string { return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) }
