package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"rollcall/integration/needs"
)

// maxExposure is what `systemd-analyze security` may give the unit: it goes from 0, which is best, to 10.
const maxExposure = 1.3

// systemd understands every line of the unit, and rates it as well protected.
func TestSystemdUnit(t *testing.T) {
	needs.Check(t, needs.Usual)
	root := t.TempDir()
	for path, from := range map[string]string{
		"/lib/systemd/system/rollcall.service": "../../deploy/systemd/rollcall.service",
		"/usr/bin/rollcall":                    "/bin/true", // that there is a program is all that is checked
		"/bin/kill":                            "/bin/true",
	} {
		copyFile(t, from, filepath.Join(root, path))
	}
	targets, err := filepath.Glob("/lib/systemd/system/*.target")
	if err != nil || len(targets) == 0 {
		t.Fatalf("no targets of systemd on this machine (%v): ci/deps.sh proof installs systemd", err)
	}
	for _, path := range targets {
		copyFile(t, path, filepath.Join(root, path))
	}
	unit := filepath.Join(root, "/lib/systemd/system/rollcall.service")
	if out, errs, err := new(stack).run(t.Context(), patience, "systemd-analyze", "verify", "--man=no", "--root="+root, unit); err != nil || out+errs != "" {
		t.Errorf("verify: %v\n%s%s", err, out, errs)
	}
	out, _, err := new(stack).run(t.Context(), patience, "systemd-analyze", "security", "--no-pager", "--offline=true", unit)
	if err != nil {
		t.Fatal(err)
	}
	rated := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
	if rated == nil {
		t.Fatalf("no rating in\n%s", out)
	}
	if level, err := strconv.ParseFloat(rated[1], 64); err != nil || level > maxExposure {
		t.Errorf("exposure %s (%v), want %v at most:\n%s", rated[1], err, maxExposure, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if filepath.Ext(to) == "" {
		mode = 0o755 // a program
	}
	if err := os.WriteFile(to, text, mode); err != nil {
		t.Fatal(err)
	}
}
