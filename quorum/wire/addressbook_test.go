package wire

import (
	"slices"
	"testing"
)

// The hosts of a member are those in the server list and in raft's configuration. The configured one counts while
// the list does not have the member.
func TestHostsOfMembers(t *testing.T) {
	b := NewAddressBook(1, []Peer{{ID: 1, Addr: "a:1"}, {ID: 2, Addr: "b:1"}, {ID: 3, Addr: "[::3]:1"}})
	check := func(when string, id uint32, want ...string) {
		t.Helper()
		if got := b.HostsOf(id); !slices.Equal(got, want) {
			t.Errorf("%s, the hosts of member %d are %q, want %q", when, id, got, want)
		}
	}
	check("at the start", 3, "::3")
	check("at the start", 4)
	b.SetRaftPeersFunc(func() []Peer {
		return []Peer{{ID: 2, Addr: "b2:1"}, {ID: 3, Addr: "member-3"}, {ID: 4, Addr: "d:1", Observer: true}}
	})
	check("with raft's configuration", 1, "a")
	check("with raft's configuration", 2, "b", "b2")
	check("with raft's configuration", 3, "::3")
	check("with raft's configuration", 4, "d")
	b.SetServerList([]Peer{{ID: 2, Addr: "b3:1"}, {ID: 5, Addr: "e:1"}})
	check("with the list", 2, "b3", "b2")
	check("with the list", 3, "::3")
	check("with the list", 4, "d")
	check("with the list", 5, "e")
	check("with the list", 6)
	for id, want := range map[uint32]bool{1: true, 2: false, 3: false, 4: false, 5: false, 6: true} {
		if got := b.HasLeft(id); got != want {
			t.Errorf("member %d has left: %t", id, got)
		}
	}
	if NewAddressBook(1, []Peer{{ID: 1, Addr: "a:1"}}).HasLeft(2) {
		t.Error("a member has left, although there is no list")
	}
	if got := b.MemberIDs(); !slices.Equal(got, []uint32{1, 2, 3, 4, 5}) {
		t.Errorf("the members are %d, want each once", got)
	}
}
