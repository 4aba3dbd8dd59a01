package wire

import (
	"testing"

	"github.com/hashicorp/raft"
)

// Entries that come again after a snapshot whose last entry the log does not have are skipped as far as they are the same. raft gets what
// is new, after an entry that it finds.
func TestEntriesComeAgainAfterASnapshot(t *testing.T) {
	log := map[uint64]uint64{18: 2, 19: 2, 20: 3} // index → term; the snapshot ends at 17
	stored := func(index uint64) (term uint64, ok bool) {
		term, ok = log[index]
		return term, ok
	}
	entries := func(from uint64, terms ...uint64) (all []*raft.Log) {
		for i, term := range terms {
			all = append(all, &raft.Log{Index: from + uint64(i), Term: term})
		}
		return all
	}
	for _, tt := range []struct {
		name           string
		prev, prevTerm uint64
		entries        []*raft.Log
		want, wantTerm uint64
		left           int
	}{
		{"all are here", 17, 2, entries(18, 2, 2, 3), 20, 3, 0},
		{"some are new", 17, 2, entries(18, 2, 2, 3, 3, 3), 20, 3, 2},
		{"the last is another one", 17, 2, entries(18, 2, 2, 4), 19, 2, 1},
		{"the first is another one", 17, 2, entries(18, 4, 4), 17, 2, 2},
		{"raft finds the entry before", 18, 2, entries(19, 2, 3), 18, 2, 2},
		{"from the beginning", 0, 0, entries(1, 1, 1), 0, 0, 2},
		{"from the beginning, before which raft looks for none", 0, 0, entries(18, 2, 2), 0, 0, 2},
		{"none", 17, 2, nil, 17, 2, 0},
	} {
		req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: tt.prev, PrevLogTerm: tt.prevTerm, Entries: tt.entries, LeaderCommitIndex: 19}
		got := skipStored(req, stored)
		if got.PrevLogEntry != tt.want || got.PrevLogTerm != tt.wantTerm || len(got.Entries) != tt.left || got.Term != 5 || got.LeaderCommitIndex != 19 {
			t.Errorf("%s: %+v, want %d entries after %d of term %d", tt.name, got, tt.left, tt.want, tt.wantTerm)
		}
		if req.PrevLogEntry != tt.prev || len(req.Entries) != len(tt.entries) {
			t.Errorf("%s: the request of the sender has changed", tt.name)
		}
	}
}
