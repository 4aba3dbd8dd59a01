package cli

import (
	"testing"

	"rollcall/operator/api"
)

// The words of a cause say what went on, and not that it took as long as stands before them: that is only the time that it
// overlaps the request.
func TestFormatSlowCause(t *testing.T) {
	for cause, want := range map[string]string{
		"paused":    "the process of member 2 did not run",
		"no leader": "member 2 had no leader that serves",
		"snapshot":  "member 2 wrote a snapshot",
		"backup":    "member 2 wrote a backup",
		"slow sync": "member 2 was in a slow sync of the log",
		"unknown":   "something else on member 2",
	} {
		if got := formatSlowCause(api.SlowCause{Cause: cause, MemberID: 2, TookUs: 1}); got != want {
			t.Errorf("%s: %q; want %q", cause, got, want)
		}
	}
}
