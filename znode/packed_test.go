package znode

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"
)

// Data come back as they were, and null data stay null.
func TestPacked(t *testing.T) {
	for _, want := range [][]byte{nil, {}, {0}, bytes.Repeat([]byte("d"), 1<<20)} {
		p := packData(want)
		got := p.bytes()
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) || p.isNull() != (want == nil) || p.len() != len(want) {
			t.Errorf("%d bytes, null %t, come back as %d, null %t", len(want), want == nil, len(got), got == nil)
		}
		if cap(got) != len(got) {
			t.Errorf("%d bytes have room for %d", len(got), cap(got))
		}
	}
}

// Go's allocator has room for 64, 80 and 96 bytes: a node that is larger by a byte takes 16 more.
func TestNodeSize(t *testing.T) {
	if size := unsafe.Sizeof(node{}); size != 80 {
		t.Errorf("a node takes %d bytes", size)
	}
	if size := unsafe.Sizeof(nodeExtra{}); size != 64 {
		t.Errorf("a family takes %d bytes", size)
	}
}

// A node's children take a pointer each, because each child has its name: see keyed.
func TestChildrenHoldNoNames(t *testing.T) {
	k := newWorld(t).connect()
	for i := range 3 * maxPageKeys {
		k.must(k.create(fmt.Sprintf("/n%04d", i), 0))
	}
	leaves := 0
	for _, leaf := range k.w.nodeAt("/").children.root.children {
		if leaves++; leaf.keys != nil {
			t.Errorf("a leaf of %d children holds %d names", leaf.len(), len(leaf.keys))
		}
	}
	if leaves < 3 {
		t.Errorf("%d leaves", leaves)
	}
}
