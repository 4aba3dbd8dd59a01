package load

import (
	"testing"

	"rollcall/lab/judge"
)

// A node that one observer has seen go, and a later list of another member still has, exists.
func TestNodeStaysAtOneMember(t *testing.T) {
	r := newRecorder(&Config{})
	v := &sessionLife{rec: judge.Session{ID: "0x1"}}
	r.noteNodeCreated(v, sessionsParent+"/n")
	seen, node := map[string]bool{}, v.rec.Node
	r.noteList(seen, map[string]bool{"n": true}, 100)
	r.noteExisting([]string{"n"}, 110)
	r.noteList(seen, nil, 200)
	if node.Gone != 200 || node.Existed != 110 {
		t.Errorf("gone at %v, existed at %v, want 200 and 110", node.Gone, node.Existed)
	}
	r.noteExisting([]string{"n"}, 60_000)
	if node.Gone != 200 || node.Existed != 60_000 {
		t.Errorf("gone at %v, existed at %v, want 200 and 60000", node.Gone, node.Existed)
	}
}
