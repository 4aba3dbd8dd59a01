package subtree_test

import (
	"fmt"
	"testing"

	"rollcall/client"
	"rollcall/operator/subtree"
)

// A Sum reports each node, after all nodes below it, with the usage of the whole subtree.
func TestSum(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/a 12345", "/a/b 123", "/a/b/c 1", "/a/d", "/e 12")
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/a/b/f"), []byte("1234"), client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	nobody := []client.ACL{{Permissions: client.PermAll, Identity: client.Identity{Scheme: "digest", ID: "x:y"}}}
	if _, err := s.Client.SetACL(t.Context(), s.FullPath("/a/d"), nobody, -1); err != nil {
		t.Fatal(err)
	}
	var lines []string
	sum := subtree.NewUsageSum(func(u subtree.Usage, depth int) { lines = append(lines, fmt.Sprintf("%d %+v", depth, u)) })
	for n, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(n)
	}
	sum.Done()
	wantLines(t, lines,
		"3 {Path:/a/b/c Nodes:1 Bytes:1 Ephemerals:0 Unread:0}",
		"3 {Path:/a/b/f Nodes:1 Bytes:4 Ephemerals:1 Unread:0}",
		"2 {Path:/a/b Nodes:3 Bytes:8 Ephemerals:1 Unread:0}",
		"2 {Path:/a/d Nodes:1 Bytes:0 Ephemerals:0 Unread:1}",
		"1 {Path:/a Nodes:5 Bytes:13 Ephemerals:1 Unread:1}",
		"1 {Path:/e Nodes:1 Bytes:2 Ephemerals:0 Unread:0}",
		"0 {Path:/ Nodes:7 Bytes:15 Ephemerals:1 Unread:1}",
	)
}
