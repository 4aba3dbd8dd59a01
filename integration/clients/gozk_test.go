package clients

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
)

// gozkTests are the files of go-zookeeper/zk's own tests that are about its programming interface. The others are about
// its records, its connections and its name lookups.
var gozkTests = []string{
	"cluster_test.go", "create_mode_test.go", "lock_test.go", "server_help_test.go", "throttle_test.go", "util_test.go",
	"zk_test.go",
}

// gozkLeftOut are tests that no other client can pass, and why.
var gozkLeftOut = map[string]string{
	"TestIntegration_SetWatchers":   "it reads that library's requests",
	"TestIntegration_ExpiringWatch": "it overwrites the id of the session inside of the Conn",
	"TestParseSeq":                  "it tests how that library's lock reads names; ours is client/lock's",
	"TestIntegration_SlowServer":    "it needs a handshake that may take several times the session timeout",
}

// gozkEdits change lines of tests that use the insides of that library's Conn, need a certain server, or depend on luck.
var gozkEdits = []struct{ file, old, new string }{
	{"cluster_test.go", "zk.sessionTimeoutMs", "zk.timeout"},
	{"zk_test.go", "\n\t\"sync/atomic\"", ""}, // the test that uses it is left out
	// A session that exists before the test waits for it was not seen: the events wait for the watcher.
	{"cluster_test.go", "NewStateLogger(evCh)", "NewStateLogger(afterwards)"},
	{
		"cluster_test.go", "hasSessionEvent1 := sl.NewWatcher(sessionStateMatcher(StateHasSession)).Wait(",
		"hasSession1 := sl.NewWatcher(sessionStateMatcher(StateHasSession))\n\tgo passOn(afterwards, evCh)\n\thasSessionEvent1 := hasSession1.Wait(",
	},
	{"cluster_test.go", "zk, evCh, err :=", "afterwards := make(chan Event)\n\tzk, evCh, err :="},
	// Ports of 127.0.0.1 that were free a moment ago may be in use.
	{"server_help_test.go", "127.0.0.1", gozkHost},
	{"zk_test.go", `Host:               "127.0.0.1"`, `Host: "` + gozkHost + `"`},
}

// gozkHost is a loopback address that no other test uses.
const gozkHost = "127.90.0.1"

const gozkPatience = 5 * time.Minute

// go-zookeeper/zk's own tests pass on rollcall/client/zk and Rollcall: the tests and the package are built together in
// a module of their own.
func TestZooKeeperLibrarysTests(t *testing.T) {
	needs.Check(t, needs.Nightly)
	t.Parallel()
	dir, root := t.TempDir(), moduleRoot(t)
	copyGo(t, filepath.Join(root, "client", "zk"), dir, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
	library := strings.TrimSpace(output(t, root, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/go-zookeeper/zk"))
	for _, name := range gozkTests {
		writeFile(t, filepath.Join(dir, name), editedTest(t, name, readFile(t, filepath.Join(library, name))))
	}
	writeFile(t, filepath.Join(dir, "server_test.go"), readFile(t, "testdata/gozk/server.go.txt"))
	writeFile(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("module gozk\n\ngo 1.26.0\n\nrequire (\n\trollcall/client v0.0.0\n"+
		"\trollcall/zk v0.0.0\n)\n\nreplace (\n\trollcall/client => %[1]s/client\n\trollcall/zk => %[1]s/zk\n)\n", root))
	ctx, cancel := context.WithTimeout(t.Context(), gozkPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-v", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ROLLCALL_BINARY="+rollcall, "ZK_VERSION=3.8.0")
	out, err := cmd.CombinedOutput()
	passed := bytes.Count(out, []byte("\n--- PASS: "))
	if err != nil || passed < 20 || bytes.Contains(out, []byte("--- SKIP: ")) {
		t.Errorf("%d tests passed, %v; those that did not:\n%s", passed, err, failed(out))
	}
}

// failed returns the output of the tests that did not pass, or everything if none of them is named.
func failed(out []byte) []byte {
	var of []byte
	for _, test := range bytes.SplitAfter(out, []byte("\n=== RUN ")) {
		if bytes.Contains(test, []byte("\n--- FAIL: ")) || bytes.Contains(test, []byte("\npanic: ")) {
			of = append(of, test...)
		}
	}
	if of == nil {
		return out
	}
	return of
}

// editedTest leaves out tests and changes lines. Each edit must have something to change.
func editedTest(t *testing.T, name, text string) string {
	t.Helper()
	for test := range gozkLeftOut {
		before, rest, found := strings.Cut(text, "\nfunc "+test+"(")
		if !found {
			continue
		}
		_, after, _ := strings.Cut(rest, "\n}\n")
		text = before + "\n" + after
	}
	for _, edit := range gozkEdits {
		if edit.file != name {
			continue
		}
		if !strings.Contains(text, edit.old) {
			t.Fatalf("%s has no %q", name, edit.old)
		}
		text = strings.ReplaceAll(text, edit.old, edit.new)
	}
	if name == "zk_test.go" { // this one removes the first member, so it must not be connected to that
		before, after, _ := strings.Cut(text, "func TestIntegration_Reconfig(")
		text = before + "func TestIntegration_Reconfig(" + strings.Replace(after, "ts.ConnectAll()", "ts.Connect(2)", 1)
	}
	return text
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func copyGo(t *testing.T, from, to string, wanted func(name string) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", from, len(files), err)
	}
	for _, file := range files {
		if name := filepath.Base(file); wanted(name) {
			writeFile(t, filepath.Join(to, name), readFile(t, file))
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return string(out)
}
