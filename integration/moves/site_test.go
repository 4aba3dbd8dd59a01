package moves

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/zk/digest"
)

const (
	tick = time.Second
	// zookeeperDirectory is the directory inside a dataDir in which ZooKeeper keeps its files.
	zookeeperDirectory = "version-2"
	// super is the identity that may read and write everything, in ZooKeeper and in Rollcall.
	super = "super:all"
	// snapCount makes ZooKeeper write a snapshot every few hundred transactions, in the middle of the load.
	snapCount = 200
)

// site is one or more servers with their files and ports. The servers are ZooKeeper's or Rollcall's.
type site struct {
	t       *testing.T
	dir     string
	servers []*server
}

// server is one place of a site.
type server struct {
	process.Member
	member string // zoo.cfg of Rollcall's member; the same as Config unless it has been moved
	admin  string // URL of the member's port for operators, if it has one
	logs   string // dataLogDir; "": none
	runs   int    // how often a process was started here
}

// newSite makes the files of size servers that are not running. If apart is set, the logs have directories of
// their own.
func newSite(t *testing.T, size int, apart bool) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	var lines strings.Builder
	for i := range size {
		m := &server{Member: process.Member{ID: i + 1}}
		name := fmt.Sprint(m.ID)
		m.Clients = process.FreePort(t).String()
		m.Config, m.Data = filepath.Join(s.dir, "zoo"+name+".cfg"), filepath.Join(s.dir, "data"+name)
		m.member = m.Config
		if apart {
			m.logs = filepath.Join(s.dir, "logs"+name)
		}
		if size > 1 {
			peers := process.FreePort(t)
			fmt.Fprintf(&lines, "server.%d=%v:%d\n", m.ID, peers, freeBeside(t, peers))
		}
		s.servers = append(s.servers, m)
	}
	for _, m := range s.servers {
		s.configure(m, lines.String())
	}
	return s
}

// configure writes the files of a server. The zoo.cfg is the same for ZooKeeper and for Rollcall.
func (s *site) configure(m *server, servers string) {
	s.t.Helper()
	host, port, _ := strings.Cut(m.Clients, ":")
	text := fmt.Sprintf(`tickTime=%d
initLimit=10
syncLimit=5
dataDir=%s
clientPortAddress=%s
clientPort=%s
snapCount=%d
admin.enableServer=false
4lw.commands.whitelist=*
extendedTypesEnabled=true
DigestAuthenticationProvider.superDigest=%s
`, tick.Milliseconds(), m.Data, host, port, snapCount, digestOf(super))
	if m.logs != "" {
		text += "dataLogDir=" + m.logs + "\n"
	}
	write(s.t, m.Config, text+servers)
	write(s.t, filepath.Join(m.Data, "myid"), fmt.Sprintln(m.ID))
}

// digestOf returns the id in the scheme digest of a user and a password.
func digestOf(user string) string { return digest.Algorithm(0).IdentityOf(user) }

