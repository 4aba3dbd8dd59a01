package cli

import (
	"strings"
	"testing"
	"time"
)

// A command that removes a dead member does not advise to start it.
func TestRemovalOfADeadMember(t *testing.T) {
	f := newFakeEnsemble(t, oneToThree)
	f.down[3], f.stuck = true, 4
	w, _, errs := testWorld("ROLLCALL_ADMIN="+f.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
	w.membersPollInterval = time.Millisecond
	if err := runLine(t, w, "members remove 3 --force"); err != nil {
		t.Fatal(err)
	}
	if text := errs.String(); strings.Contains(text, "start it") || !strings.Contains(text, "member 3: silent (down: connection refused); it need not run") {
		t.Errorf("tells %q", text)
	}
}
