package hostile

import (
	"os"
	"testing"

	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) { os.Exit(firstTries.judge(process.Main(m, &rollcall, build))) }

func build(dir string) (string, error) { return process.Build(dir) }
