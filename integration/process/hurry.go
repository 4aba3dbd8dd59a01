package process

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hurried are the constants that are others in a hurried binary: members look for
// snapshots to take every 300 to 600 ms, not every 10 to 20 s, and keep so little log
// behind them that it does not reach the one before. A member that was down for a second
// is sent one. And raft-wal's segments are full after a moment.
var hurried = []struct{ file, old, new string }{
	{"quorum/node.go", "snapshotInterval = 10 * time.Second", "snapshotInterval = 300 * time.Millisecond"},
	{"quorum/trailing.go", "DefaultTrailingBytes = 64 << 20", "DefaultTrailingBytes = 4 << 10"},
	{"quorum/trailing.go", "minTrailing = 128", "minTrailing = 32"},
	{"quorum/disk/wal.go", "walSegment = 16 << 20", "walSegment = 128 << 10"},
}

// BuildHurried is Build of the sources as they are, but for constants that make snapshots many
// and the log behind them short. root is the path of the repository.
func BuildHurried(root, dir string) (string, error) {
	replace := map[string]string{}
	for i, h := range hurried {
		file, err := filepath.Abs(filepath.Join(root, h.file))
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
	return Build(dir, "-overlay", file)
}
