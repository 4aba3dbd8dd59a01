package znode

import (
	"sync/atomic"
	"testing"

	"rollcall/zk/jute"
)

// A roll back leaves the tree as it was, whatever was linked, unlinked and edited in between. Without recording
// nothing is undone.
func TestEditorRollsBack(t *testing.T) {
	var lists acls
	var gen atomic.Uint64
	gen.Store(1)
	nodes := newTree(1, &lists)
	e := editor{tree: &nodes, gen: &gen}
	add := func(path string) {
		parent := e.link(&node{gen: gen.Load(), path: path, data: pack([]byte("data")), family: &lists.world(jute.PermAll).plain})
		parent.countCreate()
		nodes.count(parent)
	}
	set := func(path, data string) {
		n := e.edit(path)
		nodes.setBytes(n, []byte(data))
		nodes.count(n)
	}
	e.start(4)
	add("/kept")
	add("/gone")
	sum, size, creates := nodes.nodeSum, nodes.dataSize, nodes.root.numCreates()
	for range 2 { // the second time in pages that a copy shares
		e.recording = true
		add("/new")
		set("/kept", "another text")
		set("/new", "x")
		nodes.count(e.unlink(nodes.get("/gone")))
		set("/kept", "")
		e.rollBack()
		e.stop()
		if nodes.nodeSum != sum || nodes.dataSize != size || nodes.root.numCreates() != creates || nodes.get("/new") != nil || nodes.get("/gone") == nil {
			t.Errorf("hashes %x, %d bytes, %d creates; want %x, %d, %d", nodes.nodeSum, nodes.dataSize, nodes.root.numCreates(), sum, size, creates)
		}
		if got := string(nodes.get("/kept").data.bytes()); got != "data" {
			t.Errorf("data %q", got)
		}
		gen.Add(1)
	}
	set("/kept", "stays")
	e.rollBack()
	if got := string(nodes.get("/kept").data.bytes()); got != "stays" {
		t.Errorf("data %q", got)
	}
}
