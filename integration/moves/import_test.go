package moves

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/client"
	"rollcall/integration/needs"
)

// clients is the number of clients that live through each move.
const clients = 20

// A standalone server of ZooKeeper is killed under load, while it writes snapshots. The import has what ZooKeeper
// itself makes of its files, node by node and field by field, and all that was acknowledged. Twenty clients with
// ephemeral nodes and locks lose no session on the way there, and none on the way back.
func TestStandaloneMoves(t *testing.T) {
	needs.Check(t, needs.Kazoo)
	needs.Check(t, needs.Usual)
	s := newSite(t, 1, true)
	s.startZooKeeper()
	fill(t, open(t, s.servers[0].Clients))
	writes := startLoad(t, s, 1)
	held := startHolders(t, s, clients)
	writes.under(t)
	s.kill()
	acked := writes.awaitEnd()
	own := s.copied()
	own.endless() // nobody keeps the sessions of the copy alive until it has been read
	own.startZooKeeper()
	before := dumpOf(t, own.servers[0].Clients)
	own.kill()

	mustRun(t, append([]string{"import", "--config", s.servers[0].Config}, s.directories()...)...)
	s.startRollcall()
	same(t, before, dumpOf(t, s.servers[0].Clients))
	kept(t, s, acked)
	held.fine()
	if n := held.broken(); n < clients {
		t.Errorf("%d connections have broken, of %d clients", n, clients)
	}
	goesOn(t, s)

	before = dumpOf(t, s.servers[0].Clients)
	s.stop()
	mustRun(t, "export", "--config", s.servers[0].Config, s.back())
	s.comeBack()
	s.startZooKeeper()
	same(t, before, dumpOf(t, s.servers[0].Clients))
	held.fine()
	goesOn(t, s)
	held.leave()
}

// copied returns another site with copies of all files, on ports of its own. A log without a whole head is left out:
// ZooKeeper does not start from one, although it leaves one when it is killed as it begins a log.
func (s *site) copied() *site {
	s.t.Helper()
	c := newSite(s.t, len(s.servers), s.servers[0].logs != "")
	for i, m := range s.servers {
		for from, to := range map[string]string{m.Data: c.servers[i].Data, m.logs: c.servers[i].logs} {
			if from == "" {
				continue
			}
			to = filepath.Join(to, zookeeperDirectory)
			if err := os.CopyFS(to, os.DirFS(filepath.Join(from, zookeeperDirectory))); err != nil {
				s.t.Fatal(err)
			}
			removeHeadless(s.t, to)
		}
	}
	return c
}

// logHead is the length of the head of a log of ZooKeeper.
const logHead = 16

// removeHeadless removes the logs without a whole head from a directory.
func removeHeadless(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range logs {
		info, err := os.Stat(path)
		if err == nil && info.Size() < logHead {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// kept checks that all acknowledged writes are there.
func kept(t *testing.T, s *site, acked map[string]string) {
	t.Helper()
	c := open(t, s.servers[0].Clients)
	defer closed(t, c)
	if len(acked) < 100 {
		t.Errorf("only %d nodes were written", len(acked))
	}
	for path, want := range acked {
		if data, _, err := c.Get(t.Context(), path); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v; %q was acknowledged", path, data, err, want)
		}
	}
}

// goesOn checks that zxids, sequential numbers and quotas continue from their last values.
func goesOn(t *testing.T, s *site) {
	t.Helper()
	c := open(t, s.servers[0].Clients)
	defer closed(t, c)
	family, _, err := c.Exists(t.Context(), "/family")
	if err != nil {
		t.Fatal(err)
	}
	path, _, err := c.Create(t.Context(), "/family/n-", nil, client.PersistentSequential)
	if want := fmt.Sprintf("/family/n-%010d", (int(family.ChildrenVersion)+family.NumChildren)/2); err != nil || path != want {
		t.Errorf("the next sequential node is %s, %v; want %s", path, err, want)
	}
	stat, _, err := c.Exists(t.Context(), path)
	if err != nil || stat.Created <= highestZxid(t, c) {
		t.Errorf("zxid %#x, %v; an earlier one is %#x", stat.Created, err, highestZxid(t, c))
	}
	if _, err := c.Set(t.Context(), "/bounded/child", []byte("678"), -1); err != nil {
		t.Fatal(err)
	}
	if usage, _, err := c.Get(t.Context(), "/zookeeper/quota/bounded/zookeeper_stats"); err != nil ||
		!strings.HasPrefix(string(usage), "count=2,bytes=8") {
		t.Errorf("the quota's usage is %q, %v", usage, err)
	}
	if _, err := c.Set(t.Context(), "/bounded/child", []byte("67"), -1); err != nil {
		t.Fatal(err)
	}
}

// highestZxid returns the greatest zxid among the first nodes of the tree, without the nodes of /family.
func highestZxid(t *testing.T, c *client.Client) (zxid client.Zxid) {
	t.Helper()
	children, stat, err := c.Children(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	zxid = stat.ChildrenChanged
	for _, name := range slices.DeleteFunc(children, func(name string) bool { return name == "family" }) {
		stat, _, err := c.Exists(t.Context(), "/"+name)
		if err != nil {
			t.Fatal(err)
		}
		zxid = max(zxid, stat.Created, stat.Changed, stat.ChildrenChanged)
	}
	return zxid
}
