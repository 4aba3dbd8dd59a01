package kills

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// Three healthy members that prove themselves to each other start, stop and start again without a warning or
// an error. Nor do they log one if the leader is drained before they stop. The tick and the time until an election are
// long, but a machine that is busy for longer is still taken for a dead one, so CI leaves this to make nightly.
func TestHealthyLogs(t *testing.T) {
	needs.Check(t, needs.Nightly)
	dir := t.TempDir()
	token, secret := filepath.Join(dir, "token"), filepath.Join(dir, "secret")
	for file, text := range map[string]string{token: "abcdefghijklmnop\n", secret: strings.Repeat("s", 32) + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := process.AnyHTTP + "admin.tokenFile=" + token + "\nensembleSecretFile=" + secret + "\nfailover=4000\n"
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: 4 * time.Second, Lines: lines})
	serves(t, e, 1)
	drain(t, e, token)
	e.StopAll()
	for _, m := range e.Members {
		e.Start(m)
	}
	serves(t, e, 2)
	e.StopAll()
	for _, m := range e.Members {
		for line := range strings.Lines(logged(t, m)) {
			if !strings.Contains(line, " level=INFO ") {
				t.Errorf("member %d logged: %s", m.ID, line)
			}
		}
	}
}

// drain drains the leader, and waits until the others serve under another one.
func drain(t *testing.T, e *process.Ensemble, token string) {
	t.Helper()
	old := e.Settle()
	addr, err := old.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(rollcall, "drain", "-admin", addr, "-token-file", token, "-over", "1ms").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "drained, 0 connections closed") {
		t.Fatalf("drain: %v, %s", err, out)
	}
	if answer := old.FourLetterWord("ruok"); answer != "" {
		t.Errorf("a drained member takes a connection and answers %q", answer)
	}
	for _, m := range e.Members {
		if m == old {
			continue
		}
		if err := process.Until(t.Context(), fmt.Sprintf("member %d serves", m.ID), func() bool { return m.Mode() != "" }); err != nil {
			t.Fatal(err)
		}
	}
}

// serves waits until each member has logged n times that it serves clients.
func serves(t *testing.T, e *process.Ensemble, n int) {
	t.Helper()
	for _, m := range e.Members {
		err := process.Until(t.Context(), fmt.Sprintf("member %d serves", m.ID), func() bool {
			return strings.Count(logged(t, m), `msg="clients are served"`) == n
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func logged(t *testing.T, m *process.Member) string {
	t.Helper()
	text, err := os.ReadFile(m.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
