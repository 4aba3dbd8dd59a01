package rollcall_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var recordedCommand = regexp.MustCompile("`(cd client && )?(?:ROLLCALL_SEED=\\d+ )?go test -run ([^ ]+) \\./?([\\w/]*)`")

// Each row of docs/track-record.md has a command, and every test that a command runs is in the directory that it names.
func TestTrackRecord(t *testing.T) {
	rows := 0
	for line := range strings.Lines(readFile(t, "docs/track-record.md")) {
		if !strings.HasPrefix(line, "| 2") {
			continue
		}
		rows++
		commands := recordedCommand.FindAllStringSubmatch(line, -1)
		if len(commands) == 0 || len(commands) != strings.Count(line, "go test") {
			t.Errorf("%d commands are understood in the row %s", len(commands), line)
		}
		for _, m := range commands {
			dir := m[3]
			if m[1] != "" {
				dir = path.Join("client", dir)
			}
			for name := range strings.SplitSeq(strings.Trim(m[2], "'"), `\|`) {
				if text := testsIn(t, dir); !strings.Contains(text, "func "+name+"(") {
					t.Errorf("%s has no test %s", dir, name)
				}
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d rows, want 50 or more; the pattern of rows no longer finds them", rows)
	}
}
