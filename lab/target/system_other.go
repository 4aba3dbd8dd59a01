//go:build !linux

package target

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

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

var errLinux = errors.New("only Linux can do this")

func freezeWrites(string) error  { return errLinux }
func thawWrites(string) error    { return errLinux }
func shutdownDisk(string) error  { return errLinux }
func unmountLazily(string) error { return errLinux }
func fillDisk(string) error      { return errLinux }
