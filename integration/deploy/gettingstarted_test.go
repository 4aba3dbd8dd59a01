package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// waits are functions of the shell for what a reader waits for before the next command.
const waits = `
await() { for try in $(seq 1200); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; echo "never: $*"; exit 1; }
serving() { for i in 1 2 3; do rollcall health ensemble/$i/zoo.cfg || return 1; done; }
expired() { [ "$(cat ensemble/*/log | grep -c "session expired")" -ge 2 ]; }
trap 'kill $(jobs -p) 2>/dev/null' EXIT
exec 2>&1
`

// The commands of docs/getting-started.md, in the order of the page, begin in a directory with a clone and nothing else. They
// print what the page shows, apart from numbers and roles, and leave nothing behind. All of them run in one shell, with the
// page's ports, in a network of this test's own.
func TestGettingStartedPage(t *testing.T) {
	needs.Check(t, needs.Usual, needs.Kazoo)
	if !inOwnNetwork(t, nil) {
		return
	}
	p := newGettingStarted(t)
	p.add("Build", 1, "make build\n", "") // newGettingStarted has built the binary
	p.add("Build", 2)
	// With set -m a job gets Ctrl-C, as on a terminal. But then bash does not wait for a command that something has stopped.
	p.add("One command", 1, "rollcall up", "set -m; rollcall up >up.out & up=$!; set +m; await grep -q '  to change something' up.out; kill -INT $up; wait $up; cat up.out")
	p.add("Three members", 1)
	p.add("Three members", 2)
	p.add("Three members", 3, "for", "await serving; for")
	p.add("Three members", 4)
	p.add("Three members", 5)
	p.script += "\ncat >client.py <<'END'\n"
	for n := range p.blocks["A client"] {
		p.script += strings.Join(p.block("A client", n+1), "\n") + "\n"
	}
	p.script += "END\n"
	p.add("Kill the leader", 1)
	p.add("Kill the leader", 2)
	p.add("Kill the leader", 3)
	p.add("Kill the leader", 4)
	p.add("Watch a session end", 1, "grep", "await expired; grep")
	p.add("Watch a session end", 2, "0x2a205a2da540000", `$(grep -o "0x[0-9a-f]*" leader.out | head -n 1)`)
	p.add("Bring the member back", 1, "sleep 3", "sleep 3; await serving")
	p.add("Measure it", 1)
	p.add("Stop", 1)
	p.add("Stop", 2)
	p.wantAll()
	p.play()

	if version := p.printed["Build 1"]; !strings.HasPrefix(version, "rollcall ") {
		t.Errorf("rollcall version prints %s", version)
	}
	p.wantShown("One command", "Three members", "Bring the member back", "Measure it")
	p.wantShown("Kill the leader 4", "Watch a session end 1")
	if why := p.printed["Watch a session end 2"]; !strings.Contains(why, "expired") {
		t.Errorf("rollcall why prints\n%s", why)
	}
	p.wantClients()
	if left, err := os.ReadDir(p.dir); err != nil || len(left) != 1 || left[0].Name() != "rollcall" {
		t.Errorf("the page leaves %v, %v", left, err)
	}
}

// gettingStarted is docs/getting-started.md.
type gettingStarted struct {
	*page   // without an ensemble
	clone   string
	script  string
	shown   map[string]string // by section and number
	printed map[string]string
}

// tourElsewhere names the test that plays what a block of the tour shows, by the block's first line. The blocks are typed in
// three terminals at once.
var tourElsewhere = map[string]string{
	"$ /usr/share/zookeeper/bin/zkCli.sh -server 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183": "integration/clients.TestZkCLICommands",
	"$ rollcall status":           "cmd/rollcall.TestCommandsPageExamples",
	"$ rollcall who-owns /leader": "cmd/rollcall.TestCommandsPageExamples",
	"$ rollcall why /leader":      "cmd/rollcall.TestCommandsPageExamples",
	"$ export ROLLCALL_ADMIN=http://127.0.0.1:5181,http://127.0.0.1:5182,http://127.0.0.1:5183 ROLLCALL_TOKEN_FILE=rollcall-data/token": "cmd/rollcall.TestCommandsPageExamples",
	"9.412  session opened: 0x2a1f80663020000 from 127.0.0.1:47144 on member 2, timeout 30s":                                            "cmd/rollcall.TestUpTellsEveryEvent",
}

