package member

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// withData gives a member's stores an entry beyond the first one, of an ensemble.
func withData(t *testing.T, servers serverlist.List, ensemble wire.EnsembleID) func(disk.Stores) {
	return func(s disk.Stores) {
		conf := raft.EncodeConfiguration(wire.RaftConfiguration(raftPeers(serversFromList(servers))))
		id := binary.BigEndian.AppendUint64(nil, 7)
		for _, err := range []error{
			s.Stable.Set([]byte("RollcallDisk"), binary.BigEndian.AppendUint32(id, crc32.ChecksumIEEE(id))),
			s.Stable.Set([]byte("RollcallEnsemble"), ensemble[:]),
			s.Log.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: conf}, {Index: 2, Term: 1, Type: raft.LogNoop}}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// configurationOf returns a configuration as another member says it.
func configurationOf(ids ...uint32) *proto.Configuration {
	c := &proto.Configuration{}
	for _, id := range ids {
		c.Servers = append(c.Servers, &proto.ConfiguredServer{Member: id, Voter: true})
	}
	return c
}

// A member that knows no leader was removed if another one says so: one whose state has the newest list, which raft's
// configuration there follows. A member without data waits to be added.
func TestWhenAMemberWasRemoved(t *testing.T) {
	own := wire.EnsembleID{1}
	three := lines(t, serverOne, serverTwo, serverThree)
	without, with := lines(t, serverTwo, serverThree), three
	others := configurationOf(2, 3)
	for _, tt := range []struct {
		name    string
		data    bool
		list    serverlist.List // of version 5
		said    *proto.HelloReply
		removed bool
	}{
		{"nobody has said anything", true, without, nil, false},
		{"it is in the list", true, with, &proto.HelloReply{Configuration: others}, false},
		{"it is in neither", true, without, &proto.HelloReply{Configuration: others}, true},
		{"it is still in raft's configuration", true, without, &proto.HelloReply{Configuration: configurationOf(1, 2, 3)}, false},
		{"raft does not run there", true, without, &proto.HelloReply{}, false},
		{"the other one has only heard of the list", true, without, &proto.HelloReply{Configuration: others, Hearsay: true}, false},
		{"the other one was removed, too", true, without, &proto.HelloReply{Configuration: others, Removed: true}, false},
		{"the other one has an older list", true, without, &proto.HelloReply{Configuration: others, ServerList: message(4, own, serverTwo)}, false},
		{"the other one has none", true, without, &proto.HelloReply{Configuration: others, ServerList: &proto.ServerList{}}, false},
		{"it has no data", false, without, &proto.HelloReply{Configuration: others}, false},
	} {
		var before func(disk.Stores)
		if tt.data {
			before = withData(t, three, own)
		}
		u := newUnstarted(t, three, before)
		u.ports.addressBook.SetEnsembleID(own)
		u.serverLists.appliedList.Store(&znode.ServerList{EnsembleID: own, Version: 5, Servers: tt.list})
		if tt.said != nil {
			if tt.said.ServerList == nil {
				tt.said.ServerList = message(5, own, tt.list.CanonicalLines()...)
			}
			u.removalWatch.recordIfRemoved(tt.said)
		}
		if got := u.removalWatch.removedVersion(); (got == 5) != tt.removed || got != 0 && got != 5 {
			t.Errorf("%s: removed by version %d, want %t", tt.name, got, tt.removed)
		}
		u.serverLists.appliedList.Store(&znode.ServerList{EnsembleID: own, Version: 6, Servers: without})
		if got := u.removalWatch.removedVersion(); got != 0 {
			t.Errorf("%s, and there is a newer list: removed by version %d", tt.name, got)
		}
	}
}

// A member that was removed logs it once. It logs that again only if it was added meanwhile. A member that has only left the
// list, and may still vote, does not log it.
func TestRemovalIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := wire.EnsembleID{1}
		three := lines(t, serverOne, serverTwo, serverThree)
		without := lines(t, serverTwo, serverThree)
		u := newUnstarted(t, three, withData(t, three, own))
		u.ports.addressBook.SetEnsembleID(own)
		serveUnstarted(t, u)
		for version, step := range []struct {
			name    string
			list    serverlist.List
			removed bool // another member says so
			logged  int  // until then
		}{
			{"in the list", three, false, 0},
			{"not in the list", without, false, 0},
			{"removed", without, true, 1},
			{"added again", three, false, 1},
			{"removed again", without, true, 2},
		} {
			list := &znode.ServerList{EnsembleID: own, Version: int64(version + 1), Servers: step.list}
			u.serverLists.appliedList.Store(list)
			if step.removed {
				u.removalWatch.recordIfRemoved(&proto.HelloReply{
					Configuration: configurationOf(2, 3), ServerList: message(list.Version, own, step.list.CanonicalLines()...),
				})
			}
			time.Sleep(RemovedGracePeriod / 3) // some looks at the list, and the server stays as it is
			synctest.Wait()
			if n := strings.Count(u.log.String(), "this member was removed"); n != step.logged {
				t.Errorf("%s: logged %d times, want %d:\n%s", step.name, n, step.logged, u.log)
			}
		}
	})
}
