package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ours "rollcall/client"
	"rollcall/client/fence"
	"rollcall/client/lock"
	"rollcall/integration/needs"
	"rollcall/rollcalltest"
)

// guide is the directory of the pages that show the programs of client/examples, and what they print.
const guide = "../../docs/guide"

// buildExample builds a program of client/examples.
func buildExample(t *testing.T, name string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", binary, "rollcall/client/examples/"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// runExample starts a program, which is gone at the end of the test.
func runExample(t *testing.T, binary string, args ...string) *dialogue {
	t.Helper()
	p, err := talk(filepath.Base(binary), exec.Command(binary, args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

// expectAll waits for lines with these parts, one after the other.
func (d *dialogue) expectAll(ctx context.Context, t *testing.T, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if _, err := d.expect(ctx, want); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	protection = regexp.MustCompile(`_c_[0-9a-f-]{36}`)
	number     = regexp.MustCompile(`[0-9]+`)
)

// shapeOf returns lines with 0 in the place of each number and of each protection id. Equal lines in a row become one.
func shapeOf(lines []string) []string {
	shaped := make([]string, len(lines))
	for i, line := range lines {
		shaped[i] = number.ReplaceAllString(protection.ReplaceAllString(line, "_c_0"), "0")
	}
	return slices.Compact(shaped)
}

// statesFirst moves the lines of states before the others, both in their order: a goroutine of its own prints them.
func statesFirst(lines []string) []string {
	isState := func(line string) bool { return strings.HasPrefix(line, "state: ") }
	states := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !isState(line) })
	return append(states, slices.DeleteFunc(slices.Clone(lines), isState)...)
}

// checkPage checks that a block of a page matches a program's output, apart from the numbers and from the places of
// states.
func checkPage(t *testing.T, page string, d *dialogue) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(guide, page))
	if err != nil {
		t.Fatal(err)
	}
	printed := shapeOf(statesFirst(strings.Split(strings.TrimSpace(d.out.text()), "\n")))
	for _, block := range regexp.MustCompile("(?ms)^```text\n(.*?)\n```$").FindAllStringSubmatch(string(text), -1) {
		if slices.Equal(shapeOf(statesFirst(strings.Split(block[1], "\n"))), printed) {
			return
		}
	}
	t.Errorf("docs/guide/%s has no block with what %s prints:\n%s", page, d.Name, d.out.text())
}

// The leader's process is stopped for longer than its session's timeout, and then continues. Meanwhile another process
// leads and writes. The first one notices before it writes again, and ends.
func TestGuideLeader(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	binary, servers := buildExample(t, "leader"), strings.Join(e.ClientAddresses(e.Settle()), ",")
	file := filepath.Join(t.TempDir(), "state")
	first := runExample(t, binary, servers, file)
	first.expectAll(ctx, t, "leads", "write 2")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := runExample(t, binary, servers, file)
	second.expectAll(ctx, t, "leads", "write 2")
	written := len(first.out.with("write"))
	if err := first.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := first.wantStatus(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if again := len(first.out.with("write")); again != written {
		t.Errorf("%d writes of a process that another one has replaced:\n%s", again-written, first.out.text())
	}
	leads := second.out.with("leads")[0]
	token := leads[strings.LastIndex(leads, " ")+1:]
	if text, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(text), "token "+token+"\n") {
		t.Errorf("%q, %v; want a write of the second process, whose token is %s", text, err, token)
	}
	checkPage(t, "lock.md", first)
	checkPage(t, "lock.md", second)
	fmt.Println("client scenario: go-guide-leader ok")
}

