package process

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Main builds the binary under test in a directory that it removes at the end. It puts the path of the
// binary into binary, and runs the tests of a package. It returns the exit status. A process that
// was started as Calls.Binary runs no tests, but the binary of the Calls.
func Main(m *testing.M, binary *string, build func(dir string) (string, error)) int {
	if socket := os.Getenv(callsSocket); socket != "" {
		fmt.Fprintln(os.Stderr, runWithCalls(socket))
		return 1
	}
	dir, err := os.MkdirTemp("", "rollcall-binary-")
	if err == nil {
		defer os.RemoveAll(dir)
		*binary, err = build(dir)
	}
	if err == nil {
		defer noteSources()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// noteSources makes go test's cache depend on the files that the binary is built from, which are not files of the
// tests' own package. go test reads the opened files of a test from a log, and noteSources appends these to it. If it
// cannot, it removes the log, and nothing is cached.
func noteSources() {
	log := flag.Lookup("test.testlogfile")
	if log == nil || log.Value.String() == "" {
		return // this result is not for the cache
	}
	files, err := sourceFiles()
	if err == nil {
		err = addToLog(log.Value.String(), files)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "not cached: %v\n", err)
		_ = os.Remove(log.Value.String())
	}
}

// sourceFiles returns the files of this tree that the binary is built from, and the directories that they are in.
func sourceFiles() ([]string, error) {
	list := exec.Command("go", "list", "-deps", "-f", `{{if .Module}}{{if or .Module.Main .Module.Replace}}{{.Dir}}{{range .GoFiles}}
{{$.Dir}}/{{.}}{{end}}{{range .EmbedFiles}}
{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`, "rollcall/cmd/rollcall")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", list, err)
	}
	root, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return nil, err
	}
	mod := strings.TrimSpace(string(root))
	return append(strings.Fields(string(out)), mod, strings.TrimSuffix(mod, "mod")+"sum"), nil
}

// addToLog adds files to a log of go test, as it notes an open itself.
func addToLog(path string, files []string) error {
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, file := range files {
		fmt.Fprintf(log, "open %s\n", file)
	}
	return log.Close()
}

// Build builds the binary under test into dir and returns its path. flags are for go build.
func Build(dir string, flags ...string) (string, error) {
	binary := filepath.Join(dir, "rollcall")
	args := append([]string{"build", "-o", binary}, flags...)
	build := exec.Command("go", append(args, "rollcall/cmd/rollcall")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build of rollcall: %w", err)
	}
	return binary, nil
}
