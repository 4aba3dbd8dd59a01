package member_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/admission"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/operator/backup"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// restoreWorld is an ensemble whose members restore backups.
type restoreWorld struct{ nodeOps }

// save returns a backup of a member.
func (w restoreWorld) save(at uint32) []byte {
	w.t.Helper()
	c, err := w.e.Member(at).Operations().CopyState(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return backedUp(w.t, c)
}

// restore sends a backup to a member. It returns the status and the text of a failure.
func (w restoreWorld) restore(ctx context.Context, at uint32, file []byte) (done admin.RestoreResult, status int, why string) {
	w.t.Helper()
	done, err := w.e.Member(at).Operations().RestoreBackup(ctx, admin.RestoreRequest{Body: bytes.NewReader(file), BodySize: int64(len(file)), CallerHost: "10.0.0.9"})
	status, why = w.status(err)
	return done, status, why
}

// nodesIn returns the nodes of a backup, with what a restore brings back of each, but the ephemeral nodes and those of the servers.
func nodesIn(t *testing.T, file []byte) map[string]string {
	t.Helper()
	nodes := map[string]string{}
	_, _, err := backup.Read(bytes.NewReader(file), znode.ImageVisitor{Node: func(n znode.ImageNode) error {
		if n.OwnerSession == 0 && !strings.HasPrefix(n.Path, "/zookeeper") {
			nodes[n.Path] = fmt.Sprintf("%q null:%t %v container:%t ttl:%d", n.Data, n.Data == nil, n.ACL, n.Container, n.TTLMs)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// same checks node by node that every member has what the backup has.
func (w restoreWorld) same(file []byte) {
	w.t.Helper()
	w.e.Equal()
	want := nodesIn(w.t, file)
	for _, id := range w.e.IDs() {
		got := nodesIn(w.t, w.save(id))
		for path := range want {
			if got[path] == want[path] {
				delete(got, path)
			} else {
				w.t.Fatalf("member %d has %s as %q, the backup as %q", id, path, got[path], want[path])
			}
		}
		if len(got) > 0 {
			w.t.Errorf("member %d has %d nodes that the backup lacks: %v", id, len(got), slices.Sorted(maps.Keys(got))[0])
		}
	}
}

func (w restoreWorld) zxid(at uint32) int64 {
	tree := w.e.Member(at).State()
	tree.RLock()
	defer tree.RUnlock()
	return tree.Zxid()
}

// must makes changes as a client, and fails the test if one is refused.
func must(t *testing.T, c *cluster.Client, op jute.Op, rec interface{ Append([]byte) []byte }) {
	t.Helper()
	if _, err := c.Do(op, rec); err != nil {
		t.Fatalf("%v: %v", op, err)
	}
}

func mustCreate(t *testing.T, c *cluster.Client, path string, data []byte, mode jute.CreateMode) {
	t.Helper()
	if _, err := c.Create(path, data, mode); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// A backup that a follower restores comes to every member, node by node. Sessions and their ephemeral nodes live on, zxids go on, watches fire, and
// a second restore changes nothing.
func TestRestoreOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		w := restoreWorld{nodeOps{t, e}}
		follower := e.Followers()[0]
		c, late := e.Connect(20*time.Second, leader), e.Connect(20*time.Second, e.Followers()[1])
		mustCreate(t, c, "/app", []byte("of before"), jute.Persistent)
		mustCreate(t, c, "/app/empty", []byte{}, jute.Persistent)
		mustCreate(t, c, "/app/null", nil, jute.Persistent)
		mustCreate(t, c, "/app/e", []byte("mine"), jute.Ephemeral)
		mustCreate(t, c, "/kept", []byte("kept"), jute.Persistent)
		secret := aclOf(jute.PermRead, "digest", "me:secret=")
		must(t, c, jute.OpCreate, &jute.CreateRequest{Path: []byte("/app/secret"), Data: []byte("s"), ACL: secret})
		must(t, c, jute.OpCreateContainer, &jute.CreateRequest{Path: []byte("/app/box"), ACL: jute.OpenACL, Flags: jute.Container})
		must(t, c, jute.OpCreateTTL, &jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: []byte("/app/ttl"), ACL: jute.OpenACL, Flags: jute.PersistentWithTTL}, TTL: 3_600_000})
		if err := late.Sync(); err != nil {
			t.Fatal(err)
		}
		file := w.save(leader)

		must(t, c, jute.OpSetData, &jute.SetDataRequest{Path: []byte("/app"), Data: []byte("of today"), Version: -1})
		must(t, c, jute.OpSetData, &jute.SetDataRequest{Path: []byte("/app/null"), Data: []byte{}, Version: -1})
		must(t, c, jute.OpSetACL, &jute.SetACLRequest{Path: []byte("/app/empty"), ACL: secret, Version: -1})
		for _, gone := range []string{"/app/secret", "/app/box", "/app/ttl"} {
			must(t, c, jute.OpDelete, &jute.DeleteRequest{Path: []byte(gone), Version: -1})
		}
		mustCreate(t, c, "/new", nil, jute.Persistent)
		mustCreate(t, c, "/new/below", nil, jute.Persistent)
		mustCreate(t, late, "/app/late", nil, jute.Ephemeral)
		if _, err := c.Exists("/app/box", true); !errors.Is(err, jute.NoNode) {
			t.Fatal(err)
		}
		before := w.zxid(leader)

		done, status, why := w.restore(t.Context(), follower, file)
		want := admin.RestoreResult{Zxid: done.Zxid, Nodes: 8, Created: 3, ChangedData: 2, ChangedACLs: 1, Deleted: 2, LeftNodes: 2, SkippedNodes: 1}
		if status != 200 || done != want || done.Zxid <= before {
			t.Errorf("%d %s: %+v after zxid 0x%x, want %+v", status, why, done, before, want)
		}
		w.same(file)
		for path, owner := range map[string]*cluster.Client{"/app/e": c, "/app/late": late} {
			if err := owner.Sync(); err != nil {
				t.Fatal(err)
			}
			if st, err := owner.Exists(path, false); err != nil || st.EphemeralOwner != owner.Session() {
				t.Errorf("%s: %+v, %v", path, st, err)
			}
			if owner.Disconnects() > 0 {
				t.Errorf("the owner of %s was disconnected", path)
			}
		}
		if events := c.Events(); len(events) != 1 || string(events[0].Path) != "/app/box" || events[0].Type != jute.EventNodeCreated {
			t.Errorf("the watch has fired %v", events)
		}
		if rows, _ := removalsOf(t, e.Member(leader).View(), "/new/below", 9); len(rows) != 1 || rows[0].SessionID != "" || rows[0].Address != "10.0.0.9" || rows[0].MemberID != follower {
			t.Errorf("/new/below was removed by %+v", rows)
		}

		again, status, why := w.restore(t.Context(), leader, file)
		if status != 200 || again != (admin.RestoreResult{Zxid: done.Zxid, Nodes: 8, LeftNodes: 2, SkippedNodes: 1}) {
			t.Errorf("again: %d %s: %+v", status, why, again)
		}
	})
}

// exists reports whether a member has a node.
func (w restoreWorld) exists(at uint32, path string) bool {
	_, status := w.node(at, path, admin.Caller{IsAdministrator: true})
	return status == 200
}

// A restore that ends early says how far it came, and the same backup, sent to another member, does the rest. One whose
// leader dies goes on with the next leader.
func TestRestoreIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Write: 20 * time.Millisecond})
		leader := e.Ready()
		e.Joined()
		w := restoreWorld{nodeOps{t, e}}
		follower, other := e.Followers()[0], e.Followers()[1]
		const n = 2000 // eight transactions
		nodes := make([]znode.ImageNode, n)
		for i := range nodes {
			nodes[i] = znode.ImageNode{Path: fmt.Sprintf("/n%05d", i), Data: fmt.Append(nil, i)}
		}
		file, nothing := imageOf(t, nodes...), imageOf(t)
		type outcome struct {
			done   admin.RestoreResult
			status int
			why    string
		}
		begin := func(ctx context.Context) chan outcome {
			ended := make(chan outcome, 1)
			go func() {
				done, status, why := w.restore(ctx, follower, file)
				ended <- outcome{done, status, why}
			}()
			e.Wait("the restore to write", time.Minute, func() bool { return w.exists(leader, nodes[0].Path) })
			return ended
		}
		ctx, leave := context.WithCancel(t.Context())
		ended := begin(ctx)
		leave()
		o := <-ended
		var as, of int
		if _, err := fmt.Sscanf(o.why, "ended when %d of %d nodes were as in the backup", &as, &of); o.status != 500 || err != nil || of != n+1 || as >= of || !strings.Contains(o.why, "the request ended; the same backup, sent again, does the rest") {
			t.Errorf("%d %s: %v", o.status, o.why, err)
		}
		e.Equal()
		if w.exists(leader, nodes[n-1].Path) {
			t.Error("it was wholly restored: this test shows nothing")
		}
		if done, status, why := w.restore(t.Context(), other, file); status != 200 || done.Created == 0 || done.Created >= n {
			t.Errorf("the rest: %d %s: %+v", status, why, done)
		}
		w.same(file)

		if done, status, why := w.restore(t.Context(), other, nothing); status != 200 || done.Deleted != n {
			t.Errorf("a backup without nodes: %d %s: %+v", status, why, done)
		}
		w.same(nothing)
		ended = begin(t.Context())
		if len(ended) > 0 {
			t.Error("it has ended before the leader dies: this test shows nothing")
		}
		e.Kill(leader)
		if o := <-ended; o.status != 200 || o.done.Nodes != n+1 {
			t.Errorf("while the leader dies: %d %s: %+v", o.status, o.why, o.done)
		}
		e.Boot(leader)
		e.Ready()
		w.same(file)
	})
}

