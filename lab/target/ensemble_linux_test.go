package target

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// standIns starts an ensemble whose members are stand-ins.
func standIns(t *testing.T, cfg ProcessConfig) *Processes {
	t.Helper()
	cfg.Journal, cfg.Dir = openJournal(t, t.TempDir()), t.TempDir()
	p, err := NewProcesses(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil || len(p.journal.Entries()) > 0 {
			t.Errorf("Close: %v; left in the journal: %v", err, p.journal.Entries())
		}
		if left, err := os.ReadDir(cfg.Dir); err != nil || len(left) > 0 {
			t.Errorf("left after Close: %v, %v", left, err)
		}
	})
	return p
}

// standInsFor starts stand-ins for the members of any software.
func standInsFor(t *testing.T, cfg ProcessConfig) *Processes {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Journal, cfg.Dir, cfg.Binary, cfg.Patience, cfg.Tick = openJournal(t, t.TempDir()), t.TempDir(), self, DefaultPatience, DefaultTick
	p := &Processes{cfg: cfg, launcher: launcher{argv: rollcallLauncher.argv, rollcall: cfg.Program == Rollcall}}
	p.journal, p.methods = cfg.Journal, map[Kind]faultMethod{MoveIn: {operators{p}.canMoveIn, operators{p}.planMoveIn}}
	t.Cleanup(func() { _ = p.Close(context.WithoutCancel(t.Context())) })
	if err := p.prepareAndStart(t.Context(), func(context.Context) error { return useLoopback(p.members) }); err != nil {
		t.Fatal(err)
	}
	return p
}

