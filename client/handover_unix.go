//go:build unix

package client

import (
	"os"
	"syscall"
)

// ownFile reports whether a file belongs to the user of this process.
func ownFile(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
