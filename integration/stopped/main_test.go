package stopped

import (
	"os"
	"path/filepath"
	"testing"

	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

// programServers names the servers to a process that runs the programs of these tests.
const programServers = "STOPPED_PROGRAM_SERVERS"

func TestMain(m *testing.M) {
	if servers := os.Getenv(programServers); servers != "" {
		runPrograms(servers)
		return
	}
	os.Exit(process.Main(m, &rollcall, func(dir string) (string, error) {
		return process.BuildHurried(filepath.Join("..", ".."), dir)
	}))
}