// freeBeside returns another free port of the same address.
func freeBeside(t *testing.T, addr *net.TCPAddr) int {
	t.Helper()
	for {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: addr.IP})
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if port != addr.Port {
			return port
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hosts returns the addresses for clients, with commas.
func (s *site) hosts() string {
	var all []string
	for _, m := range s.servers {
		all = append(all, m.Clients)
	}
	return strings.Join(all, ",")
}

// endless makes ZooKeeper's servers expire no session. They do so at the end of a tick, and one takes more than a day then.
func (s *site) endless() {
	s.t.Helper()
	for _, m := range s.servers {
		text, err := os.ReadFile(m.Config)
		if err != nil {
			s.t.Fatal(err)
		}
		bounds := fmt.Sprintf("minSessionTimeout=%d\nmaxSessionTimeout=%d\n", 2*tick.Milliseconds(), 20*tick.Milliseconds()) // as before
		line := fmt.Sprintf("tickTime=%d\n", tick.Milliseconds())
		write(s.t, m.Config, strings.Replace(string(text), line, "tickTime=100000000\n"+bounds, 1))
	}
}

// directories returns the directories in which ZooKeeper's servers keep data, as rollcall import takes them.
func (s *site) directories() (all []string) {
	for _, m := range s.servers {
		directory := m.Data
		if m.logs != "" {
			directory += "," + m.logs
		}
		all = append(all, directory)
	}
	return all
}

// startZooKeeper starts Debian's ZooKeeper in all places, and waits until it serves.
func (s *site) startZooKeeper() {
	s.t.Helper()
	for _, m := range s.servers {
		s.zooKeeperAt(m)
	}
	s.serves()
}

func (s *site) zooKeeperAt(m *server) {
	s.t.Helper()
	needs.Check(s.t, needs.ZooKeeper)
	s.start(m, exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Xshare:auto",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", javaPath(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", m.Config))
}

const zookeeperJar = "/usr/share/java/zookeeper.jar"

// javaPath returns the class path of ZooKeeper's server.
func javaPath() string {
	path := zookeeperJar + ":/usr/share/java/slf4j-simple.jar:/usr/share/java/snappy-java.jar"
	for _, jar := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll", "transport-native-unix-common"} {
		path += ":/usr/share/java/netty-" + jar + ".jar"
	}
	return path
}

// startRollcall starts members in all places, and waits until they serve.
func (s *site) startRollcall() {
	s.t.Helper()
	for _, m := range s.servers {
		s.start(m, exec.Command(rollcall, "serve", m.member))
	}
	s.serves()
	var members []*process.Member
	for _, m := range s.servers {
		members = append(members, &m.Member)
	}
	process.Joined(s.t, process.Patience, members) // export refuses the data of a member that has not caught up
}

// start starts a process in a place.
func (s *site) start(m *server, cmd *exec.Cmd) {
	s.t.Helper()
	m.runs++
	m.Log = filepath.Join(s.dir, fmt.Sprintf("log%d.%d", m.ID, m.runs))
	log, err := os.Create(m.Log)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	cmd.Stdout, cmd.Stderr = log, log
	path := m.Log
	m.Process = process.Start(s.t, fmt.Sprintf("server %d", m.ID), cmd, func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		return string(text[max(0, len(text)-lastWords):])
	})
}

// lastWords is the number of bytes of a log that are shown when its test fails.
const lastWords = 2 << 10

// serves waits until every running server serves, and one of them leads.
func (s *site) serves() {
	s.t.Helper()
	err := process.Until(s.t.Context(), "all servers serve under one leader", func() bool {
		leaders := 0
		for _, m := range s.servers {
			if !m.Process.IsRunning() {
				continue
			}
			switch m.Mode() {
			case "leader", "standalone":
				leaders++
			case "follower":
			default:
				return false
			}
		}
		return leaders == 1
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// kill ends all servers with SIGKILL, all at once.
func (s *site) kill() {
	var all []*process.Member
	for _, m := range s.servers {
		all = append(all, &m.Member)
	}
	process.KillAll(all)
}

// run runs the binary with a command line until it ends, returns its output, and reports whether it succeeded.
func run(t *testing.T, args ...string) (out string, ok bool) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), rollcall, args...).CombinedOutput()
	return string(text), err == nil
}

// mustRun runs a command line that has to succeed.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, ok := run(t, args...)
	if !ok {
		t.Fatalf("rollcall %s:\n%s", strings.Join(args, " "), out)
	}
	return out
}

// stop ends all members with SIGTERM.
func (s *site) stop() {
	s.t.Helper()
	for _, m := range s.servers {
		if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, m := range s.servers {
		if status, err := m.Process.ExitStatus(s.t.Context()); err != nil || status != 0 {
			s.t.Fatalf("server %d: exit status %d, %v", m.ID, status, err)
		}
	}
}
