package server

import (
	"testing"

	"rollcall/zk/jute"
)

// While a member is short of memory, a write that ends too early gets the usual reply: it cannot be read. The data that
// it would add are not checked.
func TestShortOfMemoryForUnreadable(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	c.must(jute.OpCreate, create("/a", "1234", 0))
	set := setData("/a", "12345").Append(nil)
	list := jute.SetACLRequest{Path: []byte("/a"), ACL: listOf(2), Version: -1}.Append(nil)
	for _, tt := range []struct {
		name string
		op   jute.Op
		body []byte
		adds bool
	}{
		{"whole setData", jute.OpSetData, set, true},
		{"setData without its version", jute.OpSetData, set[:len(set)-4], false},
		{"half a setData", jute.OpSetData, set[:len(set)-7], false},
		{"empty setData", jute.OpSetData, nil, false},
		{"whole setACL", jute.OpSetACL, list, true},
		{"setACL without its version", jute.OpSetACL, list[:len(list)-4], false},
		{"empty setACL", jute.OpSetACL, nil, false},
	} {
		if adds := w.srv.writeLimits.addsData(tt.op, tt.body, nil); adds != tt.adds {
			t.Errorf("%s adds data: %t, want %t", tt.name, adds, tt.adds)
		}
	}
}
