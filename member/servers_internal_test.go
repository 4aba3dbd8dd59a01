package member

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/wire"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// ended reports whether a connection has been closed. Its other end sends nothing.
func ended(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond)) // fails on a closed one
	_, err := conn.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// The list after a change has those whose presence counts. There is none if the change cannot be made, or if two
// servers would wait for each other's addresses.
func TestListAfterAChange(t *testing.T) {
	lists := &serverLists{}
	if got := lists.listAfter(serverlist.Change{Leaving: "1"}); got != nil {
		t.Errorf("without a list: %v", got)
	}
	list, err := serverlist.ParseList("server.1=a:1:2,server.2=b:1:2,server.3=c:1:2")
	if err != nil {
		t.Fatal(err)
	}
	lists.appliedList.Store(&znode.ServerList{Version: 1, Servers: list})
	for _, tt := range []struct {
		change serverlist.Change
		want   string
	}{
		{serverlist.Change{Leaving: "1"}, "server.2=b:1:2:participant\nserver.3=c:1:2:participant"},
		{serverlist.Change{Leaving: "x"}, ""},
		{serverlist.Change{Joining: "server.2=d:1:2;3", Leaving: "1,3"}, "server.2=d:1:2:participant;0.0.0.0:3"},
		{serverlist.Change{Joining: "server.2=c:1:2;3,server.3=b:1:2;3"}, ""},
	} {
		if got := lists.listAfter(tt.change).CanonicalText(); got != tt.want {
			t.Errorf("after %+v: %q, want %q", tt.change, got, tt.want)
		}
	}
}

// Several changes of the list may have servers wait for each other's addresses although none of them does alone, if
// raft's configuration has not followed the first ones yet. The last one is refused.
func TestAddressesInARing(t *testing.T) {
	u := newUnstarted(t, lines(t, serverOne, serverTwo, serverThree), nil) // raft's configuration
	for _, tt := range []struct {
		name, two, three string // hosts in the list of the state
		next             string
		ring             bool
	}{
		{"raft has followed", "b", "c", "server.2=d:2888:3888;2181", false},
		{"one moves to where another one was", "d", "c", "server.3=b:2888:3888;2181", false},
		{"that one moves again, and takes the address of the first", "d", "b", "server.2=c:2888:3888;2181", true},
		{"that one moves again, elsewhere", "d", "b", "server.2=e:2888:3888;2181", false},
	} {
		list := lines(t, serverOne, "server.2="+tt.two+":2888:3888;2181", "server.3="+tt.three+":2888:3888;2181")
		next, err := list.Apply(serverlist.Change{Joining: tt.next})
		if err != nil || list.CheckAddressCycles(next) != nil {
			t.Fatalf("%s: %v, %v", tt.name, err, list.CheckAddressCycles(next))
		}
		u.serverLists.appliedList.Store(&znode.ServerList{Version: 2, Servers: list})
		body, err := protobuf.Marshal(&proto.ChangeServers{Joining: tt.next})
		if err != nil {
			t.Fatal(err)
		}
		if got := raftServerList(u.node).CheckAddressCycles(next) != nil; got != tt.ring {
			t.Errorf("%s: a ring: %t, want %t", tt.name, got, tt.ring)
		}
		if got := u.terms.reachableAfterChange(&proto.Txn{Op: int32(jute.OpChangeServers), Body: body}); tt.ring && got != nil {
			t.Errorf("%s: it is not refused", tt.name)
		}
		if queued := len(u.terms.proposedLists) > 0; queued == tt.ring { // the servers of a list that is refused get no Hello
			t.Errorf("%s: the list is queued: %t", tt.name, queued)
		}
		select {
		case <-u.terms.proposedLists:
		default:
		}
	}
}

