package znode

import (
	"testing"

	"rollcall/zk/jute"
)

// A read of a copy is answered as a read of the state itself, also if its path is null or is no node's.
func TestReadsOfCopy(t *testing.T) {
	s := New(Config{})
	for _, c := range []TreeView{s.TreeView(), s.FreezeTree()} {
		for path, want := range map[string]jute.Code{"": jute.MarshallingError, "/": jute.OK, "/none": jute.NoNode} {
			var name []byte
			if path != "" {
				name = []byte(path)
			}
			_, _, data := c.GetData(name, nil)
			_, names := c.Children(name, nil)
			_, _, state := s.GetData(name, nil, nil)
			if data != want || names != want || state != want {
				t.Errorf("%q: the copy answers %v and %v, and the state %v; want %v", path, data, names, state, want)
			}
		}
	}
}
