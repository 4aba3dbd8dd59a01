package clients

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const zookeeperJar = "/usr/share/java/zookeeper.jar"

// startZooKeeper starts a standalone server of Debian's ZooKeeper, with more lines of zoo.cfg, each with its line
// end, and more flags for Java. It does not wait until the server serves.
func startZooKeeper(t *testing.T, lines string, flags ...string) *process.Member {
	t.Helper()
	return startZooKeeperAt(t, process.FreePort(t), lines, flags...)
}

// startZooKeeperAt is startZooKeeper at an address that is known before.
func startZooKeeperAt(t *testing.T, port *net.TCPAddr, lines string, flags ...string) *process.Member {
	t.Helper()
	needs.Check(t, needs.ZooKeeper)
	dir := t.TempDir()
	m := &process.Member{Clients: port.String(), Config: filepath.Join(dir, "zoo.cfg"), Data: dir}
	text := fmt.Sprintf(`tickTime=%d
dataDir=%s
clientPortAddress=%s
clientPort=%d
admin.enableServer=false
%s`, tick.Milliseconds(), dir, port.IP, port.Port, lines)
	if err := os.WriteFile(m.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := java(zookeeperJar+":"+netty()+":/usr/share/java/slf4j-simple.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", m.Config)
	cmd.Args = slices.Insert(cmd.Args, 1, flags...)
	printed := transcript{more: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &stream{to: &printed}, &stream{to: &printed}
	m.Process = process.Start(t, "ZooKeeper", cmd, printed.text)
	return m
}