// newGettingStarted makes a clone with the binary, which is what make build leaves there.
func newGettingStarted(t *testing.T) *gettingStarted {
	t.Helper()
	dir := t.TempDir()
	clone := filepath.Join(dir, "rollcall")
	if err := os.MkdirAll(filepath.Join(clone, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Build(filepath.Join(clone, "bin")); err != nil {
		t.Fatal(err)
	}
	return &gettingStarted{
		page: &page{
			t: t, name: "getting-started.md", dir: dir,
			blocks: blocksOf(text(t, "../../docs/getting-started.md")), used: map[string]bool{}, others: tourElsewhere,
		},
		clone: clone, script: waits, shown: map[string]string{}, printed: map[string]string{},
	}
}

// add adds the commands of a block to the script, with the given changes. The lines after those that begin with a dollar sign
// show what these print.
func (p *gettingStarted) add(section string, n int, changes ...string) {
	p.t.Helper()
	lines, name := p.block(section, n), fmt.Sprintf("%s %d", section, n)
	commands, shown := lines, []string(nil)
	if strings.HasPrefix(lines[0], "$ ") {
		isCommand := func(line string) bool { return strings.HasPrefix(line, "$ ") }
		commands = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !isCommand(line) })
		shown = slices.DeleteFunc(slices.Clone(lines), isCommand)
	}
	text := "\n"
	for _, command := range commands {
		text += strings.TrimPrefix(command, "$ ") + "\n"
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			p.t.Fatalf("%s has no %q:\n%s", name, changes[i], text)
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	p.script += "\necho '=== " + name + "'" + text
	p.shown[name] = strings.Join(shown, "\n")
}

// play runs the script in the clone. Commands may fail: what they print is checked.
func (p *gettingStarted) play() {
	p.t.Helper()
	const limit = 5 * time.Minute // four times what it takes on a busy machine
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", p.script)
	cmd.Dir, cmd.WaitDelay = p.clone, time.Minute                            // for the longest sleep
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the script ends its members
	printed, err := cmd.CombinedOutput()
	out := string(printed)
	if ctx.Err() != nil {
		p.t.Fatalf("%v:\n%s", err, out)
	}
	for _, part := range strings.Split(out, "=== ")[1:] {
		name, printed, _ := strings.Cut(part, "\n")
		p.printed[name] = printed
	}
	if len(p.printed) != len(p.shown) {
		p.t.Fatalf("%d of %d blocks were run:\n%s", len(p.printed), len(p.shown), out)
	}
}

// wantShown checks that the blocks with one of these beginnings of their names have printed what the page shows.
func (p *gettingStarted) wantShown(names ...string) {
	p.t.Helper()
	for name, shown := range p.shown {
		if !slices.ContainsFunc(names, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			continue
		}
		got := outline(p.printed[name])
		for _, line := range outline(shown) {
			if !slices.Contains(got, line) {
				p.t.Errorf("%s: no line %q in\n%s", name, line, p.printed[name])
			}
		}
	}
}

// wantClients checks that the follower's client has kept its connection, and the leader's client its session.
func (p *gettingStarted) wantClients() {
	p.t.Helper()
	for name, states := range map[string]string{"Kill the leader 2": "CONNECTED", "Kill the leader 3": "CONNECTED SUSPENDED CONNECTED"} {
		out := p.printed[name]
		sessions := regexp.MustCompile(`session 0x[0-9a-f]+`).FindAllString(out, -1)
		got := strings.Join(regexp.MustCompile(`\b(CONNECTED|SUSPENDED|LOST)\b`).FindAllString(out, -1), " ")
		if got != states || len(sessions) != 2 || sessions[0] != sessions[1] || strings.Count(out, "alive-") != 2 {
			p.t.Errorf("%s: %s, want %s, one session, and two nodes:\n%s", name, got, states, out)
		}
	}
}
