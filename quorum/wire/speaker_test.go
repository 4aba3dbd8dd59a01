package wire

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A request is rejected if its header names another member than the connection's. No member may speak on a connection
// that is no member's.
func TestCheckSpeaker(t *testing.T) {
	own, others := headerOf(2, "m2:1"), headerOf(3, "m3:1")
	halves := []raft.RPCHeader{
		{},
		{ID: own.ID},
		{Addr: own.Addr},
		{ID: others.ID, Addr: own.Addr},
		others,
		headerOf(1, "m1:1"), headerOf(9, "m9:1"),
		{ID: []byte("2"), Addr: own.Addr},
		{ID: []byte("2.00000000000000d3"), Addr: own.Addr}, // another disk
	}
	kinds := map[string]func(h raft.RPCHeader) any{
		"entries":   func(h raft.RPCHeader) any { return &raft.AppendEntriesRequest{RPCHeader: h} },
		"snapshot":  func(h raft.RPCHeader) any { return &raft.InstallSnapshotRequest{RPCHeader: h} },
		"vote":      func(h raft.RPCHeader) any { return &raft.RequestVoteRequest{RPCHeader: h} },
		"pre-vote":  func(h raft.RPCHeader) any { return &raft.RequestPreVoteRequest{RPCHeader: h} },
		"hand-over": func(h raft.RPCHeader) any { return &raft.TimeoutNowRequest{RPCHeader: h} },
	}
	tr := New(Config{StreamLayer: newPipes(nil)})
	defer tr.Close()
	for name, request := range kinds {
		if err := tr.receiver.checkAndSetSender(named(2), request(own)); err != nil {
			t.Errorf("%s of its own: %v", name, err)
		}
		for _, addr := range []raft.RPCHeader{own, others} { // raft must not see it
			req := request(raft.RPCHeader{ID: own.ID, Addr: addr.Addr})
			if err := tr.receiver.checkAndSetSender(named(2), req); err != nil || string(senderOf(req).Addr) != string(named(2)) {
				t.Errorf("%s of member 2 at %s: %v, raft sees %q", name, addr.Addr, err, senderOf(req).Addr)
			}
		}
		for _, h := range halves {
			if err := tr.receiver.checkAndSetSender(named(2), request(h)); !errors.Is(err, errImpostor) {
				t.Errorf("%s as member %q at %q: %v", name, h.ID, h.Addr, err)
			}
		}
		for _, stranger := range []raft.ServerID{"", named(9), "2.00000000000000d3"} {
			if err := tr.receiver.checkAndSetSender(stranger, request(own)); !errors.Is(err, errImpostor) {
				t.Errorf("%s on a connection of %q: %v", name, stranger, err)
			}
		}
	}
	long := headerOf(3, strings.Repeat("\x00", maxSmallRequest))
	if err := tr.receiver.checkAndSetSender(named(2), kinds["vote"](long)); len(err.Error()) > 2000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

// A request that speaks for another member never reaches raft. Its sender gets an error, its connection is closed, and
// the log names the member, its address and the name that it used, once in a while.
func TestImpostorIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newPipes(nil)
		tr := New(Config{
			StreamLayer: p, ElectionTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Raft: func() *raft.Raft { return new(raft.Raft) }, Durability: fixedDurability{}, Elections: fixedElections{},
		})
		tr.SetHeartbeatHandler(nil) // raft runs
		tr.Start()
		reached := make(chan raft.RPC, 10)
		go func() {
			for {
				select {
				case rpc := <-tr.Consumer():
					reached <- rpc
					rpc.Respond(&raft.AppendEntriesResponse{}, nil)
				case <-p.closed:
					return
				}
			}
		}()
		entries := func(h raft.RPCHeader) []byte {
			return encode(t, requestAppend, &raft.AppendEntriesRequest{RPCHeader: h, Term: 1, PrevLogEntry: 1})
		}
		for range 3 {
			conn := p.connect(2)
			if !send(conn, entries(headerOf(3, "m3:1"))) {
				t.Fatal("not read")
			}
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			said, err := io.ReadAll(conn)
			if err != nil || !strings.Contains(string(said), `it is from member "3.00000000000000d3" at "m3:1"`) {
				t.Errorf("the sender is told %q, %v", said, err)
			}
		}
		synctest.Wait()
		if len(reached) > 0 {
			t.Error("raft has got the request")
		}
		if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "peer=2 remote=pipe") ||
			!strings.Contains(said, "m3:1") {
			t.Errorf("logged: %s", said)
		}
		conn := p.connect(2)
		defer conn.Close()
		if !send(conn, entries(headerOf(2, "m2:1"))) || !answered(conn) || len(reached) != 1 {
			t.Error("a request of its own is not served")
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A member takes leadership over only from the member that it follows.
func TestHandOverComesFromTheLeader(t *testing.T) {
	r, heard := leaderless(t)
	for _, peer := range []raft.ServerID{named(2), named(3)} {
		if err := checkFromLeader(r, peer); !errors.Is(err, errNotLeader) {
			t.Errorf("nobody leads, and member %q hands over: %v", peer, err)
		}
	}
	hear(t, heard, headerOf(2, "m2:1"))
	if err := checkFromLeader(r, named(2)); err != nil {
		t.Errorf("from the leader: %v", err)
	}
	for _, other := range []raft.ServerID{named(3), "2.00000000000000d3", "2", ""} { // another member, another disk of the leader's
		if err := checkFromLeader(r, other); !errors.Is(err, errNotLeader) {
			t.Errorf("from %q: %v", other, err)
		}
	}
}

// leaderless returns a raft of member 1 of three that knows no leader and does not stand for long, and
// the transport on which it hears of others.
func leaderless(t *testing.T) (*raft.Raft, *raft.InmemTransport) {
	t.Helper()
	return leaderlessOf(t, server(1, "m1:1"), server(2, "m2:1"), server(3, "m3:1"))
}

// leaderlessOf does the same with a configuration, of which member 1 is one.
func leaderlessOf(t *testing.T, peers ...Peer) (*raft.Raft, *raft.InmemTransport) {
	t.Helper()
	_, transport := raft.NewInmemTransportWithTimeout("m1:1", time.Minute)
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.LogOutput = named(1), io.Discard
	cfg.HeartbeatTimeout, cfg.ElectionTimeout = time.Hour, time.Hour
	store := raft.NewInmemStore()
	snaps := raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(cfg, store, store, snaps, transport, RaftConfiguration(peers)); err != nil {
		t.Fatal(err)
	}
	r, err := raft.NewRaft(cfg, &raft.MockFSM{}, store, store, snaps, transport)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	})
	return r, transport
}

