package rollcall_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// After ci/modulepath.sh, no package of the tree imports another one by its old path, and the client builds.
func TestModulePath(t *testing.T) {
	dir := t.TempDir()
	files, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(files)) {
		copyFile(t, strings.TrimSuffix(path, "\n"), dir)
	}
	const module = "example.com/team/keeper"
	inCopy := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	inCopy("ci/modulepath.sh", module)
	found := 0
	for path := range strings.Lines(inCopy("go", "list", "-deps", "-test", "./...", module+"/client/...")) {
		if strings.HasPrefix(path, "rollcall/") {
			t.Errorf("imported by its old path: %s", path)
		}
		if strings.HasPrefix(path, module+"/") {
			found++
		}
	}
	if found < 50 {
		t.Errorf("%d packages with the new path; the tree has more", found)
	}
	inCopy("go", "-C", "client", "vet", "./...")
	for _, path := range []string{"integration/clients/guide_test.go", "docs/guide/lock.md"} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, old := range []string{`"rollcall/client/examples/`, "-replace rollcall/"} {
			if strings.Contains(string(text), old) {
				t.Errorf("%s has the old path: %s", path, old)
			}
		}
	}
	if text := inCopy("grep", "-c", module+"/client/\\.\\.\\.", "ci/test.sh"); strings.TrimSpace(text) != "1" {
		t.Errorf("ci/test.sh names the client's packages by their new path %s times, want once", text)
	}
}

func copyFile(t *testing.T, path, dir string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return // deleted, and not yet committed
	}
	info, statErr := os.Stat(path)
	to := filepath.Join(dir, path)
	if err == nil && statErr == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to, text, info.Mode())
	}
	if err != nil || statErr != nil {
		t.Fatal(err, statErr)
	}
}
