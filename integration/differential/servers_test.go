package differential

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/config"
	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/leader"
	"rollcall/member"
	"rollcall/server"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	tick  = time.Second
	super = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=" // super:secret
	// ready is the time in which servers must start: a Java machine on a busy computer.
	ready = process.Patience
	// lastWords is the number of bytes of ZooKeeper's output that a failure shows.
	lastWords = 4 << 10
)

// target is an ensemble under test.
type target struct {
	name  string
	addrs []string // where its members accept clients
	spy   *wire.Conn
	tops  int // how many top nodes have been created for sequences
}

// jars are the files of Debian's packages that ZooKeeper's server needs.
var jars = []string{
	"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "metrics-core", "snappy-java", "commons-cli",
}

// startZooKeeper runs a standalone server of Debian's ZooKeeper until the test ends.
func startZooKeeper(t *testing.T, dir string) *target {
	t.Helper()
	needs.Check(t, needs.ZooKeeper)
	var classPath []string
	for _, jar := range jars {
		path := filepath.Join("/usr/share/java", jar+".jar")
		classPath = append(classPath, path)
	}
	addr := freeAddr(t)
	host, port, _ := net.SplitHostPort(addr) // freeAddr has joined them
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=%d\ndataDir=%s\nclientPortAddress=%s\nclientPort=%s\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
		tick.Milliseconds(), filepath.Join(dir, "data"), host, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.enforceQuota=true", "-Dznode.container.checkIntervalMs=86400000",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+super,
		"-cp", strings.Join(classPath, ":"), "org.apache.zookeeper.server.ZooKeeperServerMain", config)
	printed, err := os.Create(filepath.Join(dir, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close() // the process has a descriptor of its own
	cmd.Stdout, cmd.Stderr = printed, printed
	process.Start(t, "ZooKeeper", cmd, func() string {
		text, err := os.ReadFile(printed.Name())
		if err != nil {
			return err.Error()
		}
		return string(text[max(0, len(text)-lastWords):])
	})
	z := &target{name: "ZooKeeper", addrs: []string{addr}}
	z.watch(t)
	return z
}

// startRollcall runs so many members in this process until the test ends.
func startRollcall(t *testing.T, dir string, members int) *target {
	t.Helper()
	z := &target{name: fmt.Sprintf("Rollcall, %d members", members)}
	var servers []member.Server
	listeners := map[string]net.Listener{}
	listen := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[l.Addr().String()] = l
		return l.Addr().String()
	}
	for i := range members {
		servers = append(servers, member.Server{ID: uint32(i + 1), GrpcAddr: listen(), RaftAddr: listen()})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for _, s := range servers {
		clients, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m, err := member.New(member.Config{
			ID: s.ID, Servers: servers, ClientListener: clients,
			Network: member.Network{Listen: func(addr string) (net.Listener, error) { return listeners[addr], nil }},
			Settings: config.Settings{
				Dir: filepath.Join(dir, fmt.Sprint(members, s.ID)), Tick: tick,
				Limits: server.Limits{MaxClientConns: -1}, SuperDigest: super, CommandWhitelist: []string{"*"},
				// Nodes that are due stay: when they go is not the subject.
				Reaping: leader.Reaping{Interval: 24 * time.Hour}, Rules: znode.Rules{TTLNodes: true, EnforceQuota: true},
				WatchHistory: -1, // as ZooKeeper, which sends persistent watches nothing that they have missed
			}.WithDefaults(),
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := m.Run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("member %d ended: %v", s.ID, err)
			}
		})
		z.addrs = append(z.addrs, clients.Addr().String())
	}
	z.watch(t)
	return z
}

// watch waits until the target serves, and opens a session with all permissions.
func (z *target) watch(t *testing.T) {
	t.Helper()
	var err error
	for end := time.Now().Add(ready); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if z.spy, err = dial(z.addrs[0]); err != nil {
			continue
		}
		_ = z.spy.SetDeadline(time.Now().Add(patience)) // fails only on a closed connection; Open reports that
		if _, err = z.spy.Open(timeout); err == nil {
			break
		}
		_ = z.spy.Close()
	}
	if err != nil {
		t.Fatalf("%s does not serve: %v", z.name, err)
	}
	if r, err := z.ask(jute.OpAuth, jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte("super:secret")}); err != nil || r.Err != jute.OK {
		t.Fatalf("%s: auth: %v, %v", z.name, r, err)
	}
	t.Cleanup(func() { _ = z.spy.Close() })
}

// freeAddr returns an address on which nothing listens, with an IP address that only this process
// uses. The kernel gives ports of 127.0.0.1 to any program that connects somewhere.
func freeAddr(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, byte(64|pid>>8&63), byte(pid), 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scratch returns a directory in memory if there is one, since this test is not about the speed of
// disks.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rollcall-differential-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ask sends a request by the target's own client, which has all permissions.
func (z *target) ask(op jute.Op, rec wire.Record) (wire.Reply, error) {
	_ = z.spy.SetDeadline(time.Now().Add(patience))
	r, _, err := z.spy.Call(hidden, op, rec)
	return r, err
}

func dial(addr string) (*wire.Conn, error) {
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return wire.New(conn), nil
}
