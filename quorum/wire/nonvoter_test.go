package wire

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A request to a server without a vote has the entries that are committed and on this disk, reports that they are
// committed, and waits for others no longer than an election timeout divided by commitWaitsPerElection. A server whose
// vote ends with the entries counts as one without a vote.
func TestUncommittedEntriesAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := leaderless(t) // 1, 2 and 3 vote
		tr := newTestTransport(t, newPipes(nil))
		var commit atomic.Uint64
		tr.cfg.Raft, tr.cfg.LimitToDurable = func() *raft.Raft { return r }, func(uint64) uint64 { return commit.Load() }
		limit := tr.cfg.ElectionTimeout / commitWaitsPerElection
		for _, tt := range []struct {
			name          string
			to            raft.ServerID
			commit, later uint64
			demoted       bool // by the last entry
			entries       int
			says          uint64
			waits         time.Duration
		}{
			{"a voter", named(2), 5, 5, false, 3, 3, 0},
			{"no voter", named(4), 5, 5, false, 2, 5, limit},
			{"no voter, and nothing is committed", named(4), 3, 3, false, 0, 3, limit},
			{"no voter, and all is committed", named(4), 6, 6, false, 3, 3, 0},
			{"no voter, and all is committed meanwhile", named(4), 5, 6, false, 3, 6, time.Millisecond},
			{"a voter that loses its vote", named(2), 5, 5, true, 2, 5, limit},
			{"a voter that has lost its vote", named(2), 6, 6, true, 3, 3, 0},
		} {
			req := &raft.AppendEntriesRequest{Term: r.CurrentTerm(), PrevLogEntry: 3, LeaderCommitIndex: 3, Entries: []*raft.Log{{Index: 4}, {Index: 5}, {Index: 6}}}
			if tt.demoted {
				req.Entries[2].Type, req.Entries[2].Data = raft.LogConfiguration, raft.EncodeConfiguration(RaftConfiguration([]Peer{server(1, "m1:1"), server(3, "m3:1")}))
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
				t.Errorf("%s: %d entries and the commit %d after %v, want %d, %d, %v", tt.name, len(req.Entries), req.LeaderCommitIndex, time.Since(begun), tt.entries, tt.says, tt.waits)
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
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{PrevLogEntry: 3, Entries: []*raft.Log{write}}, new(raft.AppendEntriesResponse)); err != nil {
			t.Fatal(err)
		}
		<-sent
		demotion := &raft.Log{Index: 5, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(RaftConfiguration([]Peer{server(1, "m1:1"), server(3, "m3:1")}))}
		_, err = p.AppendEntries(&raft.AppendEntriesRequest{PrevLogEntry: 4, Entries: []*raft.Log{demotion}}, new(raft.AppendEntriesResponse))
		synctest.Wait()
		if !errors.Is(err, errNotVoter) || len(sent) != 0 {
			t.Errorf("the entry that ends the vote: %v, sent %t", err, len(sent) != 0)
		}
	})
}
