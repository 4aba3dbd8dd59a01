package cli

import (
	"strings"
	"testing"
)

// What follows the verb are its words, flags included. The exit status is the shell's, and nothing more
// is printed.
func TestShellCommand(t *testing.T) {
	for _, tt := range []struct {
		line   string
		status Status
		errs   string // the beginning of what is printed
		err    string
	}{
		{"shell --hosts 127.0.0.1:1 ls -R /", Failed, "KeeperErrorCode = ConnectionLoss for /\nno server can be reached: ", ""},
		{"shell -hosts 127.0.0.1:1 -- ls -R /", Failed, "KeeperErrorCode = ConnectionLoss for /\nno server can be reached: ", ""},
		{"shell --hosts 127.0.0.1:1 nonsense --hosts", 127, "rollcall shell --hosts", ""},
		{"shell --hosts 127.0.0.1:1 help", OK, "rollcall shell --hosts", ""},
		{"shell --hosts 127.0.0.1:x help", UsageError, "", "shell: hosts: \"127.0.0.1:x\": \"127.0.0.1:x\": a port is a number from 1 to 65535"},
		{"shell --timeout -1s help", UsageError, "", "shell: timeout -1s must be 1ms to 24h0m0s"},
		{"shell --auth x help", UsageError, "", "--auth: must be scheme:identity, such as digest:user:password"},
		{"shell --jaas /nowhere help", UsageError, "", "--jaas /nowhere: no such file or directory; it must name a file that this user may read"},
	} {
		w, _, errs := testWorld()
		_, err := Execute(t.Context(), NewRoot(w, "1"), strings.Fields(tt.line))
		if StatusOf(err) != tt.status || !strings.HasPrefix(errs.String(), tt.errs) || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %v, status %d, printed %q", tt.line, err, StatusOf(err), errs)
		}
	}
}
