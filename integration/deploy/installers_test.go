package deploy

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// releaseWithInstallers returns a directory with tar files of all systems, whose binary prints its name, and with what
// installers.sh makes of them.
func releaseWithInstallers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var sums strings.Builder
	for _, target := range []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"} {
		name := "rollcall-0.1.0-" + target
		writeScript(t, filepath.Join(dir, name, "rollcall"), "echo this is "+name)
		archive := filepath.Join(dir, name+".tar.gz")
		if out, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-czf", archive, name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		fmt.Fprintf(&sums, "%x  %s.tar.gz\n", sha256.Sum256([]byte(text(t, archive))), name)
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "../../deploy/packages/installers.sh", "file://"+dir)
	cmd.Env = append(os.Environ(), "OUT="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func writeScript(t *testing.T, path, command string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+command+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// install runs install.sh with a curl that copies files, and returns its output and the path of what it installs.
func install(t *testing.T, dir string) (out, binary string, err error) {
	t.Helper()
	programs, prefix := t.TempDir(), t.TempDir()
	writeScript(t, filepath.Join(programs, "curl"), `cp "${4#file://}" "$3"`)
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "install.sh"))
	cmd.Env = append(os.Environ(), "PREFIX="+prefix, "PATH="+programs+":"+os.Getenv("PATH"))
	printed, err := cmd.CombinedOutput()
	return string(printed), filepath.Join(prefix, "bin", "rollcall"), err
}

// The script installs the binary of this system, and nothing if the tar file is another one than that of the release.
func TestInstallScript(t *testing.T) {
	dir := releaseWithInstallers(t)
	out, binary, err := install(t, dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	name := "rollcall-0.1.0-" + runtime.GOOS + "-" + runtime.GOARCH
	if said, err := exec.CommandContext(t.Context(), binary).Output(); err != nil || string(said) != "this is "+name+"\n" {
		t.Errorf("%q, %v", said, err)
	}
	other := text(t, filepath.Join(dir, name+".tar.gz")) + "more"
	if err := os.WriteFile(filepath.Join(dir, name+".tar.gz"), []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	out, binary, err = install(t, dir)
	if _, missing := os.Stat(binary); err == nil || missing == nil || !strings.Contains(out, "nothing was installed") {
		t.Errorf("a tar file that was changed: %v\n%s", err, out)
	}
}

// The formula names the tar file of each of Homebrew's systems with its checksum.
func TestFormula(t *testing.T) {
	dir := releaseWithInstallers(t)
	formula := text(t, filepath.Join(dir, "rollcall.rb"))
	for line := range strings.Lines(text(t, filepath.Join(dir, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if want := fmt.Sprintf("url \"file://%s/%s\"\n      sha256 \"%s\"\n", dir, name, sum); !strings.Contains(formula, want) {
			t.Errorf("the formula has no\n%s\n%s", want, formula)
		}
	}
	if n := strings.Count(formula, " do\n") + 2; strings.Count(formula, "end\n") != n { // class and def end, too
		t.Errorf("the formula has blocks without an end:\n%s", formula)
	}
}
