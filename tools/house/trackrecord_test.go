package house

import (
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var recordedCommand = regexp.MustCompile("`(cd client && )?(?:ROLLCALL_SEED=\\d+ )?go test -run ([^ ]+) \\./?([\\w/]*)`")

// citedCommit is the beginning of a commit's subject, at the end of an item.
var citedCommit = regexp.MustCompile(`\. \*([^*]+)\*\n$`)

// subjects returns the subjects of all commits, or nil if this checkout does not have the whole history.
func subjects(t *testing.T) []string {
	t.Helper()
	shallow, err := exec.Command("git", "-c", "safe.directory=*", "rev-parse", "--is-shallow-repository").Output()
	if err != nil || strings.TrimSpace(string(shallow)) != "false" {
		return nil
	}
	log, err := exec.Command("git", "-c", "safe.directory=*", "log", "--format=%s").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(log), "\n")
}

// Each item of docs/track-record.md cites a commit of the history. It has a command, and every
// test that a command runs is in the directory that it names.
func TestTrackRecord(t *testing.T) {
	t.Chdir("../..")
	rows, commits := 0, subjects(t)
	for line := range strings.Lines(readFile(t, "docs/track-record.md")) {
		if !strings.HasPrefix(line, "* ") {
			continue
		}
		rows++
		if m := citedCommit.FindStringSubmatch(line); m == nil {
			t.Errorf("no commit is cited: %s", line)
		} else if commits != nil && !slices.ContainsFunc(commits, func(subject string) bool { return strings.HasPrefix(subject, m[1]) }) {
			t.Errorf("no commit has a subject that begins with %q", m[1])
		}
		commands := recordedCommand.FindAllStringSubmatch(line, -1)
		if len(commands) == 0 || len(commands) != strings.Count(line, "go test") {
			t.Errorf("%d commands are understood in the item %s", len(commands), line)
		}
		for _, m := range commands {
			dir := m[3]
			if m[1] != "" {
				dir = path.Join("client", dir)
			}
			for name := range strings.SplitSeq(strings.Trim(m[2], "'"), "|") {
				if text := testsIn(t, dir); !strings.Contains(text, "func "+name+"(") {
					t.Errorf("%s has no test %s", dir, name)
				}
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d items, want 30 or more; the pattern of items no longer finds them", rows)
	}
}
