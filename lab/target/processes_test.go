package target

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// makeDeaf gives a member a process that ends at SIGKILL alone, and returns the signals that it gets, and a function that
// ends it.
func makeDeaf(m *member) (signals *[]os.Signal, end func()) {
	var got []os.Signal
	done := make(chan struct{})
	p := &process{cmd: &exec.Cmd{Process: &os.Process{Pid: 99999999}}, done: done}
	p.signal = func(sig os.Signal) error {
		got = append(got, sig)
		if sig == syscall.SIGKILL {
			close(done)
		}
		return nil
	}
	m.process = p
	return &got, func() { close(done) }
}

// A member that does not shut down is killed at the limit, which is an error, and can be started again.
func TestMemberDoesNotShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{Member: Member{Name: "2"}, log: "log of member 2"}
		got, _ := makeDeaf(m)
		began := time.Now()
		err := new(Processes).endMember(t.Context(), m, syscall.SIGTERM)
		if err == nil ||
			!strings.Contains(err.Error(), "member 2: process 99999999 does not end after terminated: the limit is 1m0s; so it was killed") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != endLimit {
			t.Errorf("it took %v", took)
		}
		if !slices.Equal(*got, []os.Signal{syscall.SIGTERM, syscall.SIGKILL}) || m.process != nil {
			t.Errorf("it got %v; its process: %v", *got, m.process)
		}
	})
}

// A shutdown that is interrupted can be repaired: the process ends, and another one starts. Until it has ended, its data stay.
func TestInterruptedEndIsRepaired(t *testing.T) {
	dir := t.TempDir()
	m := &member{Member: Member{Name: "2"}, config: filepath.Join(dir, "zoo.cfg"), data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log")}
	kept := filepath.Join(m.data, "kept")
	if err := errors.Join(os.Mkdir(m.data, 0o700), os.WriteFile(kept, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p := &Processes{members: []*member{m}, launcher: launcher{argv: func(*Processes, *member) []string { return []string{"sleep", "600"} }}}
	p.journal, p.names = openJournal(t, t.TempDir()), []string{"2"}
	p.methods = map[Kind]faultMethod{Shut: {p.canEnd, p.planEnd(syscall.SIGTERM)}, Wipe: {p.canEnd, p.planWipe}}
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("it was interrupted"))
	for _, kind := range []Kind{Shut, Wipe} {
		_, end := makeDeaf(m)
		m.process.signal = func(sig os.Signal) error { return nil } // it ends later
		if err := p.Break(interrupted, Fault{Kind: kind, Member: "2"}); err == nil || !strings.Contains(err.Error(), "it was interrupted") {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("%s of a process that has not ended takes its data: %v", kind, err)
		}
		first := m.process
		first.signal = func(os.Signal) error { end(); return nil }
		if err := p.Heal(t.Context()); err != nil || m.process == nil || m.process == first {
			t.Fatalf("Heal of %s: %v", kind, err)
		}
		if err := p.endMember(t.Context(), m, syscall.SIGKILL); err != nil || len(p.journal.Entries()) > 0 {
			t.Errorf("%v; left in the journal: %v", err, p.journal.Entries())
		}
	}
}

// ZooKeeper's members run Debian's jars, or the jars of a directory, which must be there.
func TestJarsOfZooKeeper(t *testing.T) {
	programs, jars := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "java"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs)
	l, err := zooKeeperLauncher(jars, []string{"-Xmx1g"})
	if err != nil {
		t.Fatal(err)
	}
	argv := l.argv(nil, &member{config: "zoo.cfg"})
	at := slices.Index(argv, "-cp")
	if at < 0 || argv[at+1] != jars+"/*" || argv[1] != "-Xmx1g" || argv[len(argv)-1] != "zoo.cfg" {
		t.Errorf("%q", argv)
	}
	if _, err := zooKeeperLauncher(filepath.Join(jars, "missing"), nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a directory that is not there: %v", err)
	}
}
