package clients

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What every ensemble here runs with. Elections begin a quarter of a tick after the
// leader fell silent, so sessions of sessionTimeout outlast them by far.
const (
	tick           = time.Second
	sessionTimeout = 10 * time.Second
	longTimeout    = 20 * time.Second // the longest that members grant: 20 ticks
)

// ensemble is one member, or several, as processes of their own. For one goroutine at a time.
type ensemble struct {
	t       *testing.T
	members []*member
}

// member is one member: its folder outlives its process.
type member struct {
	id      int
	clients string   // address for clients
	config  string   // path of its zoo.cfg
	data    string   // its folder
	log     string   // path of what it prints
	process *process // the last one; nil before the first
}

// startEnsemble starts size members and waits until they serve.
func startEnsemble(t *testing.T, size int) *ensemble {
	t.Helper()
	e := &ensemble{t: t}
	dir := t.TempDir()
	var servers strings.Builder
	for i := range size {
		m := &member{
			id:     i + 1,
			config: filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", i+1)),
			log:    filepath.Join(dir, fmt.Sprintf("member%d.log", i+1)),
		}
		ports := freePorts(t, nextAddress(), 3)
		m.clients = ports[0].String()
		if size > 1 {
			fmt.Fprintf(&servers, "server.%d=%v:%d\n", m.id, ports[1], ports[2].Port)
		}
		e.members = append(e.members, m)
	}
	for _, m := range e.members {
		m.data = filepath.Join(dir, fmt.Sprintf("data%d", m.id))
		host, port, _ := strings.Cut(m.clients, ":")
		e.write(m.config, fmt.Sprintf(`tickTime=%d
initLimit=10
syncLimit=5
dataDir=%s
clientPortAddress=%s
clientPort=%s
admin.enableServer=false
4lw.commands.whitelist=*
%s`, tick.Milliseconds(), m.data, host, port, servers.String()))
		e.write(filepath.Join(m.data, "myid"), fmt.Sprintln(m.id))
		e.start(m)
	}
	e.settle()
	return e
}

func (e *ensemble) write(path, text string) {
	e.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		e.t.Fatal(err)
	}
}

// start runs a member's process, on what it left behind if it ran before.
func (e *ensemble) start(m *member) {
	e.t.Helper()
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	cmd := exec.Command(rollcall, "serve", m.config)
	cmd.Stdout, cmd.Stderr = log, log
	m.process = start(e.t, fmt.Sprintf("member %d", m.id), cmd, func() string { return tail(m.log) })
}

// empty leaves a member that is down nothing but its id.
func (e *ensemble) empty(m *member) {
	e.t.Helper()
	if err := os.RemoveAll(m.data); err != nil {
		e.t.Fatal(err)
	}
	e.write(filepath.Join(m.data, "myid"), fmt.Sprintln(m.id))
}

// settle waits until every running member serves and one of them leads, and returns that.
func (e *ensemble) settle() *member {
	e.t.Helper()
	var leader *member
	err := until(e.t.Context(), "members serve under one leader", func() bool {
		leader = nil
		for _, m := range e.members {
			if !m.process.running() {
				continue
			}
			switch mode := m.mode(); {
			case mode == "follower":
			case (mode == "leader" || mode == "standalone") && leader == nil:
				leader = m
			default:
				return false
			}
		}
		return leader != nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return leader
}

// killAll ends every member by SIGKILL, as fast as it goes.
func (e *ensemble) killAll() {
	for _, m := range e.members {
		m.process.tell()
		_ = m.process.cmd.Process.Kill() // all at once; kill waits for each
	}
	for _, m := range e.members {
		m.process.kill()
	}
}

// stopAll ends every member by SIGTERM; each must end with status 0.
func (e *ensemble) stopAll() {
	e.t.Helper()
	for _, m := range e.members {
		if err := m.process.signal(syscall.SIGTERM); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, m := range e.members {
		if status, err := m.process.status(e.t.Context()); err != nil || status != 0 {
			e.t.Fatalf("member %d after SIGTERM: exit status %d, %v; want 0", m.id, status, err)
		}
	}
}

// addresses returns where clients connect, first's place first.
func (e *ensemble) addresses(first *member) []string {
	addrs := []string{first.clients}
	for _, m := range e.members {
		if m != first {
			addrs = append(addrs, m.clients)
		}
	}
	return addrs
}

var modeLine = regexp.MustCompile(`(?m)^Mode: (\w+)$`)

// mode asks the member by srvr what it is; "" while it does not serve.
func (m *member) mode() string {
	match := modeLine.FindStringSubmatch(fourLetters(m.clients, "srvr"))
	if match == nil {
		return ""
	}
	return match[1]
}

// fourLetters returns the answer to a four-letter word, or what came of it in time.
func fourLetters(addr, word string) string {
	const limit = 2 * time.Second
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return ""
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if err != nil {
		return ""
	}
	return string(answer)
}

// addressesUsed counts the addresses that nextAddress gave away.
var addressesUsed atomic.Uint32

// nextAddress returns a loopback address that nothing else on this machine is likely to
// use: members must find the same ports free again when they start anew, and the ports
// of 127.0.0.1 go to whoever connects somewhere.
func nextAddress() net.IP {
	pid := os.Getpid()
	return net.IPv4(127, byte(128|pid>>8&127), byte(pid), byte(1+(addressesUsed.Add(1)-1)%254))
}

// freePorts returns n ports of ip that nobody listens on.
func freePorts(t *testing.T, ip net.IP, n int) []*net.TCPAddr {
	t.Helper()
	var ports []*net.TCPAddr
	for range n {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: ip})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // at the end: so that all differ
		ports = append(ports, l.Addr().(*net.TCPAddr))
	}
	return ports
}

// client returns a client of the whole ensemble for the test itself to look around
// with. It is closed with the test.
func (e *ensemble) client(ctx context.Context) *goClient {
	e.t.Helper()
	var up []string
	for _, m := range e.members {
		if m.process.running() {
			up = append(up, m.clients)
		}
	}
	c, err := dialGo(ctx, seat{name: "test", hosts: up, moves: true}, sessionTimeout)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(c.Close)
	return c
}
