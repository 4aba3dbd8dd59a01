package member

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/config"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/roster"
	"rollcall/tally"
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
func lines(t *testing.T, all ...string) roster.List {
	t.Helper()
	list, err := roster.ParseLines(all)
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
func newUnstarted(t *testing.T, servers roster.List, before func(s disk.Stores)) *unstarted {
	t.Helper()
	mem := raft.NewInmemStore()
	u := &unstarted{t: t, stores: disk.Stores{Log: mem, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}, log: new(bytes.Buffer)}
	if before != nil {
		before(u.stores)
	}
	u.Member = &Member{
		cfg:   Config{ID: 1, Servers: serversOf(servers), Settings: config.Settings{Tick: time.Second}, EnsembleText: []byte(servers.Config(0))},
		state: znode.New(znode.Config{}), relisted: make(chan struct{}, 1),
	}
	u.Member.log = slog.New(slog.NewTextHandler(u.log, nil))
	u.terms = newTerms(u.Member)
	u.peers = newPeers(time.Second, nil)
	peers := raftPeers(u.cfg.Servers)
	u.ports.book = wire.NewBook(1, peers)
	own := peers[slices.IndexFunc(peers, func(p wire.Peer) bool { return p.ID == 1 })]
	var err error
	u.node, err = quorum.Open(quorum.Config{
		Self: 1, Peers: peers, Book: u.ports.book, Stores: u.stores, Stream: atAddr{addr: own.Addr},
		Machine: machine{state: u.state, damaged: func(error) {}, applied: func() {}, applies: new(tally.Durations)},
		Ask:     u.askHello,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.node.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// message returns a list as another member sends it.
func message(version int64, ensemble wire.EnsembleID, lines ...string) *proto.Roster {
	return &proto.Roster{Version: version, Ensemble: ensemble[:], Servers: lines}
}

// A list that a member hears of counts if it is newer than what the member knows, and is its ensemble's. A member that
// does not know its ensemble forgets the lists of others once it does.
func TestListsThatOthersTellOf(t *testing.T) {
	own, other := wire.EnsembleID{1}, wire.EnsembleID{2}
	u := newUnstarted(t, lines(t, serverOne, serverTwo), nil)
	learn := func(what string, m *proto.Roster, version int64) {
		t.Helper()
		u.learn(&proto.HelloReply{Member: 2, Roster: m})
		if got, _ := u.newest(); got != version {
			t.Errorf("%s: the newest list is version %d, want %d", what, got, version)
		}
	}
	learn("none", nil, 0)
	learn("damaged", message(3, own, "server.1=a"), 0)
	if !strings.Contains(u.log.String(), "another member's server list cannot be read") {
		t.Errorf("logged: %s", u.log)
	}
	learn("without an id", &proto.Roster{Version: 3, Servers: []string{serverOne}}, 0)
	learn("the first", message(5, other, serverOne, serverThree), 5)
	u.ports.book.SetEnsemble(own)
	if list, hearsay := u.rosterMessage(); list != nil || hearsay {
		t.Errorf("a list of another ensemble is passed on: %v", list)
	}
	learn("of this ensemble", message(3, own, serverOne, serverTwo), 3)
	learn("of another ensemble", message(9, other, serverOne, serverThree), 3)
	learn("older", message(2, own, serverOne), 3)
	if list, hearsay := u.rosterMessage(); !hearsay || list.GetVersion() != 3 || !slices.Equal(list.GetServers(), lines(t, serverOne, serverTwo).Lines()) {
		t.Errorf("passed on: %v, hearsay %t", list, hearsay)
	}
	u.roster.Store(&znode.Roster{Ensemble: own, Version: 3, Servers: lines(t, serverOne, serverTwo)})
	if _, hearsay := u.rosterMessage(); hearsay {
		t.Error("the list of the state is called hearsay")
	}
	learn("newer than that of the state", message(4, own, serverOne), 4)
	if _, hearsay := u.rosterMessage(); !hearsay {
		t.Error("what others have told of is not called hearsay")
	}
}

// A member knows where the servers are that have left the list, by their last lines: those that it has seen leave, and
// those that others have told of, also with a list that it knows. It tells others, and its next process. A server that
// is in the list again has its line there.
func TestServersThatHaveLeft(t *testing.T) {
	own, other := wire.EnsembleID{1}, wire.EnsembleID{2}
	u := newUnstarted(t, lines(t, serverOne), nil)
	tell := func(m *proto.Roster, leaving ...string) {
		m.Leaving = leaving
		u.learn(&proto.HelloReply{Member: 2, Roster: m})
	}
	check := func(what string, want ...string) {
		t.Helper()
		var servers roster.List
		if len(want) > 0 {
			servers = lines(t, want...)
		}
		if list, _ := u.rosterMessage(); !slices.Equal(list.GetLeaving(), servers.Lines()) {
			t.Errorf("%s: %q have left, want %q", what, list.GetLeaving(), want)
		}
		for _, s := range servers {
			if at, known := u.reach(s.ID); !known || at != serverOf(s) {
				t.Errorf("%s: member %d is at %v, %t", what, s.ID, at, known)
			}
			if !u.ports.book.Known(s.ID) {
				t.Errorf("%s: member %d is not in the book", what, s.ID)
			}
		}
	}
	tell(message(3, other, serverOne), serverThree)
	check("of an ensemble that may be this one", serverThree)
	u.ports.book.SetEnsemble(own)
	tell(message(3, own, serverOne, serverTwo))
	check("of another ensemble")
	tell(message(3, own, serverOne, serverTwo), serverThree)
	check("with the list that it knows", serverThree)
	tell(message(2, own, serverOne), "server.5=e:2888:3888")
	check("with an older list", serverThree)
	tell(message(4, own, serverOne, serverThree))
	check("one is back, and another one leaves", serverTwo)
	u.setList(&znode.Roster{Ensemble: own, Version: 5, Servers: lines(t, serverOne)})
	u.spread()
	check("both have left by the state", serverTwo, serverThree)
	u.setList(&znode.Roster{Ensemble: own, Version: 5, Servers: lines(t, serverOne, strings.Replace(serverTwo, ".2=", ".6=", 1))})
	u.spread()
	check("another server has the address of one", serverThree)
	u.setList(&znode.Roster{Ensemble: own, Version: 5, Servers: lines(t, serverOne)})
	tell(message(6, own, serverOne), "server.5=", strings.Replace(serverThree, ".3=", ".4=", 1))
	if list, _ := u.rosterMessage(); list.GetVersion() != 6 || len(list.GetLeaving()) != 3 {
		t.Errorf("one of the lines is damaged, and two servers had the same address: %v", list)
	}
	stored, err := protobuf.Marshal(u.listMessage(u.list()))
	if err != nil {
		t.Fatal(err)
	}
	next := newUnstarted(t, lines(t, serverOne), func(s disk.Stores) {
		if err := s.Stable.Set([]byte("RollcallList"), stored); err != nil {
			t.Fatal(err)
		}
	})
	next.ports.book.SetEnsemble(own)
	if err := next.recall(); err != nil {
		t.Fatal(err)
	}
	if list, _ := next.rosterMessage(); !slices.Equal(list.GetLeaving(), u.departing().Lines()) {
		t.Errorf("the next process knows %q", list.GetLeaving())
	}
}

// A member takes the list that its former process has stored, unless it is another ensemble's. It does not start with
// one that it cannot read, and says what to do.
func TestStoredList(t *testing.T) {
	own, other := wire.EnsembleID{1}, wire.EnsembleID{2}
	encode := func(m *proto.Roster) []byte {
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
		{"without an id", encode(&proto.Roster{Version: 7, Servers: []string{serverOne}}), 0, true},
		{"with a line that is none", encode(message(7, own, "server.1=")), 0, true},
		{"no message", []byte("list"), 0, true},
	} {
		u := newUnstarted(t, lines(t, serverOne, serverTwo), func(s disk.Stores) {
			if err := s.Stable.Set([]byte("RollcallList"), tt.stored); err != nil {
				t.Fatal(err)
			}
		})
		u.ports.book.SetEnsemble(own)
		err := u.recall()
		if version, _ := u.newest(); version != tt.version || (err != nil) != tt.damaged {
			t.Errorf("%s: version %d, %v", tt.name, version, err)
		}
		if tt.damaged && (!strings.Contains(err.Error(), "the stored server list is damaged") || !strings.Contains(err.Error(), "The way out: ")) {
			t.Errorf("%s: %v", tt.name, err)
		}
		u.roster.Store(&znode.Roster{Ensemble: own, Version: 8, Servers: lines(t, serverOne)})
		if version, _ := u.newest(); version != 8 {
			t.Errorf("%s: version %d counts, and the state has 8", tt.name, version)
		}
		u.roster.Store(&znode.Roster{Ensemble: own, Version: 6, Servers: lines(t, serverOne)})
		if version, _ := u.newest(); version != max(6, tt.version) {
			t.Errorf("%s: version %d counts, and the state has 6", tt.name, version)
		}
	}
}

// A state gets its first list from the leader's configuration only if raft's configuration has the same servers. The
// leader's own address may be another one.
func TestFirstListIsRafts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		same  bool
	}{
		{"the same", []string{serverOne, serverTwo, serverThree}, true},
		{"in another order", []string{serverThree, serverOne, serverTwo}, true},
		{"at other ports for clients", []string{serverOne, "server.2=b:2888:3888;2182", serverThree}, true},
		{"its own address", []string{"server.1=x:2888:3888;2181", serverTwo, serverThree}, true},
		{"another one's address", []string{serverOne, "server.2=x:2888:3888;2181", serverThree}, false},
		{"another role", []string{serverOne, "server.2=b:2888:3888:observer;2181", serverThree}, false},
		{"one more", []string{serverOne, serverTwo, serverThree, "server.4=d:2888:3888;2181"}, false},
		{"one less", []string{serverOne, serverTwo}, false},
		{"another one", []string{serverOne, serverTwo, "server.4=d:2888:3888;2181"}, false},
	} {
		u := newUnstarted(t, lines(t, serverOne, serverTwo, serverThree), nil)
		u.cfg.EnsembleText = []byte(lines(t, tt.lines...).Config(0))
		list, err := u.terms.firstRoster(znode.RosterFormat)
		if err != nil || (list != nil) != tt.same {
			t.Errorf("%s: %v, %v", tt.name, list, err)
		}
		if said := strings.Contains(u.log.String(), "its server lines are not the members that there are"); said == tt.same {
			t.Errorf("%s: logged %s", tt.name, u.log)
		}
	}
}

// A state gets a list of the configured servers if it has none, and another one after a recovery, with the ensemble's
// id. It keeps the list that it has.
func TestWhenAStateGetsAList(t *testing.T) {
	three, known := lines(t, serverOne, serverTwo, serverThree), wire.EnsembleID{9}
	recovered := func(s disk.Stores) {
		if err := s.Stable.Set([]byte("RollcallRecovery"), binary.BigEndian.AppendUint64(make([]byte, 32), 7)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		before func(disk.Stores)
		change func(u *unstarted)
		format uint32
		reset  uint64
		gets   bool
	}{
		{name: "a new one", format: znode.RosterFormat, gets: true},
		{name: "of a format without lists", format: znode.RosterFormat - 1},
		{name: "of a standalone server", format: znode.RosterFormat, change: func(u *unstarted) { u.cfg.EnsembleText = nil }},
		{name: "after a recovery", format: znode.RosterFormat, before: recovered, reset: 7, gets: true},
		{
			name: "after a recovery with other servers", format: znode.RosterFormat, before: recovered, reset: 7, gets: true,
			change: func(u *unstarted) { u.cfg.EnsembleText = []byte(lines(t, serverOne, serverThree).Config(0)) },
		},
	} {
		u := newUnstarted(t, three, tt.before)
		if tt.change != nil {
			tt.change(u)
		}
		first, err := u.terms.firstRoster(tt.format)
		if err != nil || (first != nil) != tt.gets || first.GetReset_() != tt.reset || tt.gets && bytes.Equal(first.GetEnsemble(), make([]byte, 32)) {
			t.Errorf("%s: %v, %v", tt.name, first, err)
		}
		u.ports.book.SetEnsemble(known)
		if again, err := u.terms.firstRoster(tt.format); err != nil || tt.gets && !bytes.Equal(again.GetEnsemble(), known[:]) {
			t.Errorf("%s, and the ensemble is known: %v, %v", tt.name, again, err)
		}
	}
}
