package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// withTools lets programs that need root only be written down, each in a line. ss prints the connections in a file, too. nft and ss
// should run by nsenter alone: called directly, they would change this machine's own network.
func withTools(t *testing.T, connections string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log, printed := filepath.Join(dir, "calls"), filepath.Join(dir, "connections")
	if err := os.WriteFile(printed, []byte(connections), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string]string{"ip": "", "tc": "", "mkfs.ext4": "", "mount": "", "nft": "", "ss": "", "nsenter": `test "$2" != ss || cat ` + printed} {
		script := "#!/bin/sh\necho \"" + name + " $*\" >>" + log + "\n" + more + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() string {
		defer os.Remove(log)
		return fileText(log)
	}
}

// stepsText describes steps that undo something.
func stepsText(steps []Step) (text string) {
	for _, s := range steps {
		if len(s.Run) > 0 {
			text += strings.Join(s.Run, " ") + " if " + s.Needs + "\n"
		} else {
			text += fmt.Sprintf("thaw %q unmount %q remove %q\n", s.Thaw, s.Unmount, s.Remove)
		}
	}
	return text
}

// The members' namespaces are connected with a bridge, and each fault of their network has its commands. All is undone by what is in
// the journal.
func TestNetworkCommands(t *testing.T) {
	calls := withTools(t, "0 0 10.0.0.1:2888 10.0.0.2:40000\n")
	n := &network{}
	p := &Processes{cfg: ProcessConfig{Size: 2}, network: n, dir: t.TempDir()}
	p.journal, p.methods = openJournal(t, t.TempDir()), map[Kind]faultMethod{}
	networkFaults{p}.registerMethods()
	for id := range 2 {
		m, err := p.newMember(t.Context(), id+1)
		if err != nil {
			t.Fatal(err)
		}
		p.members, p.names = append(p.members, m), append(p.names, m.Name)
	}
	if err := p.connectMembers(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(what, got, want string) {
		t.Helper()
		got = strings.NewReplacer("198.18.0.0/15", "198.18.0.0/15", "rcd"+n.id, "HOST", "rcd-"+n.id, "NS", n.subnet, "SUBNET").Replace(got)
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
		}
	}
	check("the network", calls(), `
ip netns add NS-hub
ip -n NS-hub link add br0 type bridge
ip -n NS-hub link set br0 up
ip link add HOST type veth peer name up0 netns NS-hub
ip -n NS-hub link set up0 master br0 up
ip address add SUBNET.254/24 dev HOST
ip link set HOST up
ip netns add NS-1
ip -n NS-1 link set lo up
ip -n NS-hub link add m1 type veth peer name eth0 netns NS-1
ip -n NS-hub link set m1 master br0 up
ip -n NS-1 address add SUBNET.1/24 dev eth0
ip -n NS-1 link set eth0 up
ip netns add NS-2
ip -n NS-2 link set lo up
ip -n NS-hub link add m2 type veth peer name eth0 netns NS-2
ip -n NS-hub link set m2 master br0 up
ip -n NS-2 address add SUBNET.2/24 dev eth0
ip -n NS-2 link set eth0 up
tc -n NS-1 qdisc replace dev eth0 root netem delay 1ms`)
	undo := ""
	for _, e := range p.journal.Entries() {
		undo += stepsText(e.Undo)
	}
	check("its end", undo, `
ip link delete HOST if /sys/class/net/HOST
ip netns delete NS-hub if /run/netns/NS-hub
ip netns delete NS-1 if /run/netns/NS-1
ip netns delete NS-2 if /run/netns/NS-2`)
	if m := p.members[1]; m.Clients != n.subnet+".2:2181" || len(m.setup) != 1 || len(p.setup) != 3 || !n.netem ||
		p.Kind() != "namespaces" || len("rcd"+n.id) > 15 {
		t.Errorf("%+v, %+v, %s", m, n, p.Kind())
	}
	_, private, _ := net.ParseCIDR("198.18.0.0/15")
	if !private.Contains(p.members[0].ip) {
		t.Errorf("the members have addresses like %v", p.members[0].ip)
	}
	check("a program of a member", strings.Join(insideNamespace(p.members[1].space, "x"), " "), "nsenter --net=/run/netns/NS-2 x")

	tables := func(id int) string {
		return fmt.Sprintf("nsenter --net=/run/netns/NS-1 nft add table inet drill%d; delete table inet drill%d if /run/netns/NS-1\n", id, id)
	}
	queues := "tc -n NS-1 qdisc replace dev eth0 root noqueue if /run/netns/NS-1\ntc -n NS-hub qdisc replace dev m1 root noqueue if /run/netns/NS-hub\n"
	nft := func(id int, rules string) string {
		table := fmt.Sprintf("inet drill%d", id)
		return "nsenter --net=/run/netns/NS-1 nft add table " + table + "; add chain " + table + " in { type filter hook input priority 0; }; add chain " + table +
			" out { type filter hook output priority 0; }; " + strings.ReplaceAll(rules, "TABLE", table) + "\n"
	}
	for i, tt := range []struct {
		fault      Fault
		plain      bool // the kernel has no netem
		made, undo string
	}{
		{Fault{Kind: Cut}, false, nft(1, "add rule TABLE out ip daddr { SUBNET.2 } drop; add rule TABLE in ip saddr { SUBNET.2 } drop"), tables(1)},
		{
			Fault{Kind: Slow, Delay: time.Millisecond, Loss: 0.5},
			false,
			"tc -n NS-1 qdisc replace dev eth0 root netem limit 10000 delay 1000us loss 50.0000%\ntc -n NS-hub qdisc replace dev m1 root netem limit 10000 delay 1000us loss 50.0000%\n", queues + tables(2),
		},
		{Fault{Kind: Slow, From: []string{"2"}, Loss: 0.5}, false, nft(3, "add rule TABLE in ip saddr { SUBNET.2 } numgen random mod 1000000 < 500000 drop"), queues + tables(3)},
		{
			Fault{Kind: Slow, Loss: 0.5, Rate: 1},
			true,
			"tc -n NS-1 qdisc replace dev eth0 root tbf rate 8bit burst 64kb latency 1s\ntc -n NS-hub qdisc replace dev m1 root tbf rate 8bit burst 64kb latency 1s\n" +
				nft(4, "add rule TABLE in ip saddr 198.18.0.0/15 numgen random mod 1000000 < 500000 drop; add rule TABLE out ip saddr 198.18.0.0/15 numgen random mod 1000000 < 500000 drop"), queues + tables(4),
		},
	} {
		n.netem, tt.fault.Member = !tt.plain, "1"
		plan, err := p.methods[tt.fault.Kind].plan(tt.fault, i+1)
		if err == nil {
			err = plan.make(t.Context())
		}
		if err != nil {
			t.Errorf("%v: %v", tt.fault, err)
		}
		check(tt.fault.String(), calls(), tt.made)
		check("the end of "+tt.fault.String(), stepsText(plan.undo), tt.undo)
	}

	plan, err := p.methods[Forget].plan(Fault{Kind: Forget, Member: "1"}, 5)
	if err != nil {
		t.Fatal(err)
	}
	check("the end of forget", stepsText(plan.undo), tables(5))
	if err := plan.make(t.Context()); err == nil || !strings.Contains(err.Error(), "no connections that could be lost") {
		t.Errorf("no connections are forgotten: %v", err)
	}

	for want, f := range map[string]Fault{"lacks netem": {Kind: Slow, Delay: 1}, "": {Kind: Slow, Loss: 0.5}} {
		n.netem, f.Member = false, "1"
		if err := p.Can(f); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v", f, err)
		}
	}
	p.broken = append(p.broken, brokenFault{fault: Fault{Kind: Slow, Member: "1"}})
	if err := p.Can(Fault{Kind: Slow, Member: "1", Loss: 0.5}); err == nil || !strings.Contains(err.Error(), "slow already") {
		t.Errorf("a second time: %v", err)
	}
}

