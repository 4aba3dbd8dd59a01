package drill

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// Two chroots have different names, also if the clock says the same for both.
func TestChrootNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := All()[0]
		if first, second := chrootName(d, 1), chrootName(d, 1); first == second || !strings.HasPrefix(first, d.Name+"-1-") {
			t.Errorf("the chroots %q and %q", first, second)
		}
	})
}

// wallClock matches what takes a time apart from the monotonic clock, or makes one without it.
var wallClock = regexp.MustCompile(`\.(Unix|UnixMilli|UnixMicro|UnixNano|UTC|Local|Round\(0)\(?\)|time\.(Unix|UnixMilli|Parse|Date)\(`)

// No decision of a drill depends on the wall clock of this machine, which may be set while it runs, or on a member's
// wall clock. So each use of a wall clock is listed here, with the reason for which it is safe.
func TestWallClockDecidesNothing(t *testing.T) {
	shown := map[string]string{
		"../target/journal.go":  "when a fault was made is shown to people; entries are healed by their order",
		"../report/junit.go":    "the time of a drill is shown",
		"../witness/witness.go": "the log's time of an end is shown; ends are found by their numbers",
	}
	files, _ := filepath.Glob("../../cmd/rollcall/drill*.go") // the pattern is right
	for _, room := range []string{".", "../chroot", "../judge", "../load", "../report", "../result", "../target", "../witness"} {
		found, _ := filepath.Glob(filepath.Join(room, "*.go"))
		if len(found) == 0 {
			t.Errorf("%s has no code", room)
		}
		files = append(files, found...)
	}
	var seen []string
	for _, path := range files {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := wallClock.FindString(string(text)); found != "" {
			seen = append(seen, path)
			if shown[path] == "" {
				t.Errorf("%s has %s: measure with time.Since and timers, or list here why it is safe", path, found)
			}
		}
	}
	for path := range shown {
		if !slices.Contains(seen, path) {
			t.Errorf("%s does not use the wall clock any more: remove it from this list", path)
		}
	}
}
