package znode

import (
	"fmt"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

// Lists that are read without the lock stay as they were, whatever changes meanwhile.
func TestFrozenLists(t *testing.T) {
	const nodes = 3 * maxPageKeys * maxPageKeys
	w := newWorld(t)
	c := w.connect()
	c.must(c.create("/list", 0))
	var names, paths []string
	for i := range nodes {
		name := fmt.Sprintf("%06d", i)
		names, paths = append(names, name), append(paths, "/list/"+name)
		c.must(c.create("/list/"+name, jute.Ephemeral))
	}
	list := []byte("/list")
	frozen := w.s().FreezeTree()
	children, code := frozen.Children(list, nil)
	c.must(c.create("/list/more", 0))
	direct, stat, codeNow := w.s().FreezeChildren(list, nil, nil)
	owned := frozen.Ephemerals(c.id, list)
	if code != jute.OK || codeNow != jute.OK || stat.NumChildren != nodes+1 {
		t.Fatalf("%v, %v, %d children", code, codeNow, stat.NumChildren)
	}
	check := func(when string) {
		t.Helper()
		if got := slices.Collect(children.All()); !slices.Equal(got, names) {
			t.Errorf("%s: %d names, the first are %q", when, len(got), got[:min(3, len(got))])
		}
		if got := slices.Collect(direct.All()); !slices.Equal(got, append(slices.Clip(names), "more")) {
			t.Errorf("%s, with one more: %d names, the first are %q", when, len(got), got[:min(3, len(got))])
		}
		if got := slices.Collect(owned.All()); !slices.Equal(got, paths) {
			t.Errorf("%s: %d paths, the first are %q", when, len(got), got[:min(3, len(got))])
		}
		data, stat, code := frozen.GetData([]byte(paths[1]), nil)
		if code != jute.OK || string(data) != "x" || stat.Version != 0 {
			t.Errorf("%s: data %q of version %d, %v", when, data, stat.Version, code)
		}
	}
	check("at once")
	for i := 0; i < nodes; i += 2 {
		c.must(c.delete(paths[i], -1))
		c.must(c.setData(paths[i+1], "new", -1))
		c.must(c.create(paths[i]+"x", 0))
	}
	check("after changes")
	now := w.s().TreeView()
	if got, _ := now.Children(list, nil); got.Count() != nodes+1 {
		t.Errorf("%d names now, want %d", got.Count(), nodes+1)
	}
	if data, _, _ := now.GetData([]byte(paths[1]), nil); string(data) != "new" {
		t.Errorf("data now: %q", data)
	}
}
