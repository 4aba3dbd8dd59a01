package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

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
