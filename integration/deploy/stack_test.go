package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/lab/process"
)

const (
	// patience is the limit for anything that must happen. It is far longer than anything takes.
	patience = time.Minute
	// buildLimit is the same for a build of the binary with an empty Go cache.
	buildLimit = 5 * time.Minute
	// look is the interval at which a condition outside this process is checked.
	look = 50 * time.Millisecond
)

// stack is one ensemble in containers, with names, ports and a subnet of its own.
type stack struct {
	project string
	env     []string
	members []*member
}

// member is one service of the ensemble, whichever container it runs in.
type member struct {
	stack   *stack
	service string
	addr    string // where clients on this machine connect
}

// newStack reserves names and ports for an ensemble, and makes sure that nothing of it is left when
// the test ends. It starts nothing.
func newStack(t *testing.T) *stack {
	s := &stack{project: fmt.Sprintf("rollcalltest%d", os.Getpid())}
	s.env = append(os.Environ(),
		"MAKEFLAGS=", // not those of the make that runs this test
		"COMPOSE_PROJECT_NAME="+s.project,
		"ROLLCALL_IMAGE="+s.project,
		// 198.18.0.0/15 is set aside for tests; no network of this machine should be there.
		fmt.Sprintf("ROLLCALL_NET=198.%d.%d", 18+os.Getpid()>>8&1, os.Getpid()&255),
	)
	for i, port := range freePorts(t, 3) {
		s.env = append(s.env, fmt.Sprintf("ROLLCALL_PORT%d=%d", i+1, port))
		s.members = append(s.members, &member{s, fmt.Sprintf("zoo%d", i+1), fmt.Sprintf("127.0.0.1:%d", port)})
	}
	t.Cleanup(func() { s.remove(t) })
	return s
}

// remove deletes everything that is left of the ensemble. The test's context has ended by then.
func (s *stack) remove(t *testing.T) {
	ctx := context.Background()
	if t.Failed() {
		for _, m := range s.members {
			if id, err := m.container(ctx); err == nil {
				_, last, _ := s.run(ctx, patience, "docker", "logs", "--tail", "60", id)
				t.Logf("%s said:\n%s", m.service, last)
			}
		}
	}
	if _, _, err := s.run(ctx, patience, "make", "down", "VOLUMES=1"); err != nil {
		t.Error(err)
	}
	if _, _, err := s.run(ctx, patience, "docker", "image", "rm", s.project); err != nil {
		t.Error(err)
	}
}

