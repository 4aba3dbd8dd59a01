package clients

import (
	"fmt"
	"os"
	"testing"

	"rollcall/integration/process"
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
	if rollcall, err = process.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
