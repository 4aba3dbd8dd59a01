package znode

import (
	"fmt"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

// The children of a node are read page by page, in order, each once, by those who may read the node.
func TestChildrenAfter(t *testing.T) {
	w := newWorld(t)
	k := w.connect().auth("digest", "me:x")
	k.must(k.createACL("/p", 0, aclOf(jute.PermAll, "digest", "me:x")))
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("n%02d", i)
		k.must(k.create("/p/"+name, 0))
		want = append(want, name)
	}
	k.must(k.create("/p/n03/below", 0))
	read := func(after string, limit, size int) ([]string, bool, jute.Code) {
		return w.s().TreeView().ChildrenAfter([]byte("/p"), after, limit, size, k.ids)
	}
	for _, size := range []int{1, 4, 7, 1000} {
		for limit := 1; limit <= 26; limit++ {
			var got []string
			for after, more := "", true; more; after = got[len(got)-1] {
				page, others, code := read(after, limit, size)
				if code != jute.OK || len(page) == 0 || len(page) > limit || len(page) > (size+2)/3 {
					t.Fatalf("%d names after %q of at most %d, %d bytes: %v", len(page), after, limit, size, code)
				}
				got, more = append(got, page...), others
			}
			if !slices.Equal(got, want) {
				t.Fatalf("pages of %d, %d bytes: %v", limit, size, got)
			}
		}
	}
	for after, first := range map[string]string{"n03": "n04", "n03x": "n04", "a": "n00", "n24": "", "z": ""} {
		page, more, _ := read(after, 1, 100)
		if first == "" && (page != nil || more) || first != "" && (len(page) != 1 || page[0] != first || more != (first != "n24")) {
			t.Errorf("after %s: %v, more %t", after, page, more)
		}
	}
	if _, _, code := w.s().TreeView().ChildrenAfter([]byte("/p"), "", 1, 1, nil); code != jute.NoAuth {
		t.Errorf("without the right to read: %v", code)
	}
	if _, _, code := w.s().TreeView().ChildrenAfter([]byte("/none"), "", 1, 1, nil); code != jute.NoNode {
		t.Errorf("of no node: %v", code)
	}
	if page, more, code := w.s().TreeView().ChildrenAfter([]byte("/p/n00"), "", 9, 9, nil); page != nil || more || code != jute.OK {
		t.Errorf("of a node without children: %v, %t, %v", page, more, code)
	}
}
