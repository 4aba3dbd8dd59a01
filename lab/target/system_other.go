//go:build !linux

package target

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes are those of a member's process, and of a command that breaks or repairs. It has a group of its own,
// so that a Ctrl-C at the terminal ends the drill alone, which heals. If the drill is killed, the member keeps running
// until Heal.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startOf returns when a process started, or "" if there is none.
func startOf(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ps: %w", err)
	}
	state, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") {
		return "", nil
	}
	return strings.TrimSpace(start), nil
}

// awaitStopped returns nil: this system stops a process at once, or has no way to observe it.
func awaitStopped(int) error { return nil }

var errLinux = errors.New("only Linux can do this")

func freezeWrites(string) error  { return errLinux }
func thawWrites(string) error    { return errLinux }
func shutdownDisk(string) error  { return errLinux }
func unmountLazily(string) error { return errLinux }
func fillDisk(string) error      { return errLinux }
