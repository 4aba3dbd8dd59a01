package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/lab/target"
)

// Heal says that nothing is broken only if that is so.
func TestHealSaysWhatIsBroken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	journal, err := target.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := journal.Add("stop of member 1", nil, func(int) []target.Step { return []target.Step{{Run: []string{"false"}}} })
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	heal := func() (string, error) {
		var out strings.Builder
		err := runCommand(t.Context(), []string{"drill", "heal", "--state=" + dir}, nil, &out, io.Discard)
		return out.String(), err
	}
	if out, err := heal(); out != "" || err == nil || !strings.Contains(err.Error(), "stop of member 1") {
		t.Errorf("heal of what cannot be repaired prints %q, %v", out, err)
	}
	if journal, err = target.OpenJournal(dir); err != nil {
		t.Fatal(err)
	}
	if err := journal.Remove(e.ID); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := heal(); out != "nothing is broken\n" || err != nil {
		t.Errorf("heal of nothing prints %q, %v", out, err)
	}
}

// The hooks that are printed are those that --hooks takes by their name. Another name is an error that lists them.
func TestHooksArePrinted(t *testing.T) {
	for _, name := range target.Examples() {
		var out strings.Builder
		want, _ := target.Example(name)
		if err := runCommand(t.Context(), []string{"drill", "hooks", name}, nil, &out, io.Discard); err != nil || out.String() != string(want) {
			t.Errorf("hooks %s: %v, and the text\n%s", name, err, out.String())
		}
	}
	err := runCommand(t.Context(), []string{"drill", "hooks", "dokcer"}, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `"dokcer"; there are chaosmesh, compose, docker`) {
		t.Errorf("unknown hooks: %v", err)
	}
}
