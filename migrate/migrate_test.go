package migrate

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/migrate/datadir"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const lastZxid = 0x5_0000_0123

// These sessions have ids of members 1 and 255. The second looks like the owner of a node with a time to live.
const (
	first  jute.SessionID = 0x0100_00ab_cdef_0001
	second                = jute.SessionID(-1<<56 | 77)
)

// list returns a list of one entry.
func list(scheme, id string, perms jute.Perm) []jute.ACL {
	return []jute.ACL{{Perms: perms, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}}
}

// sample returns a state with every kind of node, each field with a value of its own.
func sample(t *testing.T) *datadir.State {
	t.Helper()
	s := datadir.NewState()
	s.Zxid, s.Epoch = lastZxid, 5
	s.Sessions = map[jute.SessionID]int32{first: 10_000, second: 4_000}
	add := func(n datadir.Node) {
		t.Helper()
		if n.ACL == nil {
			n.ACL = jute.OpenACL
		}
		if err := s.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	add(datadir.Node{Path: "/", Data: []byte{}, Creates: 9, Pzxid: 0x5_0000_0100})
	add(datadir.Node{Path: "/zookeeper", Data: []byte{}})
	add(datadir.Node{Path: "/zookeeper/quota", Data: []byte{}, Creates: 1, Pzxid: 3})
	add(datadir.Node{Path: "/zookeeper/config", Data: []byte("server.1=…\nversion=0"), ACL: list("world", "anyone", jute.PermRead), Mzxid: 1, Mtime: 7, Version: -1, Aversion: -1})
	add(datadir.Node{Path: "/zookeeper/quota/a", Data: nil, Czxid: 3, Mzxid: 3, Pzxid: 5, Ctime: 30, Mtime: 30, Creates: 2})
	add(datadir.Node{Path: "/zookeeper/quota/a/zookeeper_limits", Data: []byte("count=5,bytes=-1"), Czxid: 4, Mzxid: 4, Pzxid: 4, Ctime: 31, Mtime: 31})
	add(datadir.Node{Path: "/zookeeper/quota/a/zookeeper_stats", Data: []byte("count=2,bytes=1"), Czxid: 5, Mzxid: 5, Pzxid: 5, Ctime: 32, Mtime: 32})
	add(datadir.Node{Path: "/a", Data: []byte("x"), ACL: list("digest", "u:abc=", jute.PermAll), Czxid: 11, Mzxid: 12, Pzxid: 13, Ctime: 14, Mtime: 15, Version: 16, Aversion: 17, Creates: 18})
	add(datadir.Node{Path: "/a/b", Data: nil, Czxid: 21, Mzxid: 22, Pzxid: 23, Ctime: 24, Mtime: 25, Version: 26, Aversion: 27, Creates: 28})
	add(datadir.Node{Path: "/a b", Data: []byte{}, ACL: list("sasl", "user", jute.PermRead), Czxid: 31, Mzxid: 31, Pzxid: 31, Ctime: 34, Mtime: 35})
	add(datadir.Node{Path: "/e1", Data: []byte("1"), Czxid: 41, Mzxid: 42, Pzxid: 41, Ctime: 44, Mtime: 45, Version: 1, Owner: int64(first)})
	add(datadir.Node{Path: "/e2", Data: []byte("2"), Czxid: 51, Mzxid: 51, Pzxid: 51, Ctime: 54, Mtime: 54, Owner: int64(second)})
	add(datadir.Node{Path: "/box", Data: nil, Czxid: 61, Mzxid: 61, Pzxid: 61, Ctime: 64, Mtime: 64, Owner: datadir.ContainerOwner})
	add(datadir.Node{Path: "/brief", Data: nil, Czxid: 71, Mzxid: 71, Pzxid: 71, Ctime: 74, Mtime: 99_000, Owner: datadir.TTLOwner(jute.MaxTTL)})
	return s
}

// nodes returns all nodes, by path.
func nodes(t *testing.T, s *datadir.State) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := s.Walk(func(n *datadir.Node) error {
		null := n.Data == nil
		all[n.Path] = fmt.Sprint(n.Data, null, n.ACL, n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime, n.Version, n.Aversion, n.Creates, n.Owner)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// image examines a state and returns its image.
func image(t *testing.T, s *datadir.State) (*ImportPlan, []byte) {
	t.Helper()
	p, err := ExamineImport(s)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := p.WriteImage(&b); err != nil {
		t.Fatal(err)
	}
	return p, b.Bytes()
}

// Every field of every node and every session carries over, and comes back the same. Only the text of the
// configuration node does not: it is the server list of another ensemble.
func TestThereAndBack(t *testing.T) {
	p, there := image(t, sample(t))
	back, losses, err := ToZooKeeper(bytes.NewReader(there), 3)
	if err != nil {
		t.Fatal(err)
	}
	want, got := nodes(t, sample(t)), nodes(t, back)
	want[configPath] = fmt.Sprint([]byte{}, false, list("world", "anyone", jute.PermRead), 0, 0, 0, 0, 0, 0, -1, 0, 0)
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			t.Errorf("%s was %s, is %s", path, want[path], got[path])
		}
	}
	if len(got) != len(want) || !maps.Equal(back.Sessions, sample(t).Sessions) || back.Zxid != lastZxid || back.Epoch != 5 {
		t.Errorf("%d nodes of %d, sessions %v, zxid %#x of epoch %d", len(got), len(want), back.Sessions, back.Zxid, back.Epoch)
	}
	if wanted := (Losses{Nodes: len(want), Sessions: 2, TTLs: 1}); losses != wanted {
		t.Errorf("losses %+v, want %+v", losses, wanted)
	}
	found := p.Findings
	found.Bytes = 0
	wanted := Findings{
		Zxid: lastZxid, Term: 5, Now: 99_000, Nodes: len(want), Sessions: 2, Ephemerals: 2, Containers: 1, TTLs: 1, Quotas: 1, SASL: 1,
		NotCarried: []string{"the text of /zookeeper/config, which is ZooKeeper's server list: members show their own"},
	}
	if !reflect.DeepEqual(found, wanted) {
		t.Errorf("findings %+v\nwant %+v", found, wanted)
	}
}

// A State restores the image. Sessions have the passwords that their clients hold, and new members' sessions have
// other ids.
func TestImageIsAState(t *testing.T) {
	_, there := image(t, sample(t))
	s := znode.New(znode.Config{})
	if err := s.RestoreSnapshot(bytes.NewReader(there)); err != nil {
		t.Fatal(err)
	}
	for id, timeout := range map[jute.SessionID]time.Duration{first: 10 * time.Second, second: 4 * time.Second} {
		got, ok := s.Session(id)
		if want := (znode.Session{ID: id, Timeout: timeout, Password: datadir.SessionPassword(id), OwnerIndex: firstImageIndex, CreatedMs: 99_000}); !ok || got != want {
			t.Errorf("session %v is %+v, want %+v", id, got, want)
		}
		if highest := s.HighestSession(uint32(uint64(id) >> 56)); highest != id {
			t.Errorf("the highest session is %v, want %v", highest, id)
		}
	}
	if ephemerals := s.TreeView().EphemeralCount(); s.Zxid() != lastZxid || s.Term().Term != 5 || ephemerals != 2 {
		t.Errorf("zxid %#x, term %d, %d ephemeral nodes", s.Zxid(), s.Term().Term, ephemerals)
	}
}

// Equal states have equal images, in whatever order they were read.
func TestImagesAreEqual(t *testing.T) {
	_, one := image(t, sample(t))
	for range 20 {
		if _, other := image(t, sample(t)); !bytes.Equal(one, other) {
			t.Fatal("the images of one state differ")
		}
	}
}

// A client may have seen the first zxid of an epoch in which nothing was written. Ours are above it.
func TestZxidsGoOn(t *testing.T) {
	for _, tt := range []struct {
		zxid, epoch, want int64
		term              uint64
	}{{lastZxid, 5, lastZxid, 5}, {lastZxid, 7, 7 << 32, 7}, {12, 0, 12, 1}, {0, 0, 0, 1}} {
		s := sample(t)
		s.Zxid, s.Epoch = tt.zxid, tt.epoch
		p, err := ExamineImport(s)
		if err != nil || p.Zxid != tt.want || p.Term != tt.term {
			t.Errorf("zxid %#x of epoch %d: %#x and term %d (%v), want %#x and term %d", tt.zxid, tt.epoch, p.Zxid, p.Term, err, tt.want, tt.term)
		}
		if next := int64(p.Term+1) << 32; next <= p.Zxid {
			t.Errorf("the next zxid is %#x, after %#x", next, p.Zxid)
		}
	}
}

// The directories of ZooKeeper 3.4 have no configuration node. A text that a client has written there stays.
func TestConfigurationNode(t *testing.T) {
	s := datadir.NewState()
	if err := s.Add(datadir.Node{Path: "/", ACL: jute.OpenACL}); err != nil {
		t.Fatal(err)
	}
	p, there := image(t, s)
	if err := znode.New(znode.Config{}).RestoreSnapshot(bytes.NewReader(there)); err != nil || p.Nodes != 4 || len(p.NotCarried) > 0 {
		t.Errorf("%v, %+v", err, p.Findings)
	}
	s = sample(t)
	config := datadir.NewState()
	config.Sessions = s.Sessions
	if err := s.Walk(func(n *datadir.Node) error {
		if n := *n; n.Path == configPath {
			n.Data, n.Version = []byte("set"), 3
			return config.Add(n)
		} else {
			return config.Add(n)
		}
	}); err != nil {
		t.Fatal(err)
	}
	_, there = image(t, config)
	back, _, err := ToZooKeeper(bytes.NewReader(there), 3)
	if err != nil {
		t.Fatal(err)
	}
	if n := back.Get(configPath); string(n.Data) != "set" || n.Version != 3 || n.Mzxid != 1 {
		t.Errorf("the configuration node is %+v", n)
	}
}

// The text of the list of servers does not go back: ZooKeeper writes its own.
func TestListDoesNotGoBack(t *testing.T) {
	var b bytes.Buffer
	list := serverlist.List{{ID: 1, Host: "a", QuorumPort: 1, ElectionPort: 2}}
	w, err := znode.NewImageWriter(&b, znode.ImageHead{Zxid: 9, ServerList: znode.ServerList{Version: 9, Servers: list}, NodeCount: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []znode.ImageNode{
		{Path: "/"},
		{Path: "/zookeeper"},
		{Path: "/zookeeper/config", Data: []byte(list.ConfigText(9)), Mzxid: 9, Mtime: 7, Version: -1},
		{Path: "/zookeeper/quota"},
	} {
		n.ACL = jute.OpenACL
		if err := w.WriteNode(n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	back, _, err := ToZooKeeper(&b, 3)
	if err != nil {
		t.Fatal(err)
	}
	if n := back.Get(configPath); len(n.Data) > 0 || n.Mzxid != 0 || n.Mtime != 0 || n.Version != 0 {
		t.Errorf("the configuration node is %+v", n)
	}
}

// A state that cannot carry over is refused, with every reason.
func TestExamineRefuses(t *testing.T) {
	s := sample(t)
	for path, acl := range map[string][]jute.ACL{
		"/host1": list("host", "example.org", jute.PermAll), "/host2": list("host", "example.com", jute.PermRead), "/bare": {},
		"/address": append(list("ip", "10.0.0.0/99", jute.PermAll), jute.OpenACL...),
	} {
		if err := s.Add(datadir.Node{Path: path, ACL: acl}); err != nil {
			t.Fatal(err)
		}
	}
	s.Sessions[0] = 5
	s.Epoch = maxEpoch + 1
	p, err := ExamineImport(s)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(p.Rejections, "\n")
	for _, want := range []string{
		`2 nodes, such as "/host1", have ACLs with the scheme "host"`, `1 nodes, such as "/address", have ACLs with the scheme "ip" or an id`,
		`the node "/bare" has no ACL`, "a session with the id 0", "of epoch 1073741824; the epoch must be 0 to 1073741823",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s\nlacks %q", all, want)
		}
	}
	if _, err := p.WriteImage(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `"/host1"`) || len(p.Rejections) != 5 {
		t.Errorf("%d reasons, and Write returns %v", len(p.Rejections), err)
	}
}

// The way back counts what ZooKeeper's files cannot express.
func TestBackCounts(t *testing.T) {
	p, _ := image(t, sample(t))
	h := p.ImageHead()
	h.Members, h.UnsweptCount, h.SessionCount, h.NodeCount = []znode.MemberProgress{{ID: 1, HighestSession: first + 2}}, 1, 2, 9
	var b bytes.Buffer
	w, err := znode.NewImageWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	node := func(path string, owner jute.SessionID) znode.ImageNode {
		return znode.ImageNode{Path: path, ACL: jute.OpenACL, OwnerSession: owner}
	}
	created := func(path string, n int64) znode.ImageNode {
		return znode.ImageNode{Path: path, ACL: jute.OpenACL, CreateCount: n}
	}
	for _, err := range []error{
		w.WriteSession(znode.Session{ID: first, Timeout: time.Second, Password: datadir.SessionPassword(first)}),
		w.WriteSession(znode.Session{ID: first + 1, Timeout: time.Second, Password: [16]byte{1}}),
		w.WriteUnswept(first + 2),
		w.WriteNode(node("/", 0)), w.WriteNode(node("/born", first+1)), w.WriteNode(node("/ended", first+2)), w.WriteNode(node("/kept", first)),
		w.WriteNode(created("/long", 1<<31)), w.WriteNode(created("/longer", jute.MaxSequence)),
		w.WriteNode(node("/zookeeper", 0)), w.WriteNode(node("/zookeeper/config", 0)), w.WriteNode(node("/zookeeper/quota", 0)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	there := b.Bytes()
	s, losses, err := ToZooKeeper(bytes.NewReader(there), 9)
	if want := (Losses{Nodes: 8, Sessions: 2, NativeSessions: 1, NativeEphemerals: 1, EndedNodes: 1, UsedUpParents: 2, UsedUpParent: "/long"}); err != nil || losses != want || s.Get("/ended") != nil {
		t.Fatalf("%+v, %v; want %+v", losses, err, want)
	}
	if long, longer := s.Get("/long").Creates, s.Get("/longer").Creates; long != 1<<31-1 || longer != 1<<31-1 {
		t.Errorf("ZooKeeper counts %d and %d creates", long, longer)
	}
	// Who watched the children of the root hears that one is gone, and epochs go on after the last term.
	if s.Zxid != h.Zxid+1 || s.Get("/").Pzxid != s.Zxid || s.Get("/kept").Pzxid != 0 || s.Epoch != 9 {
		t.Errorf("zxid %#x of epoch %d, after %#x; the root has %#x", s.Zxid, s.Epoch, h.Zxid, s.Get("/").Pzxid)
	}
	for want, read := range map[string]func() (*datadir.State, Losses, error){
		"cut short":              func() (*datadir.State, Losses, error) { return ToZooKeeper(bytes.NewReader(there[:len(there)-1]), 9) },
		"1073741824 is too high": func() (*datadir.State, Losses, error) { return ToZooKeeper(bytes.NewReader(there), maxEpoch+1) },
	} {
		if _, _, err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
