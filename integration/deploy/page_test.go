package deploy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// outsideSecurity are the blocks of docs/security.md that TestSecurityPage does not run, by their first lines, with
// the reason.
var outsideSecurity = map[string]string{
	"old=$(kubectl get secret rollcall-secret -o jsonpath='{.data.secret}' | base64 -d)": "needs Kubernetes",
	"umask 077":                    "TestEnsemble runs it, in containers",
	"zookeeper.client.secure=true": "clients.TestZkCLITLS has such a file",
	"rollcall_certificate_valid_seconds < 14 * 86400":                                                                      "an expression for an alert, not a command",
	"CLIENT_JVMFLAGS=-Djava.security.auth.login.config=/home/bob/client.jaas zkCli.sh -server zk1.example.org:2181 whoami": "needs Java; clients.TestSASLBesideZooKeeper logs in with such a file",
	"// /etc/rollcall/jaas.conf":                                                 "needs a KDC; clients.TestJavaKerberos has such a file",
	"// /home/bob/client.jaas, for kinit":                                        "needs a KDC; clients.TestCommandsKerberos has such a file",
	"kadmin.local addprinc -randkey zookeeper/zk1.example.org":                   "needs a KDC; clients.TestGoKerberos has one",
	"security.auth_to_local=RULE:[1:$1;$0](app-.*;PARTNER\\.ORG)s/-.*// DEFAULT": "kerberos.TestNames has such a rule",
	"QuorumServer {": "integration.TestSecret, config.TestMemberLogin",
	"// /etc/rollcall/jaas.conf of zk1.example.org": "needs a KDC; clients.TestMembersByKerberos has such a file",
	"quorum.auth.enableSasl=true":                   "needs a KDC; clients.TestMembersByKerberos has these lines",
}

// The commands and settings of docs/security.md do what the page says, in its order, on three members that
// run: a secret and its rotation, certificates, TLS for clients, renewal, revocation, users and passwords. A
// session goes on meanwhile.
func TestSecurityPage(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := newPage(t, "security.md", outsideSecurity)
	session := connect(t, p.ClientAddresses(p.Members[1]), "/kept")

	p.makeSecret()
	p.configure("A secret", 2, "portUnification=true") // "Move an ensemble while it runs"
	p.forget("portUnification=true")
	p.example("See that it works", 1)

	p.run("Rotate the secret", 1, p.Members[0])
	p.replace("Rotate the secret", 2, "the ensemble's secrets were reloaded", "secrets=2")
	p.replace("Rotate the secret", 3, "the ensemble's secrets were reloaded", "secrets=1")

	p.run("Certificates of members", 2, p.Members[0])
	p.deal()
	p.configure("Certificates of members", 1)
	p.forget("ensembleSecretFile=")

	p.configure("Clients", 1, "secureClientPortAddress=10.0.0.1")
	p.shell(p.certs(), p.fit(p.Members[0], "rollcall certs --out . app"))
	p.connects("app", true)
	p.renew()

	p.shell(p.certs(), strings.Join(p.block("Lists of revoked certificates", 1), "\n"))
	p.shell(p.certs(), p.fit(p.Members[0], "rollcall certs --out . other; cp crl.pem /etc/rollcall/"))
	p.restart(p.Members[0], "ssl.crl=true", p.fit(p.Members[0], "ssl.crl.location=/etc/rollcall/crl.pem"))
	p.connects("other", true)
	p.connects("app", false)

	p.users()
	p.passwords()

	if err := session.same(0, true); err != nil {
		t.Error(err)
	}
	p.wantAll()
}

// outsideLimits are the blocks of docs/limits.md that TestLimitsPage does not run, by their first lines, with the reason.
var outsideLimits = map[string]string{
	"setAcl -R /zookeeper/quota world:anyone:r": "a line of the shell; znode.TestWhoMakesQuotas checks the list",
}

// A member starts with the settings of docs/limits.md.
func TestLimitsPage(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := newPage(t, "limits.md", outsideLimits)
	p.restart(p.Members[0], append(p.block("Connection throttle", 1), p.block("Limits for tenants", 1)...)...)
	p.wantAll()
}