// imageOf returns a backup with some nodes besides those that every state has, which come after /a and before /zookeeper.
func imageOf(t *testing.T, nodes ...znode.ImageNode) []byte {
	t.Helper()
	nodes = append([]znode.ImageNode{{Path: "/"}}, nodes...)
	nodes = append(nodes, znode.ImageNode{Path: "/zookeeper"}, znode.ImageNode{Path: "/zookeeper/config"}, znode.ImageNode{Path: "/zookeeper/quota"})
	write := func(to io.Writer) (digest uint64) {
		t.Helper()
		w, err := znode.NewImageWriter(to, znode.ImageHead{Index: 20, Zxid: 5<<32 + 9, Term: znode.Term{Term: 5, Leader: 7}, NodeCount: uint64(len(nodes))})
		for _, n := range nodes {
			if n.ACL == nil {
				n.ACL = jute.OpenACL
			}
			if err == nil {
				err = w.WriteNode(n)
			}
		}
		if err == nil {
			digest, err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	var file bytes.Buffer
	w, err := backup.NewWriter(&file, backup.Head{Index: 20, Term: 5, Zxid: 5<<32 + 9, Nodes: len(nodes), Digest: backup.FormatDigest(write(io.Discard))})
	if err != nil {
		t.Fatal(err)
	}
	write(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A body that is no whole and sound backup changes nothing, and neither does one that comes where nothing can be
// written. No file is left.
func TestRestoreRefuses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		var full *admission.MemoryLimiter
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			cfg.Rules.TTLNodes = false
			if cfg.ID == 3 {
				full = admission.NewMemoryLimiter(1)
				cfg.Memory = full
			}
		}})
		leader := e.Ready()
		e.Joined()
		w := restoreWorld{nodeOps{t, e}}
		c := e.Connect(20*time.Second, e.IDs()...)
		mustCreate(t, c, "/a", []byte("data"), jute.Persistent)
		e.Equal()
		file, zxid := w.save(leader), w.zxid(leader)
		flipped := bytes.Clone(file)
		flipped[len(flipped)-40] ^= 1
		for _, tt := range []struct {
			name   string
			at     uint32
			body   io.Reader
			size   int64
			status int
			want   string
		}{
			{"no backup", 1, strings.NewReader("{}"), 2, 400, "the body is no backup that can be restored: "},
			{"half a backup", 1, bytes.NewReader(file[:len(file)/2]), -1, 400, "cut short"},
			{"all but a byte", 1, bytes.NewReader(file[:len(file)-1]), -1, 400, "cut short"},
			{"more than a backup", 1, io.MultiReader(bytes.NewReader(file), strings.NewReader("x")), -1, 400, "follows its end"},
			{"another byte", 1, bytes.NewReader(flipped), -1, 400, "checksum"},
			{"a body that breaks off", 1, io.MultiReader(bytes.NewReader(file[:50]), iotest.ErrReader(io.ErrUnexpectedEOF)), 999, 400, "the body ended after 50 bytes: unexpected EOF; nothing was changed"},
			{"a long body", 1, strings.NewReader("x"), 51 << 30, 413, "more than the 53687091200 bytes"},
		} {
			_, err := e.Member(tt.at).Operations().RestoreBackup(t.Context(), admin.RestoreRequest{Body: tt.body, BodySize: tt.size})
			status, why := w.status(err)
			if status != tt.status || !strings.Contains(why, tt.want) || !strings.Contains(why, "nothing was changed") || w.zxid(leader) != zxid {
				t.Errorf("%s: %d %s, want %d %s; zxid 0x%x, before 0x%x", tt.name, status, why, tt.status, tt.want, w.zxid(leader), zxid)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, status, why := w.restore(ctx, 1, file); status != 503 && status != 400 || !strings.Contains(why, "nothing was ") || w.zxid(leader) != zxid {
			t.Errorf("for nobody: %d %s", status, why)
		}
		if files, err := os.ReadDir(os.TempDir()); err != nil || len(files) > 0 {
			t.Errorf("files are left: %v, %v", files, err)
		}
		for _, tt := range []struct {
			name string
			at   uint32
			file []byte
			want string
		}{
			{"a node with a time to live", 1, imageOf(t, znode.ImageNode{Path: "/t", TTLMs: 1000}), "ended when 0 of 2 nodes were as in the backup, 0 others deleted, and perhaps some more: /t: a node with a time to live needs extendedTypesEnabled=true"},
			{"a node that is too large", 1, imageOf(t, znode.ImageNode{Path: "/big", Data: make([]byte, jute.DefaultMaxBuffer)}), "jute.maxbuffer limits requests to 1048575; the same backup"},
		} {
			if _, status, why := w.restore(t.Context(), tt.at, tt.file); status != 500 || !strings.Contains(why, tt.want) {
				t.Errorf("%s: %d %s, want %s", tt.name, status, why, tt.want)
			}
		}
		full.SetUsed(2)
		if _, status, why := w.restore(t.Context(), 3, imageOf(t, znode.ImageNode{Path: "/more"})); status != 500 || !strings.Contains(why, "short of memory") {
			t.Errorf("without memory: %d %s", status, why)
		}
		cut := e.Followers()[0]
		e.Isolate(cut)
		if _, status, why := w.restore(t.Context(), cut, file); status != 503 || !strings.Contains(why, "nothing was done") {
			t.Errorf("without a leader: %d %s", status, why)
		}
		e.Wait("the member that is cut off serves nobody", time.Minute, func() bool { return e.Member(cut).Role() == "" })
		if _, status, why := w.restore(t.Context(), cut, file); status != 503 || !strings.Contains(why, "serves no clients") {
			t.Errorf("on a member that serves nobody: %d %s", status, why)
		}
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		inside := e.Member(cut).Inside()
		if _, err := inside.Stat(within, "/a"); err == nil || !strings.Contains(err.Error(), "serves no clients") {
			t.Errorf("a node of a member that serves nobody: %v", err)
		}
		if _, err := inside.SetACL(within, "/a", nil, -1); err == nil || !strings.Contains(err.Error(), "serves no clients") {
			t.Errorf("a change on a member that serves nobody: %v", err)
		}
	})
}
