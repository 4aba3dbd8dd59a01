package wire

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A request is refused if its header names another member than the connection's. Nobody may speak on a connection that is no member's.
func TestCheckSpeaker(t *testing.T) {
	own, others := headerOf(2, "m2:1"), headerOf(3, "m3:1")
	halves := []raft.RPCHeader{
		{},
		{ID: own.ID},
		{Addr: own.Addr},
		{ID: others.ID, Addr: own.Addr},
		others,
		headerOf(1, "m1:1"), headerOf(9, "m9:1"),
		{ID: []byte("02"), Addr: own.Addr},
	}
	kinds := map[string]func(h raft.RPCHeader) any{
		"entries":   func(h raft.RPCHeader) any { return &raft.AppendEntriesRequest{RPCHeader: h} },
		"snapshot":  func(h raft.RPCHeader) any { return &raft.InstallSnapshotRequest{RPCHeader: h} },
		"vote":      func(h raft.RPCHeader) any { return &raft.RequestVoteRequest{RPCHeader: h} },
		"pre-vote":  func(h raft.RPCHeader) any { return &raft.RequestPreVoteRequest{RPCHeader: h} },
		"hand-over": func(h raft.RPCHeader) any { return &raft.TimeoutNowRequest{RPCHeader: h} },
	}
	tr := New(Config{Stream: newPipes(nil)})
	defer tr.Close()
	for name, request := range kinds {
		if err := tr.checkSpeaker(2, request(own)); err != nil {
			t.Errorf("%s of its own: %v", name, err)
		}
		for _, addr := range []raft.RPCHeader{own, others} { // raft must not see it
			req := request(raft.RPCHeader{ID: own.ID, Addr: addr.Addr})
			if err := tr.checkSpeaker(2, req); err != nil || string(senderOf(req).Addr) != "member-2" {
				t.Errorf("%s of member 2 at %s: %v, raft sees %q", name, addr.Addr, err, senderOf(req).Addr)
			}
		}
		for _, h := range halves {
			if err := tr.checkSpeaker(2, request(h)); !errors.Is(err, errImpostor) {
				t.Errorf("%s as member %q at %q: %v", name, h.ID, h.Addr, err)
			}
		}
		for _, stranger := range []uint32{0, 9} {
			if err := tr.checkSpeaker(stranger, request(own)); !errors.Is(err, errImpostor) {
				t.Errorf("%s on a connection of %d: %v", name, stranger, err)
			}
		}
	}
	long := headerOf(3, strings.Repeat("\x00", maxSmall))
	if err := tr.checkSpeaker(2, kinds["vote"](long)); len(err.Error()) > 2000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

// A request that speaks for another member never reaches raft. Its sender is told, its connection is
// closed, and the log names the member, its address and what it said, once in a while.
func TestImpostorIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newPipes(nil)
		tr := New(Config{
			Stream: p, Election: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Raft: func() *raft.Raft { return new(raft.Raft) }, Joining: func() bool { return false }, Lost: func(uint32) {},
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
			if err != nil || !strings.Contains(string(said), `it is from member "3" at "m3:1"`) {
				t.Errorf("the sender is told %q, %v", said, err)
			}
		}
		synctest.Wait()
		if len(reached) > 0 {
			t.Error("raft has got the request")
		}
		if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "peer=2 remote=pipe") || !strings.Contains(said, "m3:1") {
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

// A member takes leadership over from the member that it follows, and from nobody else.
func TestHandOverComesFromTheLeader(t *testing.T) {
	r, heard := leaderless(t)
	for _, peer := range []uint32{2, 3} {
		if err := checkHandOver(r, peer); !errors.Is(err, errNotLeader) {
			t.Errorf("nobody leads, and member %d hands over: %v", peer, err)
		}
	}
	hear(t, heard, headerOf(2, "m2:1"))
	if err := checkHandOver(r, 2); err != nil {
		t.Errorf("from the leader: %v", err)
	}
	if err := checkHandOver(r, 3); !errors.Is(err, errNotLeader) {
		t.Errorf("from another member: %v", err)
	}
}

// leaderless returns a raft of member 1 of three that knows no leader and does not stand for long, and
// the transport on which it hears of others.
func leaderless(t *testing.T) (*raft.Raft, *raft.InmemTransport) {
	t.Helper()
	_, transport := raft.NewInmemTransportWithTimeout("m1:1", time.Minute)
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.LogOutput = "1", io.Discard
	cfg.HeartbeatTimeout, cfg.ElectionTimeout = time.Hour, time.Hour
	store := raft.NewInmemStore()
	snaps := raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(cfg, store, store, snaps, transport, Configuration([]Peer{{ID: 1, Addr: "m1:1"}, {ID: 2, Addr: "m2:1"}, {ID: 3, Addr: "m3:1"}})); err != nil {
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
