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

// checkPage checks that a block of a page shows what a program has printed, apart from the numbers.
func checkPage(t *testing.T, page string, d *dialogue) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(guide, page))
	if err != nil {
		t.Fatal(err)
	}
	printed := shapeOf(strings.Split(strings.TrimSpace(d.out.text()), "\n"))
	for _, block := range regexp.MustCompile("(?ms)^```text\n(.*?)\n```$").FindAllStringSubmatch(string(text), -1) {
		if slices.Equal(shapeOf(strings.Split(block[1], "\n")), printed) {
			return
		}
	}
	t.Errorf("docs/guide/%s has no block with what %s prints:\n%s", page, d.Name, d.out.text())
}

// The leader's process is stopped for longer than its session's timeout, and then goes on. Meanwhile another process leads
// and writes. The first one notices before it writes again, and ends.
func TestGuideLeader(t *testing.T) {
	t.Parallel()
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	binary, servers := buildExample(t, "leader"), strings.Join(e.Addresses(e.Settle()), ",")
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
	t.Parallel()
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	binary, servers := buildExample(t, "mutex"), strings.Join(e.Addresses(e.Settle()), ",")
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

// The commands at the beginning of the guide make a module in which a program of the guide builds, without the network.
func TestGuideModule(t *testing.T) {
	root := moduleRoot(t)
	page := readFile(t, filepath.Join(guide, "lock.md"))
	commands := regexp.MustCompile(`(?m)^    \$ (go mod (?:init|edit|tidy).*)$`).FindAllStringSubmatch(page, -1)
	const least = 3
	if len(commands) < least {
		t.Fatalf("docs/guide/lock.md has %d commands of go mod, want at least %d", len(commands), least)
	}
	dir := filepath.Join(t.TempDir(), "app")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "main.go"), readFile(t, filepath.Join(root, "client/examples/leader/main.go")))
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOWORK", "off")
	for _, command := range commands {
		output(t, dir, strings.Fields(strings.ReplaceAll(command[1], "=../rollcall/", "="+root+"/"))...)
	}
	output(t, dir, "go", "build", "-o", filepath.Join(t.TempDir(), "app"), ".")
	fmt.Println("client scenario: go-guide-module ok")
}
