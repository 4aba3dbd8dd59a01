package znode

import (
	"sync/atomic"
	"testing"

	"rollcall/zk/jute"
)

// A roll back leaves the tree as it was, whatever was linked, unlinked and edited in between. Without recording
// nothing is undone.
func TestEditorRollsBack(t *testing.T) {
	var lists aclTable
	var gen atomic.Uint64
	gen.Store(1)
	nodes := newTree(1, &lists)
	e := treeEditor{tree: &nodes, gen: &gen}
	add := func(path string) {
		parent := e.linkAndEditParent(&node{gen: gen.Load(), path: path, data: packData([]byte("data")), nodeExtra: &lists.worldList(jute.PermAll).sharedExtra})
		parent.countCreate(parent.nextNumber(false))
		nodes.addHash(parent)
	}
	set := func(path, data string) {
		n := e.beginEdit(nodes.nodeAt(path))
		nodes.setData(n, []byte(data))
		nodes.addHash(n)
	}
	e.reserveUndo(4)
	add("/kept")
	add("/gone")
	sum, size, creates := nodes.nodeHashSum, nodes.dataSize, nodes.root.numCreated()
	for range 2 { // the second time in pages that a copy shares
		e.recordsUndo = true
		add("/new")
		set("/kept", "another text")
		set("/new", "x")
		nodes.addHash(e.unlinkAndEditParent(nodes.nodeAt("/gone")))
		set("/kept", "")
		e.rollBack()
		e.discardUndo()
		if nodes.nodeHashSum != sum || nodes.dataSize != size || nodes.root.numCreated() != creates ||
			nodes.nodeAt("/new") != nil || nodes.nodeAt("/gone") == nil {
			t.Errorf("hashes %x, %d bytes, %d creates; want %x, %d, %d",
				nodes.nodeHashSum, nodes.dataSize, nodes.root.numCreated(), sum, size, creates)
		}
		if got := string(nodes.nodeAt("/kept").data.bytes()); got != "data" {
			t.Errorf("data %q", got)
		}
		gen.Add(1)
	}
	set("/kept", "stays")
	e.rollBack()
	if got := string(nodes.nodeAt("/kept").data.bytes()); got != "stays" {
		t.Errorf("data %q", got)
	}
}
