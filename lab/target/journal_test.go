package target

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/lab/child"
)

// openJournal opens the journal in dir until the test ends.
func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// touch is a step that appends a word to a file.
func touch(path, word string) Step {
	return Step{Run: []string{"sh", "-c", `echo "$WORD" >>"$0"`, path}, Env: []string{"WORD=" + word}}
}

func add(t *testing.T, j *Journal, what string, undo ...Step) {
	t.Helper()
	if _, err := j.Add(what, nil, func(int) []Step { return undo }); err != nil {
		t.Fatal(err)
	}
}

// A later process undoes what is in the journal, the last entry first, and each once.
func TestJournalHeals(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "new", "state"), filepath.Join(t.TempDir(), "out")
	j := openJournal(t, dir)
	add(t, j, "one", touch(out, "1"))
	add(t, j, "two", touch(out, "2"))
	add(t, j, "three", touch(out, "3a"), touch(out, "3b"))
	if err := j.Remove(2); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	j = openJournal(t, dir)
	if err := j.CheckClean(); err == nil || !strings.Contains(err.Error(), "rollcall drill heal") {
		t.Errorf("CheckClean with two entries: %v, want the advice to heal", err)
	}
	healed, err := j.Heal(t.Context())
	if err != nil || !slices.Equal(healed, []string{"three", "one"}) {
		t.Errorf("Heal: %q, %v; want three and one", healed, err)
	}
	if text, _ := os.ReadFile(out); string(text) != "3a\n3b\n1\n" {
		t.Errorf("steps that were done: %q, want 3a, 3b, 1", text)
	}
	if healed, err := j.Heal(t.Context()); err != nil || len(healed) > 0 {
		t.Errorf("second Heal: %q, %v; want nothing", healed, err)
	}
	add(t, j, "four")
	if last := j.Entries()[0].ID; last != 4 {
		t.Errorf("ID of the next entry is %d, want 4: names of nft tables come from it", last)
	}
}

// A journal in which everything was undone is clean when it is opened again.
func TestUndoneJournalIsClean(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	e, err := j.Add("kill of member 1", nil, func(int) []Step { return nil })
	if err == nil {
		err = errors.Join(j.Remove(e.ID), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := openJournal(t, dir).CheckClean(); err != nil {
		t.Error(err)
	}
}

// What cannot be repaired stays in the journal, and the rest is repaired.
func TestHealGoesOn(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	j := openJournal(t, dir)
	add(t, j, "first", touch(out, "first"))
	add(t, j, "hopeless", Step{Run: []string{"sh", "-c", "echo no such host; exit 3"}})
	add(t, j, "of another version", Step{})
	healed, err := j.Heal(t.Context())
	if !slices.Equal(healed, []string{"first"}) {
		t.Errorf("healed %q, want first", healed)
	}
	for _, want := range []string{
		"hopeless", "exit status 3", "no such host", "another version", `remove the line with "id":2 from ` + filepath.Join(dir, journalFile),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Heal: %v\nwant %q in it", err, want)
		}
	}
	_ = j.Close()
	if left := openJournal(t, dir).Entries(); len(left) != 2 || left[0].What != "hopeless" {
		t.Errorf("left after Heal: %v, want what could not be repaired", left)
	}
}

// A damaged line is named, and stays in the file whatever else happens.
func TestDamagedJournal(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	j := openJournal(t, dir)
	add(t, j, "one", touch(out, "1"))
	add(t, j, "two", touch(out, "2"))
	_ = j.Close()
	path := filepath.Join(dir, journalFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "WORD=2", "WORD=3", 1)
	for name, damaged := range map[string]string{"changed": changed, "cut": string(text[:len(text)-9]), "more": string(text) + "\x00\x00"} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		j := openJournal(t, dir)
		if err := j.CheckClean(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: CheckClean: %v, want that a line cannot be read", name, err)
		}
		healed, err := j.Heal(t.Context())
		if !slices.Contains(healed, "one") || err == nil || !strings.Contains(err.Error(), path+": line ") {
			t.Errorf("%s: Heal: %q, %v; want one, and an error with the line", name, healed, err)
		}
		_ = j.Close()
		rest, _ := os.ReadFile(path)
		lines := strings.Split(damaged, "\n")
		want := lines[1]
		if name == "more" {
			want = lines[2]
		}
		if string(rest) != want+"\n" {
			t.Errorf("%s: after Heal the file has %q, want the damaged line %q", name, rest, want)
		}
	}
}

