package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rollcall/lab/target"
)

// fileText returns the text of a file, or what is wrong with it.
func fileText(elements ...string) string {
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Members have the requested configuration, and start, end, come and go.
func TestEnsemble(t *testing.T) {
	var prepared []int
	e := StartEnsemble(t, Config{
		Binary: standIn, Size: 3, Observers: 1, Tick: 200 * time.Millisecond, Lines: AnyHTTP + "x=y\n", Audited: true,
		Env: []string{"STAND_IN=all"}, Prepare: func(m *Member) { prepared = append(prepared, m.ID) },
	})
	two, three := e.Members[1], e.Members[2]
	if !slices.Equal(prepared, []int{1, 2, 3}) || strings.HasSuffix(two.Line, ":observer") || !strings.HasSuffix(three.Line, ":observer") {
		t.Errorf("members %d were prepared, and the lines are %s and %s", prepared, two.Line, three.Line)
	}
	host, port, _ := net.SplitHostPort(two.Clients)
	lines := func() (all string) {
		for _, m := range e.Members {
			all += m.Line + "\n"
		}
		return all
	}
	config := fmt.Sprintf("tickTime=200\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPortAddress=%s\nclientPort=%s\n4lw.commands.whitelist=*\n"+
		"admin.serverPort=0\nx=y\naudit.enable=true\naudit.file=%s\n", two.Data, host, port, two.Audit)
	if got := fileText(two.Config); got != config+lines() || fileText(two.Data, "myid") != "2\n" {
		t.Errorf("zoo.cfg:\n%s\nwant\n%s", got, config+lines())
	}
	for i, want := range []string{"leader", "follower", "observer"} {
		m := e.Members[i]
		at, err := m.HTTP()
		if got := m.Mode(); got != want || err != nil || at != fmt.Sprintf("127.0.0.1:%d", m.Process.Cmd.Process.Pid) ||
			!strings.Contains(fileText(m.Log), "env=all\n") {
			t.Errorf("member %d is %q, with HTTP at %s, %v; its log:\n%s", m.ID, got, at, err, fileText(m.Log))
		}
	}
	if got := e.ClientAddresses(two); !slices.Equal(got, []string{two.Clients, e.Members[0].Clients, three.Clients}) {
		t.Errorf("the addresses are %q", got)
	}

	KillAll([]*Member{two, three})
	if two.Process.IsRunning() || three.Process.IsRunning() || !e.Members[0].Process.IsRunning() || two.Mode() != "" {
		t.Error("not those run that were not killed")
	}
	e.Joined() // those that are down do not join
	if leader := e.Settle(); leader != e.Members[0] {
		t.Errorf("member %d leads", leader.ID)
	}
	two.Env = []string{"STAND_IN=own"}
	e.Start(two)
	e.Settle()
	if at, err := two.HTTP(); err != nil || at != fmt.Sprintf("127.0.0.1:%d", two.Process.Cmd.Process.Pid) ||
		!strings.Contains(fileText(two.Log), "env=own\n") {
		t.Errorf("HTTP of the second process of member 2: %s, %v; its log:\n%s", at, err, fileText(two.Log))
	}
	if strings.Contains(fileText(two.Log), "shuts down") {
		t.Error("a member that was killed has shut down")
	}

	four := e.NewMember(4)
	e.Add(four)
	if got := fileText(four.Config); !strings.HasSuffix(got, "\n"+lines()) || strings.Contains(four.Line, ":observer") {
		t.Errorf("zoo.cfg of member 4:\n%s\nwant\n%s", got, lines())
	}
	e.Reconfigure()
	if got := fileText(two.Config); got != config+lines() {
		t.Errorf("zoo.cfg after member 4 has come:\n%s\nwant\n%s", got, config+lines())
	}
	e.Start(three)
	e.Settle()
	e.Remove(three)
	e.Remove(four)
	if len(e.Members) != 2 || four.Process.IsRunning() || !strings.Contains(fileText(four.Log), "shuts down") {
		t.Errorf("%d members are left, and member 4 runs: %t", len(e.Members), four.Process.IsRunning())
	}
	if err := two.Process.Stop(); err != nil || !strings.Contains(fileText("/proc", fmt.Sprint(two.Process.Cmd.Process.Pid), "stat"), ") T ") {
		t.Errorf("member 2 has not stopped: %v", err)
	}
	if err := two.Process.Continue(); err != nil || e.Settle() != e.Members[0] {
		t.Errorf("%v", err)
	}
	e.StopAll()

	e.writeFile(filepath.Join(two.Data, "rollcall", "log"), "entries")
	if err := CopyData(four.Data, two.Data); err != nil || fileText(four.Data, "rollcall", "log") != "entries" {
		t.Errorf("the copy: %v, %s", err, fileText(four.Data, "rollcall", "log"))
	}
	e.Empty(two)
	if left, err := os.ReadDir(two.Data); err != nil || len(left) != 1 || fileText(two.Data, "myid") != "2\n" {
		t.Errorf("the empty directory has %v, %v", left, err)
	}
	e.Start(two)
	e.Start(e.Members[0])
	e.KillAll()
	if two.Process.IsRunning() || e.Members[0].Process.IsRunning() {
		t.Error("members run after KillAll")
	}
}

// A member alone has no server lines, unless others may join it.
func TestMemberAlone(t *testing.T) {
	for grows, want := range map[bool]string{false: "standalone", true: "leader"} {
		e := StartEnsemble(t, Config{Binary: standIn, Size: 1, Grows: grows})
		text := fileText(e.Members[0].Config)
		if got := e.Members[0].Mode(); got != want ||
			strings.Contains(text, "standaloneEnabled=false\n"+e.Members[0].Line) != grows || !strings.Contains(text, "admin.enableServer=false\n") {
			t.Errorf("grows: %t; it is %q with\n%s", grows, got, text)
		}
		if strings.Contains(text, "audit") || strings.Contains(text, "server.1") != grows {
			t.Errorf("grows: %t;\n%s", grows, text)
		}
	}
	if FreePort(t).IP.Equal(FreePort(t).IP) {
		t.Error("two servers have one address")
	}
}

// The status of a process is its own, and -1 if a signal has ended it.
func TestExitStatus(t *testing.T) {
	for command, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": -1} {
		p := Start(t, command, exec.Command("sh", "-c", command), func() string { return "" })
		p.Forgive() // it may have ended by now
		if status, err := p.ExitStatus(t.Context()); status != want || err != nil || p.IsRunning() {
			t.Errorf("%s: %d, %v", command, status, err)
		}
	}
	p := Start(t, "a process that waits", exec.Command("sleep", "600"), func() string { return "" })
	ended := canceledContext(t)
	if _, err := p.ExitStatus(ended); err == nil || !p.IsRunning() {
		t.Errorf("a process that waits has ended: %v", err)
	}
	if err := p.SendSignal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	<-p.Done()
	if p.SendSignal(unix.SIGTERM) == nil {
		t.Error("a process that has ended gets a signal")
	}
	if _, err := Launch("nothing", exec.Command("/no/such/file")); err == nil || !strings.Contains(err.Error(), "start of nothing") {
		t.Errorf("%v", err)
	}
	calls := 0
	if err := Until(t.Context(), "it holds", func() bool { calls++; return calls == 3 }); err != nil || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if err := Until(ended, "it holds", func() bool { return false }); err == nil || !strings.Contains(err.Error(), "it holds") {
		t.Errorf("%v", err)
	}
}