// When the list changes, connections to members that have come or that are elsewhere are closed, and those that are
// being opened are not used. Connections to others stay, also to one that has gone.
func TestConnectionsFollowTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := func(lines ...string) (all []Server) {
			list, err := serverlist.ParseLines(lines)
			if err != nil {
				t.Fatal(err)
			}
			return serversFromList(list)
		}
		at := map[uint32]string{} // by member: the address to which the open connection leads
		first := servers("server.1=a:2888:3888;2181", "server.2=b:2888:3888;2181", "server.3=c:2888:3888;2181", "server.4=d:2888:3888;2181")
		var connections *peerConns
		lists := newServerLists(&Config{ID: 1, Servers: first}, wire.NewAddressBook(1, raftPeers(first)), func(id uint32) { connections.discardConns(id) }, nil)
		var slow chan struct{} // dials wait for it
		connections = newPeerConns(time.Second, func(_ context.Context, id uint32) (net.Conn, error) {
			s, _ := lists.addressesOf(id)
			if slow != nil {
				<-slow
			}
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			at[id] = s.GrpcAddr
			return &wire.Conn{Conn: ours, PeerID: id}, nil
		})
		conns := map[uint32]net.Conn{}
		open := func() {
			for id := uint32(2); id <= 4; id++ {
				if conns[id] != nil && !ended(conns[id]) {
					continue
				}
				conn, err := connections.dialPeer(t.Context(), peerRoute{id, 0})
				if err != nil {
					t.Fatal(err)
				}
				conns[id] = conn
			}
		}
		closed := func() (ids []uint32) {
			for id, conn := range conns {
				if ended(conn) {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			return ids
		}
		for version, step := range []struct {
			lines  []string
			closes []uint32
		}{
			{[]string{"server.1=a:2888:3888;2181", "server.2=b:2888:3888;2181", "server.3=c:2888:3888;2181", "server.4=d:2888:3888:observer;2181"}, nil},
			{[]string{"server.1=x:2888:3888;2181", "server.2=b2:2888:3888;2181", "server.3=c:2888:3888;2181", "server.4=d:2888:3888;2181"}, []uint32{2}},
			{[]string{"server.1=a:2888:3888;2181", "server.2=b2:2888:3888;2181", "server.4=d:2888:3888;2181"}, nil},
			{[]string{"server.1=a:2888:3888;2181", "server.2=b2:2888:3888;2181", "server.3=c:2888:3888;2181", "server.4=d:2888:3888;2182"}, []uint32{3}},
		} {
			open()
			list, _ := serverlist.ParseLines(step.lines)
			lists.appliedList.Store(&znode.ServerList{Version: int64(version + 1), Servers: list})
			if _, listed := lists.followWantedPeers(); !listed {
				t.Fatalf("list %d is not that of the ensemble", version+1)
			}
			if got := closed(); !slices.Equal(got, step.closes) {
				t.Errorf("after list %d the connections to %v are closed, want %v", version+1, got, step.closes)
			}
		}
		open()
		if at[2] != "b2:2888" {
			t.Errorf("member 2 is reached at %q", at[2])
		}

		slow = make(chan struct{})
		late := make(chan error, 1)
		go func() {
			_, err := connections.dialPeer(t.Context(), peerRoute{2, 0})
			late <- err
		}()
		synctest.Wait()
		lists.learnFromHello(&proto.HelloReply{Member: 3, ServerList: &proto.ServerList{Version: 9, Ensemble: make([]byte, 32), Servers: []string{"server.1=a:2888:3888;2181", "server.2=b3:2888:3888;2181"}}})
		close(slow)
		if err := <-late; !errors.Is(err, errPeerMoved) {
			t.Errorf("a connection to where the member was is used: %v", err)
		}
		if s, _ := lists.addressesOf(2); s.GrpcAddr != "b3:2888" {
			t.Errorf("another member has told a newer list, and member 2 is reached at %q", s.GrpcAddr)
		}
		lists.addressBook.SetRaftPeersFunc(func() []wire.Peer { return []wire.Peer{{ID: 7, DiskID: 1, Addr: "g:3888", GRPCAddr: "g:2888"}} })
		if s, known := lists.addressesOf(7); !known || s.GrpcAddr != "g:2888" {
			t.Errorf("member 7, which is in no list and still votes, is reached at %q", s.GrpcAddr)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
}

// Another member says that this one was removed if its list and raft's configuration are without this one. A member
// whose raft does not run yet says no configuration, and proves nothing.
func TestStartingMemberDoesNotSayRemoved(t *testing.T) {
	list, err := serverlist.ParseList("server.2=b:2888:3888;2181,server.3=c:2888:3888;2181")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{ID: 1}
	w := &removalWatch{self: 1, node: new(quorum.Node), serverLists: newServerLists(&cfg, wire.NewAddressBook(1, nil), nil, nil)}
	w.serverLists.appliedList.Store(&znode.ServerList{Version: 5, Servers: list})
	said := &proto.HelloReply{ServerList: &proto.ServerList{Version: 5}}
	if w.recordIfRemoved(said); w.reportedVersion.Load() != 0 {
		t.Error("removed, by the word of a member whose raft does not run")
	}
	said.Configuration = configurationOf(1, 2)
	if w.recordIfRemoved(said); w.reportedVersion.Load() != 0 {
		t.Error("removed, by the word of a member in whose configuration this one is")
	}
	said.Configuration = configurationOf(2, 3)
	if w.recordIfRemoved(said); w.reportedVersion.Load() != 5 {
		t.Error("not removed, though neither the list nor the configuration has this member")
	}
}
