package schedules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// processes are servers that are processes, in real time.
type processes struct {
	t       *testing.T
	members []*process.Member
	start   func(m *process.Member)

	mu sync.Mutex // held while a process is started or ended
}

// ConnectString implements servers.
func (p *processes) ConnectString() string {
	var addresses []string
	for _, m := range p.members {
		addresses = append(addresses, m.Clients)
	}
	return strings.Join(addresses, ",")
}

// Dial implements servers.
func (p *processes) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

// Expire implements servers: it takes the session over and closes it, because ZooKeeper has no other way.
func (p *processes) Expire(session int64, password []byte) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, p.ConnectString(), client.Config{
		Timeout: sessionTimeout, Resume: &client.Handover{Session: client.SessionID(session), Password: password},
	})
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

var errNoLeader = errors.New("no server leads")

// leader returns the member that leads or is alone, or nil. The lock is held.
func (p *processes) leader() *process.Member {
	for _, m := range p.members {
		if mode := m.Mode(); m.Process.IsRunning() && (mode == "leader" || mode == "standalone") {
			return m
		}
	}
	return nil
}

// Crash implements servers.
func (p *processes) Crash() (restart func() error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.leader()
	if m == nil {
		return nil, errNoLeader
	}
	m.Process.Forgive()
	m.Process.Kill()
	<-m.Process.Done()
	return func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.start(m)
		return nil
	}, nil
}

// Pause implements servers.
func (p *processes) Pause() (resume func() error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[rand.IntN(len(p.members))]
	if p.leader() == nil {
		return nil, errNoLeader
	}
	return func() error {
		_ = m.Process.Continue() // it may have been killed meanwhile
		return nil
	}, m.Process.Stop()
}

// AwaitReady implements servers.
func (p *processes) AwaitReady(ctx context.Context) error {
	return process.Until(ctx, "servers serve", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.leader() != nil && !slices.ContainsFunc(p.members, func(m *process.Member) bool { return m.Mode() == "" })
	})
}

// longSessions lets the operator's session outlive all faults.
const longSessions = "maxSessionTimeout=60000\n"

// tick is ZooKeeper's tickTime of the processes.
const tick = 500 * time.Millisecond

// zooKeeper returns a server of Debian's ZooKeeper that has not been started.
func zooKeeper(t *testing.T) *processes {
	t.Helper()
	dir, port := t.TempDir(), process.FreePort(t)
	m := &process.Member{Clients: port.String(), Config: filepath.Join(dir, "zoo.cfg"), Data: dir}
	text := fmt.Sprintf("tickTime=%d\ndataDir=%s\nclientPortAddress=%s\nclientPort=%d\nadmin.enableServer=false\n"+
		"4lw.commands.whitelist=*\n"+longSessions, tick.Milliseconds(), dir, port.IP, port.Port)
	if err := os.WriteFile(m.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	jars := []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"}
	for _, part := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll", "transport-native-unix-common"} {
		jars = append(jars, "/usr/share/java/netty-"+part+".jar")
	}
	return &processes{t: t, members: []*process.Member{m}, start: func(m *process.Member) {
		cmd := exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Xshare:auto",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", strings.Join(jars, ":"),
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", m.Config)
		m.Process = process.Start(t, "ZooKeeper", cmd, func() string { return "" })
	}}
}

// Random faults in real time, on processes of Rollcall, one or three, and on Debian's ZooKeeper. The wires between them
// and the clients make the faults. ROLLCALL_REAL sets the number of schedules on processes of each kind.
func TestProcesses(t *testing.T) {
	needs.Check(t, needs.Nightly, needs.ZooKeeper)
	binary, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all := recipes()
	first := uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0))
	for i := range uint64(process.Setting(t, "ROLLCALL_REAL", 1, 8)) {
		seed := first + i
		rng := rand.New(rand.NewPCG(seed, 2))
		clients, r := 2+rng.IntN(3), all[rng.IntN(len(all))]
		p := randomPlan(rng, clients)
		t.Run(fmt.Sprintf("rollcall/seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			members := 1 + 2*int(seed%2)
			e := process.StartEnsemble(t, process.Config{Binary: binary, Size: members, Tick: tick, Lines: longSessions})
			playReal(t, &processes{t: t, members: e.Members, start: e.Start}, r, seed, clients, p)
		})
		t.Run(fmt.Sprintf("zookeeper/seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			s := zooKeeper(t)
			s.start(s.members[0])
			playReal(t, s, r, seed, clients, p)
		})
	}
}

// playReal runs a schedule on processes and checks it.
func playReal(t *testing.T, s *processes, r recipe, seed uint64, clients int, p plan) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s, seed %d, %d clients, %d servers; faults:\n%v\nto repeat it: ROLLCALL_FIRST=%d ROLLCALL_REAL=1 "+
				"go test -run '^TestProcesses$' ./integration/recipes/schedules", r.name, seed, clients, len(s.members), p, seed)
		}
	})
	if err := s.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t.Context(), s, seed, clients, slices.Clone(p))
	report(t, w, w.runSchedule(r))
}
