package kills

import (
	"os"
	"path/filepath"
	"testing"

	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) { os.Exit(process.Main(m, &rollcall, build)) }

func build(dir string) (string, error) {
	return process.BuildHurried(filepath.Join("..", ".."), dir)
}