// mustBreak makes a fault, which cannot be made twice.
func mustBreak(t *testing.T, p *Processes, f Fault) {
	t.Helper()
	if err := p.Break(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := p.Break(t.Context(), f); err == nil {
		t.Errorf("%v can be made twice", f)
	}
}

// mustRepair repairs a fault, and checks that all members serve then.
func mustRepair(t *testing.T, p *Processes, f Fault) {
	t.Helper()
	entries := len(p.journal.Entries())
	if err := p.Repair(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitServing(t.Context()); err != nil {
		t.Fatalf("after %v: %v", f, err)
	}
	if f.Kind == Stop && len(p.journal.Entries()) != entries-1 {
		t.Errorf("the journal after %v: %v", f, p.journal.Entries())
	}
}

// fileText returns the text of a file, or what is wrong with it.
func fileText(elements ...string) string {
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// commandsOf returns the commands that operators have run on an ensemble, each after the URL of its member, and forgets them.
func commandsOf(p *Processes) string {
	path := filepath.Join(p.dir, "commands")
	defer os.Remove(path)
	return fileText(path)
}

// An ensemble has the requested configuration, and begins with a backup.
func TestEnsembleStarts(t *testing.T) {
	p := standIns(t, ProcessConfig{Lines: "x=y\n", Restore: "/a/backup"})
	two, ip := p.members[1], func(n int) string { return p.members[n-1].ip.String() }
	want := fmt.Sprintf("tickTime=500\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPortAddress=%s\nclientPort=2181\nmaxClientCnxns=0\n4lw.commands.whitelist=*\nx=y\n"+
		"admin.serverAddress=%s\nadmin.serverPort=8080\nadmin.tokenFile=%s\nensembleSecretFile=%s\n",
		filepath.Join(p.Dir("2"), "data"), ip(2), ip(2), p.TokenFile(), filepath.Join(p.Dir("2"), "secret"))
	for i := range 3 {
		want += fmt.Sprintf("server.%d=%s:2888:3888\n", i+1, ip(i+1))
	}
	if got := fileText(two.config); got != want {
		t.Errorf("zoo.cfg:\n%s\nwant\n%s", got, want)
	}
	token := strings.TrimSpace(fileText(p.TokenFile()))
	if got, want := p.Members()[1], (Member{Name: "2", Clients: ip(2) + ":2181", Admin: "http://" + ip(2) + ":8080", Token: token}); got != want || len(token) < 20 || p.Kind() != "processes" {
		t.Errorf("%s: %+v, want %+v", p.Kind(), got, want)
	}
	if got, want := commandsOf(p), p.members[0].Admin+" backup restore --sessions close /a/backup "+p.members[0].config+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if secret := fileText(p.Dir("1"), "secret"); len(secret) < 20 || secret != fileText(p.Dir("3"), "secret") {
		t.Errorf("the secret is %q", secret)
	}
	if err := p.startMember(two); err == nil || !strings.Contains(err.Error(), "member 2 runs already") {
		t.Errorf("a second start: %v", err)
	}
	if p.SetBinary("4", "x") == nil || p.SetBinary("3", "/no/such/file") != nil {
		t.Error("SetBinary does not know the members")
	}
	if err := p.Break(t.Context(), Fault{Kind: Kill, Member: "3"}); err != nil {
		t.Error(err)
	}
	if err := p.AwaitServing(t.Context()); err == nil || err.Error() != "member 3 is down" {
		t.Errorf("without a member: %v", err)
	}
	if err := p.Heal(t.Context()); err == nil || !strings.Contains(err.Error(), "start of member 3") {
		t.Errorf("a binary that is not there: %v", err)
	}
}

// An invalid configuration is rejected, and an ensemble whose members end leaves nothing.
func TestEnsembleDoesNotStart(t *testing.T) {
	dir, j := t.TempDir(), openJournal(t, t.TempDir())
	for want, cfg := range map[string]ProcessConfig{
		"Journal is required": {}, "-1 members": {Journal: j, Size: -1}, "10 members": {Journal: j, Size: MaxSize + 1}, "a tick of 1ns": {Journal: j, Tick: 1},
		"-1 observers": {Journal: j, Observers: -1}, "10 observers": {Journal: j, Observers: MaxSize + 1}, `the program "other" must be "rollcall", "zookeeper" or "floor"`: {Journal: j, Program: "other"},
		"neither TLS nor observers": {Journal: j, Program: Floor, Secure: true}, "the floor has": {Journal: j, Program: Floor, Observers: 1},
		"it fails as it should": {Journal: j, Size: 1, Lines: "fails=1\n"},
	} {
		cfg.Dir = dir
		if _, err := NewProcesses(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left)+len(j.Entries()) > 0 {
		t.Errorf("left: %v, %v, %v", left, err, j.Entries())
	}
	if _, err := j.Add("something", nil, func(int) []Step { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := NewProcesses(t.Context(), ProcessConfig{Journal: j, Dir: dir}); err == nil {
		t.Error("an ensemble starts although another one is in the journal")
	}
	p, err := NewProcesses(t.Context(), ProcessConfig{Journal: j, Dir: dir, Beside: true, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	if text := fileText(p.members[0].config); strings.Contains(text, "server.") || strings.Contains(text, "ecret") {
		t.Errorf("the configuration of a member alone:\n%s", text)
	}
	if err := p.Can(Fault{Kind: Replace, Member: "1"}); err == nil || !strings.Contains(err.Error(), "one member") {
		t.Errorf("a member alone is replaced: %v", err)
	}
	if err := p.Close(t.Context()); err != nil || len(j.Entries()) != 1 {
		t.Errorf("%v, %v", err, j.Entries())
	}
}

// Processes end, stop and start as their faults say.
func TestFaultsOfProcesses(t *testing.T) {
	p := standIns(t, ProcessConfig{})
	m := p.members[1]
	for _, kind := range []Kind{Kill, Shut, Wipe, Stop} {
		f, before := Fault{Kind: kind, Member: "2"}, m.process
		if err := os.WriteFile(filepath.Join(m.data, "state"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		mustBreak(t, p, f)
		state, _ := startOf(before.cmd.Process.Pid)
		stat := fileText("/proc", fmt.Sprint(before.cmd.Process.Pid), "stat")
		if kind == Stop {
			if m.process != before || !strings.Contains(stat, ") T ") {
				t.Errorf("after %s: %v, %s", kind, m.process, stat)
			}
			for _, denied := range []Kind{Shut, Add, Backup} {
				if err := p.Can(Fault{Kind: denied, Member: "2"}); err == nil || !strings.Contains(err.Error(), "stopped") {
					t.Errorf("%s of a member that is stopped: %v", denied, err)
				}
			}
		} else if m.process != nil || state != "" {
			t.Errorf("after %s the process is %v, %q", kind, m.process, state)
		} else if err := p.Break(t.Context(), Fault{Kind: Stop, Member: "2"}); err == nil || !strings.Contains(err.Error(), "member 2 is down") {
			t.Errorf("stop after %s: %v", kind, err)
		}
		if left, err := os.ReadDir(m.data); err != nil || (len(left) == 1) != (kind == Wipe) || fileText(m.data, "myid") != "2\n" {
			t.Errorf("data after %s: %v, %v", kind, left, err)
		}
		if n := strings.Count(fileText(m.log), "shuts down"); (n == 1) != (kind != Kill) || n > 1 {
			t.Errorf("after %s the member has shut down %d times", kind, n)
		}
		mustRepair(t, p, f)
		if (m.process == before) != (kind == Stop) {
			t.Errorf("after the repair of %s the process is the same: %t", kind, m.process == before)
		}
	}
	mustBreak(t, p, Fault{Kind: Kill, Member: "3"})
	for kind, want := range map[Kind]string{Cut: "loopback", Disk: "must not be broken", Clock: "share its clock", Keys: "no certificates", Upgrade: "no other binary", MoveIn: "cannot have the fault move-in", Add: "down or stopped"} {
		f := Fault{Kind: kind, Member: "3"}
		switch kind {
		case Disk:
			f.Mode = Fail
		case Keys:
			f.Mode = Own
		}
		if err := p.Can(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", kind, err, want)
		}
	}
	// A member that has ended by itself is started again, and one that a drill has killed is not.
	first := m.process
	if err := p.reviveMember(t.Context(), m); err != nil || m.process != first {
		t.Errorf("a member that runs: %v, %v", err, m.process)
	}
	_ = first.cmd.Process.Kill()
	<-first.done
	if err := p.reviveMember(t.Context(), m); err != nil || m.process == first || m.process == nil {
		t.Errorf("a member that has ended: %v, %v", err, m.process)
	}
	if err := p.reviveMember(t.Context(), p.members[2]); err != nil || p.members[2].process != nil {
		t.Errorf("a member that was killed: %v", err)
	}
}

// What operators do is done by Rollcall's commands, and undone.
func TestFaultsOfOperators(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(self, other); err != nil {
		t.Fatal(err)
	}
	p := standIns(t, ProcessConfig{Other: other})
	line := func(id int) string {
		ip := p.members[0].ip.To4()
		at := net.IPv4(ip[0], ip[1], ip[2], byte(id)).String()
		return fmt.Sprintf("server.%d=%s:2888:3888;%s:2181", id, at, at)
	}
	admin := func(id int) string { return p.members[id-1].Admin }
	names := func() string { return strings.Join(p.names, " ") }
	backup := filepath.Join(t.TempDir(), "backup")
	for _, tt := range []struct {
		fault              Fault
		names              string // of the members while it is there
		commands, repaired string
	}{
		{Fault{Kind: Add, Member: "2"}, "1 2 3 4", admin(2) + " members add " + line(4), admin(2) + " members remove --if-exists 4"},
		{Fault{Kind: Replace, Member: "2"}, "1 3 4", admin(1) + " members replace 2 " + line(4), admin(1) + " members replace 4 " + line(2)},
		{Fault{Kind: Replace, Member: "1"}, "2 3 4", admin(2) + " members replace 1 " + line(4), admin(2) + " members replace 4 " + line(1)},
		{Fault{Kind: Backup, Member: "3", File: backup}, "1 2 3", admin(3) + " backup save " + backup, ""},
	} {
		mustBreak(t, p, tt.fault)
		if got := commandsOf(p); got != tt.commands+"\n" || names() != tt.names || len(p.members) != len(p.names) {
			t.Errorf("%v: the members %s, and %s", tt.fault, names(), got)
		}
		for i, m := range p.members {
			if m.Name != p.names[i] || m.process == nil || m.Token != p.members[0].Token {
				t.Errorf("%v: the members %s, and the %dth is %+v", tt.fault, names(), i, m)
			}
		}
		if _, err := os.Stat(backup); (err == nil) != (tt.fault.Kind == Backup) {
			t.Errorf("%v: the backup: %v", tt.fault, err)
		}
		if tt.fault.Kind == Replace && tt.fault.Member == "1" { // no member of this list leads
			if err := p.Repair(t.Context(), tt.fault); err != nil {
				t.Fatal(err)
			}
		} else {
			mustRepair(t, p, tt.fault)
		}
		if got := commandsOf(p); names() != "1 2 3" || tt.repaired != "" && got != tt.repaired+"\n" {
			t.Errorf("repair of %v: the members %s, and %s", tt.fault, names(), got)
		}
		if left, err := os.ReadDir(p.dir); err != nil || len(left) != 5 { // with the token and the mark
			t.Errorf("repair of %v leaves %v, %v", tt.fault, left, err)
		}
	}
	if _, err := os.Stat(backup); err == nil {
		t.Error("the backup is left")
	}
	if err := p.Break(t.Context(), Fault{Kind: Backup, Member: "1", File: "backup"}); err == nil || len(p.broken) > 0 {
		t.Errorf("a backup without an absolute path: %v, %v", err, p.broken)
	}

	// A member whose command is rejected is removed again.
	refuse := filepath.Join(p.dir, "refuse")
	for _, kind := range []Kind{Add, Replace} {
		f := Fault{Kind: kind, Member: "2"}
		if err := os.WriteFile(refuse, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Break(t.Context(), f); err == nil || !strings.Contains(err.Error(), "the command is refused") || names() != "1 2 3 4" {
			t.Errorf("%v: %v; the members %s", f, err, names())
		}
		if err := os.Remove(refuse); err != nil {
			t.Fatal(err)
		}
		mustRepair(t, p, f)
		by := map[Kind]int{Add: 2, Replace: 1}[kind]
		if got, want := commandsOf(p), admin(by)+" members remove --if-exists 4\n"; got != want || names() != "1 2 3" {
			t.Errorf("repair of %v: the members %s, and %s, want %s", f, names(), got, want)
		}
	}

	f := Fault{Kind: Upgrade, Member: "2"}
	started := func() string {
		lines := strings.Fields(fileText(p.members[1].log))
		return lines[len(lines)-1]
	}
	mustBreak(t, p, f)
	if got := started(); got != "other" {
		t.Errorf("%v runs %q", f, got)
	}
	mustRepair(t, p, f)
	if got := started(); got != filepath.Base(self) {
		t.Errorf("after the repair of %v it runs %q", f, got)
	}

	old := fileText(p.Dir("1"), "secret")
	for _, mode := range []string{Both, New} {
		for _, m := range slices.Clone(p.members) {
			if err := p.Break(t.Context(), Fault{Kind: Secret, Member: m.Name, Mode: mode}); err != nil {
				t.Fatal(err)
			}
			now := fileText(p.Dir(m.Name), "secret")
			next := strings.TrimPrefix(now, old)
			if (next != now) != (mode == Both) || len(next) < 20 ||
				!strings.Contains(fileText(m.log), fmt.Sprintf("%q: the ensemble's secrets", now)) {
				t.Errorf("member %s has read %q in mode %s, after %q", m.Name, now, mode, old)
			}
		}
	}
	if now := fileText(p.Dir("3"), "secret"); now != p.proofs.secret+"\n" || p.proofs.next != "" || now != fileText(p.Dir("1"), "secret") {
		t.Errorf("at the end the secret is %q, and %+v", now, p.proofs)
	}
}

// Certificates are exchanged one step after the other, and clients reach each member at any time.
func TestCertificatesAreRotated(t *testing.T) {
	p := standIns(t, ProcessConfig{Proof: ByCertificates, Secure: true})
	if err := p.Can(Fault{Kind: Secret, Member: "1", Mode: Both}); err == nil || !strings.Contains(err.Error(), "no secret") {
		t.Errorf("a secret beside certificates: %v", err)
	}
	reach := func(when string) {
		t.Helper()
		for _, m := range p.Members() {
			cfg := p.ClientTLS()
			cfg.ServerName, _, _ = net.SplitHostPort(m.Secure)
			conn, err := tls.Dial("tcp", m.Secure, cfg)
			if err != nil {
				t.Fatalf("member %s %s: %v", m.Name, when, err)
			}
			if text, err := io.ReadAll(conn); err != nil || string(text) != "welcome" {
				t.Errorf("member %s %s: %q, %v", m.Name, when, text, err)
			}
			_ = conn.Close()
			cfg = p.ClientTLS()
			cfg.ServerName = "other"
			if _, err := tls.Dial("tcp", m.Secure, cfg); err == nil {
				t.Errorf("member %s %s is another host, too", m.Name, when)
			}
		}
	}
	reach("at first")
	one, two := func() string { return fileText(p.dir, "certs-1", "ca.pem") }, func() string { return fileText(p.dir, "certs-2", "ca.pem") }
	for _, mode := range []string{Both, Own, New} {
		for _, m := range slices.Clone(p.members) {
			if err := p.Break(t.Context(), Fault{Kind: Keys, Member: m.Name, Mode: mode}); err != nil {
				t.Fatal(err)
			}
			reach("after " + mode + " of " + m.Name)
			trusted := map[string]string{Both: one() + two(), Own: one() + two(), New: two()}[mode]
			key := map[bool]string{true: "certs-1", false: "certs-2"}[mode == Both]
			for dir, name := range map[string]string{p.Dir(m.Name): m.ip.String(), p.Dir(clientName): clientName} {
				if fileText(dir, "ca.pem") != trusted || fileText(dir, "tls.pem") != fileText(p.dir, key, name+".pem") {
					t.Errorf("the files of %s in mode %s are not those of the step", dir, mode)
				}
			}
		}
	}
	if (&Processes{}).ClientTLS() != nil {
		t.Error("clients use TLS with an ensemble without certificates")
	}
}

// Rollcall takes the place of ZooKeeper: all servers end, the data is imported once, and all start at their addresses.
func TestMoveIn(t *testing.T) {
	p := standInsFor(t, ProcessConfig{Size: 3, Program: ZooKeeper})
	before := p.Members()
	if text := fileText(p.members[0].config); before[0].Admin != "" || p.TokenFile() != "" ||
		!strings.Contains(text, "admin.enableServer=false\n") {
		t.Errorf("ZooKeeper has %+v, %q and\n%s", before[0], p.TokenFile(), text)
	}
	if err := p.Break(t.Context(), Fault{Kind: MoveIn, Member: "1"}); err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s import --config %s", p.members[0].Admin, p.members[0].config)
	for i, m := range p.members {
		want += " " + filepath.Join(p.Dir(m.Name), "data")
		if m.data != filepath.Join(p.Dir(m.Name), "rollcall") || m.Clients != before[i].Clients || m.Admin == "" ||
			strings.Count(fileText(m.log), "shuts down") != 1 {
			t.Errorf("%+v after %+v", m, before[i])
		}
	}
	if got := commandsOf(p); got != want+"\n" {
		t.Errorf("%s, want %s", got, want)
	}
	if err := p.Can(Fault{Kind: MoveIn, Member: "1"}); err == nil {
		t.Error("Rollcall moves in twice")
	}
}
