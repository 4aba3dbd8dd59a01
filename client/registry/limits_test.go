package registry

import (
	"strings"
	"testing"
)

// An entry has at most MaxEntrySize bytes, written or read.
func TestLongestEntry(t *testing.T) {
	least, err := encodeInstance(Instance{Name: "a", ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	room := MaxEntrySize - len(least)
	for more, ok := range map[int]bool{0: true, 1: false} {
		data, err := encodeInstance(Instance{Name: "a", ID: "b", Address: strings.Repeat("x", room+more)})
		if (err == nil) != ok || len(data) != MaxEntrySize+more {
			t.Errorf("%d bytes are written: %v", len(data), err)
		}
		if err := checkSize(data); (err == nil) != ok {
			t.Errorf("%d bytes are read: %v", len(data), err)
		}
	}
}

// The name of a node is not empty, and no part of a path.
func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"": false, ".": false, "..": false, "a/b": false, "/": false, "a": true, "...": true, ".a": true} {
		if err := checkName("id", name); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "the id ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
