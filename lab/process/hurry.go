package process

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Changed is a line of a file, whose path begins at the root of the repository, that a binary is built with another text of.
type Changed struct{ File, Old, New string }

// hurriedLines lists the constants that a hurried binary changes. Its members check every 300 to 600 ms
// whether to take a snapshot, instead of every 10 to 20 s. They keep so little log before a
// snapshot that it does not reach back to the previous one, so a member that was down for a second
// is sent a snapshot. Segments of the log fill up quickly, and are removed in
// several pieces.
var hurriedLines = []Changed{
	{"quorum/node.go", "snapshotInterval = 10 * time.Second", "snapshotInterval = 300 * time.Millisecond"},
	{"quorum/snapshottuner.go", "DefaultTrailingBytes = 64 << 20", "DefaultTrailingBytes = 4 << 10"},
	{"quorum/snapshottuner.go", "minTrailing = 128", "minTrailing = 32"},
	{"quorum/disk/segment.go", "maxSegmentBytes   = 16 << 20", "maxSegmentBytes   = 128 << 10"},
	{"quorum/disk/remover.go", "removePiece = 1 << 20", "removePiece = 32 << 10"},
}

// BuildHurried does what Build does, with constants that make snapshots frequent and the log before
// them short, and with more lines changed. root is the path of the repository.
//
// If GOFLAGS has an overlay, such as that of a mutant, what it replaces is built, too.
func BuildHurried(root, dir string, more ...Changed) (string, error) {
	replace, err := overlaidFiles()
	if err != nil {
		return "", err
	}
	for i, h := range slices.Concat(hurriedLines, more) {
		file, err := filepath.Abs(filepath.Join(root, h.File))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(cmp.Or(replace[file], file))
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), h.Old); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, want once", h.File, h.Old, n)
		}
		replace[file] = filepath.Join(dir, fmt.Sprintf("hurried%d.go", i))
		if err := os.WriteFile(replace[file], []byte(strings.Replace(string(text), h.Old, h.New, 1)), 0o600); err != nil {
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

// overlaidFiles returns the files that GOFLAGS replaces.
func overlaidFiles() (map[string]string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for flag := range strings.FieldsSeq(os.Getenv("GOFLAGS")) {
		file, ok := strings.CutPrefix(flag, "-overlay=")
		if !ok {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &overlay); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return overlay.Replace, nil
}
