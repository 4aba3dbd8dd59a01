package lock

import (
	"strings"
	"testing"

	"rollcall/client/internal/contender"
)

// A reader waits for writers, and for no reader.
func TestAfterWriters(t *testing.T) {
	if afterWriters(contender.Reader) || !afterWriters(contender.Writer) {
		t.Error("a reader waits for a reader, or not for a writer")
	}
}

// A Multi with a duplicate parent would wait for itself.
func TestMultiOfOneParentTwice(t *testing.T) {
	m := NewMulti(nil, []string{"/a", "/b", "/a"}, Config{})
	if _, err := m.Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "duplicate parent /a:") {
		t.Errorf("Lock: %v", err)
	}
}
