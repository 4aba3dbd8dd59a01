//go:build !linux

package child

import "syscall"

// Attributes are those of a child: it has a process group of its own. If this process is killed, it keeps running.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitStopped returns nil: this system stops a process at once, or has no way to observe it.
func awaitStopped(int) error { return nil }