// Only one process has the journal. The error names the other.
func TestJournalIsLocked(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	_, err := OpenJournal(dir)
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("second OpenJournal: %v, want ErrBusy with the process", err)
	}
	_ = j.Close()
	openJournal(t, dir)
}

// The journal has commands, so other users may not write it.
func TestJournalOfOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir); err == nil || !strings.Contains(err.Error(), "other users may write") {
		t.Errorf("OpenJournal of a directory with mode 0777: %v, want an error", err)
	}
}

func TestHugeJournal(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journalFile), make([]byte, maxJournalBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir); err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("OpenJournal: %v, want an error about the size", err)
	}
	if _, err := OpenJournal(dir); errors.Is(err, ErrBusy) {
		t.Errorf("after the error the journal is still locked: %v", err)
	}
	_ = os.Remove(filepath.Join(dir, journalFile))
	j := openJournal(t, dir)
	_, err := j.Add("much", nil, func(int) []Step { return []Step{{Run: []string{strings.Repeat("x", maxJournalBytes)}}} })
	if err == nil || len(j.Entries()) > 0 {
		t.Errorf("Add of more than fits: %v, entries %d; want an error and none", err, len(j.Entries()))
	}
}

func TestStateDirectory(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	if dir, err := StateDirectory(); err != nil || dir != "/state/rollcall/drills" {
		t.Errorf("%q, %v", dir, err)
	}
	t.Setenv("HOME", "/home/me")
	for _, wrong := range []string{"", "state"} {
		t.Setenv("XDG_STATE_HOME", wrong)
		if dir, err := StateDirectory(); err != nil || dir != "/home/me/.local/state/rollcall/drills" {
			t.Errorf("XDG_STATE_HOME=%q: %q, %v", wrong, dir, err)
		}
	}
}

// sleeper is a process that is stopped.
func sleeper(t *testing.T) (pid int, started string) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = child.Attributes()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid = cmd.Process.Pid
	started, err := startOf(pid)
	if err != nil || started == "" {
		t.Fatalf("start of the process: %q, %v", started, err)
	}
	if err := child.StopPid(pid); err != nil {
		t.Fatal(err)
	}
	return pid, started
}

// isStopped waits until the state of a process is settled: a continued one sleeps.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasPrefix(string(out), "T")
}