// hear makes the raft behind a transport hear from a leader.
func hear(t *testing.T, by *raft.InmemTransport, leader raft.RPCHeader) {
	t.Helper()
	addr, far := raft.NewInmemTransportWithTimeout(raft.ServerAddress(leader.Addr), time.Minute)
	far.Connect("m1:1", by)
	req := &raft.AppendEntriesRequest{RPCHeader: leader, Term: 5}
	if err := far.AppendEntries("1", "m1:1", req, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatalf("%s: %v", addr, err)
	}
}

// A member votes for a candidate that its own configuration does not have: that may be an old one.
func TestVotesWithoutRegardToConfiguration(t *testing.T) {
	r, by := leaderless(t)
	stranger := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(named(4)), Addr: []byte(named(4))}
	_, far := raft.NewInmemTransportWithTimeout(raft.ServerAddress(named(4)), time.Minute)
	far.Connect("m1:1", by)
	for _, named := range []bool{false, true} {
		header := stranger
		if named {
			replaceCandidateByVoter(r, &header)
		}
		var pre raft.RequestPreVoteResponse
		if err := far.RequestPreVote("1", "m1:1", &raft.RequestPreVoteRequest{RPCHeader: header, Term: 9, LastLogIndex: 9, LastLogTerm: 8}, &pre); err != nil || pre.Granted != named {
			t.Errorf("voter named: %t; pre-vote granted: %t, %v", named, pre.Granted, err)
		}
		var vote raft.RequestVoteResponse
		if err := far.RequestVote("1", "m1:1", &raft.RequestVoteRequest{RPCHeader: header, Term: 9, LastLogIndex: 9, LastLogTerm: 8}, &vote); err != nil || vote.Granted != named {
			t.Errorf("voter named: %t; vote granted: %t, %v", named, vote.Granted, err)
		}
	}
	other := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(named(5)), Addr: []byte(named(5))}
	replaceCandidateByVoter(r, &other)
	var vote raft.RequestVoteResponse
	if err := far.RequestVote("1", "m1:1", &raft.RequestVoteRequest{RPCHeader: other, Term: 9, LastLogIndex: 9, LastLogTerm: 8}, &vote); err != nil || vote.Granted {
		t.Errorf("a second vote in one term is granted: %t, %v", vote.Granted, err)
	}
}