// Flows that are forgotten are lost in both directions, by their addresses and ports.
func TestForgottenFlows(t *testing.T) {
	calls := withTools(t, "0 0 198.18.7.1:2888 198.18.7.2:40000\n0 0 198.18.7.1:2888 198.18.7.3:40001\n")
	p := &Processes{network: &network{id: "x", subnet: "198.18.7"}, members: []*member{{id: 1}, {id: 2}}}
	p.names = []string{"1", "2"}
	plan, err := networkFaults{p}.planForget(Fault{Kind: Forget, Member: "1"}, 7)
	if err == nil {
		err = plan.make(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	want := "nsenter --net=/run/netns/rcd-x-1 ss -Htn state established\n" +
		"nsenter --net=/run/netns/rcd-x-1 nft add table inet drill7; add chain inet drill7 in { type filter hook input priority 0; }; " +
		"add chain inet drill7 out { type filter hook output priority 0; }; add set inet drill7 flows { type ipv4_addr . inet_service . ipv4_addr . inet_service; }; " +
		"add element inet drill7 flows { 198.18.7.1 . 2888 . 198.18.7.2 . 40000 }; add rule inet drill7 out ip saddr . tcp sport . ip daddr . tcp dport @flows drop; " +
		"add rule inet drill7 in ip daddr . tcp dport . ip saddr . tcp sport @flows drop\n"
	if got := calls(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// unbreakable returns a directory of procfs where nothing is mounted. Any fault that a test causes in that file system
// fails: procfs cannot be frozen or shut down, and no user can make files in it. If the code did not check, a directory
// of this machine's own disk would lose that disk.
func unbreakable(t *testing.T) string {
	t.Helper()
	var system unix.Statfs_t
	dir := fmt.Sprintf("/proc/%d", os.Getpid())
	if err := unix.Statfs(dir, &system); err != nil || system.Type != unix.PROC_SUPER_MAGIC {
		t.Fatalf("%s is not in procfs: it has the type %x, %v", dir, system.Type, err)
	}
	return dir
}

// Only where a file system is mounted may one be broken, and never this machine's root.
func TestOwnDisk(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("/proc", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file, link, unbreakable(t), "/"} {
		if err := checkOwnDisk(path); err == nil || !strings.Contains(err.Error(), "no file system is mounted at "+path+",") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := checkOwnDisk("/proc"); err != nil {
		t.Errorf("a file system that is mounted: %v", err)
	}
	for _, path := range []string{"", filepath.Join(dir, "none"), filepath.Join(dir, "none", "none")} {
		if err := checkOwnDisk(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q, which is not there: %v", path, err)
		}
	}
}

// A member's own disk is made and mounted, and a fault of it breaks no other disk.
func TestDiskCommands(t *testing.T) {
	calls := withTools(t, "")
	p := &Processes{cfg: ProcessConfig{Disks: true}, dir: t.TempDir()}
	p.journal, p.methods = openJournal(t, t.TempDir()), map[Kind]faultMethod{}
	diskFaults{p}.registerMethods()
	m, err := p.newMember(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p.members, p.names = []*member{m}, []string{"1"}
	disk := filepath.Join(p.dir, "1", "disk")
	if got, want := calls(), "mkfs.ext4 -q -m 0 "+disk+".ext4\nmount -o loop "+disk+".ext4 "+disk+"\n"; got != want ||
		m.data != filepath.Join(disk, "data") {
		t.Errorf("%s\nwant\n%s; the data are in %s", got, want, m.data)
	}
	if info, err := os.Stat(disk + ".ext4"); err != nil || info.Size() != diskBytes {
		t.Errorf("the disk is %v, %v", info, err)
	}
	if undo, want := stepsText(p.journal.Entries()[0].Undo), fmt.Sprintf("thaw %q unmount \"\" remove \"\"\nthaw \"\" unmount %q remove \"\"\n", disk, disk); undo != want || len(m.setup) != 1 {
		t.Errorf("%s\nwant\n%s", undo, want)
	}
	ownData := m.data
	m.disk = unbreakable(t) // nothing is mounted here
	m.data = filepath.Join(m.disk, "data")
	for _, f := range []Fault{{Kind: Disk, Mode: Stall}, {Kind: Disk, Mode: Fail}, {Kind: Fill}} {
		f.Member = "1"
		plan, err := p.methods[f.Kind].plan(f, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.make(t.Context()); err == nil || !strings.Contains(err.Error(), "no file system is mounted at "+m.disk+",") {
			t.Errorf("%v of a disk that is not the member's own: %v", f, err)
		}
		want := map[Kind]string{Fill: fmt.Sprintf("thaw \"\" unmount \"\" remove %q\n", filepath.Join(m.disk, filler))}[f.Kind]
		if f.Mode == Stall {
			want = fmt.Sprintf("thaw %q unmount \"\" remove \"\"\n", m.disk)
		}
		if got := stepsText(plan.undo); got != want || plan.after == nil {
			t.Errorf("the end of %v: %s, want %s", f, got, want)
		}
	}
	m.disk, m.data = disk, ownData
	p.broken = []brokenFault{{fault: Fault{Kind: Fill, Member: "1"}}}
	for _, f := range []Fault{{Kind: Disk, Mode: Fail, Member: "1"}, {Kind: Fill, Member: "1"}} {
		if err := p.Can(f); err == nil || !strings.Contains(err.Error(), "broken already") {
			t.Errorf("%v beside fill: %v", f, err)
		}
	}
	p.broken = []brokenFault{{fault: Fault{Kind: Disk, Mode: Stall, Member: "1"}}}
	makeDeaf(m)
	if err := p.canEnd(Fault{Kind: Kill, Member: "1"}); err == nil || !strings.Contains(err.Error(), "is stalled") {
		t.Errorf("kill beside a stalled disk: %v", err)
	}
	if os.Geteuid() != 0 {
		return // others may not unmount
	}
	if thawWrites(filepath.Join(p.dir, "none")) != nil || unmountLazily(filepath.Join(p.dir, "none")) != nil || unmountLazily(disk) != nil {
		t.Error("what is not there cannot be thawed or unmounted")
	}
	if err := m.writeID(); err != nil {
		t.Fatal(err)
	}
	p.launcher.argv = func(*Processes, *member) []string { return []string{"sleep", "600"} }
	for _, wasUp := range []bool{false, true} {
		m.process = nil
		if err := (diskFaults{p}).remountDisk(t.Context(), m, wasUp); err != nil || (m.process != nil) != wasUp {
			t.Errorf("a member that was up: %t; %v, %v", wasUp, err, m.process)
		}
		if got, want := calls(), "mount -o loop "+disk+".ext4 "+disk+"\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := p.endMember(t.Context(), m, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// Commands for a member in a namespace of its own go to its socket.
func TestCommandInNamespace(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Processes{dir: t.TempDir(), network: &network{}, cfg: ProcessConfig{Binary: self}}
	p.token = filepath.Join(p.dir, "token")
	m := &member{data: "/data/of/2"}
	if err := (operators{p}).runCommand(context.Background(), m, "members", "list"); err != nil {
		t.Fatal(err)
	}
	if got, want := commandsOf(p), "unix:/data/of/2/admin.sock members list\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
