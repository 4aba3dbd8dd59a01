package member

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/config"
	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// assembled returns member 1 of an ensemble of its own, whose parts are there and do not run.
func assembled(t *testing.T) *Member {
	t.Helper()
	store := raft.NewInmemStore()
	m, err := New(Config{
		ID: 1, Servers: []Server{{ID: 1, GrpcAddr: "a:1", RaftAddr: "a:2"}},
		Stores:   &disk.Stores{Log: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore()},
		Settings: config.Settings{Tick: time.Second, MinTimeout: 2 * time.Second, MaxTimeout: time.Minute}.WithDefaults(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.node.Close(); err != nil {
			t.Error(err)
		}
		m.ports.closeAll()
		m.auditLog.Close()
	})
	return m
}

// snapshotOf returns the snapshot of a state whose first term has begun with a list. If the list is nil, the state has none.
func snapshotOf(t *testing.T, list *znode.ServerList) *bytes.Buffer {
	t.Helper()
	start := &proto.TermStart{Leader: 1, Nonce: 1}
	if list != nil {
		start.ServerList = list.ToProto()
	}
	body, err := protobuf.Marshal(start)
	if err != nil {
		t.Fatal(err)
	}
	state := znode.New(znode.Config{EnsembleText: []byte{}})
	state.Lock()
	err = state.ApplyEntry(1, 1, &proto.Entry{Format: znode.FormatLevel, Nonce: 1, TimeMs: 1, Txns: []*proto.Txn{{Op: int32(jute.OpTermStart), Body: body}}})
	snapshot := state.Snapshot()
	state.Unlock()
	var b bytes.Buffer
	if err == nil {
		_, err = snapshot.WriteTo(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

// A snapshot replaces the list of servers, also by none: a member that is sent the state of an ensemble that was recovered, and has no list
// yet, makes no change of the former ensemble's list, and raft's configuration does not follow that.
func TestSnapshotReplacesTheList(t *testing.T) {
	former, own := wire.EnsembleID{8}, wire.EnsembleID{9}
	m := assembled(t)
	servers := func() []uint32 {
		var ids []uint32
		_, newest := m.serverLists.newestServers()
		for _, s := range newest {
			ids = append(ids, s.ID)
		}
		return ids
	}
	for _, tt := range []struct {
		name string
		list *znode.ServerList
		want []uint32
	}{
		{"the former ensemble's list", &znode.ServerList{EnsembleID: former, Servers: lines(t, serverOne, serverTwo, serverThree)}, []uint32{1, 2, 3}},
		{"no list", nil, nil},
		{"this ensemble's list", &znode.ServerList{EnsembleID: own, Servers: lines(t, serverOne, serverThree)}, []uint32{1, 3}},
		{"no list again", nil, nil},
	} {
		if err := m.state.RestoreSnapshot(snapshotOf(t, tt.list)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := servers(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the newest list has the servers %v, want %v", tt.name, got, tt.want)
		}
		if peers, ok := m.serverLists.wantedPeers(); ok != (tt.list != nil) || len(peers) != len(tt.want) {
			t.Errorf("%s: raft's configuration is to follow %v, %t", tt.name, peers, ok)
		}
		if next := m.serverLists.listAfter(serverlist.Change{Leaving: "3"}); (next != nil) != (tt.list != nil) {
			t.Errorf("%s: a change leads to %v", tt.name, next)
		}
		if list, _ := m.serverLists.rosterMessage(); (list != nil) != (tt.list != nil) {
			t.Errorf("%s: others are told %v", tt.name, list)
		}
	}
}