// Over the network, a member grants a pre-vote and a vote to a candidate that its own configuration does not have, and
// no second vote in the same term. It stores the candidate's name with its vote, without an address.
func TestVotesForStrangersOverTheNetwork(t *testing.T) {
	p := newPipes(nil)
	var running atomic.Pointer[raft.Raft]
	store, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	shorter := make(chan struct{}, 10)
	tr := New(Config{
		StreamLayer: p, LocalServer: server(2, "m2:1"), ElectionTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Raft: running.Load, Durability: fixedDurability{}, Elections: fixedElections{shorter: func() { shorter <- struct{}{} }},
		StoredEntry: func(index uint64) *raft.Log {
			entry := new(raft.Log)
			if store.GetLog(index, entry) != nil {
				return nil
			}
			return entry
		},
	})
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.LogOutput = named(2), io.Discard
	cfg.HeartbeatTimeout, cfg.ElectionTimeout = time.Hour, time.Hour
	servers := RaftConfiguration([]Peer{{ID: 1, DiskID: testDisk(1), Addr: "m1:1", Observer: true}, server(2, "m2:1"), server(3, "m3:1")})
	if err := raft.BootstrapCluster(cfg, store, store, snaps, tr, servers); err != nil {
		t.Fatal(err)
	}
	r, err := raft.NewRaft(cfg, &raft.MockFSM{}, store, store, snaps, tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown().Error(); err != nil { // it closes tr
			t.Error(err)
		}
	})
	running.Store(r)
	tr.Start()
	ask := func(member uint32, kind byte, req, resp any) {
		t.Helper()
		conn := p.connect(member)
		defer conn.Close()
		c := newOutConn(tr.dialer, "", conn)
		if err := errors.Join(c.SetDeadline(time.Now().Add(time.Minute)), c.sendRequest(kind, req), c.awaitReply(resp)); err != nil {
			t.Fatal(err)
		}
	}
	for _, candidate := range []uint32{4, 1} { // unknown here, and without a vote here
		term := uint64(20 - candidate) // 16, then 19
		header := headerOf(candidate, string(server(candidate, "moved:1").ServerAddress()))
		var pre raft.RequestPreVoteResponse
		ask(candidate, requestPreVote, &raft.RequestPreVoteRequest{RPCHeader: header, Term: term, LastLogIndex: 9, LastLogTerm: 8}, &pre)
		var vote raft.RequestVoteResponse
		ask(candidate, requestVote, &raft.RequestVoteRequest{RPCHeader: header, Term: term, LastLogIndex: 9, LastLogTerm: 8}, &vote)
		if !pre.Granted || !vote.Granted {
			t.Errorf("member %d: pre-vote %+v, vote %+v; want both granted", candidate, pre, vote)
		}
		if voted, err := store.Get([]byte("LastVoteCand")); err != nil || string(voted) != string(named(candidate)) {
			t.Errorf("the vote stored is for %q, %v, want %q", voted, err, named(candidate))
		}
		var second raft.RequestVoteResponse
		ask(3, requestVote, &raft.RequestVoteRequest{RPCHeader: headerOf(3, "m3:1"), Term: term, LastLogIndex: 9, LastLogTerm: 8}, &second)
		if second.Granted {
			t.Errorf("a second vote in term %d is granted", term)
		}
	}
	if len(shorter) > 0 {
		t.Errorf("%d candidates were reported, whose logs are longer", len(shorter))
	}
	var vote raft.RequestVoteResponse // this member's log ends at index 1 of term 1
	ask(4, requestVote, &raft.RequestVoteRequest{RPCHeader: headerOf(4, "m4:1"), Term: 30, LastLogIndex: 0, LastLogTerm: 1}, &vote)
	ask(4, requestVote, &raft.RequestVoteRequest{RPCHeader: headerOf(4, "m4:1"), Term: 31, LastLogIndex: 9, LastLogTerm: 0}, &vote)
	if vote.Granted || len(shorter) != 2 {
		t.Errorf("%d candidates were reported, want the two whose logs are shorter; the last one has got %+v", len(shorter), vote)
	}
}
