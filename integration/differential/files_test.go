package differential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/cli/nodes"
	goclient "rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/migrate/datadir"
	"rollcall/zk/jute"
)

// Package datadir reads the files of a ZooKeeper that was killed under load as ZooKeeper itself reads them, field
// by field. ZooKeeper starts from the files that datadir writes, and has the same state; its clients
// resume their sessions with the passwords that datadir computes.
func TestFiles(t *testing.T) {
	needs.Check(t, needs.Usual)
	killed := t.TempDir()
	addr, server := startFiles(t, killed)
	sessions := loadFiles(t, addr, server)
	state, report, err := datadir.Read([]datadir.Directory{{Data: killed}}, datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes, %d sessions, snapshot 0x%x, %d transactions, %d digests",
		state.Len(), len(state.Sessions), report.SnapshotZxid, report.Transactions, report.Digests)
	if report.SnapshotZxid == 0 || state.Len() < 100 || len(state.Sessions) < len(sessions) {
		t.Error("that is too little to compare")
	}
	written := t.TempDir()
	if err := state.Write(written); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{killed, written} {
		addr, server := startFiles(t, dir)
		for i, id := range sessions {
			password := datadir.SessionPassword(id)
			c := openFiles(t, addr, &goclient.Handover{Session: goclient.SessionID(id), Password: password[:]})
			if got, _ := c.Session(); got != goclient.SessionID(id) {
				t.Errorf("session %v was not resumed: %v", id, got)
			}
			if i == 0 {
				compareFiles(t, c, state)
			}
			c.Abandon()
		}
		server.Kill()
	}
}

// startFiles runs a standalone ZooKeeper on the files in dir, which writes many snapshots.
func startFiles(t *testing.T, dir string) (addr string, p *process.Process) {
	t.Helper()
	addr = freeAddr(t)
	host, port, _ := net.SplitHostPort(addr) // freeAddr has joined them
	config := filepath.Join(dir, "zoo.cfg")
	// The sessions live on through all that follows.
	text := fmt.Sprintf("tickTime=2000\nmaxSessionTimeout=600000\ndataDir=%s\nclientPortAddress=%s\nclientPort=%s\nmaxClientCnxns=0\nadmin.enableServer=false\n", dir, host, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var classPath []string
	for _, jar := range jars {
		classPath = append(classPath, filepath.Join("/usr/share/java", jar+".jar"))
	}
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dfile.encoding=UTF-8",
		"-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.snapCount=100", "-Dzookeeper.preAllocSize=64",
		"-Dznode.container.checkIntervalMs=86400000", "-Dzookeeper.DigestAuthenticationProvider.superDigest="+super,
		"-cp", strings.Join(classPath, ":"), "org.apache.zookeeper.server.ZooKeeperServerMain", config)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	p = process.Start(t, "ZooKeeper", cmd, func() string { return "see its log" })
	return addr, p
}

// openFiles opens a session of the super user, or resumes one. It waits until the server serves.
func openFiles(t *testing.T, addr string, resume *goclient.Handover) *goclient.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	c, err := goclient.Dial(ctx, addr, goclient.Config{
		Timeout: 10 * time.Minute, Resume: resume, Auth: []goclient.Auth{goclient.DigestAuth("super", "secret")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// The load is enough for some snapshots, which are written while it continues.
const (
	filesClients = 4
	filesOps     = 1200
)

// loadFiles changes nodes by chance, and kills the server in the middle of that. It returns sessions
// that were open then.
func loadFiles(t *testing.T, addr string, server *process.Process) (sessions []jute.SessionID) {
	t.Helper()
	ctx, killed := context.WithCancel(t.Context())
	defer killed()
	var done atomic.Int64
	var dying atomic.Bool
	var running sync.WaitGroup
	for i := range filesClients {
		c := openFiles(t, addr, nil)
		id, _ := c.Session()
		sessions = append(sessions, jute.SessionID(id))
		running.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(i), 1))
			for {
				err := changeFiles(ctx, c, chance)
				if dying.Load() {
					c.Abandon()
					return
				}
				if err != nil && !answered(err) {
					t.Errorf("a request before the kill: %v", err)
					return
				}
				if done.Add(1) == filesOps {
					dying.Store(true)
					server.Kill()
					killed()
				}
			}
		})
	}
	running.Wait()
	return sessions
}

// answered reports whether a server has answered with err.
func answered(err error) bool {
	var code jute.Code
	return errors.As(err, &code) && code != jute.ConnectionLoss && code != jute.SessionExpired
}

// changeFiles does one operation, which may well be impossible.
func changeFiles(ctx context.Context, c *goclient.Client, chance *rand.Rand) (err error) {
	path := fmt.Sprintf("/n%d", chance.IntN(20))
	if chance.IntN(3) != 0 {
		path += fmt.Sprintf("/é%d", chance.IntN(10))
	}
	switch chance.IntN(10) {
	case 0, 1, 2:
		_, _, err = c.Create(ctx, path, make([]byte, chance.IntN(2000)), goclient.Persistent)
	case 3:
		_, _, err = c.Create(ctx, path+"-", nil, goclient.EphemeralSequential)
	case 4:
		_, _, err = c.Create(ctx, path+"c", nil, goclient.Container)
	case 5:
		_, _, err = c.Create(ctx, path+"t", nil, goclient.Persistent.WithTTL(time.Hour))
	case 6:
		_, err = c.Set(ctx, path, make([]byte, chance.IntN(2000)), -1)
	case 7:
		err = c.Delete(ctx, path, -1)
	case 8:
		_, err = c.SetACL(ctx, path, []goclient.ACL{{Permissions: goclient.Permission(chance.IntN(31)), Identity: goclient.Anyone}}, -1)
	case 9:
		_, err = c.Multi(ctx, goclient.CreateOp(path+"m", nil, goclient.Persistent),
			goclient.DeleteOp(path+"m", goclient.AnyVersion), goclient.SetOp(path, nil, goclient.AnyVersion))
	}
	return err
}

// compareFiles compares what a server says of each node with the state.
func compareFiles(t *testing.T, c *goclient.Client, s *datadir.State) {
	t.Helper()
	expected := map[string]string{}
	children := map[string]int32{}
	err := s.Walk(func(n *datadir.Node) error {
		if i := strings.LastIndexByte(n.Path, '/'); n.Path != "/" {
			children[max(n.Path[:i], "/")]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Walk(func(n *datadir.Node) error {
		stat := jute.Stat{
			Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version, Aversion: n.Aversion,
			Cversion: 2*n.Creates - children[n.Path], DataLength: int32(len(n.Data)), NumChildren: children[n.Path],
		}
		if s.Kind(n) == datadir.Ephemeral {
			stat.EphemeralOwner = jute.SessionID(n.Owner)
		}
		expected[n.Path] = fmt.Sprintf("%q %+v %q", n.Data, stat, n.ACL)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	space := nodes.New(c, "")
	for unread := []string{"/"}; len(unread) > 0; unread = unread[1:] {
		path := unread[0]
		data, stat, err := space.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		acl, err := space.ACL(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%q %+v %q", data, stat, acl); got != expected[path] {
			t.Errorf("%s: ZooKeeper has\n%s\nread was\n%s", path, got, expected[path])
		}
		delete(expected, path)
		names, _, err := space.Children(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			unread = append(unread, strings.TrimSuffix(path, "/")+"/"+name)
		}
	}
	for path := range expected {
		t.Errorf("%s: ZooKeeper does not have it", path)
	}
}
