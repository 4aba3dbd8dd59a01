package znode

import (
	"fmt"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

// The differences between a frozen tree and a later one are the created, deleted and changed nodes, in the order of a walk, and
// not their parents.
func TestDiffTrees(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	for _, path := range []string{"/a", "/a/same", "/a/set", "/a/acl", "/a/gone", "/a/gone/below", "/a/again", "/a.b", "/a/kept", "/a/kept/x"} {
		k.must(k.create(path, 0))
	}
	before := w.s().FreezeTree()
	k.must(k.setData("/a/set", "other", -1))
	k.must(k.setACL("/a/acl", aclOf(jute.PermRead, "world", "anyone"), -1))
	k.must(k.delete("/a/gone/below", -1))
	k.must(k.delete("/a/gone", -1))
	k.must(k.delete("/a/again", -1))
	k.must(k.create("/a/again", jute.Ephemeral))
	k.must(k.create("/a/new", 0))
	k.must(k.create("/a/new/e", jute.Ephemeral))
	k.must(k.create("/b", 0))
	diff := func(a, b TreeView, top string, most int) (got []string) {
		DiffTrees(a, b, top, func(d NodeDifference) bool {
			text := fmt.Sprintf("%s %t-%t", d.Path, d.Before != nil, d.After != nil)
			for name, differs := range map[string]bool{" data": d.Data, " acl": d.ACL, " owner": d.Owner} {
				if differs {
					text += name
				}
			}
			got = append(got, text)
			return len(got) < most
		})
		return got
	}
	want := []string{
		"/a/acl true-true acl", "/a/again true-true owner", "/a/gone true-false", "/a/gone/below true-false",
		"/a/new false-true", "/a/new/e false-true", "/a/set true-true data", "/b false-true",
	}
	after := w.s().TreeView()
	if got := diff(before, after, "/", 100); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := diff(before, after, "/a/gone", 100); !slices.Equal(got, want[2:4]) {
		t.Errorf("of a part: %q", got)
	}
	if got := diff(before, after, "/", 3); !slices.Equal(got, want[:3]) {
		t.Errorf("the first three: %q", got)
	}
	if got := diff(before, before, "/", 100); len(got) != 0 {
		t.Errorf("of itself: %q", got)
	}
	if got := diff(after, before, "/b", 100); !slices.Equal(got, []string{"/b true-false"}) {
		t.Errorf("backwards: %q", got)
	}
	restoredTree := restored(t, encode(t, w.s().Snapshot())).TreeView()
	if got := diff(before, restoredTree, "/", 100); !slices.Equal(got, want) {
		t.Errorf("of trees that share nothing: %q", got)
	}
}
