package process

import (
	"os"
	"strings"
	"testing"
)

// A member joins if its log says so and does not say later that it has caught up. quorum writes those lines.
func TestJoins(t *testing.T) {
	for log, want := range map[string]bool{
		"": false, joinsLine: true, joinsLine + joinedLine: false, joinsLine + joinedLine + joinsLine: true,
	} {
		if Joins(log) != want {
			t.Errorf("%q: joins: %t", log, !want)
		}
	}
	for file, line := range map[string]string{"run.go": joinsLine, "start.go": joinedLine} {
		text, err := os.ReadFile("../../quorum/" + file)
		if err != nil || !strings.Contains(string(text), `"`+line+`"`) {
			t.Errorf("%s does not write %q: %v", file, line, err)
		}
	}
}
