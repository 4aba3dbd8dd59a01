package deploy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rollcall/lab/process"
)

// scaledPods are processes that stand for the pods of the StatefulSet, with a kubectl that runs commands in them.
type scaledPods struct {
	*page
	binary  string
	preStop []string
	zooCfg  string // of the ConfigMap
	pods    []*process.Member
	http    []string          // addresses of the pods
	lines   *strings.Replacer // puts addresses of this machine into server lines
	own     []string          // members.line of each pod, likewise
	listed  string            // the members as the last list has them
}

func newScaledPods(t *testing.T) *scaledPods {
	t.Helper()
	dir := t.TempDir()
	binary, err := process.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := &scaledPods{binary: binary, page: &page{t: t, dir: dir, path: dir + ":" + filepath.Dir(binary) + ":" + os.Getenv("PATH")}}
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
		p.own = append(p.own, fmt.Sprintf("members.line=127.0.0.{id}:%d:%d;%d", own[2], own[3], own[0]))
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
	cfg := strings.NewReplacer("members.line=rollcall-{ordinal}.rollcall-members:2888:3888;2181", p.own[i], "/data", m.Data, "/secret/secret", p.dir+"/secret", "/token/token", p.dir+"/token").Replace(p.lines.Replace(p.zooCfg))
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

// serves waits until the readiness probe of a pod succeeds.
func (p *scaledPods) serves(i int) {
	p.t.Helper()
	p.probes(i, http.StatusOK)
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
