package drills

import (
	"bufio"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/lab/report"
	"rollcall/lab/result"
)

// command is a `rollcall drill` that runs.
type command struct {
	*process.Process
	t       *testing.T
	printed *lines
}

// lines are the lines that a command has printed on stderr so far.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs rollcall drill with its journal in state.
func start(t *testing.T, state string, args ...string) *command {
	t.Helper()
	cmd := exec.Command(rollcall, append([]string{"drill"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	l := &lines{}
	cmd.Stderr = l // the command has ended when this has everything
	p := process.Start(t, "drill", cmd, l.String)
	p.Forgive() // some end with an error on purpose
	return &command{p, t, l}
}

// says waits until the command has printed a text.
func (c *command) says(text string) {
	c.t.Helper()
	err := process.Until(c.t.Context(), "the drill says "+text, func() bool { return strings.Contains(c.printed.String(), text) })
	if err != nil {
		c.t.Fatalf("%v; it says:\n%s", err, c.printed)
	}
}

// ends waits for the end of the command, and compares its exit status.
func (c *command) ends(want int) {
	c.t.Helper()
	status, err := c.ExitStatus(c.t.Context())
	if err != nil || status != want {
		c.t.Fatalf("exit status %d, %v, want %d:\n%s", status, err, want, c.printed)
	}
}

// A drill on members of its own keeps all promises, and writes its reports. Nothing stays.
func TestCommandReports(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	dir := t.TempDir()
	json, junit, page := filepath.Join(dir, "run.json"), filepath.Join(dir, "run.xml"), filepath.Join(dir, "run.html")
	c := start(t, dir, "leader-kill", "--seed=7", "--json="+json, "--junit="+junit, "--report="+page)
	c.ends(0)
	in, err := os.Open(json)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	run, err := report.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := run.Drills[0]; d.Outcome != result.Pass || d.Faults[0].To <= d.Faults[0].From || d.Load.Writes == 0 || run.Seed != 7 {
		t.Errorf("%+v", d)
	}
	text, err := os.ReadFile(junit)
	if err != nil || xml.Unmarshal(text, new(struct{ XMLName xml.Name })) != nil {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "leader-kill") {
		t.Errorf("the page: %v", err)
	}
	again := start(t, dir, "heal")
	again.ends(0)
}

// Ctrl-C heals what is broken, and ends the members.
func TestCommandInterrupted(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	state := t.TempDir()
	c := start(t, state, "follower-long-pause")
	c.says("broken: SIGSTOP")
	if err := c.SendSignal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.ends(1)
	if !strings.Contains(c.printed.String(), "healed: SIGSTOP") {
		t.Errorf("it does not say that it healed:\n%s", c.printed)
	}
	if text, err := os.ReadFile(filepath.Join(state, "rollcall", "drills", "journal")); err != nil || len(text) > 0 {
		t.Errorf("the journal has %q, %v", text, err)
	}
}

// A drill outlives the program that reads what it prints, such as head. It heals, and writes its report.
func TestCommandLosesReader(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	cmd := exec.Command(rollcall, "drill", "follower-pause", "--json="+path)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "XDG_STATE_HOME="+dir), in, in
	p := process.Start(t, "drill", cmd, func() string { return "" })
	p.Forgive() // neither its table nor the error about that can be printed
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "broken: SIGSTOP"); {
	}
	_ = out.Close()
	if status, err := p.ExitStatus(t.Context()); err != nil || status == 0 {
		t.Errorf("exit status %d, %v; its table was not printed", status, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "rollcall", "drills", "journal")); err != nil || len(text) > 0 {
		t.Errorf("the journal has %q, %v", text, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the report: %v", err)
	}
}

// After a crash no drill begins until heal has repaired what was broken.
func TestCommandCrashes(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	state := t.TempDir()
	c := start(t, state, "follower-long-pause")
	c.says("broken: SIGSTOP")
	c.Kill()
	blocked := start(t, state, "silent-clients")
	blocked.ends(1)
	if !strings.Contains(blocked.printed.String(), "rollcall drill heal") {
		t.Errorf("it says:\n%s", blocked.printed)
	}
	healed := start(t, state, "heal")
	healed.ends(0)
	again := start(t, state, "heal")
	again.ends(0)
}

// An ensemble of the user is drilled only if that was agreed to, and if it has no sessions of others. Nothing stays in
// its tree.
func TestCommandOnForeignEnsemble(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	e := process.StartEnsemble(t, process.Config{ // a leader that waits for a processor is not replaced: a drill begins only if all are well
		Binary: rollcall, Size: 3, Tick: 500 * time.Millisecond, Lines: "failover=4000\n",
	})
	e.Settle()
	hosts := strings.Join(e.ClientAddresses(e.Members[0]), ",")
	unasked := start(t, t.TempDir(), "--hosts="+hosts, "silent-clients")
	unasked.ends(2)
	user, err := client.Dial(t.Context(), hosts, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer user.Abandon()
	beside := start(t, t.TempDir(), "--hosts="+hosts, "--yes", "silent-clients")
	beside.ends(1)
	if !strings.Contains(beside.printed.String(), "1 sessions that are not") {
		t.Errorf("it says:\n%s", beside.printed)
	}
	agreed := start(t, t.TempDir(), "--hosts="+hosts, "--yes", "--among-others", "silent-clients")
	agreed.ends(0)
	names, _, err := user.Children(t.Context(), "/")
	if err != nil || len(names) != 1 || names[0] != "zookeeper" {
		t.Errorf("the tree has %q, %v", names, err)
	}
}
