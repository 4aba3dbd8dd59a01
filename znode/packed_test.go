package znode

import (
	"bytes"
	"testing"
	"unsafe"
)

// Data come back as they were, and null data stay null.
func TestPacked(t *testing.T) {
	for _, want := range [][]byte{nil, {}, {0}, bytes.Repeat([]byte("d"), 1<<20)} {
		p := pack(want)
		got := p.bytes()
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) || p.null() != (want == nil) || p.len() != len(want) {
			t.Errorf("%d bytes, null %t, come back as %d, null %t", len(want), want == nil, len(got), got == nil)
		}
		if cap(got) != len(got) {
			t.Errorf("%d bytes have room for %d", len(got), cap(got))
		}
	}
}

// Go's allocator has room for 80, 96 and 112 bytes: a node that is larger by a byte takes 16 more.
func TestNodeSize(t *testing.T) {
	if size := unsafe.Sizeof(node{}); size != 96 {
		t.Errorf("a node takes %d bytes", size)
	}
	if size := unsafe.Sizeof(family{}); size != 48 {
		t.Errorf("a family takes %d bytes", size)
	}
}
