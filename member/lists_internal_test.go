package member

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/config"
	"rollcall/internal/metrics"
	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// atAddr is a stream of raft's at an address. Nobody connects.
type atAddr struct {
	raft.StreamLayer
	addr string
}

func (a atAddr) Addr() net.Addr  { return a }
func (a atAddr) Network() string { return "tcp" }
func (a atAddr) String() string  { return a.addr }

// unstarted is a member whose raft does not run.
type unstarted struct {
	*Member
	t      *testing.T
	stores disk.Stores
	log    *bytes.Buffer
}

// lines returns the list that server lines make.
func lines(t *testing.T, all ...string) serverlist.List {
	t.Helper()
	list, err := serverlist.ParseLines(all)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

const (
	serverOne   = "server.1=a:2888:3888;2181"
	serverTwo   = "server.2=b:2888:3888;2181"
	serverThree = "server.3=c:2888:3888;2181"
)

// newUnstarted returns member 1 of an ensemble. before changes its stores before it opens them.
func newUnstarted(t *testing.T, servers serverlist.List, before func(s disk.Stores)) *unstarted {
	t.Helper()
	mem := raft.NewInmemStore()
	u := &unstarted{t: t, stores: disk.Stores{Log: mem, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}, log: new(bytes.Buffer)}
	if before != nil {
		before(u.stores)
	}
	u.Member = &Member{
		cfg:   Config{ID: 1, Servers: serversFromList(servers), Settings: config.Settings{Tick: time.Second}, EnsembleText: []byte(servers.ConfigText(0))},
		state: znode.New(znode.Config{}),
	}
	u.Member.log = slog.New(slog.NewTextHandler(u.log, nil))
	u.viewer = newViewer(u.Member)
	u.terms = newTerms(u.Member)
	u.peerConns = newPeerConns(time.Second, nil)
	peers := raftPeers(u.cfg.Servers)
	u.ports.addressBook = wire.NewAddressBook(1, peers)
	u.serverLists = newServerLists(&u.cfg, u.ports.addressBook, u.peerConns.discardConns, u.Member.log)
	own := peers[slices.IndexFunc(peers, func(p wire.Peer) bool { return p.ID == 1 })]
	var err error
	u.node, err = quorum.Open(quorum.Config{
		MemberID: 1, Peers: peers, AddressBook: u.ports.addressBook, Stores: u.stores, StreamLayer: atAddr{addr: own.Addr},
		StateMachine: stateMachine{state: u.state, onDamage: func(error) {}, onApplied: func() {}, applyDurations: new(metrics.Durations)},
		SendHello: func(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error) {
			return u.helloClient.sendHello(ctx, peer)
		}, Logger: u.Member.log, HeartbeatTimeout: config.DefaultHeartbeatTimeout, StallLimit: config.DefaultStallLimit,
	})
	if err != nil {
		t.Fatal(err)
	}
	u.assembleLogParts()
	t.Cleanup(func() {
		if err := u.node.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// message returns a list as another member sends it.
func message(version int64, ensemble wire.EnsembleID, lines ...string) *proto.ServerList {
	return &proto.ServerList{Version: version, Ensemble: ensemble[:], Servers: lines}
}

// A list that a member hears of counts if it is newer than what the member knows, and is its ensemble's. A member that
// does not know its ensemble forgets the lists of others once it does.
func TestListsThatOthersTellOf(t *testing.T) {
	own, other := wire.EnsembleID{1}, wire.EnsembleID{2}
	u := newUnstarted(t, lines(t, serverOne, serverTwo), nil)
	learn := func(what string, m *proto.ServerList, version int64) {
		t.Helper()
		u.serverLists.learnFromHello(&proto.HelloReply{Member: 2, ServerList: m})
		if got, _ := u.serverLists.newestServers(); got != version {
			t.Errorf("%s: the newest list is version %d, want %d", what, got, version)
		}
	}
	learn("none", nil, 0)
	learn("damaged", message(3, own, "server.1=a"), 0)
	if !strings.Contains(u.log.String(), "another member's server list cannot be read") {
		t.Errorf("logged: %s", u.log)
	}
	learn("without an id", &proto.ServerList{Version: 3, Servers: []string{serverOne}}, 0)
	learn("the first", message(5, other, serverOne, serverThree), 5)
	u.ports.addressBook.SetEnsembleID(own)
	if list, hearsay := u.serverLists.rosterMessage(); list != nil || hearsay {
		t.Errorf("a list of another ensemble is passed on: %v", list)
	}
	learn("of this ensemble", message(3, own, serverOne, serverTwo), 3)
	learn("of another ensemble", message(9, other, serverOne, serverThree), 3)
	learn("older", message(2, own, serverOne), 3)
	if list, hearsay := u.serverLists.rosterMessage(); !hearsay || list.GetVersion() != 3 || !slices.Equal(list.GetServers(), lines(t, serverOne, serverTwo).CanonicalLines()) {
		t.Errorf("passed on: %v, hearsay %t", list, hearsay)
	}
	u.serverLists.appliedList.Store(&znode.ServerList{EnsembleID: own, Version: 3, Servers: lines(t, serverOne, serverTwo)})
	if _, hearsay := u.serverLists.rosterMessage(); hearsay {
		t.Error("the list of the state is called hearsay")
	}
	learn("newer than that of the state", message(4, own, serverOne), 4)
	if _, hearsay := u.serverLists.rosterMessage(); !hearsay {
		t.Error("what others have told of is not called hearsay")
	}
}

// A member takes the list that its former process has stored, unless it is another ensemble's. It does not start with
// one that it cannot read, and says what to do.
func TestStoredList(t *testing.T) {
	own, other := wire.EnsembleID{1}, wire.EnsembleID{2}
	encode := func(m *proto.ServerList) []byte {
		b, err := protobuf.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := encode(message(7, own, serverOne, serverThree))
	for _, tt := range []struct {
		name    string
		stored  []byte
		version int64
		damaged bool
	}{
		{"none", nil, 0, false},
		{"whole", whole, 7, false},
		{"of another ensemble", encode(message(7, other, serverOne, serverThree)), 0, false},
		{"torn", whole[:len(whole)-3], 0, true},
		{"only its beginning", whole[:10], 0, true},
		{"without an id", encode(&proto.ServerList{Version: 7, Servers: []string{serverOne}}), 0, true},
		{"with a line that is none", encode(message(7, own, "server.1=")), 0, true},
		{"no message", []byte("list"), 0, true},
	} {
		u := newUnstarted(t, lines(t, serverOne, serverTwo), func(s disk.Stores) {
			if err := s.Stable.Set([]byte("RollcallList"), tt.stored); err != nil {
				t.Fatal(err)
			}
		})
		u.ports.addressBook.SetEnsembleID(own)
		err := u.serverLists.loadStored(u.node)
		if version, _ := u.serverLists.newestServers(); version != tt.version || (err != nil) != tt.damaged {
			t.Errorf("%s: version %d, %v", tt.name, version, err)
		}
		if tt.damaged && (!strings.Contains(err.Error(), "the stored server list is damaged") || !strings.Contains(err.Error(), "The way out: ")) {
			t.Errorf("%s: %v", tt.name, err)
		}
		u.serverLists.appliedList.Store(&znode.ServerList{EnsembleID: own, Version: 8, Servers: lines(t, serverOne)})
		if version, _ := u.serverLists.newestServers(); version != 8 {
			t.Errorf("%s: version %d counts, and the state has 8", tt.name, version)
		}
		u.serverLists.appliedList.Store(&znode.ServerList{EnsembleID: own, Version: 6, Servers: lines(t, serverOne)})
		if version, _ := u.serverLists.newestServers(); version != max(6, tt.version) {
			t.Errorf("%s: version %d counts, and the state has 6", tt.name, version)
		}
	}
}

// A state gets a list of the configured servers if it has none of this ensemble: because the ensemble begins, or because its
// data were recovered. It keeps the list that it has.
func TestWhenAStateGetsAList(t *testing.T) {
	own, former := wire.EnsembleID{9}, wire.EnsembleID{8}
	for _, tt := range []struct {
		name  string
		state *znode.ServerList
		text  bool
		gets  bool
	}{
		{"a new one", nil, true, true},
		{"of a standalone server", nil, false, false},
		{"after a recovery", &znode.ServerList{EnsembleID: former, Version: 3, Servers: lines(t, serverOne)}, true, true},
		{"with a list", &znode.ServerList{EnsembleID: own, Version: 3, Servers: lines(t, serverOne)}, true, false},
	} {
		u := newUnstarted(t, lines(t, serverOne, serverTwo, serverThree), nil)
		u.ports.addressBook.SetEnsembleID(own)
		u.serverLists.appliedList.Store(tt.state)
		if !tt.text {
			u.cfg.EnsembleText = nil
		}
		first, err := u.terms.firstServerList()
		if err != nil || (first != nil) != tt.gets || tt.gets && (!bytes.Equal(first.GetEnsemble(), own[:]) || len(first.GetServers()) != 3) {
			t.Errorf("%s: %v, %v", tt.name, first, err)
		}
	}
}

// While the state has no list of this ensemble, no term is opened before most voters of the lines vote. With such a list, the
// lines of the configuration do not count.
func TestNoTermBeforeMostVote(t *testing.T) {
	own, former := wire.EnsembleID{9}, wire.EnsembleID{8}
	for _, tt := range []struct {
		name     string
		state    *znode.ServerList
		founding bool
	}{
		{"without a list", nil, true},
		{"with a list from before a recovery", &znode.ServerList{EnsembleID: former, Version: 3, Servers: lines(t, serverOne)}, true},
		{"with a list", &znode.ServerList{EnsembleID: own, Version: 3, Servers: lines(t, serverOne)}, false},
	} {
		u := newUnstarted(t, lines(t, serverOne, serverTwo, serverThree), nil)
		u.ports.addressBook.SetEnsembleID(own)
		u.serverLists.appliedList.Store(tt.state)
		if u.terms.lacksFoundingMajority() != tt.founding {
			t.Errorf("%s: founding is %t", tt.name, !tt.founding)
		}
		if !tt.founding {
			continue
		}
		if err := u.terms.runTerm(t.Context()); !errors.Is(err, errNotFounded) {
			t.Errorf("%s: %v, want %v", tt.name, err, errNotFounded)
		}
	}
}
