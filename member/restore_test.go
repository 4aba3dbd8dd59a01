package member

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/quorum/disk"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// formerImage is an image of an ensemble that has run: member 3 and a member 9, which is gone, have
// announced themselves, two sessions have nodes below a quota, and there is a list of servers.
func formerImage(t *testing.T, ephemerals int) []byte {
	t.Helper()
	const first, second = 3<<56 + 1, 9<<56 + 8
	nodes := []znode.ImageNode{{Path: "/"}, {Path: "/app", CreateCount: int64(ephemerals) + 1}}
	for i := range ephemerals {
		nodes = append(nodes, znode.ImageNode{Path: fmt.Sprintf("/app/e%05d", i), OwnerSession: second, Data: []byte("xy")})
	}
	nodes = append(nodes,
		znode.ImageNode{Path: "/app/plain", Data: []byte("kept"), Mzxid: 7<<32 + 3, Version: 4},
		znode.ImageNode{Path: "/lock", OwnerSession: first},
		znode.ImageNode{Path: "/zookeeper"}, znode.ImageNode{Path: "/zookeeper/config", Data: []byte("server.9=…"), Mzxid: 8 << 32, Mtime: 70, Version: -1},
		znode.ImageNode{Path: "/zookeeper/quota", CreateCount: 1}, znode.ImageNode{Path: "/zookeeper/quota/app"},
		znode.ImageNode{Path: "/zookeeper/quota/app/zookeeper_limits", Data: []byte("count=9999,bytes=-1")},
		znode.ImageNode{Path: "/zookeeper/quota/app/zookeeper_stats", Data: fmt.Appendf(nil, "count=%d,bytes=%d", ephemerals+2, 2*ephemerals+4)},
	)
	var b bytes.Buffer
	w, err := znode.NewImageWriter(&b, znode.ImageHead{
		Index: 40, Zxid: 8<<32 + 3, Term: znode.Term{Term: 7, Nonce: 5, Leader: 9, Index: 12},
		Members:      []znode.MemberProgress{{ID: 3, Incarnation: 77, LastSeq: 4, Format: znode.FormatLevel, HighestSession: first + 5}, {ID: 4, Incarnation: 78}, {ID: 9, Incarnation: 79, Format: 1, HighestSession: second}},
		SessionCount: 2, NodeCount: uint64(len(nodes)),
		ServerList: znode.ServerList{Version: 8 << 32, Servers: serverlist.List{{ID: 9, Host: "a", QuorumPort: 1, ElectionPort: 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []jute.SessionID{first, second} {
		err := w.WriteSession(znode.Session{ID: id, Timeout: 5 * time.Second, Password: [16]byte{9}, Owner: znode.SessionOwner{Member: 3, Conn: 6}, OwnerIndex: 30, Address: "10.0.0.1:5"})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.ACL = jute.OpenACL
		if err := w.WriteNode(n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func imageIn(b []byte) ImageReader {
	return func(v znode.ImageVisitor) error {
		_, _, err := znode.ReadImage(bytes.NewReader(b), v)
		return err
	}
}

// A restored state has no list of servers: the first leader of the new ensemble sets its own.
func TestRestoreDropsTheList(t *testing.T) {
	_, s := stateIn(t, imageIn(formerImage(t, 1)))
	if r, ok := s.ServerList(); ok {
		t.Errorf("the list is %+v", r)
	}
	if data, st, code := s.GetData([]byte(znode.ConfigPath), nil, nil); code != jute.OK || len(data) > 0 || st.Mzxid != 0 || st.Mtime != 0 || st.Version != 0 {
		t.Errorf("the node has %q, %+v, %v", data, st, code)
	}
}

// stateIn returns the state for a new ensemble, as its members read it.
func stateIn(t *testing.T, image ImageReader) (*RestoredState, *znode.State) {
	t.Helper()
	r, err := ReadForRestore(image)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	digest, err := r.WriteImage(&b)
	if err != nil {
		t.Fatal(err)
	}
	s := znode.New(znode.Config{})
	if err := s.RestoreSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	nodes := s.TreeView().NodeCount()
	if s.Digest() != digest || uint64(nodes) != r.ImageHead().NodeCount || s.Index() != r.ImageHead().Index {
		t.Errorf("digest %016x, %d nodes, index %d; the head is %+v", s.Digest(), nodes, s.Index(), r.ImageHead())
	}
	return r, s
}

// A restored state has the sessions, without their connections, and the greatest id of each former member.
// It knows no member.
func TestRestoreKeepsSessions(t *testing.T) {
	r, s := stateIn(t, imageIn(formerImage(t, 3)))
	ephemerals := s.TreeView().EphemeralCount()
	if r.RaftTerm() != 8+restoredTermGap || s.Zxid() != 8<<32+3 || s.Index() != 40 || s.SessionCount() != 2 || ephemerals != 4 {
		t.Errorf("term %d, zxid %#x, index %d, %d sessions, %d ephemerals", r.RaftTerm(), s.Zxid(), s.Index(), s.SessionCount(), ephemerals)
	}
	session, ok := s.Session(3<<56 + 1)
	want := znode.Session{ID: 3<<56 + 1, Timeout: 5 * time.Second, Password: [16]byte{9}, OwnerIndex: 30, Address: "10.0.0.1:5"}
	if !ok || session != want {
		t.Errorf("%+v, want %+v", session, want)
	}
	for member, highest := range map[uint32]jute.SessionID{3: 3<<56 + 6, 4: 0, 9: 9<<56 + 8} {
		if boot, cursor := s.MemberIncarnation(member); boot != 0 || cursor != 0 || s.HighestSession(member) != highest {
			t.Errorf("member %d: boot %d, cursor %d, highest %v", member, boot, cursor, s.HighestSession(member))
		}
	}
}

// A state without sessions has none of their nodes, and its quotas count without them. All members get the
// same one.
func TestRestoreClosesSessions(t *testing.T) {
	for _, ephemerals := range []int{0, 3, 2500} { // the last ones go in several entries
		former := formerImage(t, ephemerals)
		var digests []uint64
		for range 2 {
			closed, without, err := EndImageSessions(imageIn(former), "a test")
			if err != nil || closed != 2 {
				t.Fatalf("%d closed: %v", closed, err)
			}
			_, s := stateIn(t, without)
			digests = append(digests, s.Digest())
			tree := s.TreeView()
			if s.SessionCount() != 0 || tree.EphemeralCount() != 0 || s.HasUnswept() || tree.NodeCount() != 9 || s.Zxid() <= 8<<32+3 || s.Index() <= 40 {
				t.Errorf("%d sessions, %d ephemerals, %d nodes, zxid %#x, index %d", s.SessionCount(), tree.EphemeralCount(), tree.NodeCount(), s.Zxid(), s.Index())
			}
			var b bytes.Buffer
			if _, err := s.Snapshot().WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			var usage, plain, by string
			_, _, err = znode.ReadImage(&b, znode.ImageVisitor{
				SessionEnd: func(e znode.SessionEnd) error { by = e.RequestedBy; return nil },
				Node: func(n znode.ImageNode) error {
					switch n.Path {
					case "/app/plain":
						plain = fmt.Sprintf("%s %x %d", n.Data, n.Mzxid, n.Version)
					case "/zookeeper/quota/app/zookeeper_stats":
						usage = string(n.Data)
					}
					return nil
				},
			})
			if err != nil || usage != "count=2,bytes=4" || plain != "kept 700000003 4" || by != "a test" {
				t.Errorf("usage %q, plain %q, by %q: %v", usage, plain, by, err)
			}
		}
		if digests[0] != digests[1] {
			t.Errorf("digests %x", digests)
		}
	}
}

// An image that cannot be read is not restored. An empty state has an index that can be planted.
func TestRestoreRefuses(t *testing.T) {
	former := formerImage(t, 3)
	for _, b := range [][]byte{nil, former[:len(former)-1], append(bytes.Clone(former), 0)} {
		if _, err := ReadForRestore(imageIn(b)); err == nil {
			t.Errorf("an image of %d bytes is read", len(b))
		}
		if _, _, err := EndImageSessions(imageIn(b), ""); err == nil {
			t.Errorf("an image of %d bytes is read", len(b))
		}
	}
	r, err := ReadForRestore(imageIn(former))
	if err != nil {
		t.Fatal(err)
	}
	r.readImage = imageIn(former[:len(former)-1]) // it has changed meanwhile
	if _, err := r.WriteImage(io.Discard); err == nil {
		t.Error("an image that has changed is written")
	}
	full := "no space"
	if _, err := (&RestoredState{r.head, imageIn(former)}).WriteImage(brokenWriter(full)); err == nil || !strings.Contains(err.Error(), full) {
		t.Errorf("%v", err)
	}
	var empty bytes.Buffer
	if _, err := znode.New(znode.Config{}).Snapshot().WriteTo(&empty); err != nil {
		t.Fatal(err)
	}
	if r, _ := stateIn(t, imageIn(empty.Bytes())); r.ImageHead().Index <= disk.BootstrapIndex {
		t.Errorf("index %d", r.ImageHead().Index)
	}
}

type brokenWriter string

func (b brokenWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("%s", string(b)) }
