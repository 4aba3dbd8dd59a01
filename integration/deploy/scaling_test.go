package deploy

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// The sections of docs/kubernetes.md whose commands TestScalingPods runs.
const (
	growSection   = "From three pods to five"
	shrinkSection = "From five pods to three"
)

// outsideScaling are the blocks of these sections that TestScalingPods does not run as commands.
var outsideScaling = map[string]string{
	"helm upgrade rollcall deploy/chart --reset-then-reuse-values --set members=5": "tools/chart renders it",
	"helm upgrade rollcall deploy/chart --reset-then-reuse-values --set members=3": "tools/chart renders it",
	"kubectl get pods -l app.kubernetes.io/name=rollcall":                          "needs a cluster",
	"kubectl delete pvc data-rollcall-3 data-rollcall-4":                           "needs a cluster",
}

// The commands of docs/kubernetes.md make five pods of three and three of five, with the zoo.cfg of the manifests. A client writes all
// the time. Then the pods come back, one with its old volume and one with an empty one.
func TestScalingPods(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := newScaledPods(t)
	three := p.zooCfg
	for i := range 3 {
		p.start(i)
	}
	for i := range 3 {
		p.serves(i)
	}
	busy := startWriting(t, p.pods[0].Clients)
	p.run(growSection, 1)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the members at last:\n%s", p.listed)
		}
	})
	p.wantVoters(3)

	p.grow(func() { // the new lines do no harm to a member that starts before the others are added
		p.stop(1)
		p.start(1)
		p.serves(1)
	})
	p.shrink()
	for i := 3; i < 5; i++ {
		p.stop(i)
	}
	p.zooCfg = three
	if err := os.RemoveAll(p.pods[4].Data); err != nil {
		t.Fatal(err)
	}
	p.grow(func() {})
	busy.check(t)
	p.wantAll()
}

// grow does what the page says to add two pods. between is called when they run and are no members yet.
func (p *scaledPods) grow(between func()) {
	p.t.Helper()
	p.zooCfg += strings.Join(p.block(growSection, 2), "\n") + "\n"
	p.wantBlock(growSection, 3, "replicas: 5")
	p.wantBlock(growSection, 4, "kubectl apply -k deploy/kubernetes")
	for i := range p.pods {
		p.configure(i) // Kubernetes changes the file in running pods, too
	}
	for i := 3; i < 5; i++ {
		p.start(i)
		p.isOutside(i)
	}
	between()
	p.wantVoters(3)

	want := strings.SplitN(strings.Join(p.block(growSection, 8), "\n"), "0x", 2)[0]
	if out := p.run(growSection, 7); !strings.Contains(out, want) {
		p.t.Errorf("adding member 4 prints %q, want %q", out, want)
	}
	p.run(growSection, 9)
	for i := range p.pods {
		p.serves(i)
	}
	p.wantVoters(5)
}

// shrink does what the page says to remove two pods, up to their stop.
func (p *scaledPods) shrink() {
	p.t.Helper()
	p.run(shrinkSection, 1)
	p.wantBlock(shrinkSection, 2, "kubectl apply -k deploy/kubernetes")
	p.wantVoters(3)
	for i := 3; i < 5; i++ {
		p.isOutside(i)
	}
}

// scaledPods are processes that stand for the pods of the StatefulSet, and the page whose commands change their number.
type scaledPods struct {
	*page
	binary  string
	preStop []string
	zooCfg  string // of the ConfigMap
	pods    []*process.Member
	http    []string          // addresses of the pods
	lines   *strings.Replacer // puts addresses of this machine into server lines
	listed  string            // the members as the last list has them
}

func newScaledPods(t *testing.T) *scaledPods {
	t.Helper()
	dir := t.TempDir()
	binary, err := process.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	blocks := blocksOf(text(t, "../../docs/kubernetes.md"))
	maps.DeleteFunc(blocks, func(section string, _ []string) bool { return section != growSection && section != shrinkSection })
	p := &scaledPods{binary: binary, page: &page{
		t: t, name: "kubernetes.md", dir: dir, path: dir + ":" + filepath.Dir(binary) + ":" + os.Getenv("PATH"),
		blocks: blocks, used: map[string]bool{}, others: outsideScaling,
	}}
	var container pod
	container, p.zooCfg = manifests(t)
	p.preStop = container.Lifecycle.PreStop.Exec.Command
	p.write("token", strings.Repeat("x", 20))
	p.write("secret", strings.Repeat("y", 44))

	const size, each = 5, 4
	var lines []string
	ports := freePorts(t, size*each)
	for i := range size {
		own := ports[i*each:]
		name := filepath.Join(dir, fmt.Sprintf("rollcall-%d", i))
		p.pods = append(p.pods, &process.Member{ID: i + 1, Clients: fmt.Sprintf("127.0.0.1:%d", own[0]), Config: name + ".cfg", Data: name, Log: name + ".log"})
		p.http = append(p.http, fmt.Sprintf("127.0.0.1:%d", own[1]))
		lines = append(lines, fmt.Sprintf("rollcall-%d.rollcall-members:2888:3888;2181", i), fmt.Sprintf("127.0.0.1:%d:%d;%d", own[2], own[3], own[0]))
		p.write(fmt.Sprintf("rollcall-%d.admin", i), "http://"+p.http[i])
	}
	p.lines = strings.NewReplacer(lines...)
	for i := range size {
		p.configure(i)
	}
	p.write("kubectl", `#!/bin/sh
[ "$1" = exec ] && [ "$3" = -- ] && [ "$4" = /rollcall ] || { echo "kubectl $*" >&2; exit 2; }
export ROLLCALL_TOKEN_FILE=`+dir+`/token ROLLCALL_ADMIN=$(cat `+dir+`/$2.admin)
shift 4
exec rollcall "$@"
`)
	return p
}

