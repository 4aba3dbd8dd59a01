package deploy

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"rollcall/integration/needs"
)

// pod has the fields of the pods' manifest that the tests need.
type pod struct {
	Args []string
	Env  []struct{ Name, Value string }

	Lifecycle struct {
		PreStop struct{ Exec struct{ Command []string } } `yaml:"preStop"`
	}
}

// manifests returns the container in statefulset.yaml, and the zoo.cfg in config.yaml.
func manifests(t *testing.T) (container pod, zooCfg string) {
	t.Helper()
	var set struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []pod }
			}
		}
	}
	var config struct{ Data map[string]string }
	for file, into := range map[string]any{"statefulset.yaml": &set, "config.yaml": &config} {
		text, err := os.ReadFile(filepath.Join("../../deploy/kubernetes", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	return set.Spec.Template.Spec.Containers[0], config.Data["zoo.cfg"]
}

// The image runs with what the manifests give a pod: its name, zoo.cfg, the token, the members' secret, a volume, a root that
// cannot be written. The members find their numbers, the probes are answered to the kubelet, and the leader
// is drained before it stops.
func TestPods(t *testing.T) {
	needs.Check(t, needs.Nightly, needs.Containers)
	p := newPods(t)
	for i := range p.names {
		p.start(t, i)
	}
	for i, name := range p.names {
		p.serves(t, i)
		p.joined(t, name)
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 401, "/v1/status": 401} {
		if status, text := p.get(t, 0, path); status != want {
			t.Errorf("%s from outside of the pod: %d %s, want %d", path, status, text, want)
		}
	}
	leader := -1
	for i := range p.names {
		if strings.Contains(p.docker(t, "exec", p.names[i], "/rollcall", "health"), "leader") {
			leader = i
		}
	}
	if leader < 0 {
		t.Fatal("nobody leads")
	}
	if out := p.docker(t, "exec", p.names[0], "/rollcall", "status"); strings.Count(out, "follower") != 2 {
		t.Errorf("status prints\n%s", out)
	}
	out := p.docker(t, append([]string{"exec", p.names[leader]}, p.pod.Lifecycle.PreStop.Exec.Command...)...)
	if !strings.Contains(out, ": drained, 0 connections closed") {
		t.Errorf("before the stop: %s", out)
	}
	if status, text := p.get(t, leader, "/readyz"); status != 503 {
		t.Errorf("/readyz of a drained member: %d %s", status, text)
	}
	if status, text := p.get(t, leader, "/livez"); status != 200 {
		t.Errorf("/livez of a drained member: %d %s", status, text)
	}
	p.docker(t, "stop", p.names[leader])
	if status := p.docker(t, "inspect", "--format", "{{.State.ExitCode}}", p.names[leader]); status != "0" {
		t.Errorf("it ended with status %s", status)
	}
	for i := range p.names {
		if i != leader {
			p.serves(t, i)
		}
	}
	p.docker(t, "start", p.names[leader])
	p.serves(t, leader)
	for i, name := range p.names {
		_, log, err := p.run(t.Context(), patience, "docker", "logs", name)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`"msg":"member starts","member":%d,`, i+1); !strings.Contains(log, want) || regexp.MustCompile(`"level":"(ERROR|WARN)"`).MatchString(log) {
			t.Errorf("%s logged no %s, or a warning:\n%s", name, want, log)
		}
	}
}

// longFailover is added to zoo.cfg, so that a busy machine is not taken for a dead one, and its pauses are no warnings: no member may
// log one.
const longFailover = "\nfailover=4000\nslowRequestThreshold=4000\n"

// pods are containers that stand for the pods of the StatefulSet.
type pods struct {
	*stack
	pod    pod
	zooCfg string
	names  []string // of the containers
}

// newPods builds the image. When the test ends, nothing is left of the pods.
func newPods(t *testing.T) *pods {
	t.Helper()
	p := &pods{stack: &stack{project: fmt.Sprintf("rollcallpods%d", os.Getpid())}}
	p.pod, p.zooCfg = manifests(t)
	p.env = append(os.Environ(), "MAKEFLAGS=", "ROLLCALL_IMAGE="+p.project)
	for i := range 3 {
		p.names = append(p.names, fmt.Sprintf("%s-%d", p.project, i))
	}
	t.Cleanup(func() { p.remove(t) })
	if _, _, err := p.run(t.Context(), buildLimit, "make", "image"); err != nil {
		t.Fatal(err)
	}
	p.docker(t, "network", "create", p.project)
	return p
}

func (p *pods) remove(t *testing.T) {
	left := [][]string{append([]string{"rm", "--force", "--volumes"}, p.names...), {"network", "rm", p.project}, {"image", "rm", p.project}}
	for _, args := range left {
		if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil { // the test's context has ended
			t.Errorf("docker %v: %v: %s", args, err, out)
		}
	}
}

// start starts the pod with an ordinal.
func (p *pods) start(t *testing.T, i int) {
	t.Helper()
	args := []string{
		"create", "--name", p.names[i], "--hostname", fmt.Sprintf("rollcall-%d", i),
		"--network", p.project, "--network-alias", fmt.Sprintf("rollcall-%d.rollcall-members", i), "--publish", "127.0.0.1::8080",
		"--user", "1000:1000", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true",
		"--volume", "/data", "--volume", "/conf", "--volume", "/token", "--volume", "/secret",
	}
	for _, v := range p.pod.Env {
		args = append(args, "--env", v.Name+"="+v.Value)
	}
	p.docker(t, append(append(args, p.project), p.pod.Args...)...)
	// As Kubernetes has them: the group 1000 of the pod owns the volume and may read the token.
	p.put(t, i, "/data", tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o2775, Gid: 1000}, "")
	p.put(t, i, "/conf", tar.Header{Name: "zoo.cfg", Mode: 0o644}, p.zooCfg+longFailover)
	p.put(t, i, "/token", tar.Header{Name: "token", Mode: 0o440, Gid: 1000}, strings.Repeat("x", 20)+"\n")
	p.put(t, i, "/secret", tar.Header{Name: "secret", Mode: 0o440, Gid: 1000}, strings.Repeat("y", 44)+"\n")
	p.docker(t, "start", p.names[i])
}

// put writes a file, or the mode of the directory itself, into a volume of a pod.
func (p *pods) put(t *testing.T, i int, directory string, header tar.Header, text string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header.Size = int64(len(text))
	if err := w.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "docker", "cp", "-", p.names[i]+":"+directory)
	cmd.Stdin = &archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker cp to %s: %v: %s", directory, err, out)
	}
}

// serves waits until the readiness probe of a pod succeeds.
func (p *pods) serves(t *testing.T, i int) {
	t.Helper()
	until(t, p.names[i]+" is ready", func() bool {
		if status := p.docker(t, "inspect", "--format", "{{.State.Status}}", p.names[i]); status != "running" {
			_, log, _ := p.run(t.Context(), patience, "docker", "logs", p.names[i])
			t.Fatalf("%s is %s:\n%s", p.names[i], status, log)
		}
		status, _ := p.get(t, i, "/readyz")
		return status == http.StatusOK
	})
}

// get asks a pod over HTTP, as the kubelet does. The status is 0 if there is no answer.
func (p *pods) get(t *testing.T, i int, path string) (status int, text string) {
	t.Helper()
	addr, _, _ := strings.Cut(p.docker(t, "port", p.names[i], "8080/tcp"), "\n")
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}
