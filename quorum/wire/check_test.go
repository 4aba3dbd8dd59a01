package wire

import (
	"bufio"
	"errors"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// Requests at which raft would panic, or that its log would reject, do not reach it.
func TestCheckRequest(t *testing.T) {
	tooMany := raft.EncodeConfiguration(RaftConfiguration(make([]Peer, maxMemberID+1)))
	configuration := raft.EncodeConfiguration(RaftConfiguration([]Peer{{ID: 1, Addr: "m1:1"}, {ID: 255, Addr: "m255:1"}}))
	entry := func(change func(*raft.Log)) []*raft.Log {
		list := entries(1, 2)
		change(list[1])
		return list
	}
	tests := []struct {
		name    string
		request any
		right   bool
	}{
		{"heartbeat", &raft.AppendEntriesRequest{Term: 1}, true},
		{"entries", &raft.AppendEntriesRequest{Term: 1, Entries: entries(1, disk.MaxEntryBytes)}, true},
		{"configuration", &raft.AppendEntriesRequest{Term: 1, Entries: entry(func(e *raft.Log) { e.Type, e.Data = raft.LogConfiguration, configuration })}, true},
		{"snapshot", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: configuration}, true},
		{"vote", &raft.RequestVoteRequest{}, true},
		{"no entry", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{nil}}, false},
		{"gap", &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 1, Entries: entries(1)}, false},
		{"index", &raft.AppendEntriesRequest{Term: 1, Entries: entry(func(e *raft.Log) { e.Index = 3 })}, false},
		{"entries of earlier terms", &raft.AppendEntriesRequest{Term: 9, Entries: entries(1, 2)}, true},
		{"term", &raft.AppendEntriesRequest{Term: 1, Entries: entry(func(e *raft.Log) { e.Term = 2 })}, false},
		{"type", &raft.AppendEntriesRequest{Term: 1, Entries: entry(func(e *raft.Log) { e.Type = 6 })}, false},
		{"deprecated type", &raft.AppendEntriesRequest{Term: 1, Entries: entry(func(e *raft.Log) { e.Type = raft.LogAddPeerDeprecated })}, false},
		{"too long", &raft.AppendEntriesRequest{Term: 1, Entries: entries(disk.MaxEntryBytes + 1)}, false},
		{"no configuration", &raft.AppendEntriesRequest{Term: 1, Entries: entry(func(e *raft.Log) { e.Type = raft.LogConfiguration })}, false},
		{"wrong configuration", &raft.AppendEntriesRequest{Term: 1, Entries: entry(func(e *raft.Log) { e.Type, e.Data = raft.LogConfiguration, []byte("\x81\xa7Servers\x07") })}, false},
		{"snapshot without configuration", &raft.InstallSnapshotRequest{SnapshotVersion: 1}, false},
		{"snapshot with a configuration of too many servers", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: tooMany}, false},
		{"snapshot with a configuration and more", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: append(slices.Clip(configuration), 0)}, false},
		{"snapshot with half a configuration", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: configuration[:20]}, false},
		{"old snapshot", &raft.InstallSnapshotRequest{Configuration: configuration}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := checkSafeForRaft(tt.request); (err == nil) != tt.right {
				t.Errorf("%v", err)
			}
		})
	}
	if err := checkSafeForRaft(tests[5].request); !errors.Is(err, errNotRaftRequest) {
		t.Errorf("%v", err)
	}
}

