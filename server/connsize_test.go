package server

import (
	"testing"
	"unsafe"
)

// maxConnBytes is a size that Go's allocator has. The next one is 1,024.
const maxConnBytes = 896

// A connection fits into maxConnBytes: with a hundred thousand sessions each step of the allocator's sizes costs 12 MB.
func TestConnectionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(conn{}); size > maxConnBytes {
		t.Errorf("a connection has %d bytes, want %d at most", size, maxConnBytes)
	} else {
		t.Logf("%d bytes", size)
	}
}
