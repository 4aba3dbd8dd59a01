package quorum

import (
	"testing"

	"rollcall/quorum/wire"
)

// A configuration follows a list when no server has to leave or to lose its vote any more, and when the servers that are
// present have joined. It does not wait for a server that is down.
func TestFollows(t *testing.T) {
	one, two := wire.Peer{ID: 1, Addr: "a:1"}, wire.Peer{ID: 2, Addr: "b:1"}
	looks, moved := wire.Peer{ID: 2, Addr: "b:1", Observer: true}, wire.Peer{ID: 2, Addr: "c:1"}
	for _, tt := range []struct {
		name       string
		have, want []wire.Peer
		present    []uint32
		follows    bool
	}{
		{"the same", []wire.Peer{one, two}, []wire.Peer{one, two}, []uint32{1, 2}, true},
		{"one leaves", []wire.Peer{one, two}, []wire.Peer{one}, []uint32{1, 2}, false},
		{"one that is down leaves", []wire.Peer{one, two}, []wire.Peer{one}, []uint32{1}, false},
		{"one stops voting", []wire.Peer{one, two}, []wire.Peer{one, looks}, []uint32{1}, false},
		{"one comes in", []wire.Peer{one}, []wire.Peer{one, two}, []uint32{1, 2}, false},
		{"one that is down comes in", []wire.Peer{one}, []wire.Peer{one, two}, []uint32{1}, true},
		{"one catches up before it votes", []wire.Peer{one, looks}, []wire.Peer{one, two}, []uint32{1, 2}, false},
		{"one that is down is to vote", []wire.Peer{one, looks}, []wire.Peer{one, two}, []uint32{1}, true},
		{"one moves", []wire.Peer{one, two}, []wire.Peer{one, moved}, []uint32{1, 2}, false},
		{"one that is down moves", []wire.Peer{one, two}, []wire.Peer{one, moved}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := configurationFollows(tt.have, tt.want, tt.present); got != tt.follows {
				t.Errorf("follows is %t", got)
			}
		})
	}
}