// write writes a file that commands or pods need.
func (p *scaledPods) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// configure writes the zoo.cfg of a pod as the ConfigMap has it, with addresses, ports and directories of this machine.
func (p *scaledPods) configure(i int) {
	p.t.Helper()
	m := p.pods[i]
	_, port, _ := strings.Cut(p.http[i], ":")
	cfg := strings.NewReplacer("/data", m.Data, "/secret/secret", p.dir+"/secret", "/token/token", p.dir+"/token").Replace(p.lines.Replace(p.zooCfg))
	p.write(filepath.Base(m.Config), cfg+"admin.serverPort="+port+"\n")
}

// start starts a pod on its volume.
func (p *scaledPods) start(i int) {
	p.t.Helper()
	m := p.pods[i]
	if err := os.MkdirAll(m.Data, 0o700); err != nil {
		p.t.Fatal(err)
	}
	log, err := os.OpenFile(m.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	cmd := exec.Command(p.binary, "serve", m.Config)
	cmd.Env = append(os.Environ(), fmt.Sprintf("HOSTNAME=rollcall-%d", i))
	cmd.Stdout, cmd.Stderr = log, log
	m.Process = process.Start(p.t, fmt.Sprintf("rollcall-%d", i), cmd, func() string { return text(p.t, m.Log) })
}

// stop stops a pod as Kubernetes does.
func (p *scaledPods) stop(i int) {
	p.t.Helper()
	m := p.pods[i]
	p.shell(p.dir, fmt.Sprintf("kubectl exec rollcall-%d -- %s", i, strings.Join(p.preStop, " ")))
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if status, err := m.Process.ExitStatus(p.t.Context()); err != nil || status != 0 {
		p.t.Fatalf("rollcall-%d ends with status %d, %v", i, status, err)
	}
}

// run runs the commands of a block, and returns what they print.
func (p *scaledPods) run(section string, n int) string {
	p.t.Helper()
	return p.shell(p.dir, p.lines.Replace(strings.Join(p.block(section, n), "\n")))
}

// wantBlock checks that a block of the page is what the test now does in its place.
func (p *scaledPods) wantBlock(section string, n int, want string) {
	p.t.Helper()
	if got := strings.Join(p.block(section, n), "\n"); got != want {
		p.t.Fatalf("docs/kubernetes.md says %q, and this test does %q", got, want)
	}
}

// serves waits until the readiness probe of a pod succeeds.
func (p *scaledPods) serves(i int) {
	p.t.Helper()
	p.probes(i, http.StatusOK)
}

// isOutside waits until a pod is alive and not ready, because the ensemble does not have its member.
func (p *scaledPods) isOutside(i int) {
	p.t.Helper()
	p.probes(i, http.StatusServiceUnavailable)
}

// probes waits until the readiness probe has a status, and the liveness probe succeeds.
func (p *scaledPods) probes(i, ready int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("rollcall-%d is alive, and its readiness probe gets %d", i, ready), func() bool {
		return p.probe(i, "/livez") == http.StatusOK && p.probe(i, "/readyz") == ready
	})
}

// probe returns the status of a reply over HTTP, or 0 without one.
func (p *scaledPods) probe(i int, path string) int {
	client := http.Client{Timeout: 2 * time.Second}
	reply, err := client.Get("http://" + p.http[i] + path)
	if err != nil {
		return 0
	}
	_ = reply.Body.Close()
	return reply.StatusCode
}

var voterRow = regexp.MustCompile(`(?m)^ +\d+  participant  yes    (leader|follower) `)

// wantVoters waits until the ensemble has the members from 1 on, each of which votes and replies, and no others.
func (p *scaledPods) wantVoters(size int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%d members vote", size), func() bool {
		var err error
		p.listed, err = p.try(p.dir, "kubectl exec rollcall-0 -- /rollcall members list")
		return err == nil && len(voterRow.FindAllString(p.listed, -1)) == size && strings.Count(p.listed, "\n") == size+1
	})
}
