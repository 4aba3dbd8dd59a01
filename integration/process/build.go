package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main builds the binary under test in a directory that it removes at the end. It puts the path of the
// binary into binary, and runs the tests of a package. It returns the exit status. A process that
// was started as Calls.Binary runs no tests, but the binary of the Calls.
func Main(m *testing.M, binary *string, build func(dir string) (string, error)) int {
	if socket := os.Getenv(callsSocket); socket != "" {
		fmt.Fprintln(os.Stderr, runWithCalls(socket))
		return 1
	}
	dir, err := os.MkdirTemp("", "rollcall-binary-")
	if err == nil {
		defer os.RemoveAll(dir)
		*binary, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build builds the binary under test into dir and returns its path. flags are for go build.
func Build(dir string, flags ...string) (string, error) {
	binary := filepath.Join(dir, "rollcall")
	args := append([]string{"build", "-o", binary}, flags...)
	build := exec.Command("go", append(args, "rollcall/cmd/rollcall")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build of rollcall: %w", err)
	}
	return binary, nil
}
