package process

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// canceledContext returns a context that has ended.
func canceledContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A hurried binary is built with all lines changed, also the lines of files that GOFLAGS replaces. A missing line is an
// error.
func TestBuildHurried(t *testing.T) {
	dir, tools := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte("#!/bin/sh\necho \"$*\" >"+filepath.Join(dir, "arguments")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	t.Setenv("GOFLAGS", "-trimpath")
	const file = "quorum/node.go"
	path, err := filepath.Abs("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	replaced := func() map[string]string {
		overlay := map[string]map[string]string{}
		if err := json.Unmarshal([]byte(fileText(dir, "overlay.json")), &overlay); err != nil {
			t.Fatal(err)
		}
		return overlay["Replace"]
	}
	built, err := BuildHurried("../..", dir, Changed{file, "package quorum", "package  quorum"})
	if want := "build -o " + built + " -overlay " + filepath.Join(dir, "overlay.json") + " rollcall/cmd/rollcall\n"; err != nil || built != filepath.Join(dir, "rollcall") || fileText(dir, "arguments") != want {
		t.Errorf("%v, %s, and go was called with %s, want %s", err, built, fileText(dir, "arguments"), want)
	}
	for _, line := range hurriedLines {
		path, _ := filepath.Abs(filepath.Join("../..", line.File))
		if text := fileText(replaced()[path]); !strings.Contains(text, line.New) || strings.Contains(text, line.Old) {
			t.Errorf("%s has not been changed to %s", line.File, line.New)
		}
	}
	if text := fileText(replaced()[path]); !strings.Contains(text, "package  quorum") {
		t.Errorf("a second line of %s has not been changed", file)
	}

	other := filepath.Join(t.TempDir(), "node.go")
	if err := os.WriteFile(other, []byte("// other\n"+hurriedLines[0].Old), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: other, "/another": other}})
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(own, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "-trimpath -overlay="+own)
	if _, err := BuildHurried("../..", dir); err != nil {
		t.Error(err)
	}
	if all := replaced(); all["/another"] != other || fileText(all[path]) != "// other\n"+hurriedLines[0].New {
		t.Errorf("with an overlay in GOFLAGS: %v", all)
	}
	if _, err := BuildHurried("../..", dir, Changed{"go.mod", "no such line", ""}); err == nil ||
		!strings.Contains(err.Error(), `go.mod has "no such line" 0 times`) {
		t.Errorf("a line that is not there: %v", err)
	}
	t.Setenv("GOFLAGS", "-overlay=/no/such/file")
	if _, err := BuildHurried("../..", dir); err == nil {
		t.Error("an overlay that is not there is left out")
	}
}

// The log of go test gets a line for each file.
func TestAddToLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := addToLog(log, []string{"a"}); err == nil {
		t.Error("a log is made that go test has not")
	}
	if err := os.WriteFile(log, []byte("# test log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := addToLog(log, []string{"/a/b", "c"}); err != nil || fileText(log) != "# test log\nopen /a/b\nopen c\n" {
		t.Errorf("%v, %s", err, fileText(log))
	}
}
