package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// outsideMembers are the blocks of docs/members.md that TestMembersPage does not run.
var outsideMembers = map[string]string{
	"members.join=auto":                                        "member.TestMembersComeByThemselves sets it",
	"server.1=zk1:2888:3888;2181":                              "TestScalingPods has such lines",
	"members.join.hosts=*.members.example.org,zk9.example.org": "member.TestMembersThatMayNotCome sets it",
	"export ROLLCALL_ADMIN=http://127.0.0.1:8080 ROLLCALL_TOKEN_FILE=/etc/rollcall/token": "the test sets these variables to its members",
}

// The commands of docs/members.md make five members of one and three of five. Then they add a member, replace one,
// move one, and take one out. A client writes all the time, and another one follows its session.
func TestMembersPage(t *testing.T) {
	needs.Check(t, needs.Usual)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("abcdefghijklmnop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &membersPage{newPageWith(t, "members.md", outsideMembers, 1, "admin.tokenFile="+token+"\n"), token, map[string]string{}}
	busy := startWriting(t, p.Members[0].Clients)

	p.grow()
	session := connect(t, p.ClientAddresses(p.Members[0]), "/kept")
	p.shrink()

	p.begin("Add a member", 4)
	p.do("Add a member", 2)
	p.do("Add a member", 3)
	p.begin("Replace a machine by another one", 5)
	p.do("Replace a machine by another one", 2)
	p.ends("Replace a machine by another one", 3, p.Members[2])
	p.wantList("1 2 4 5")
	p.move(p.Members[2])

	p.do("Stop a member for a while", 1)
	p.restarts("Stop a member for a while", 2, p.Members[1])
	p.Settle()
	p.do("Stop a member for a while", 3)
	p.do("Rebalancing the clients", 1)
	p.do("Take a member out", 1)
	p.wantList("1 2 5")
	if err := session.same(0, true); err != nil {
		t.Error(err)
	}
	busy.check(t)
	p.wantAll()
}

// grow makes five members of one.
func (p *membersPage) grow() {
	p.t.Helper()
	const section = "From one member to five, and back to three"
	first := p.Members[0]
	lines := p.block(section, 1)
	p.moves(first, lines[1], first.Clients)
	if err := os.WriteFile(first.Config, []byte(p.config(first)+lines[0]+"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.restarts(section, 2, first)

	p.beginAt(section, 3, 2)
	p.shows(section, 5, "member 2 votes; the list has version 0x", p.do(section, 4))
	p.comes(3)
	p.do(section, 6)
	p.comes(4)
	p.comes(5)
	out := p.do(section, 7)
	for id := 1; id <= 5; id++ {
		p.shows(section, 8, fmt.Sprintf("\n     %d  participant  yes    ", id), out)
	}
	if lead, follow := strings.Count(out, "  yes    leader "), strings.Count(out, "  yes    follower "); lead != 1 || follow != 4 { // on a busy machine another one than member 1 may lead
		p.t.Errorf("%d members lead and %d follow, want 1 and 4:\n%s", lead, follow, out)
	}
	p.wantList("1 2 3 4 5")
}

// shrink makes three members of five. The first of those that go leads before. A client of it goes on elsewhere.
func (p *membersPage) shrink() {
	p.t.Helper()
	const section = "From one member to five, and back to three"
	last := p.Members[4]
	p.ask("rollcall members lead 5")
	moves := connect(p.t, p.ClientAddresses(last), "/moves")
	seen, _ := moves.seen()
	out := p.do(section, 9)
	for _, want := range []string{"member 1 leads", "member 5 is not in the ensemble; the list has version 0x", "member 4 is not in the ensemble; the list has version 0x"} {
		p.shows(section, 10, want, out)
	}
	if err := process.Until(p.t.Context(), "member 1 leads", func() bool {
		if p.Members[0].Mode() == "leader" {
			return true
		}
		_, _ = p.try(p.dir, p.exports()+"rollcall members lead 1") // on a busy machine another one may lead by now
		return false
	}); err != nil {
		p.t.Error(err)
	}
	if err := moves.goOn(p.t.Context(), "removal", len(seen), true); err != nil {
		p.t.Error(err)
	}
	p.ends(section, 11, last)
	p.ends(section, 11, p.Members[3])
	p.wantList("1 2 3")
}

// move gives a member another address.
func (p *membersPage) move(m *process.Member) {
	p.t.Helper()
	const section = "A machine gets another address"
	p.terminate(m)
	p.moves(m, "server.4=zk4b:2888:3888;2181", process.FreePort(p.t).String())
	p.systemctl(p.block(section, 1)[0], "systemctl restart rollcall")
	p.start(m)
	p.do(section, 2)
}

// membersPage is the page with the members that come and go.
type membersPage struct {
	*page
	token string
	lines map[string]string // lines of the page, and those of the members that they stand for
}

// begin makes a member with the id, and does what the first block of a section says on its machine.
func (p *membersPage) begin(section string, id int) { p.t.Helper(); p.beginAt(section, 1, id) }

func (p *membersPage) beginAt(section string, n, id int) {
	p.t.Helper()
	m := p.newMachine(id)
	lines := p.block(section, n)
	p.shell(p.dir, p.fit(m, lines[0]))
	p.systemctl(lines[1], "systemctl enable --now rollcall")
	p.start(m)
}

// comes makes a member as the page says of another one.
func (p *membersPage) comes(id int) {
	p.t.Helper()
	m := p.newMachine(id)
	p.shell(p.dir, fmt.Sprintf("echo %d > %s/myid", id, m.Data))
	p.start(m)
}

// newMachine makes a member with the configuration of the first one, a line of its own and an empty directory.
func (p *membersPage) newMachine(id int) *process.Member {
	p.t.Helper()
	dir, first := p.t.TempDir(), p.Members[0]
	m := &process.Member{ID: id, Config: filepath.Join(dir, "zoo.cfg"), Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log")}
	if err := os.Mkdir(m.Data, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(m.Log, nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.Members = append(p.Members, m)
	config := strings.Replace(p.config(first), "dataDir="+first.Data, "dataDir="+m.Data, 1)
	if err := os.WriteFile(m.Config, []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.moves(m, fmt.Sprintf("server.%d=zk%d:2888:3888;2181", id, id), process.FreePort(p.t).String())
	return m
}

// systemctl checks that a line of the page is the one that the test now does the work of.
func (p *membersPage) systemctl(line, want string) {
	p.t.Helper()
	if line != want {
		p.t.Fatalf("docs/members.md says %q, and this test does %q", line, want)
	}
}

// restarts does what a block says whose last line restarts a member.
func (p *membersPage) restarts(section string, n int, m *process.Member) {
	p.t.Helper()
	lines := p.block(section, n)
	last := len(lines) - 1
	p.shell(p.dir, p.fit(m, strings.Join(lines[:last], "\n")))
	p.systemctl(lines[last], "systemctl restart rollcall")
	p.terminate(m)
	p.start(m)
	p.Settle()
}

// ends does what a block says that stops a member for good.
func (p *membersPage) ends(section string, n int, m *process.Member) {
	p.t.Helper()
	p.systemctl(p.block(section, n)[0], "systemctl disable --now rollcall")
	p.Remove(m)
}

// terminate stops a member that is to start again.
func (p *membersPage) terminate(m *process.Member) {
	p.t.Helper()
	p.line("systemctl stop rollcall", m)
}

// start starts a member, and waits until its log says where it answers operators.
func (p *membersPage) start(m *process.Member) {
	p.t.Helper()
	before := len(text(p.t, m.Log))
	p.Start(m)
	err := process.Until(p.t.Context(), fmt.Sprintf("member %d to start", m.ID), func() bool { return strings.Contains(text(p.t, m.Log)[before:], " http=") })
	if err != nil {
		p.t.Fatal(err)
	}
}

// moves gives a member that is down the address for clients, and new ones for members. A line of the page stands
// for it.
func (p *membersPage) moves(m *process.Member, line, clients string) {
	p.t.Helper()
	quorum, election := process.FreePort(p.t), process.FreePort(p.t)
	m.Clients = clients
	host, port, _ := strings.Cut(clients, ":")
	own := fmt.Sprintf("server.%d=%v:%d:%d;%s", m.ID, quorum.IP, quorum.Port, election.Port, clients)
	p.lines[line] = own
	config := regexp.MustCompile(fmt.Sprintf(`(?m)^server\.%d=.*\n`, m.ID)).ReplaceAllString(p.config(m), "")
	config = regexp.MustCompile(`(?m)^clientPortAddress=.*$`).ReplaceAllString(config, "clientPortAddress="+host)
	config = regexp.MustCompile(`(?m)^clientPort=.*$`).ReplaceAllString(config, "clientPort="+port)
	if err := os.WriteFile(m.Config, []byte(config+own+"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// do runs the commands of a block, and returns what they print.
func (p *membersPage) do(section string, n int) string {
	p.t.Helper()
	text := strings.Join(p.block(section, n), "\n")
	for line, own := range p.lines {
		text = strings.ReplaceAll(text, line, own)
	}
	return p.ask(text)
}

// ask runs commands with the addresses of the members that run, and the token.
func (p *membersPage) ask(commands string) string {
	p.t.Helper()
	return p.shell(p.dir, p.exports()+commands)
}

// exports returns the command that sets these for those that follow it.
func (p *membersPage) exports() string {
	p.t.Helper()
	var admin []string
	for _, m := range p.Members {
		addr, err := m.HTTP()
		if err != nil {
			p.t.Fatal(err)
		}
		admin = append(admin, "http://"+addr)
	}
	return "export ROLLCALL_ADMIN=" + strings.Join(admin, ",") + " ROLLCALL_TOKEN_FILE=" + p.token + "\n"
}

// wantList checks which members the list has.
func (p *membersPage) wantList(want string) {
	p.t.Helper()
	out := p.ask("rollcall members list -o json")
	var got []string
	for _, m := range regexp.MustCompile(`"member":(\d+),"server":"server`).FindAllStringSubmatch(out, -1) {
		got = append(got, m[1])
	}
	if strings.Join(got, " ") != want {
		p.t.Errorf("the list has the members %q, want %s:\n%s", got, want, out)
	}
}