// A term that no election can have reached is rejected: it never reaches raft from a request, and in a reply to a
// candidate or to a member that joins it is an error. Without that, one reply or request with the highest term would end
// all elections for ever.
func TestImpossibleTerms(t *testing.T) {
	for _, tt := range []struct {
		term, own uint64
		right     bool
	}{
		{0, 5, true},
		{5, 5, true},
		{maxTermStep, 0, true},
		{maxTermStep + 1, 0, false},
		{maxTermStep + 9, 9, true},
		{math.MaxUint64, 0, false},
		{math.MaxUint64, math.MaxUint64 - 1, true},
	} {
		if err := (logEnd{term: tt.own}).checkTerm(tt.term); (err == nil) != tt.right || err != nil && !errors.Is(err, errNotRaftRequest) {
			t.Errorf("term %d in term %d: %v", tt.term, tt.own, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan any, 1)
		p := newPipes(func(c net.Conn) { go answerEach(c, answers) })
		tr := New(Config{
			StreamLayer: p, ElectionTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
			Raft: func() *raft.Raft { return new(raft.Raft) }, Durability: fixedDurability{}, Elections: fixedElections{},
		})
		tr.SetHeartbeatHandler(nil) // raft runs
		tr.Start()
		h := headerOf(2, "m2:1")
		for name, b := range map[string][]byte{
			"entries":  encode(t, requestAppend, &raft.AppendEntriesRequest{RPCHeader: h, Term: maxTermStep + 1}),
			"vote":     encode(t, requestVote, &raft.RequestVoteRequest{RPCHeader: h, Term: maxTermStep + 1}),
			"pre-vote": encode(t, requestPreVote, &raft.RequestPreVoteRequest{RPCHeader: h, Term: maxTermStep + 1}),
			"snapshot": encode(t, requestSnapshot, &raft.InstallSnapshotRequest{
				RPCHeader: h, Term: maxTermStep + 1, SnapshotVersion: 1, Configuration: raft.EncodeConfiguration(RaftConfiguration([]Peer{{ID: 1, Addr: "m1:1"}})),
			}),
		} {
			conn := p.connect(2)
			if !send(conn, b) {
				t.Fatal("not read")
			}
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			said := make([]byte, 4096)
			if n, err := conn.Read(said); err != nil || !strings.Contains(string(said[:n]), "too far above") {
				t.Errorf("%s: answered %q, %v", name, said[:n], err)
			}
			conn.Close()
		}
		answers <- &raft.RequestVoteResponse{Term: math.MaxUint64}
		if err := tr.RequestVote("2", "m2:1", &raft.RequestVoteRequest{Term: 5}, new(raft.RequestVoteResponse)); !errors.Is(err, errNotRaftRequest) {
			t.Errorf("a vote is answered with the highest term: %v", err)
		}
		answers <- &raft.RequestPreVoteResponse{Term: math.MaxUint64}
		if err := tr.RequestPreVote("2", "m2:1", &raft.RequestPreVoteRequest{Term: 5}, new(raft.RequestPreVoteResponse)); !errors.Is(err, errNotRaftRequest) {
			t.Errorf("a pre-vote is answered with the highest term: %v", err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
}

// numbers are the terms and indexes in raft's requests. Each names a request in which it is set to n, and all others fit it.
var numbers = map[string]func(n uint64) any{
	"index of the entry before": func(n uint64) any { return &raft.AppendEntriesRequest{PrevLogEntry: n} },
	"index of an entry": func(n uint64) any {
		return &raft.AppendEntriesRequest{PrevLogEntry: n - 1, Entries: []*raft.Log{{Index: n}}}
	},
	"commit":                    func(n uint64) any { return &raft.AppendEntriesRequest{LeaderCommitIndex: n} },
	"end of a candidate's log":  func(n uint64) any { return &raft.RequestVoteRequest{LastLogIndex: n} },
	"end of a log before votes": func(n uint64) any { return &raft.RequestPreVoteRequest{LastLogIndex: n} },
	"end of a snapshot":         func(n uint64) any { return &raft.InstallSnapshotRequest{LastLogIndex: n} },
	"index of a configuration":  func(n uint64) any { return &raft.InstallSnapshotRequest{ConfigurationIndex: n} },
}

// An index is rejected if it is more than maxIndexStep above the end of the log, and so is a term of an entry that is above the
// term of its request. The greatest index of an entry, in a request of an old term, hung a member: what records the times of
// entries counted on from it without end, under its lock.
func TestImpossibleIndexes(t *testing.T) {
	const last = 7
	own := logEnd{term: 3, index: last}
	for name, request := range numbers {
		for _, n := range []uint64{0, 1, last, last + maxIndexStep, last + maxIndexStep + 1, math.MaxUint64 - 1, math.MaxUint64} {
			before := n
			if name == "index of an entry" {
				before--
			}
			err := checkReachable(request(n), own)
			if want := before > last+maxIndexStep; (err != nil) != want || want && !errors.Is(err, errNotRaftRequest) {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
	for _, request := range []any{
		&raft.AppendEntriesRequest{Term: 3, PrevLogTerm: 4}, &raft.InstallSnapshotRequest{Term: 3, LastLogTerm: 4},
		&raft.RequestVoteRequest{Term: 3, LastLogTerm: math.MaxUint64}, &raft.RequestPreVoteRequest{Term: 3, LastLogTerm: 4},
	} {
		if err := checkReachable(request, own); !errors.Is(err, errNotRaftRequest) {
			t.Errorf("%+v: %v", request, err)
		}
	}
	sent := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 5, Entries: entries(1, 2)}
	for _, tt := range []struct {
		reply raft.AppendEntriesResponse
		right bool
	}{
		{raft.AppendEntriesResponse{Term: 3, LastLog: last}, true},
		{raft.AppendEntriesResponse{Term: 4, LastLog: last + maxIndexStep}, true},
		{raft.AppendEntriesResponse{Term: 3 + maxTermStep + 1}, false},
		{raft.AppendEntriesResponse{LastLog: last + maxIndexStep + 1}, false},
		{raft.AppendEntriesResponse{LastLog: math.MaxUint64}, false},
	} {
		if err := checkReply(sent, &tt.reply); (err == nil) != tt.right {
			t.Errorf("%+v: %v", tt.reply, err)
		}
	}
}

// A reply that is longer than any that members send ends its connection, before its memory is allocated.
func TestEndlessReply(t *testing.T) {
	d := &dialer{streamLayer: newPipes(nil), callTimeout: time.Minute, addressOf: nowhere}
	for name, reply := range map[string]string{
		"text": "\xdb\xff\xff\xff\xff", "bytes": "\xa0\xc6\xff\xff\xff\xff", "list": "\xa0\xdd\xff\xff\xff\xff", "map": "\xa0\xdf\xff\xff\xff\xff",
	} {
		far, near := net.Pipe()
		go func() { _, _ = near.Write([]byte(reply)) }()
		c := newOutConn(d, "m2:1", far)
		if err := c.awaitReply(new(raft.RequestVoteResponse)); !errors.Is(err, errNotRaftRequest) {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close()
	}
}

// answerEach replies to each request on a connection with the next value of answers.
func answerEach(c net.Conn, answers <-chan any) {
	r := bufio.NewReader(c)
	dec, enc := codec.NewDecoder(r, new(codec.MsgpackHandle)), newEncoder(c)
	for {
		var request any
		if _, err := r.ReadByte(); err != nil {
			return
		}
		if dec.Decode(&request) != nil || enc.Encode("") != nil || enc.Encode(<-answers) != nil {
			return
		}
	}
}
