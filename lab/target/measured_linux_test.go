package target

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An ensemble to be measured has nothing that the caller did not want, and its members are started again with other lines.
func TestPlainEnsemble(t *testing.T) {
	p := standIns(t, ProcessConfig{Size: 1, Observers: 2, Tick: 2 * time.Second, Proof: Unproven, NoAdmin: true, Sessions: true, Lines: "x=y\n"})
	ip := func(n int) string { return p.members[n-1].ip.String() }
	want := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPortAddress=%s\nclientPort=2181\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n"+
		"x=y\nadmin.enableServer=false\nstandaloneEnabled=false\npeerType=observer\nserver.1=%s:2888:3888\nserver.2=%s:2888:3888:observer\nserver.3=%s:2888:3888:observer\n",
		filepath.Join(p.Dir("3"), "data"), ip(3), ip(1), ip(2), ip(3))
	if got := fileText(p.members[2].config); got != want {
		t.Errorf("zoo.cfg:\n%s\nwant\n%s", got, want)
	}
	if text := fileText(p.members[0].config); strings.Contains(text, "peerType") {
		t.Errorf("the voter has\n%s", text)
	}
	if p.Members()[0] != (Member{Name: "1", Clients: ip(1) + ":2181"}) || p.TokenFile() != "" || p.ClientTLS() != nil {
		t.Errorf("%+v, %q", p.Members()[0], p.TokenFile())
	}
	if err := p.Can(Fault{Kind: Backup, Member: "1"}); err == nil || !strings.Contains(err.Error(), "serve no operators") {
		t.Errorf("a backup of members without operators: %v", err)
	}
	for _, m := range p.members {
		if session, err := unix.Getsid(p.Pid(m.Name)); err != nil || session != p.Pid(m.Name) {
			t.Errorf("the session of member %s is %d, %v; want %d, its own", m.Name, session, err, p.Pid(m.Name))
		}
	}
	first, kept := p.Pid("2"), filepath.Join(p.members[1].data, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context(), "2"); err != nil || p.Pid("2") != 0 || first == 0 {
		t.Errorf("%v; the process was %d and is %d", err, first, p.Pid("2"))
	}
	if err := p.SetLines("z=1\n"); err != nil {
		t.Fatal(err)
	}
	for _, was := range []int{0, first} { // it is down, and then it runs
		before := p.Pid("2")
		if err := errors.Join(p.Restart(t.Context(), "2"), p.AwaitServing(t.Context())); err != nil {
			t.Fatal(err)
		}
		if now := p.Pid("2"); now == 0 || now == before || now == was {
			t.Errorf("the process was %d and is %d", before, now)
		}
	}
	if text := fileText(p.members[1].config) + fileText(p.members[0].config); strings.Count(text, "\nz=1\n") != 2 ||
		strings.Contains(text, "x=y") {
		t.Errorf("the configurations are\n%s", text)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	if p.Kill(t.Context(), "4") == nil || p.Restart(t.Context(), "4") == nil || p.Pid("4") != 0 {
		t.Error("there is a member 4")
	}
}

// Clients reach members of either software over TLS, although the members prove nothing to each other.
func TestClientsOverTLS(t *testing.T) {
	for _, program := range []Program{Rollcall, ZooKeeper} {
		p := standInsFor(t, ProcessConfig{Size: 1, Program: program, Proof: Unproven, Secure: true})
		m := p.Members()[0]
		cfg := p.ClientTLS()
		cfg.ServerName, _, _ = net.SplitHostPort(m.Secure)
		conn, err := tls.Dial("tcp", m.Secure, cfg)
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		_ = conn.Close()
		text := fileText(p.members[0].config)
		if strings.Contains(text, "NettyServerCnxnFactory") != (program == ZooKeeper) || strings.Contains(text, "quorum") {
			t.Errorf("%s has\n%s", program, text)
		}
	}
}

// The first member of the floor takes the clients of all.
func TestFloorMembers(t *testing.T) {
	dir := t.TempDir()
	p := &Processes{cfg: ProcessConfig{Journal: openJournal(t, dir), Binary: "/the/floor", Program: Floor, Size: 2, Dir: dir}, launcher: floorLauncher}
	p.journal = p.cfg.Journal
	t.Cleanup(func() { _ = p.Close(context.WithoutCancel(t.Context())) })
	err := p.prepareAndStart(t.Context(), func(context.Context) error { return useLoopback(p.members) })
	if err == nil || !strings.Contains(err.Error(), "/the/floor") {
		t.Errorf("a binary that is not there: %v", err)
	}
	one, two := p.members[0], p.members[1]
	peers := fmt.Sprintf("%s:2888,%s:2888", one.ip, two.ip)
	for m, want := range map[*member]string{
		one: "/the/floor --member 1 --peers " + peers + " --data " + one.data + " --client " + one.ip.String() + ":2181",
		two: "/the/floor --member 2 --peers " + peers + " --data " + two.data,
	} {
		if got := strings.Join(p.launcher.argv(p, m), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A caller places the members.
func TestPlacedMembers(t *testing.T) {
	j, dir := openJournal(t, t.TempDir()), t.TempDir()
	here := Place{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 63, byte(os.Getpid() >> 8), byte(os.Getpid())}), 3000)}
	if _, err := NewPlaced(t.Context(), ProcessConfig{Journal: j, Dir: dir}, []Place{here}); err == nil ||
		!strings.Contains(err.Error(), "1 places for 3 members") {
		t.Errorf("%v", err)
	}
	p, err := NewPlaced(t.Context(), ProcessConfig{Journal: j, Dir: dir, Size: 1}, []Place{here})
	if err != nil {
		t.Fatal(err)
	}
	if m := p.members[0]; m.Clients != here.Address.String() || m.ports != (ports{3000, 3001, 3002, 3003, 3004}) {
		t.Errorf("member 1 is at %s and %v", m.Clients, m.ports)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	there := Place{Namespace: "rollcall-none", Address: here.Address}
	if _, err := NewPlaced(t.Context(), ProcessConfig{Journal: j, Dir: dir, Size: 1}, []Place{there}); err == nil ||
		!strings.Contains(err.Error(), "rollcall-none") {
		t.Errorf("a namespace that is not there: %v", err)
	}
}