// A signal goes to the process that was meant, and to no other one that has its number.
func TestSignalStep(t *testing.T) {
	pid, started := sleeper(t)
	other := Step{Signal: syscall.SIGCONT, Pid: pid, Started: started + "1"}
	if err := other.execute(t.Context()); err != nil || !isStopped(t, pid) {
		t.Errorf("signal for a process that started at another time: %v, stopped %v; want nothing done", err, isStopped(t, pid))
	}
	right := Step{Signal: syscall.SIGCONT, Pid: pid, Started: started}
	if err := right.execute(t.Context()); err != nil || isStopped(t, pid) {
		t.Errorf("signal for the process: %v, stopped %v; want it to go on", err, isStopped(t, pid))
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if started, err := startOf(gone.Process.Pid); err != nil || started != "" {
		t.Errorf("start of a process that has ended: %q, %v; want none", started, err)
	}
}

// Only a directory with the drill's mark is removed, or an empty one.
func TestRemoveStep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	step := Step{Remove: dir, Mark: "mine"}
	if err := step.execute(t.Context()); err != nil {
		t.Errorf("remove of a missing directory: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("file", "of the user")
	for _, mark := range []string{"", "other"} {
		if mark != "" {
			write(drillMark, mark)
		}
		if err := step.execute(t.Context()); err == nil {
			t.Errorf("a directory with the mark %q was removed", mark)
		}
	}
	write(drillMark, "")
	if err := (Step{Remove: dir}).execute(t.Context()); err == nil {
		t.Error("a directory was removed by a step without a mark")
	}
	write(drillMark, "mine")
	if err := step.execute(t.Context()); err != nil {
		t.Errorf("remove of the drill's directory: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := step.execute(t.Context()); err != nil {
		t.Errorf("remove of an empty directory, whose mark was not written: %v", err)
	}
}

// A command that leaves a process with its output returns an error that reports that: the process ends when it prints,
// because its output has no reader. A process whose output is redirected is no error.
func TestCommandLeavesProcess(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	run := func(redirection string) error {
		err := runCommand(t.Context(), time.Minute, nil, "sh", "-c", "sleep 30 "+redirection+` & echo $! >"$0"`, pidFile)
		text, _ := os.ReadFile(pidFile)
		pid, perr := strconv.Atoi(strings.TrimSpace(string(text)))
		if perr != nil {
			t.Fatal(perr)
		}
		return errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
	}
	if err := run(""); err == nil || !strings.Contains(err.Error(), "redirect the output of that process") {
		t.Errorf("a process that has the output: %v", err)
	}
	if err := run(">/dev/null 2>&1"); err != nil {
		t.Errorf("a process without the output: %v", err)
	}
}

// awaitEnd waits until a killed process is gone: the kernel ends it after the signal.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		started, err := startOf(pid)
		if err == nil && started == "" {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("process %d is still there (%q, %v)", pid, started, err)
		}
	}
}

// A command has a limit, at which its children end too.
func TestCommandLimit(t *testing.T) {
	ended, child := filepath.Join(t.TempDir(), "ended"), filepath.Join(t.TempDir(), "child")
	var text []byte
	for limit := time.Second; len(text) == 0 && limit < time.Minute; limit *= 2 { // a busy machine is slow to begin the shell
		began := time.Now()
		err := runCommand(t.Context(), limit, nil, "sh", "-c", `echo waiting; sleep 300 & echo $! >"$1"; wait; echo >"$0"`,
			ended, child)
		if text, _ = os.ReadFile(child); len(text) == 0 {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "longer than its limit of "+limit.String()) ||
			!strings.Contains(err.Error(), "waiting") {
			t.Errorf("command: %v, want its limit and its output", err)
		}
		if took := time.Since(began); took > limit+time.Minute {
			t.Errorf("it took %v", took)
		}
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		t.Errorf("the number of the child: %v", err)
	} else {
		awaitEnd(t, pid)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the drill was interrupted"))
	if err := runCommand(ctx, time.Minute, nil, "true"); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("command with an ended context: %v", err)
	}
	err := runCommand(t.Context(), time.Minute, nil, "sh", "-c", "yes | head -c 10000; echo the end; exit 1")
	if err == nil || len(err.Error()) > maxOutput+200 || !strings.HasSuffix(err.Error(), "the end") {
		t.Errorf("error of a command that prints much: %.100v, want the end of it", err)
	}
	// Without a path that it needs, nothing is run.
	if err := (Step{Run: []string{"false"}, Needs: ended}).execute(t.Context()); err != nil {
		t.Errorf("step whose path is missing: %v", err)
	}
}

// Entries are healed by their order, and later ones go after earlier ones, although the clock was set back by an hour
// between them.
func TestJournalAfterClockStep(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	add := func(what string) {
		t.Helper()
		if _, err := j.Add(what, nil, func(int) []Step { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	add("first")
	j.entries[0].At = j.entries[0].At.Add(time.Hour)
	add("second")
	_ = j.Close()
	j = openJournal(t, dir)
	add("third")
	healed, err := j.Heal(t.Context())
	if want := []string{"third", "second", "first"}; err != nil || !slices.Equal(healed, want) {
		t.Errorf("healed %q, %v, want %q", healed, err, want)
	}
}
