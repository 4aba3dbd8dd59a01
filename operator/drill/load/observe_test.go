package load

import (
	"testing"

	"rollcall/operator/drill/judge"
)

// A node that one observer has seen go, and a later list of another member still has, exists.
func TestNodeStaysAtOneMember(t *testing.T) {
	r := newRecorder(&Config{})
	v := &life{rec: judge.Session{ID: "0x1"}}
	r.nodeCreated(v, holdFolder+"/n")
	seen, node := map[string]bool{}, v.rec.Node
	r.listed(seen, map[string]bool{"n": true}, 100)
	r.existed([]string{"n"}, 110)
	r.listed(seen, nil, 200)
	if node.Gone != 200 || node.Existed != 110 {
		t.Errorf("gone at %v, existed at %v, want 200 and 110", node.Gone, node.Existed)
	}
	r.existed([]string{"n"}, 60_000)
	if node.Gone != 200 || node.Existed != 60_000 {
		t.Errorf("gone at %v, existed at %v, want 200 and 60000", node.Gone, node.Existed)
	}
}
