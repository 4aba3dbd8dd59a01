package drills

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/lab/target"
)

// killDrill runs breakAndWait in a process of its own, and kills that with SIGKILL when it has broken everything.
func killDrill(t *testing.T, state, hooks string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childState+"="+state, childBinary+"="+rollcall, childHooks+"="+hooks)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	drill := process.Start(t, "drill", cmd, said.String)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "broken\n" {
		drill.Kill()
		t.Fatalf("the drill said %q, %v: %s", line, err, said.String())
	}
	if _, err := target.OpenJournal(state); !errors.Is(err, target.ErrBusy) {
		t.Errorf("OpenJournal while a drill runs: %v, want ErrBusy", err)
	}
	drill.Kill()
}

// heal repairs what a killed drill left behind, and checks that nothing is left.
func heal(t *testing.T, state string) []string {
	t.Helper()
	j, err := target.OpenJournal(state)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.CheckClean(); err == nil {
		t.Error("a drill could begin before the last one was repaired")
	}
	healed, err := j.Heal(t.Context())
	if err != nil {
		t.Error(err)
	}
	if left := j.Entries(); len(left) > 0 || j.CheckClean() != nil {
		t.Errorf("left after Heal: %v", left)
	}
	return healed
}

// state returns the state of a process as ps shows it, or "" if there is none.
func state(pid string) string {
	out, _ := exec.Command("ps", "-o", "stat=", "-p", pid).Output() // it fails if there is none
	return strings.TrimSpace(string(out))
}

// A drill is killed while members of the user are stopped, which outlive it. Heal lets them continue.
func TestDrillOfOthersIsKilled(t *testing.T) {
	needs.Check(t, needs.Usual)
	dir := t.TempDir()
	text := "hooks: {stop: kill -STOP $PID, cont: kill -CONT $PID, cut: touch $FLAG, heal: rm -f $FLAG}\nmembers:\n"
	var pids []string
	for i := range 3 {
		member := process.Start(t, "member", exec.Command("sleep", "600"), func() string { return "" })
		pids = append(pids, strconv.Itoa(member.Cmd.Process.Pid))
		text += fmt.Sprintf("- {name: '%d', clients: '127.0.0.1:%d', vars: {PID: '%s', FLAG: %s}}\n", i+1, i+1, pids[i],
			filepath.Join(dir, "cut"))
	}
	hooks := filepath.Join(dir, "hooks.yaml")
	if err := os.WriteFile(hooks, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(dir, "state")
	killDrill(t, journal, hooks)
	inState := func(wanted, when string) { // a process changes its state when it gets a processor
		t.Helper()
		if err := process.Until(t.Context(), "member 2 is in state "+wanted+" "+when, func() bool {
			return strings.HasPrefix(state(pids[1]), wanted)
		}); err != nil {
			t.Fatalf("%v; it is in state %q", err, state(pids[1]))
		}
	}
	inState("T", "after the drill's end: it is stopped")
	if _, err := os.Stat(filepath.Join(dir, "cut")); err != nil {
		t.Fatal(err)
	}
	if healed := heal(t, journal); !slices.Equal(healed, []string{"cut of member 1", "stop of member 2"}) {
		t.Errorf("healed %q, want the cut and then the stop", healed)
	}
	inState("S", "after Heal: it goes on")
	if _, err := os.Stat(filepath.Join(dir, "cut")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Heal member 1 is still cut: %v", err)
	}
}

// A drill is killed that has started its own ensemble, and has stopped a member, cut one, and stalled the disk of one, as far
// as this user may. Heal leaves nothing of it behind.
func TestDrillIsKilled(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Setenv("TMPDIR", t.TempDir())
	journal := filepath.Join(t.TempDir(), "state")
	killDrill(t, journal, "")
	text, err := os.ReadFile(filepath.Join(journal, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wants() {
		if !strings.Contains(string(text), want) {
			t.Errorf("the journal does not have %q:\n%s", want, text)
		}
	}
	heal(t, journal)
	if left := leftovers(t, os.Getenv("TMPDIR"), string(text)); left != "" {
		t.Errorf("left after Heal:\n%s", left)
	}
}

// wants returns the expected lines of breakAndWait's journal for this user.
func wants() []string {
	all := []string{"stop of member 2", "the process of member 1", "the directory"}
	if target.CheckNamespaces() == nil {
		all = append(all, "cut of member 1", "the network namespaces")
	}
	if target.CheckDisks() == nil {
		all = append(all, "disk of member 3 (stall)", "the disk of member 2")
	}
	return all
}

// ownSpaces finds the names of network namespaces in a journal. Other drills on this machine have others.
var ownSpaces = regexp.MustCompile(`/run/netns/rcd-[a-z0-9-]+`)

// leftovers returns the processes, mounts and files of an ensemble that began in dir, and its namespaces, which its journal
// named.
func leftovers(t *testing.T, dir, journal string) string {
	t.Helper()
	var left []string
	processes, err := exec.Command("ps", "-eo", "pid,stat,args").Output()
	if err != nil {
		t.Fatal(err)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts") // only Linux has it
	for line := range strings.Lines(string(processes) + string(mounts)) {
		if strings.Contains(line, dir+"/rollcall-drill-") {
			left = append(left, line)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		left = append(left, f.Name()+"\n")
	}
	for _, path := range ownSpaces.FindAllString(journal, -1) {
		if _, err := os.Stat(path); err == nil {
			left = append(left, path+"\n")
		}
	}
	return strings.Join(left, "")
}
