package power

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) {
	if dir := os.Getenv(keeperDir); dir != "" && !process.IsWrapped() {
		if err := keep(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(process.Main(m, &rollcall, build))
}

func build(dir string) (string, error) {
	return process.BuildHurried(filepath.Join("..", ".."), dir)
}
