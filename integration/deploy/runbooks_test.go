package deploy

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/internal/keystore/authority"
	"rollcall/lab/process"
)

// outsideRunbooks are the blocks of docs/runbooks.md that TestRunbooks does not run.
var outsideRunbooks = map[string]string{
	"export ROLLCALL_ADMIN=http://127.0.0.1:8080": "the test names the members that run",
	"rollcall: health: 127.0.0.1:2181: not serving: no leader is known: this member waits for all members, which must reply that they have no data before a new ensemble begins; missing: member 3 (10.0.0.3:3888): ...": "quorum.TestWhoBegins has what is waited for",
	"$ rollcall slow": "the output of a leader that was stopped; operator/view.TestStageText has its words",
}

// The commands of docs/runbooks.md bring an ensemble back that has lost a machine, a majority, the room on a
// disk, or the time of a certificate. What members and commands print then is as the page says. What
// clients had written is there each time, and a session goes on.
func TestRunbooks(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := newPage(t, "runbooks.md", outsideRunbooks)
	first, second, third := p.Members[0], p.Members[1], p.Members[2]
	session := connect(t, p.ClientAddresses(first), "/kept")
	p.shell(p.dir, "export ROLLCALL_ADMIN="+p.admin()+"\n"+strings.Join(p.block("Clients say it is slow", 1), "\n"))
	p.lose(third)
	p.loseMajority(first, second, third)
	p.fillDisk(second)
	p.outlive(third)
	if err := session.same(0, true); err != nil {
		t.Error(err)
	}
	p.wantAll()
}

// lose kills a member, takes its disk away, and replaces its machine.
func (p *page) lose(m *process.Member) {
	p.t.Helper()
	m.Process.Kill()
	if err := os.RemoveAll(m.Data); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Mkdir(m.Data, 0o700); err != nil {
		p.t.Fatal(err)
	}
	p.shows("A machine is lost", 1, "no answer: down (quorum: connect to member 3 at", p.status())
	p.do("A machine is lost", 2, m)
	p.Settle()
	p.do("A machine is lost", 3, m)
	p.whole()
}

// loseMajority kills two members, loses the disk of one of them and recovers the other one.
func (p *page) loseMajority(survivor, lost, stays *process.Member) {
	p.t.Helper()
	const section = "A majority is lost"
	process.KillAll([]*process.Member{lost, stays})
	out, err := p.try(p.dir, p.fit(survivor, "rollcall health /etc/rollcall/zoo.cfg"))
	for until := time.Now().Add(patience); (err == nil || !strings.Contains(out, "waits for")) && time.Now().Before(until); { // it leads on for some ticks
		out, err = p.try(p.dir, p.fit(survivor, "rollcall health /etc/rollcall/zoo.cfg"))
	}
	p.shows(section, 1, "not serving: no leader is known: this member waits for members ", out)
	lines := p.block(section, 2)
	p.line(lines[0], survivor)
	if out, err := p.try(p.dir, p.fit(survivor, lines[1])+" </dev/null"); err == nil || !strings.Contains(out, "has the most data") || !strings.Contains(out, "nothing was changed") {
		p.t.Errorf("%s\nprints %q, %v; want how far the data go, and a question", lines[1], out, err)
	}
	p.do(section, 3, survivor)
	for _, m := range []*process.Member{lost, stays} {
		p.do(section, 4, m)
	}
	p.Settle()
	p.do(section, 5, survivor)
	p.whole()
}

// fillDisk stands for a member that has ended because its disk is full: trials.TestFullDisk fills one, and
// checks the message of the page.
func (p *page) fillDisk(m *process.Member) {
	p.t.Helper()
	const section = "A disk is full"
	m.Process.Kill()
	p.used[p.blocks[section][0]] = true
	p.do(section, 2, m)
	p.do(section, 3, m)
	p.whole()
}

