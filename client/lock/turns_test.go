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

// A Multi with one parent twice would wait for itself.
func TestMultiOfOneFolderTwice(t *testing.T) {
	m := NewMulti(nil, []string{"/a", "/b", "/a"}, Config{})
	if _, err := m.Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "/a is twice") {
		t.Errorf("Lock: %v", err)
	}
}
