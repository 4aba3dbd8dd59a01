package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

// drill runs `rollcall drill` with the hooks that the program contains for containers. Those of docker cut a member off
// inside its network namespace, which needs root; without it, those of compose cut it off. Those of compose kill the
// leader.
func (s *stack) drill(t *testing.T) {
	t.Helper()
	if err := target.CheckNamespaces(); err != nil {
		t.Logf("the cut of the docker hooks is not tested: %v", err)
		s.drillWith(t, s.composeHooks(t), "follower-cut", "cut")
	} else {
		s.drillWith(t, s.dockerHooks(t), "follower-cut", "cut")
	}
	s.drillWith(t, s.composeHooks(t), "leader-kill", "kill")
}

// exampleHooks returns hooks that the program prints.
func (s *stack) exampleHooks(t *testing.T, name string) string {
	t.Helper()
	text, _, err := s.run(t.Context(), patience, "bin/rollcall", "drill", "hooks", name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// composeHooks returns the hooks for compose.yaml, with the ports of this ensemble.
func (s *stack) composeHooks(t *testing.T) string {
	t.Helper()
	var ports []string
	for i, m := range s.members {
		ports = append(ports, fmt.Sprintf("127.0.0.1:218%d", i+1), m.addr)
	}
	return strings.NewReplacer(ports...).Replace(s.exampleHooks(t, "compose"))
}

// dockerHooks returns the hooks for containers, with the members of this ensemble.
func (s *stack) dockerHooks(t *testing.T) string {
	t.Helper()
	var addresses []string
	for i, m := range s.members {
		addresses = append(addresses, fmt.Sprintf("%d=%s", i+1, m.inspect(t).NetworkSettings.Networks[s.network("members")].IPAddress))
	}
	text := s.exampleHooks(t, "docker") + "members:\n"
	for i, m := range s.members {
		text += fmt.Sprintf("- {name: '%d', clients: '%s', vars: {CONTAINER: %s, ADDRESSES: %s}}\n",
			i+1, m.addr, m.inspect(t).ID, strings.Join(addresses, " "))
	}
	return text
}

// drillWith runs a drill with hooks. It must make one fault of a kind, exit with 0, keep all promises that are judged from
// the clients' side, and leave nothing broken.
func (s *stack) drillWith(t *testing.T, hooks, name, kind string) {
	t.Helper()
	dir := t.TempDir()
	file, findings := filepath.Join(dir, "hooks.yaml"), filepath.Join(dir, "findings.json")
	if err := os.WriteFile(file, []byte(hooks), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stdout, stderr, err := s.run(t.Context(), 2*patience, "env", "XDG_STATE_HOME="+dir, "bin/rollcall", "drill", "--hooks", file, "--yes", "--json", findings, name)
	if err != nil {
		t.Fatal(err) // with what it printed
	}
	in, err := os.Open(findings)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	run, err := report.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Drills) != 1 || run.Drills[0].Outcome != result.Pass {
		t.Fatalf("%s: found %+v, want one PASS\n%s%s", name, run.Drills, stdout, stderr)
	}
	found := run.Drills[0]
	if len(found.Faults) != 1 || found.Faults[0].Kind != kind || found.Faults[0].To <= found.Faults[0].From {
		t.Errorf("%s: the faults are %+v, want one %s that has ended", name, found.Faults, kind)
	}
	kept := 0
	for _, v := range found.Verdicts {
		if v.Outcome == result.Pass {
			kept++
		}
	}
	for _, rule := range []string{"session-ended", "session-stayed", "ephemeral-vanished", "two-holders", "lost-writes", "doubled-writes", "reads-back", "watch-lost"} {
		if i := slices.IndexFunc(found.Verdicts, func(v result.Verdict) bool { return v.Rule == rule }); i < 0 || found.Verdicts[i].Outcome != result.Pass || found.Verdicts[i].Judged == 0 {
			t.Errorf("%s: %s was not judged, or broken: %+v", name, rule, found.Verdicts)
		}
	}
	journal, err := os.ReadFile(filepath.Join(dir, "rollcall", "drills", "journal"))
	if err != nil || len(journal) > 0 {
		t.Errorf("%s left in the journal: %q, %v", name, journal, err)
	}
	s.leader(t)
	t.Logf("drill %s: %d promises were kept, in %.1f s", name, kept, time.Since(began).Seconds())
}