// outlive gives all members certificates, and then one of them an expired one, with which it does not start.
func (p *page) outlive(m *process.Member) {
	p.t.Helper()
	const section = "Certificates have expired"
	names := make([]string, 0, len(p.Members))
	for _, m := range p.Members {
		names = append(names, fmt.Sprintf("zk%d,%s", m.ID, p.fit(m, fmt.Sprintf("10.0.0.%d", m.ID))))
	}
	p.shell(p.dir, "rollcall certs "+strings.Join(names, " "))
	p.deal()
	p.StopAll()
	for _, m := range p.Members {
		lines := fmt.Sprintf("sslQuorum=true\nssl.quorum.keyStore.location=%[1]s/zk1.pem\nssl.quorum.trustStore.location=%[1]s/ca.pem\n", p.etc(m))
		p.shell(p.etc(m), fmt.Sprintf("[ -e zk1.pem ] || mv zk%d.pem zk1.pem", m.ID))
		if err := os.WriteFile(m.Config, []byte(p.config(m)+lines), 0o600); err != nil {
			p.t.Fatal(err)
		}
		p.Start(m)
	}
	p.Settle()
	p.line("systemctl stop rollcall", m)
	p.expire(m)
	before := len(text(p.t, m.Log))
	p.Start(m)
	m.Process.Forgive()
	if status, err := m.Process.ExitStatus(p.t.Context()); err != nil || status == 0 {
		p.t.Errorf("with an expired certificate the member ends with status %d, %v", status, err)
	}
	p.shows(section, 1, "has expired: it was valid until", text(p.t, m.Log)[before:])

	own := strings.NewReplacer("zk1", fmt.Sprintf("zk%d", m.ID), "10.0.0.1", fmt.Sprintf("10.0.0.%d", m.ID))
	p.shell(p.dir, p.fit(m, own.Replace(strings.Join(p.block(section, 2), "\n"))))
	p.shell(p.certs(), p.fit(m, strings.ReplaceAll(p.block(section, 3)[0], " zk1.pem ", fmt.Sprintf(" zk%d.pem ", m.ID))+"\n"+p.block(section, 3)[1]))
	p.do(section, 4, m)
	p.whole()
}

// expire gives a member a certificate that has expired.
func (p *page) expire(m *process.Member) {
	p.t.Helper()
	a, err := authority.ParsePEM([]byte(text(p.t, filepath.Join(p.certs(), "ca.pem"))), []byte(text(p.t, filepath.Join(p.certs(), "ca.key"))))
	if err != nil {
		p.t.Fatal(err)
	}
	pem, err := a.Issue([]string{"zk1", p.fit(m, fmt.Sprintf("10.0.0.%d", m.ID))}, time.Now().Add(-48*time.Hour), 24*time.Hour)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.etc(m), "zk1.pem"), pem, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// do does what a block says, on the machine of a member.
func (p *page) do(section string, n int, m *process.Member) {
	p.t.Helper()
	for _, line := range p.block(section, n) {
		p.line(line, m)
	}
}

// line runs a command of the page on the machine of a member. The process stands for the service.
func (p *page) line(command string, m *process.Member) {
	p.t.Helper()
	switch command {
	case "systemctl start rollcall":
		p.Start(m)
	case "systemctl stop rollcall":
		if m.Process.IsRunning() {
			if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
				p.t.Fatal(err)
			}
		}
		if _, err := m.Process.ExitStatus(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	case "rollcall status":
		p.status()
	case "rollcall health /etc/rollcall/zoo.cfg":
		p.Settle()
		p.shell(p.dir, p.fit(m, command))
	default:
		command = strings.Replace(p.fit(m, command), "echo 3 ", fmt.Sprintf("echo %d ", m.ID), 1)
		p.shell(p.dir, command)
	}
}

// status returns what rollcall status prints.
func (p *page) status() string {
	p.t.Helper()
	return p.shell(p.dir, "rollcall status --admin "+p.admin())
}

// admin returns the addresses for operators of the members that run.
func (p *page) admin() string {
	p.t.Helper()
	var admin []string
	for _, m := range p.Members {
		if !m.Process.IsRunning() {
			continue
		}
		addr, err := m.HTTP()
		if err != nil {
			p.t.Fatal(err)
		}
		admin = append(admin, "http://"+addr)
	}
	return strings.Join(admin, ",")
}

// whole waits until all members have caught up, and have equal states.
func (p *page) whole() {
	p.t.Helper()
	p.Settle()
	p.Joined()
	var out string
	err := process.Until(p.t.Context(), "all members agree", func() bool {
		out = p.status()
		return strings.Count(out, "  follower ") == 2 && strings.Count(out, "  leader ") == 1 && strings.Count(out, "agrees") == len(p.Members)
	})
	if err != nil {
		p.t.Fatalf("%v:\n%s", err, out)
	}
}

// shows checks that a block of the page, which is output, and real output have a text in common.
func (p *page) shows(section string, n int, want, got string) {
	p.t.Helper()
	if block := strings.Join(p.block(section, n), "\n"); !strings.Contains(block, want) || !strings.Contains(got, want) {
		p.t.Errorf("want %q in block %d of %q: %t, and in what is printed:\n%s", want, n, section, strings.Contains(block, want), cmp.Or(got, "nothing"))
	}
}