// The holder of a lock stores its result. If its process was stopped for so long that another client got the lock, the
// ensemble and the file reject what it stores.
func TestGuideLock(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	binary, servers := buildExample(t, "mutex"), strings.Join(e.ClientAddresses(e.Settle()), ",")
	file := filepath.Join(t.TempDir(), "result")
	undisturbed := runExample(t, binary, servers, file)
	undisturbed.expectAll(ctx, t, "works until")
	if err := undisturbed.say("a result"); err != nil {
		t.Fatal(err)
	}
	if err := undisturbed.wantStatus(ctx, 0); err != nil {
		t.Fatal(err)
	}
	checkPage(t, "lock.md", undisturbed)

	stopped := runExample(t, binary, servers, file)
	stopped.expectAll(ctx, t, "works until")
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	storeAsNext(ctx, t, servers, file)
	if err := stopped.say("a late result"); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := stopped.wantStatus(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "the next result" {
		t.Errorf("%q, %v; want the result of the next holder", text, err)
	}
	checkPage(t, "lock.md", stopped)
	fmt.Println("client scenario: go-guide-lock ok")
}

// storeAsNext takes the lock of the example, and stores a result in the file.
func storeAsNext(ctx context.Context, t *testing.T, servers, file string) {
	t.Helper()
	c, err := ours.Dial(ctx, servers, ours.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	right, err := lock.NewMutex(c, "/example/lock", lock.Config{}).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := (fence.File{Path: file}).Write(ctx, right.Token(), []byte("the next result"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The tour through package client goes to its end. The reply to one of its creates is lost.
func TestGuideTour(t *testing.T) {
	needs.Check(t, needs.Usual)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	server := rollcalltest.Start(t)
	server.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
		return rollcalltest.Verdict{LoseReply: r.Op == "create2" && r.Path == "/tour/once"}
	})
	tour := runExample(t, buildExample(t, "tour"), server.ConnectString())
	if err := tour.wantStatus(ctx, 0); err != nil {
		t.Fatal(err)
	}
	checkPage(t, "client.md", tour)
	fmt.Println("client scenario: go-guide-tour ok")
}

// The commands of the guide make a module in an empty directory beside a clone, and run both programs, as a reader types
// them and without the network. The members' clients connect to a server of this test.
func TestGuideModule(t *testing.T) {
	needs.Check(t, needs.Usual)
	root, server := moduleRoot(t), rollcalltest.Start(t)
	page := readFile(t, filepath.Join(guide, "lock.md"))
	commands := regexp.MustCompile(`(?m)^    \$ (.*)$`).FindAllStringSubmatch(page, -1)
	dir := t.TempDir()
	if err := os.Symlink(root, filepath.Join(dir, "rollcall")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOWORK", "off")
	ran := map[string]bool{}
	script := "set -e\n"
	for _, command := range commands {
		line := strings.ReplaceAll(command[1], "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", server.ConnectString())
		switch name, _, _ := strings.Cut(line, " 127."); {
		case strings.HasSuffix(line, " result"): // Enter ends the work
			line = "echo | " + line
			ran["mutex"] = true
		case strings.HasSuffix(line, " state"): // it leads until it is stopped
			line = "go build -o leader . && { " + strings.Replace(line, name, "./leader", 1) + " & } && until grep -s 'write 2' state; do sleep 0.1; done; kill $!"
			ran["leader"] = true
		}
		script += line + "\n"
	}
	if len(commands) < 8 || !ran["mutex"] || !ran["leader"] {
		t.Fatalf("docs/guide/lock.md has %d commands, which run %v; want 8, and both programs", len(commands), ran)
	}
	out := output(t, dir, "sh", "-c", script)
	for _, want := range []string{"holds the lock with token", "stored the result", "leads with token"} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands print no %q:\n%s", want, out)
		}
	}
	fmt.Println("client scenario: go-guide-module ok")
}

// The commands of docs/testing.md let a module of its own, in a directory beside a clone, find rollcalltest. The test has no
// network, so the sums that go mod tidy would fetch are the clone's.
func TestTestingModule(t *testing.T) {
	needs.Check(t, needs.Usual)
	const tidy = "go mod tidy"
	block := regexp.MustCompile(`(?m)^    for m in rollcall(?:.*\n    )+.*$`).FindString(readFile(t, "../../docs/testing.md"))
	if !strings.HasSuffix(block, tidy) {
		t.Fatalf("docs/testing.md has no block that makes a module: %q", block)
	}
	dir := t.TempDir()
	if err := os.Symlink(moduleRoot(t), filepath.Join(dir, "rollcall")); err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(dir, "app")
	if err := os.Mkdir(app, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(app, "worker_test.go"), []byte("package app\n\nimport _ \"rollcall/rollcalltest\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"GOPROXY": "off", "GOSUMDB": "off", "GOWORK": "off", "GOFLAGS": "-mod=mod"} {
		t.Setenv(name, value)
	}
	block = strings.TrimSuffix(block, tidy) + "cp ../rollcall/go.sum ."
	// To list the packages takes a second, and to build them a minute.
	out := output(t, app, "sh", "-ec", "go mod init example.com/app\n"+block+"\ngo list -test -deps .")
	for _, want := range []string{"example.com/app.test", "rollcall/rollcalltest", "rollcall/zk/jute"} {
		if !strings.Contains(out, "\n"+want+"\n") {
			t.Errorf("the module's test has no package %s:\n%s", want, out)
		}
	}
}
