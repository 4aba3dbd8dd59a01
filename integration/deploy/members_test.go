package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rollcall/integration/process"
)

// outsideMembers are the blocks of docs/members.md that TestMembersPage does not run.
var outsideMembers = map[string]string{
	"export ROLLCALL_ADMIN=http://zk1:8080,http://zk2:8080,http://zk3:8080 ROLLCALL_TOKEN_FILE=/etc/rollcall/token": "the test sets these variables to its members",
}

// The commands of docs/members.md add a member, replace one, move one, and take one out, while a session goes on.
func TestMembersPage(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("abcdefghijklmnop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &membersPage{newPageWith(t, "members.md", outsideMembers, "admin.tokenFile="+token+"\n"), token, map[string]string{}}
	session := connect(t, p.Addresses(p.Members[0]), "/kept")

	p.begin("Add a member", 4)
	p.do("Add a member", 2)
	p.do("Add a member", 3)
	p.begin("Replace a machine by another one", 5)
	p.do("Replace a machine by another one", 2)
	third := p.Members[2]
	p.block("Replace a machine by another one", 3)
	p.stop(third)
	p.Members = append(p.Members[:2], p.Members[3:]...)
	p.wantList("1 2 4 5")

	fourth := p.Members[2]
	p.block("A machine gets another address", 1)
	p.stop(fourth)
	p.moves(fourth, "server.4=zk4b:2888:3888;2181")
	p.start(fourth)
	p.do("A machine gets another address", 2)

	p.do("Stop a member for a while", 1)
	p.block("Stop a member for a while", 2)
	p.stop(p.Members[1])
	p.start(p.Members[1])
	p.Settle()
	p.do("Stop a member for a while", 3)
	p.do("Take a member out", 1)
	p.wantList("1 2 5")
	if err := session.same(0, true); err != nil {
		t.Error(err)
	}
	p.wantAll()
}

// membersPage is the page with the members that come and go.
type membersPage struct {
	*page
	token string
	lines map[string]string // lines of the page, and those of the members that they stand for
}

// begin makes a member with the id, and does what the first block of a section says on its machine.
func (p *membersPage) begin(section string, id int) {
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
	p.moves(m, fmt.Sprintf("server.%d=zk%d:2888:3888;2181", id, id))
	lines := p.block(section, 1)
	p.shell(p.dir, p.fit(m, lines[0]))
	p.start(m) // systemctl start rollcall
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

// moves gives a member that is down new addresses, which a line of the page stands for.
func (p *membersPage) moves(m *process.Member, line string) {
	p.t.Helper()
	clients, quorum, election := process.FreePort(p.t), process.FreePort(p.t), process.FreePort(p.t)
	m.Clients = clients.String()
	own := fmt.Sprintf("server.%d=%v:%d:%d", m.ID, quorum.IP, quorum.Port, election.Port)
	p.lines[line] = fmt.Sprintf("%s;%v", own, clients)
	config := regexp.MustCompile(fmt.Sprintf(`(?m)^server\.%d=.*\n`, m.ID)).ReplaceAllString(p.config(m), "")
	config = regexp.MustCompile(`(?m)^clientPortAddress=.*$`).ReplaceAllString(config, "clientPortAddress="+clients.IP.String())
	config = regexp.MustCompile(`(?m)^clientPort=.*$`).ReplaceAllString(config, fmt.Sprintf("clientPort=%d", clients.Port))
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
	var admin []string
	for _, m := range p.Members {
		addr, err := m.HTTP()
		if err != nil {
			p.t.Fatal(err)
		}
		admin = append(admin, "http://"+addr)
	}
	return p.shell(p.dir, "export ROLLCALL_ADMIN="+strings.Join(admin, ",")+" ROLLCALL_TOKEN_FILE="+p.token+"\n"+commands)
}

func (p *membersPage) stop(m *process.Member) {
	p.t.Helper()
	m.Process.Forgive()
	m.Process.Kill()
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
