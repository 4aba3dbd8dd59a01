package differential

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/cli/nodes"
	goclient "rollcall/client"
	"rollcall/integration/needs"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// A dump of ZooKeeper loads into Rollcall, and back: the trees are equal. So rollcall's commands on nodes
// work with both, whose lists of children are in different orders.
func TestDumpsMove(t *testing.T) {
	needs.Check(t, needs.Usual)
	dir := scratch(t)
	own := dir + "/0"
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	zk, rc := dumpSpace(t, startZooKeeper(t, own)), dumpSpace(t, startRollcall(t, own, 1))
	if err := seedNodes(t.Context(), zk); err != nil {
		t.Fatal(err)
	}
	original := move(t, zk, "/tree", rc, "/a/copy")
	again := move(t, rc, "/a/copy", zk, "/again")
	if lines(original, "/tree") != lines(again, "/a/copy") || strings.Count(original, "\n") < 60 {
		t.Errorf("ZooKeeper's tree\n%s\nRollcall's copy\n%s", original, again)
	}
	var back bytes.Buffer
	if _, err := zk.Dump(t.Context(), &back, "/again", subtree.DumpOptions{OnWarning: func(string, string) {}, OnRecord: func(*subtree.Record) {}}); err != nil {
		t.Fatal(err)
	}
	if lines(original, "/tree") != lines(back.String(), "/again") {
		t.Errorf("the tree\n%s\nand back\n%s", original, &back)
	}
	for top, s := range map[string]nodes.Space{"/again": zk, "/a/copy": rc} {
		done, err := s.Remove(t.Context(), top, subtree.RemoveOptions{OnNode: func(string, bool) {}})
		if err != nil || done.Nodes != strings.Count(original, `{"path"`) {
			t.Errorf("removed %+v, %v", done, err)
		}
	}
}

// dumpSpace returns a session with all permissions.
func dumpSpace(t *testing.T, z *target) nodes.Space {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), ready)
	defer stop()
	c, err := goclient.Dial(ctx, z.addrs[0], goclient.Config{WhileSuspended: goclient.Fail, Auth: []goclient.Auth{{Scheme: "digest", Proof: []byte("super:secret")}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return nodes.New(c, "")
}

// seedNodes makes a tree with all that a dump keeps, and an ephemeral node, which it does not.
func seedNodes(ctx context.Context, s nodes.Space) error {
	acl := func(text string) []jute.ACL {
		list, _ := subtree.ParseACL(text) // the texts are good
		return list
	}
	type node struct {
		path string
		data []byte
		acl  string
	}
	all := []node{
		{"/tree", nil, "world:anyone:cdrwa"},
		{"/tree/null", nil, "digest:u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=:cdrwa"},
		{"/tree/empty", []byte{}, "world:anyone:r,ip:10.0.0.0/8:w"},
		{"/tree/bytes", []byte("\xff\x00\x1b"), "world:anyone:a"},
		{"/tree/ü", []byte("ü"), "world:anyone:31"},
		{"/tree/ü/x", []byte("x"), "world:anyone:cdrwa"},
		{"/tree/ü.x", []byte("y"), "world:anyone:cdrwa"},
	}
	for i := range 60 { // ZooKeeper lists children by their hashes
		all = append(all, node{fmt.Sprintf("/tree/null/n%d", i*7), nil, "world:anyone:cdrwa"})
	}
	for _, n := range all {
		if _, err := s.Create(ctx, n.path, n.data, goclient.Persistent, acl(n.acl)); err != nil {
			return err
		}
	}
	_, _, err := s.Client.Create(ctx, "/tree/lock", nil, goclient.Ephemeral)
	return err
}

// move dumps a subtree and loads it elsewhere. It returns the dump.
func move(t *testing.T, from nodes.Space, top string, to nodes.Space, into string) string {
	t.Helper()
	var text bytes.Buffer
	sum, err := from.Dump(t.Context(), &text, top, subtree.DumpOptions{
		Now: time.Now(), OnRecord: func(*subtree.Record) {},
		OnWarning: func(path, why string) { t.Errorf("%s: %s", path, why) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if parent := into[:strings.LastIndexByte(into, '/')]; parent != "" {
		if _, _, err := to.Client.Create(t.Context(), parent, nil, goclient.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	load := subtree.LoadOptions{Into: into, OnBegin: func(subtree.Summary) {}, OnChange: func(subtree.Change) {}}
	done, err := to.Load(t.Context(), bytes.NewReader(text.Bytes()), load)
	if err != nil || done.Created != sum.Count {
		t.Fatalf("loaded %+v of %+v, %v", done, sum, err)
	}
	load.Mode = subtree.Merge
	if done, err = to.Load(t.Context(), bytes.NewReader(text.Bytes()), load); err != nil || done.Created+done.Set+done.ACLs > 0 {
		t.Errorf("loaded again: %+v, %v", done, err)
	}
	return text.String()
}

// lines returns the nodes of a dump, with paths below its top.
func lines(dump, top string) string {
	list := strings.Split(dump, "\n")
	for i, line := range list {
		list[i] = strings.TrimSuffix(strings.Replace(line, `{"path":"`+top, `{"path":"`, 1), ",")
	}
	return strings.Join(slices.DeleteFunc(list, func(line string) bool { return !strings.HasPrefix(line, `{"path"`) }), "\n")
}
