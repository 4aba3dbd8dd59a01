package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rollcall-clients-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	rollcall = filepath.Join(dir, "rollcall")
	build := exec.Command("go", "build", "-o", rollcall, "rollcall/cmd/rollcall")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build of rollcall:", err)
		return 1
	}
	return m.Run()
}
