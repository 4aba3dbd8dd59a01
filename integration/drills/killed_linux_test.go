package drills

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// A drill is killed while a hook runs. The hook ends with it, so that it breaks nothing after heal.
func TestDrillIsKilledInHook(t *testing.T) {
	needs.Check(t, needs.Usual)
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	text := "hooks: {stop: 'echo $$ >$BEGUN; while :; do sleep 1; done', cont: 'true'}\nmembers:\n"
	for i := range 3 {
		text += fmt.Sprintf("- {name: '%d', clients: '127.0.0.1:%d', vars: {BEGUN: %s}}\n", i+1, i+1, begun)
	}
	hooks := filepath.Join(dir, "hooks.yaml")
	if err := os.WriteFile(hooks, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(dir, "state")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childState+"="+journal, childBinary+"="+rollcall, childHooks+"="+hooks)
	drill := process.Start(t, "drill", cmd, func() string { return "" })
	pid := ""
	if err := process.Until(t.Context(), "the hook runs", func() bool {
		text, _ := os.ReadFile(begun)
		pid = strings.TrimSpace(string(text))
		return pid != ""
	}); err != nil {
		t.Fatal(err)
	}
	drill.Kill()
	if err := process.Until(t.Context(), "the hook has ended", func() bool {
		now := state(pid)
		return now == "" || strings.HasPrefix(now, "Z")
	}); err != nil {
		t.Error(err)
	}
	heal(t, journal)
}
