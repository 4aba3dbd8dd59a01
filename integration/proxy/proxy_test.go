// Package proxy tests rollcall proxy with programs in Python and Go that use real clients.
package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// rollcall and ours are the binary under test and the program of package client, built once per run.
var rollcall, ours string

func TestMain(m *testing.M) {
	os.Exit(process.Main(m, &rollcall, func(dir string) (string, error) {
		ours = filepath.Join(dir, "ours")
		if out, err := exec.Command("go", "build", "-o", ours, "./ours").CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return process.Build(dir)
	}))
}

// survey runs a program with faults at each request, and returns the exit status of the command, and the runs by their
// outcome: "after at s1 setData /counter #1".
func survey(t *testing.T, faults string, program ...string) (status int, runs map[string][]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.Command(rollcall, append([]string{"proxy", "--jobs=2", "--faults=" + faults, "--json=" + path, "--"}, program...)...)
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	var report struct {
		Runs []struct{ Request, Fault, Outcome string }
	}
	if err = errors.Join(err, json.Unmarshal(text, &report)); err != nil {
		t.Fatalf("%v; it says:\n%s", err, out)
	}
	runs = map[string][]string{}
	for _, r := range report.Runs {
		runs[r.Outcome] = append(runs[r.Outcome], r.Fault+" at "+r.Request)
	}
	return cmd.ProcessState.ExitCode(), runs
}

const python = "/usr/bin/python3" // the one that has kazoo

// kazoo's Counter adds twice if the reply to a write is lost: it retries a write whose outcome it does not know. The
// survey finds that at each write, and nothing at the same program with a counter that looks first.
func TestKazooCounter(t *testing.T) {
	needs.Check(t, needs.Usual, needs.Kazoo)
	t.Parallel()
	status, runs := survey(t, "before,after", python, "python/recipes.py", "counter")
	want := []string{"after at s1 setData /counter #1", "after at s1 setData /counter #2", "after at s1 setData /counter #3"}
	if status != 1 || !slices.Equal(runs["broke"], want) || len(runs["survived"]) < 10 || len(runs) != 2 {
		t.Errorf("exit status %d, %q", status, runs)
	}
	status, runs = survey(t, "before,after", python, "python/recipes.py", "careful-counter")
	if status != 0 || len(runs["survived"]) < 10 || len(runs) != 1 {
		t.Errorf("careful: exit status %d, %q", status, runs)
	}
}

// The recipes of package client survive each fault at each request.
func TestOwnRecipes(t *testing.T) {
	needs.Check(t, needs.Usual, needs.Kazoo)
	t.Parallel()
	for recipe, least := range map[string]int{"counter": 30, "lock": 40, "election": 40, "queue": 40} {
		status, runs := survey(t, "before,after,expire", ours, recipe)
		delete(runs, "not reached") // two sessions share their requests in another way in each run
		if status != 0 || len(runs["survived"]) < least || len(runs) != 1 {
			t.Errorf("%s: exit status %d, %d survived, %q", recipe, status, len(runs["survived"]), runs)
		}
	}
}