// page is a page of docs with the members on which its commands run.
type page struct {
	*process.Ensemble
	t      *testing.T
	name   string
	dir    string                     // stands for /root, and for where the administrator works
	path   string                     // PATH, with rollcall
	owner  string                     // flags of install
	blocks map[string][]string        // by section
	used   map[string]bool            // blocks
	others map[string]string          // blocks that are not run, by their first lines, with the reason
	ports  map[*process.Member]string // for clients over TLS
}

func newPage(t *testing.T, name string, others map[string]string) *page {
	t.Helper()
	return newPageWith(t, name, others, 3, "")
}

// pageTick is so long that members answer each other and the commands in time, also on a busy machine.
const pageTick = time.Second

// newPageWith does the same, with size members and more lines in their configurations.
func newPageWith(t *testing.T, name string, others map[string]string, size int, lines string) *page {
	t.Helper()
	dir := t.TempDir()
	binary, err := process.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	p := &page{
		t: t, name: name, others: others, dir: dir, path: filepath.Dir(binary) + ":" + os.Getenv("PATH"), owner: "-o " + me.Uid + " -g " + me.Gid,
		blocks: blocksOf(text(t, filepath.Join("../../docs", name))), used: map[string]bool{}, ports: map[*process.Member]string{},
	}
	p.Ensemble = process.StartEnsemble(t, process.Config{Binary: binary, Size: size, Tick: pageTick, Lines: "maxSessionTimeout=15000\n" + process.AnyHTTP + lines})
	for _, m := range p.Members {
		p.ports[m] = fmt.Sprint(process.FreePort(t).Port)
		if err := os.Mkdir(p.etc(m), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(m.Config, filepath.Join(p.etc(m), "zoo.cfg")); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// blocksOf returns the blocks of code of a page, by section.
func blocksOf(text string) map[string][]string {
	blocks, section, before := map[string][]string{}, "", ""
	for line := range strings.Lines(text) {
		heading := strings.HasPrefix(line, "#")
		if heading {
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
		list := blocks[section]
		switch code := strings.HasPrefix(line, "    ") && strings.TrimSpace(line) != ""; {
		case code && before == "":
			blocks[section] = append(list, strings.TrimLeft(line, " "))
			before = line
		case code:
			indent := len(before) - len(strings.TrimLeft(before, " "))
			list[len(list)-1] += line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):]
		default:
			before = ""
		}
	}
	return blocks
}

// block returns the lines of the n-th block of a section, from 1, and notes that it is used.
func (p *page) block(section string, n int) []string {
	p.t.Helper()
	list := p.blocks[section]
	if len(list) < n {
		p.t.Fatalf("docs/%s has no block %d in its section %q", p.name, n, section)
	}
	p.used[list[n-1]] = true
	return strings.Split(strings.TrimSuffix(list[n-1], "\n"), "\n")
}

// wantAll fails the test if a block of the page was not used.
func (p *page) wantAll() {
	p.t.Helper()
	for _, section := range slices.Sorted(maps.Keys(p.blocks)) {
		for i, block := range p.blocks[section] {
			first, _, _ := strings.Cut(block, "\n")
			if p.used[block] == (p.others[first] != "") {
				p.t.Errorf("block %d of section %q, %q: run here %t, and elsewhere %q", i+1, section, first, p.used[block], p.others[first])
			}
		}
	}
}

// etc returns the directory that stands for a member's /etc/rollcall.
func (p *page) etc(m *process.Member) string { return filepath.Join(p.dir, fmt.Sprintf("etc%d", m.ID)) }

func (p *page) certs() string { return filepath.Join(p.dir, "certs") }

var raftAddress = regexp.MustCompile(`(?m)^server\.(\d)=([^:]+):\d+:(\d+)$`)

// fit returns text of the page with the directories, addresses and users of member m and this machine.
func (p *page) fit(m *process.Member, text string) string {
	p.t.Helper()
	pairs := []string{
		"/etc/rollcall", p.etc(m), "/var/lib/rollcall", m.Data, "/root", p.dir, "-o rollcall -g rollcall", p.owner, "runuser -u rollcall -- ", "",
		"zk1.example.org:2281", p.secure(m), "secureClientPort=2281", "secureClientPort=" + p.ports[m],
	}
	for _, match := range raftAddress.FindAllStringSubmatch(p.config(m), -1) {
		address := "10.0.0." + match[1]
		pairs = append(pairs, address+":3888", match[2]+":"+match[3], address, match[2])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// secure returns where clients reach a member over TLS.
func (p *page) secure(m *process.Member) string {
	host, _, _ := strings.Cut(m.Clients, ":")
	return host + ":" + p.ports[m]
}

func (p *page) config(m *process.Member) string { p.t.Helper(); return text(p.t, m.Config) }

// shell runs commands in a directory, and returns what they print.
func (p *page) shell(dir, commands string) string {
	p.t.Helper()
	out, err := p.try(dir, commands)
	if err != nil {
		p.t.Fatalf("%s\n%v:\n%s", commands, err, out)
	}
	return out
}

func (p *page) try(dir, commands string) (printed string, err error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "PATH="+p.path), strings.NewReader("y\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// run runs a block on the machine of a member.
func (p *page) run(section string, n int, m *process.Member) {
	p.t.Helper()
	p.shell(p.dir, p.fit(m, strings.Join(p.block(section, n), "\n")))
}

// example runs the command of a block, which begins with a dollar sign, and expects what follows it.
func (p *page) example(section string, n int) {
	p.t.Helper()
	lines := p.block(section, n)
	got := p.shell(p.dir, p.fit(p.Members[0], strings.TrimPrefix(lines[0], "$ ")))
	if want := strings.Join(lines[1:], "\n") + "\n"; got != want {
		p.t.Errorf("%s\nprints %q, want %q", lines[0], got, want)
	}
}

// makeSecret makes the first secret, and copies it to all members.
func (p *page) makeSecret() {
	p.t.Helper()
	p.run("A secret", 1, p.Members[0])
	for _, m := range p.Members[1:] {
		p.shell(p.dir, fmt.Sprintf("cp -p %s/secret %s/", p.etc(p.Members[0]), p.etc(m)))
	}
}

// replace runs a block on one member after the other, has each read its files again, and waits until its log
// says so.
func (p *page) replace(section string, n int, says, with string) {
	p.t.Helper()
	for _, m := range p.Members {
		p.run(section, n, m)
		p.reload(m, says, with)
	}
}

// reload has a member read its files again, and waits for a line with these texts.
func (p *page) reload(m *process.Member, texts ...string) {
	p.t.Helper()
	before := len(text(p.t, m.Log))
	if err := m.Process.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	err := process.Until(p.t.Context(), fmt.Sprintf("member %d logs %q", m.ID, texts), func() bool {
		for line := range strings.Lines(text(p.t, m.Log)[before:]) {
			if !slices.ContainsFunc(texts, func(want string) bool { return !strings.Contains(line, want) }) {
				return true
			}
		}
		return false
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// deal gives each member its certificate and that of the authority.
func (p *page) deal() {
	p.t.Helper()
	for _, m := range p.Members {
		p.shell(p.certs(), fmt.Sprintf("cp -p zk%d.pem ca.pem %s/", m.ID, p.etc(m)))
	}
}

// configure adds a block to the configuration of one member after the other, and restarts it.
func (p *page) configure(section string, n int, more ...string) {
	p.t.Helper()
	for _, m := range p.Members {
		own := strings.NewReplacer("zk1.pem", fmt.Sprintf("zk%d.pem", m.ID), "10.0.0.1", fmt.Sprintf("10.0.0.%d", m.ID))
		p.restart(m, own.Replace(strings.Join(append(more, p.block(section, n)...), "\n")))
	}
}

// forget removes a line from the configuration of one member after the other, and restarts it.
func (p *page) forget(line string) {
	p.t.Helper()
	lines := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `.*\n`)
	for _, m := range p.Members {
		before := p.config(m)
		after := lines.ReplaceAllString(before, "")
		if after == before {
			p.t.Fatalf("no line %q in:\n%s", line, before)
		}
		p.change(m, after)
	}
}

// restart adds lines to the configuration of a member, and restarts it.
func (p *page) restart(m *process.Member, lines ...string) {
	p.t.Helper()
	p.change(m, strings.TrimSuffix(p.config(m), "\n")+"\n"+p.fit(m, strings.Join(lines, "\n"))+"\n")
}

// change restarts a member with another configuration.
func (p *page) change(m *process.Member, config string) {
	p.t.Helper()
	if err := os.WriteFile(m.Config, []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if status, err := m.Process.ExitStatus(p.t.Context()); err != nil || status != 0 {
		p.t.Fatalf("member %d after SIGTERM: exit status %d, %v; want 0", m.ID, status, err)
	}
	p.Start(m)
	p.Settle()
	p.Joined()
}

// connects tries the commands of the page that connect a client over TLS, with a certificate. The last one
// needs Java; clients.TestZkCLITLS runs it.
func (p *page) connects(name string, works bool) {
	p.t.Helper()
	lines := p.block("Clients", 2)
	fit := func(line string) string {
		return p.fit(p.Members[0], strings.ReplaceAll(line, "app.pem", name+".pem"))
	}
	if out, err := p.try(p.certs(), fit(lines[0])); (err == nil) != works || works && !strings.Contains(out, "zookeeper") {
		p.t.Errorf("%s\nprints %q, %v; want it to work: %t", fit(lines[0]), out, err, works)
	}
	if out, err := p.try(p.certs(), fit(lines[1])); works && err != nil || !strings.Contains(out, "Verify return code: 0 (ok)") {
		p.t.Errorf("%s\nprints %v:\n%s", fit(lines[1]), err, out)
	}
}

// renew puts the renewed certificate of the first member into its place.
func (p *page) renew() {
	p.t.Helper()
	m := p.Members[0]
	p.run("Renewing certificates", 1, m)
	p.shell(p.certs(), fmt.Sprintf("cp -p zk1.pem %[1]s/zk1.next && mv %[1]s/zk1.next %[1]s/zk1.pem", p.etc(m)))
	p.reload(m, "keys reloaded", "ssl.quorum")
}

// users gives the first member a file with users of SASL.
func (p *page) users() {
	p.t.Helper()
	m := p.Members[0]
	if err := os.WriteFile(filepath.Join(p.etc(m), "jaas.conf"), []byte(strings.Join(p.block("SASL", 1), "\n")+"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.restart(m, p.block("SASL", 2)...)
	if err := os.WriteFile(filepath.Join(p.dir, "client.jaas"), []byte(strings.Join(p.block("SASL", 3), "\n")+"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	command := strings.NewReplacer("zk1.example.org:2181", m.Clients, "/home/bob", p.dir).Replace(p.block("SASL", 5)[0])
	if out := p.shell(p.dir, command); !strings.Contains(out, "zookeeper") {
		p.t.Errorf("%s\nprints %q", command, out)
	}
	if out, err := p.try(p.dir, strings.Replace(command, "client.jaas", "jaas.conf", 1)); err == nil {
		p.t.Errorf("with a file that is not there it prints %q", out)
	}
}

// passwords makes the digest of a user, and of the super user, who then may read a node that is nobody's.
func (p *page) passwords() {
	p.t.Helper()
	m := p.Members[0]
	const password = "y" // that of the shell's input
	if got := p.shell(p.dir, p.block("Passwords", 1)[0]); got != "bob:"+zk.DigestACL(0, "bob", password)[0].ID[len("bob:"):]+"\n" {
		p.t.Errorf("rollcall hash bob prints %q", got)
	}
	p.run("Passwords", 2, m)
	p.restart(m)
	c := connect(p.t, []string{m.Clients}, "/asks")
	if _, err := c.Create("/nobodys", nil, 0, zk.DigestACL(zk.PermAll, "bob", "unknown")); err != nil {
		p.t.Fatal(err)
	}
	if _, _, err := c.Get("/nobodys"); err == nil {
		p.t.Error("everybody may read /nobodys")
	}
	if err := c.AddAuth("digest", []byte("super:"+password)); err != nil {
		p.t.Fatal(err)
	}
	if _, _, err := c.Get("/nobodys"); err != nil {
		p.t.Errorf("the super user reads /nobodys: %v", err)
	}
}
