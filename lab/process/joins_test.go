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
	text, err := os.ReadFile("../../quorum/bootstrap.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{joinsLine, joinedLine} {
		if !strings.Contains(string(text), `"`+line+`"`) {
			t.Errorf("bootstrap.go does not write %q", line)
		}
	}
}
