package wire

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A request to a server without a vote has the entries that are committed and on this disk, reports that they are
// committed, and waits for others no longer than an election timeout divided by commitWaitsPerElection. An uncommitted
// configuration of this term decides who votes. One of an earlier term does not: raft has that one or a later one.
func TestUncommittedEntriesAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := leaderless(t) // 1, 2 and 3 vote
		tr := newTestTransport(t, newPipes(nil))
		var commit atomic.Uint64
		tr.cfg.Raft = func() *raft.Raft { return r }
		tr.cfg.Durability = fixedDurability{settled: func(uint64) uint64 { return commit.Load() }}
		limit := tr.cfg.ElectionTimeout / commitWaitsPerElection
		for _, tt := range []struct {
			name          string
			to            raft.ServerID
			commit, later uint64
			lists         []uint32 // the voters of the configuration in the last entry; nil: that is no configuration
			earlier       bool     // the entries are of an earlier term
			entries       int
			says          uint64
			waits         time.Duration
		}{
			{"a voter", named(2), 5, 5, nil, false, 3, 3, 0},
			{"no voter", named(4), 5, 5, nil, false, 2, 5, limit},
			{"no voter, and nothing is committed", named(4), 3, 3, nil, false, 0, 3, limit},
			{"no voter, and all is committed", named(4), 6, 6, nil, false, 3, 3, 0},
			{"no voter, and all is committed meanwhile", named(4), 5, 6, nil, false, 3, 6, time.Millisecond},
			{"a voter that loses its vote", named(2), 5, 5, []uint32{1, 3}, false, 2, 5, limit},
			{"a voter that has lost its vote", named(2), 6, 6, []uint32{1, 3}, false, 3, 3, 0},
			{"a voter that had none before", named(2), 3, 3, []uint32{1, 3}, true, 3, 3, 0},
			{"no voter, which had a vote before", named(4), 3, 3, []uint32{1, 4}, true, 0, 3, limit},
			{"one that gets its vote", named(4), 3, 3, []uint32{1, 2, 3, 4}, false, 3, 3, 0},
		} {
			term := r.CurrentTerm()
			if tt.earlier {
				term--
			}
			req := &raft.AppendEntriesRequest{Term: r.CurrentTerm(), PrevLogEntry: 3, LeaderCommitIndex: 3}
			for index := range uint64(3) {
				req.Entries = append(req.Entries, &raft.Log{Index: 4 + index, Term: term})
			}
			if tt.lists != nil {
				var peers []Peer
				for _, member := range tt.lists {
					peers = append(peers, server(member, fmt.Sprintf("m%d:1", member)))
				}
				req.Entries[2].Type, req.Entries[2].Data = raft.LogConfiguration, raft.EncodeConfiguration(RaftConfiguration(peers))
			}
			commit.Store(tt.commit)
			if tt.later > tt.commit {
				time.AfterFunc(time.Millisecond, func() {
					commit.Store(tt.later)
					tr.commitBroadcast.fire()
				})
			}
			begun := time.Now()
			tr.awaitThenTrimUncommitted(tt.to, req)
			if len(req.Entries) != tt.entries || req.LeaderCommitIndex != tt.says || time.Since(begun) != tt.waits {
				t.Errorf("%s: %d entries and the commit %d after %v, want %d, %d, %v",
					tt.name, len(req.Entries), req.LeaderCommitIndex, time.Since(begun), tt.entries, tt.says, tt.waits)
			}
		}
	})
}

// A server without a vote gets no pipeline. The pipeline of one that loses its vote ends before the entries that take the vote away.
func TestNoPipelineWithoutAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := leaderless(t) // 1, 2 and 3 vote
		sent := make(chan *raft.AppendEntriesRequest, 1)
		tr := newTestTransport(t, newPipes(func(c net.Conn) {
			member := newFar(t, c)
			go func() {
				for req := range member.sent {
					sent <- req
				}
			}()
		}))
		tr.cfg.Raft = func() *raft.Raft { return r }
		if _, err := tr.AppendEntriesPipeline(named(4), "m4:1"); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
			t.Fatalf("to a server without a vote: %v", err)
		}
		p, err := tr.AppendEntriesPipeline(named(2), "m2:1")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		write := &raft.Log{Index: 4}
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: r.CurrentTerm(), PrevLogEntry: 3, Entries: []*raft.Log{write}}, new(raft.AppendEntriesResponse)); err != nil {
			t.Fatal(err)
		}
		<-sent
		demotion := &raft.Log{Index: 5, Term: r.CurrentTerm(), Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(RaftConfiguration([]Peer{server(1, "m1:1"), server(3, "m3:1")}))}
		_, err = p.AppendEntries(&raft.AppendEntriesRequest{Term: r.CurrentTerm(), PrevLogEntry: 4, Entries: []*raft.Log{demotion}}, new(raft.AppendEntriesResponse))
		synctest.Wait()
		if !errors.Is(err, errNotVoter) || len(sent) != 0 {
			t.Errorf("the entry that ends the vote: %v, sent %t", err, len(sent) != 0)
		}
	})
}
