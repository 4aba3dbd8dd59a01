package cli

import (
	"net"
	"strings"
	"testing"
)

// A command that needs a member fails with a status of its own if it reaches none, and with another one if the addresses are wrong. It
// prints nothing that looks like an answer.
func TestNoMemberAnswers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	token := tokenFile(t)
	lines := []string{
		"drain", "snapshot", "members drain 2", "members lead 2", "members rebalance", "members add 4=d:2888:3888;2181", "members remove 2", "session kill --yes 0x1",
		"watches /a", "who-owns /a", "log-level", "log-level debug",
	}
	for _, g := range goldenLines {
		if !strings.HasPrefix(g.line, "backup") {
			lines = append(lines, g.line)
		}
	}
	for address, want := range map[string]Status{nobody: Unavailable, "ftp://127.0.0.1": UsageError, nobody + ",https://[": UsageError} {
		for _, line := range lines {
			w, out, _ := testWorld("ROLLCALL_ADMIN="+address, "ROLLCALL_TOKEN_FILE="+token)
			_, err := Execute(t.Context(), NewRoot(w, "1"), strings.Fields(strings.ReplaceAll(line, "TOKEN", token)))
			if StatusOf(err) != want || out.Len() > 0 {
				t.Errorf("%s of %s: status %d, %v, printed %q; want status %d", line, address, StatusOf(err), err, out, want)
			}
		}
	}
}