// A member's fsync does not return while its disk hangs.
func TestDiskHangs(t *testing.T) {
	disk := NewDisk(t, standIn)
	e := StartEnsemble(t, Config{Binary: disk.Binary, Env: disk.Env, Size: 1})
	sync := func() { // returns when fsync has
		if text, err := target.Word(t.Context(), e.Members[0].Clients, "sync"); err != nil || !strings.Contains(text, "standalone") {
			t.Errorf("%q, %v", text, err)
		}
	}
	sync()
	held := func() int {
		disk.mu.Lock()
		defer disk.mu.Unlock()
		return len(disk.held)
	}
	disk.HangCalls()
	for end := range 2 {
		returned := make(chan bool)
		go func() {
			if end == 0 {
				sync()
			} else {
				_, _ = target.Word(t.Context(), e.Members[0].Clients, "sync")
			}
			close(returned)
		}()
		if err := Until(t.Context(), "the call hangs", func() bool { return held() == 1 }); err != nil {
			t.Fatal(err)
		}
		select {
		case <-returned:
			t.Error("a call that hangs has returned")
		default:
		}
		if end == 0 {
			disk.ReleaseCalls()
			<-returned
			sync()
			disk.HangCalls()
			continue
		}
		e.KillAll()
		<-returned
		if err := Until(t.Context(), "the call is forgotten", func() bool { return held() == 0 }); err != nil {
			t.Error(err)
		}
	}
}

// A handler of calls reads their paths, and gives a process files and errors.
func TestCallsOfFiles(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	given, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	ended := make(chan bool, 2)
	calls := NewCalls(t, cat, 0, []int{unix.SYS_OPENAT, unix.SYS_OPENAT2}, func(c *Call) {
		switch path, err := c.ReadText(c.Args[1]); {
		case err == nil && path == "/given":
			c.ReturnFile(int(given.Fd()))
		case err == nil && path == "/refused":
			c.ReturnValue(0, unix.ENOTNAM)
		default:
			c.Continue()
		}
	}, func() { ended <- true })
	run := func(path string) (string, error) {
		cmd := exec.Command(calls.Binary, path)
		cmd.Env = append(os.Environ(), append(calls.Env, "LC_ALL=C")...)
		out, err := cmd.CombinedOutput()
		<-ended
		return string(out), err
	}
	if out, err := run("/given"); out != "another file" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := run("/refused"); err == nil || !strings.Contains(out, unix.ENOTNAM.Error()) && !strings.Contains(out, "XENIX") {
		t.Errorf("%q, %v", out, err)
	}
}