// up runs the command that starts the members, checks that it prints their addresses, and waits until none joins. The
// command returns once all are healthy.
func (s *stack) up(t *testing.T, command ...string) {
	t.Helper()
	out, _, err := s.run(t.Context(), buildLimit, command[0], command[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("connect to %s,%s,%s ", s.members[0].addr, s.members[1].addr, s.members[2].addr)
	if !strings.Contains(out, want) {
		t.Fatalf("%v printed no %q:\n%s", command, want, out)
	}
	t.Log(regexp.MustCompile(`healthy after \d+ s`).FindString(out))
	for _, m := range s.members {
		s.joined(t, m.inspect(t).ID)
	}
}

// joined waits until the member in a container has caught up. Until then it is healthy, and elects no leader.
func (s *stack) joined(t *testing.T, container string) {
	t.Helper()
	until(t, container+" has caught up", func() bool {
		stdout, stderr, err := s.run(t.Context(), patience, "docker", "logs", container)
		return err == nil && !process.Joins(stdout+stderr)
	})
}

// run runs a command in the repository's root. Its error contains the command's output.
func (s *stack) run(ctx context.Context, limit time.Duration, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = "../..", s.env
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		err = errors.Join(err, ctx.Err())
		return "", "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), errs.String(), nil
}

// docker runs a docker command that must succeed, and returns what it printed.
func (s *stack) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := s.run(t.Context(), patience, "docker", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// remaining lists what Docker still has of a kind: containers, volumes or networks.
func (s *stack) remaining(t *testing.T, list ...string) string {
	t.Helper()
	return s.docker(t, append(list, "--quiet", "--filter", "label=com.docker.compose.project="+s.project)...)
}

// network returns the name of one of the ensemble's networks.
func (s *stack) network(name string) string { return s.project + "_" + name }

// leader waits until one member leads and the others follow, and returns it.
func (s *stack) leader(t *testing.T) *member {
	t.Helper()
	var leader *member
	until(t, "one member leads and the others follow", func() bool {
		leader = nil
		for _, m := range s.members {
			switch mode := m.mode(); {
			case mode == "leader" && leader == nil:
				leader = m
			case mode != "follower":
				return false
			}
		}
		return leader != nil
	})
	return leader
}

// follower waits for a leader and returns a member that follows it.
func (s *stack) follower(t *testing.T) *member {
	t.Helper()
	leader := s.leader(t)
	return s.members[slices.IndexFunc(s.members, func(m *member) bool { return m != leader })]
}

// addresses returns the members' addresses for clients, beginning with that of first.
func (s *stack) addresses(first *member) []string {
	addrs := []string{first.addr}
	for _, m := range s.members {
		if m != first {
			addrs = append(addrs, m.addr)
		}
	}
	return addrs
}

// container returns the id of the member's container, running or not.
func (m *member) container(ctx context.Context) (string, error) {
	out, _, err := m.stack.run(ctx, patience, "docker", "ps", "--all", "--quiet",
		"--filter", "label=com.docker.compose.project="+m.stack.project,
		"--filter", "label=com.docker.compose.service="+m.service)
	if err != nil {
		return "", err
	}
	if id := strings.TrimSpace(out); id != "" && !strings.Contains(id, "\n") {
		return id, nil
	}
	return "", fmt.Errorf("containers of %s: %q, want one", m.service, out)
}

// inspection is the part of Docker's description of a container that matters here.
type inspection struct {
	ID    string
	State struct {
		Status string
		Health struct{ Status string }
	}
	Config     struct{ User string }
	HostConfig struct {
		ReadonlyRootfs bool
		PortBindings   map[string][]struct{ HostIP, HostPort string }
	}
	Mounts          []mount
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress string }
	}
}

// mount is a named volume in a container.
type mount struct{ Name, Destination string }

func (m *member) inspect(t *testing.T) inspection {
	t.Helper()
	id, err := m.container(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []inspection
	if err := json.Unmarshal([]byte(m.stack.docker(t, "inspect", id)), &list); err != nil || len(list) != 1 {
		t.Fatalf("docker inspect %s: %d containers, %v", m.service, len(list), err)
	}
	return list[0]
}

// waitHealth waits until Docker's health check reports want.
func (m *member) waitHealth(t *testing.T, want string) {
	t.Helper()
	began := time.Now()
	until(t, m.service+" is "+want, func() bool { return m.inspect(t).State.Health.Status == want })
	t.Logf("%s %s after %.1f s", m.service, want, time.Since(began).Seconds())
}

var modeLine = regexp.MustCompile(`(?m)^Mode: (\w+)$`)

// mode asks the member with srvr for its role; "" while it does not serve.
func (m *member) mode() string {
	const limit = 2 * time.Second
	conn, err := net.DialTimeout("tcp", m.addr, limit)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(limit)) != nil {
		return ""
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, 1<<20)) // whatever arrived is checked
	if match := modeLine.FindSubmatch(answer); match != nil {
		return string(match[1])
	}
	return ""
}

// freePorts returns n loopback ports on which nothing listens. They are below those that the kernel
// hands out, so that a member that starts again finds its port free.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	const first, last = 20_000, 30_000
	var ports []int
	for port := first + os.Getpid()*n%(last-first); len(ports) < n && port < last+n; port++ {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		ports = append(ports, port)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(ports) < n {
		t.Fatalf("only %v are free up to %d", ports, last)
	}
	return ports
}

// until checks a condition until it holds. what describes it in the error.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, ctx.Err())
		}
	}
}
