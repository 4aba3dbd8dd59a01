package starved

import (
	"os"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) {
	needs.Main(needs.Nightly)
	os.Exit(process.Main(m, &rollcall, build))
}

func build(dir string) (string, error) { return process.Build(dir) }
