package kills

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/integration/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

// hurried are the constants that are others in the binary under test: members look for
// snapshots to take every 300 to 600 ms, not every 10 to 20 s, and keep so little log
// behind them that it does not reach the one before. A member that was down for a second
// is sent one. And raft-wal's segments are full after a moment.
var hurried = []struct{ file, old, new string }{
	{"quorum/node.go", "snapshotInterval = 10 * time.Second", "snapshotInterval = 300 * time.Millisecond"},
	{"quorum/trailing.go", "DefaultTrailingBytes = 64 << 20", "DefaultTrailingBytes = 4 << 10"},
	{"quorum/trailing.go", "minTrailing = 128", "minTrailing = 32"},
	{"quorum/wal.go", "walSegment = 16 << 20", "walSegment = 128 << 10"},
}

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rollcall-kills-")
	if err == nil {
		defer os.RemoveAll(dir)
		rollcall, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds the binary from the sources as they are, but for hurried.
func build(dir string) (string, error) {
	replace := map[string]string{}
	for i, h := range hurried {
		file, err := filepath.Abs(filepath.Join("..", "..", h.file))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(cmp.Or(replace[file], file))
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), h.old); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, want once", h.file, h.old, n)
		}
		replace[file] = filepath.Join(dir, fmt.Sprintf("hurried%d.go", i))
		if err := os.WriteFile(replace[file], []byte(strings.Replace(string(text), h.old, h.new, 1)), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	return process.Build(dir, "-overlay", file)
}
