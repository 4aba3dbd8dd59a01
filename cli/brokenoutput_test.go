package cli

import (
	"errors"
	"strings"
	"testing"
)

// fullDisk is an output that takes nothing.
type fullDisk struct{}

var errFullDisk = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFullDisk }

// A command whose output cannot be written fails with that error, in each format, so that a script does not take an empty file for
// an answer.
func TestOutputCannotBeWritten(t *testing.T) {
	f := newFakeMember(t)
	token := tokenFile(t)
	for _, g := range goldenLines {
		for _, format := range outputFormats {
			line := strings.Fields(strings.ReplaceAll(g.line, "TOKEN", token))
			w, _, _ := testWorld("ROLLCALL_ADMIN=" + f.URL)
			w.Out = fullDisk{}
			if _, err := Execute(t.Context(), NewRoot(w, "1"), append(line, "-o", format)); !errors.Is(err, errFullDisk) {
				t.Errorf("%s -o %s: %v", g.line, format, err)
			}
		}
	}
}
