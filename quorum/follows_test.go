package quorum

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

// A configuration follows a list when nobody is to leave or to stop voting any more, and when those who are present
// have come in. Nobody waits for a server that is down.
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
			if got := follows(tt.have, tt.want, tt.present); got != tt.follows {
				t.Errorf("follows is %t", got)
			}
		})
	}
}

// A snapshot that was received may have a newer configuration than the last one that was applied. The configuration
// that raft has then follows the list, although this member has never applied it.
func TestFollowsAfterASnapshot(t *testing.T) {
	before, now := peersOf(1, 2, 3), peersOf(1, 2, 4)
	f := &fsm{machine: &machine{}, configured: func() {}, await: func(uint64) bool { return true }, commits: func() {}, timed: func(_ string, op func() error) error { return op() }, running: func() bool { return true }}
	n := &Node{cfg: Config{Self: 1, Peers: now}, fsm: f}
	f.ApplyBatch([]*raft.Log{{Index: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(wire.Configuration(before))}})
	if n.Follows(nil) {
		t.Error("another configuration was committed last, and this one follows")
	}
	if err := f.Restore(io.NopCloser(bytes.NewBufferString("{}"))); err != nil {
		t.Fatal(err)
	}
	if !n.Follows(nil) {
		t.Error("after the snapshot, the configuration from before it counts")
	}
}
