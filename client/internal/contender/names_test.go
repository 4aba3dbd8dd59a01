package contender

import (
	"strings"
	"testing"
)

// An error names five foreign nodes, and the number of the others if there are more.
func TestForeignErrorNames(t *testing.T) {
	names := strings.Split("abcdefg", "")
	for n, want := range map[int]string{1: ": a. Its", 5: ": a, b, c, d, e. Its", 6: ": a, b, c, d, e and 1 more. Its"} {
		err := &ForeignError{Parent: "/f", Names: names[:n], Layout: KazooLock}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%d names: %v", n, err)
		}
	}
}

// A text of any length is parsed, or is no name.
func TestParseEachLength(t *testing.T) {
	for _, name := range []string{"_c_" + uuid + "-lock-0000000001", "_c_" + plain + "-lock-0000000001", plain + "__lock__0000000001"} {
		known := 0
		for n := range len(name) + 1 {
			for _, layout := range []Layout{CuratorLock, KazooLock} {
				if _, ok := layout.Parse(name[:n]); ok {
					known++
				}
			}
		}
		if known != 1 {
			t.Errorf("%d beginnings of %s are names, want 1", known, name)
		}
	}
	for i := range uuid {
		if broken := uuid[:i] + "-" + uuid[i+1:]; broken != uuid {
			if _, ok := CuratorLock.Parse("_c_" + broken + "-lock-0000000001"); ok {
				t.Errorf("%s is an id", broken)
			}
		}
		if broken := uuid[:i] + "0" + uuid[i+1:]; uuid[i] == '-' {
			if _, ok := CuratorLock.Parse("_c_" + broken + "-lock-0000000001"); ok {
				t.Errorf("%s is an id", broken)
			}
		}
	}
}
