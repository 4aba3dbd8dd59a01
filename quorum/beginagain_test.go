package quorum

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// A member that joins restarts if the ensemble was founded again, or if all others have replied that they have no data. It waits
// while one of them is silent, because that one may have the data.
func TestRestartsIfNobodyHasData(t *testing.T) {
	empty, full := &proto.HelloReply{}, &proto.HelloReply{HasData: true}
	silent := errors.New("no reply")
	for _, tt := range []struct {
		name     string
		replies  map[uint32]*proto.HelloReply
		failures map[uint32]error
		restarts bool
	}{
		{"all have none", map[uint32]*proto.HelloReply{1: empty, 2: empty}, nil, true},
		{"one is silent", map[uint32]*proto.HelloReply{1: empty}, map[uint32]error{2: silent}, false},
		{"one has data", map[uint32]*proto.HelloReply{1: empty, 2: full}, nil, false},
		{"one is of another ensemble", map[uint32]*proto.HelloReply{1: empty}, map[uint32]error{2: wire.ErrOtherEnsemble}, true},
		{"one is of another ensemble, and one has data", map[uint32]*proto.HelloReply{1: full}, map[uint32]error{2: wire.ErrOtherEnsemble}, false},
		{"nobody is there", nil, nil, false},
	} {
		err := (&bootstrap{}).restartIfNobodyHasData(helloRound{replies: tt.replies, failures: tt.failures})
		if errors.Is(err, wire.ErrRestart) != tt.restarts || (err != nil) != tt.restarts {
			t.Errorf("%s: %v, want a restart: %t", tt.name, err, tt.restarts)
		}
	}
}

// Only one lost disk of several voters is the founder's, while no member that has replied has a transaction.
func TestOnlyFounderLost(t *testing.T) {
	store := raft.NewInmemStore()
	d, err := disk.Open(disk.Config{Stores: disk.Stores{Log: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore()}, StallLimit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }() // nothing was written
	one, two, watcher := wire.Peer{ID: 1, Addr: "a:1"}, wire.Peer{ID: 2, Addr: "b:1"}, wire.Peer{ID: 3, Addr: "c:1", Observer: true}
	for _, tt := range []struct {
		name    string
		servers []wire.Peer
		lost    []wire.Peer
		reply   *proto.HelloReply
		want    bool
	}{
		{"one of two voters", []wire.Peer{one, two}, []wire.Peer{one}, &proto.HelloReply{}, true},
		{"no disk", []wire.Peer{one, two}, nil, &proto.HelloReply{}, false},
		{"two disks", []wire.Peer{one, two}, []wire.Peer{one, two}, &proto.HelloReply{}, false},
		{"the only voter", []wire.Peer{one, watcher}, []wire.Peer{one}, &proto.HelloReply{}, false},
		{"another one is beginning", []wire.Peer{one, two}, []wire.Peer{one}, &proto.HelloReply{HasData: true, OnlyBeginning: true}, true},
		{"another one has a transaction", []wire.Peer{one, two}, []wire.Peer{one}, &proto.HelloReply{HasData: true}, false},
	} {
		b := &bootstrap{disk: d, serverList: &serverList{configuredPeers: tt.servers}}
		if got := b.onlyFounderLost(helloRound{replies: map[uint32]*proto.HelloReply{2: tt.reply}}, tt.lost); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
