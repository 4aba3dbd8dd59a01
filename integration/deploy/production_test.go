package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// productionPage is docs/production.md with the three machines for which its commands are. Each has a directory of its own,
// and the page's address in a network of this test's own.
type productionPage struct {
	*page   // without an ensemble
	binary  string
	members []*process.Member
}

var pageHosts = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}

// inOwnNetwork reports whether this test runs in a network of its own, which has some addresses and nothing else. Otherwise
// it runs the test there, and takes over its result.
func inOwnNetwork(t *testing.T, addresses []string) bool {
	t.Helper()
	const marker = "ROLLCALL_OWN_NETWORK"
	if os.Getenv(marker) != "" {
		commands := "ip link set lo up"
		for _, a := range addresses {
			commands += " && ip address add " + a + "/32 dev lo"
		}
		if out, err := exec.Command("sh", "-c", commands).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return true
	}
	args := []string{"--net"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	cmd := exec.Command("unshare", append(args, os.Args[0], "-test.run=^"+t.Name()+"$")...)
	cmd.Env = append(os.Environ(), marker+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in a network of its own: %v\n%s", err, out)
	}
	return false
}

// The commands of docs/production.md, in the order of the page, make an ensemble of three empty machines and of files of
// ZooKeeper. Each check prints what the page shows. A session goes on through the drains.
func TestProductionPage(t *testing.T) {
	needs.Check(t, needs.Usual)
	if !inOwnNetwork(t, pageHosts) {
		return
	}
	p := newProductionPage(t)
	const one = 1
	p.run("1. The secret", 1, one)
	p.check("1. The secret", 2, 1, 2, 3)
	p.run("2. The tokens", 1, one)
	p.check("2. The tokens", 2, 1, 2, 3)
	p.run("3. The certificates", 1, one)
	p.check("3. The certificates", 2, 1, 2, 3)
	p.run("4. zoo.cfg", 1, 1, 2, 3)
	p.run("4. zoo.cfg", 2, 1, 2, 3)
	p.keepKeys()
	p.check("4. zoo.cfg", 3, 1, 2, 3)

	const start = "5. The import, and the start"
	p.check(start, 1, one)
	p.run(start, 2, 1, 2, 3)
	p.check(start, 3, one)
	p.run(start, 4, 1, 2, 3)
	p.check(start, 5, 1, 2, 3)
	p.check(start, 6, one)
	p.agree()

	p.scrape()
	p.check("7. The backups", 1, 1, 2, 3)
	p.drainAll()
	p.wantAll()
}

func newProductionPage(t *testing.T) *productionPage {
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
	p := &productionPage{page: &page{
		t: t, name: "production.md", dir: dir, path: filepath.Dir(binary) + ":" + os.Getenv("PATH"), owner: "-o " + me.Uid + " -g " + me.Gid,
		blocks: blocksOf(text(t, "../../docs/production.md")), used: map[string]bool{},
	}, binary: binary}
	for _, name := range []string{"root", "prometheus"} {
		p.shell(dir, "mkdir "+name)
	}
	for n := 1; n <= 3; n++ {
		machine := filepath.Join(dir, fmt.Sprintf("zk%d", n))
		p.shell(dir, fmt.Sprintf("mkdir -m 700 -p %[1]s/etc %[1]s/data srv/zoo%[2]d", machine, n))
		if err := os.CopyFS(filepath.Join(dir, "srv", fmt.Sprintf("zoo%d", n)), os.DirFS("../../migrate/datadir/testdata/plain")); err != nil {
			t.Fatal(err)
		}
		p.members = append(p.members, &process.Member{
			ID: n, Clients: pageHosts[n-1] + ":2181", Config: filepath.Join(machine, "etc", "zoo.cfg"), Data: filepath.Join(machine, "data"), Log: filepath.Join(machine, "log"),
		})
	}
	return p
}

// on returns text of the page with the directories and users of a machine here.
func (p *productionPage) on(n int, text string) string {
	machine := filepath.Join(p.dir, fmt.Sprintf("zk%d", n))
	return strings.NewReplacer(
		"$m:/etc/rollcall", filepath.Join(p.dir, "$m", "etc"), "/etc/rollcall", machine+"/etc", "/var/lib/rollcall", machine+"/data",
		"/var/backups/rollcall", machine+"/backups", "/etc/systemd/system", machine+"/units", "/etc/prometheus", p.dir+"/prometheus",
		"/root", p.dir+"/root", "/srv/", p.dir+"/srv/", "rsync -a --chown=rollcall:", "cp -p", "-o rollcall -g rollcall", p.owner, "runuser -u rollcall -- ", "",
		"n=1\n", fmt.Sprintf("n=%d\n", n), "--over 10s", "--over 1s", // no client but the test's has to move
	).Replace(text)
}

// run runs a block on some machines, one after the other. Processes stand for services.
func (p *productionPage) run(section string, block int, machines ...int) {
	p.t.Helper()
	lines := p.block(section, block)
	for _, n := range machines {
		var script []string
		flush := func() {
			p.shell(p.dir, p.here(n)+p.on(n, strings.Join(script, "\n")+"\n"))
			script = nil
		}
		for _, line := range lines {
			switch line {
			case "systemctl daemon-reload", "systemctl disable --now zookeeper": // no service runs here
			case "systemctl enable --now rollcall":
				flush()
				p.start(n)
			case "systemctl restart rollcall":
				flush()
				p.stop(n)
				p.start(n)
			default:
				script = append(script, line)
			}
		}
		flush()
	}
}

// here returns the command that tells commands which member's machine they run on.
func (p *productionPage) here(n int) string {
	return "export ZOO_CONF_DIR=" + filepath.Dir(p.members[n-1].Config) + "\n"
}

// check runs the commands of a block, which begin with a dollar sign, on some machines. Each must print the lines that the
// page shows after it, apart from numbers, names and roles. A member may take a moment until it does.
func (p *productionPage) check(section string, block int, machines ...int) {
	p.t.Helper()
	for _, part := range strings.Split("\n"+strings.Join(p.block(section, block), "\n"), "\n$ ")[1:] {
		command, shown, _ := strings.Cut(part, "\n")
		for _, n := range machines {
			var out string
			var failure error
			err := process.Until(p.t.Context(), command, func() bool {
				out, failure = p.try(p.dir, p.here(n)+p.on(n, command))
				got := outline(out)
				return failure == nil && !slices.ContainsFunc(outline(p.on(n, shown)), func(line string) bool { return !slices.Contains(got, line) })
			})
			if err != nil {
				p.t.Fatalf("%s on machine %d: %v, %v\n%s\nwant\n%s", command, n, failure, err, out, shown)
			}
		}
	}
}

// modeAndSize matches what stat prints of a file whose mode and size a page promises.
var modeAndSize = regexp.MustCompile(`^\s*[0-7]{3} [0-9]+\s*$`)

// outline returns the lines of an output without what differs from one run to the next.
func outline(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if modeAndSize.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
			continue
		}
		line = regexp.MustCompile(`\b(leader|follower)\b`).ReplaceAllString(line, "role")
		line = regexp.MustCompile(`\S*[0-9]\S*|\b(KiB|MiB|B)\b`).ReplaceAllString(line, "N")
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// keepKeys adds the key that the nodes of ZooKeeper need here, as the page says.
func (p *productionPage) keepKeys() {
	p.t.Helper()
	for _, m := range p.members {
		if err := os.WriteFile(m.Config, []byte(text(p.t, m.Config)+"extendedTypesEnabled=true\n"), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// start starts the member of a machine, with its log in a file.
func (p *productionPage) start(n int) {
	p.t.Helper()
	m := p.members[n-1]
	log, err := os.OpenFile(m.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	cmd := exec.Command(p.binary, "serve", m.Config)
	cmd.Stdout, cmd.Stderr = log, log
	m.Process = process.Start(p.t, fmt.Sprintf("member %d", n), cmd, func() string { return text(p.t, m.Log) })
}

// stop stops the member of a machine, which must exit with status 0.
func (p *productionPage) stop(n int) {
	p.t.Helper()
	m := p.members[n-1]
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if status, err := m.Process.ExitStatus(p.t.Context()); err != nil || status != 0 {
		p.t.Fatalf("member %d ends with status %d, %v", n, status, err)
	}
}

// agree waits until rollcall status shows one leader, two followers and equal states, and no problem.
func (p *productionPage) agree() {
	p.t.Helper()
	process.Joined(p.t, process.Patience, p.members)
	var out string
	err := process.Until(p.t.Context(), "all members agree", func() bool {
		out, _ = p.try(p.dir, p.here(1)+"rollcall status")
		return strings.Count(out, "  leader ") == 1 && strings.Count(out, "  follower ") == 2 && strings.Count(out, "agrees") == 3
	})
	if err != nil || strings.Contains(out, "not authenticated") {
		p.t.Fatalf("%v:\n%s", err, out)
	}
}

// scrape makes the files of Prometheus and checks them. The token for metrics opens these alone.
func (p *productionPage) scrape() {
	p.t.Helper()
	const section = "6. The alerts"
	config := p.on(1, strings.Join(p.block(section, 1), "\n")+"\n")
	if err := os.WriteFile(filepath.Join(p.dir, "prometheus", "prometheus.yml"), []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "prometheus", "alerts.yml"), []byte(text(p.t, "../../deploy/alerts.yml")), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.shell(p.dir, p.on(1, "cp /etc/rollcall/metrics-token /etc/rollcall/ca.pem /etc/prometheus/"))
	lines := p.block(section, 2)
	p.shell(p.dir, p.on(1, lines[0]))
	for i, want := range []string{"200", "403"} {
		if got := strings.TrimSpace(p.shell(p.dir, p.on(1, lines[i+1]))); got != want {
			p.t.Errorf("%s\nprints %s, want %s", lines[i+1], got, want)
		}
	}
}

// drainAll drains and restarts one member after the other. A session goes on.
func (p *productionPage) drainAll() {
	p.t.Helper()
	const section = "8. The drains"
	var clients []string
	for _, m := range p.members {
		clients = append(clients, m.Clients)
	}
	session := connect(p.t, clients, "/kept")
	for n := range p.members {
		p.run(section, 1, n+1)
		p.check(section, 2, n+1)
		p.agree()
	}
	if out := p.shell(p.dir, p.here(1)+strings.Join(p.block(section, 3), "\n")); strings.Contains(out, fmt.Sprintf("0x%x", session.sid)) {
		p.t.Errorf("rollcall why shows the client's session:\n%s", out)
	}
	if out, err := p.try(p.dir, p.here(1)+p.on(1, "export ROLLCALL_TOKEN_FILE=/etc/rollcall/token\n"+strings.Join(p.block(section, 4), "\n"))); err != nil {
		p.t.Errorf("%v: %s", err, out)
	}
	if err := session.same(0, true); err != nil {
		p.t.Error(err)
	}
}
