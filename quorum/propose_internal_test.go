package quorum

import (
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// The members whose clients wait are those that pending entries name, each once. None comes first while an entry names no member.
func TestMembersAwaitingCommit(t *testing.T) {
	q := newProposer(&Status{}, 0, nil)
	add := func(from ...uint32) *Proposal {
		p := &Proposal{done: make(chan struct{}), originMembers: from}
		if err := q.checkAndAddPending(new(raft.Raft), p, nil); err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := func(members ...uint32) {
		t.Helper()
		if got := slices.Sorted(slices.Values(q.membersAwaitingCommit())); !slices.Equal(got, members) {
			t.Errorf("members %v wait, want %v", got, members)
		}
	}
	want()
	both, second := add(2, 3), add(3)
	want(2, 3)
	unnamed := add()
	want()
	q.removePending(unnamed)
	q.removePending(both)
	want(3)
	q.removePending(second)
	want()
	add(2)
	q.failPending()
	want()
}
