package wire

import (
	"testing"

	"github.com/hashicorp/raft"
)

// If a request begins within a snapshot, its applied entries are left out, and raft checks no entry before the others.
// All other requests stay as they are.
func TestRequestsThatBeginWithinASnapshot(t *testing.T) {
	const applied = 19
	log := map[uint64]*raft.Log{18: {Index: 18, Term: 2}, 19: {Index: 19, Term: 2}, 20: {Index: 20, Term: 3}}
	for _, tt := range []struct {
		name  string
		ends  uint64 // the snapshot; the log begins after it
		prev  uint64
		count int // of entries
		want  uint64
		first uint64 // index of the first entry that is left; 0: none is
	}{
		{"right after the snapshot, all are applied", 17, 17, 2, 0, 0},
		{"right after the snapshot", 17, 17, 4, 0, 20},
		{"within the snapshot, all are in it", 17, 10, 3, 0, 0},
		{"within the snapshot, up to the last applied one", 17, 10, 9, 0, 0},
		{"within the snapshot", 17, 10, 12, 0, 20},
		{"raft finds the entry before", 17, 18, 2, 18, 19},
		{"from the beginning, and all are in the snapshot", 17, 0, 2, 0, 0},
		{"from the beginning to what is not applied", 17, 0, 21, 0, 20},
		{"after what is applied", 17, 20, 2, 20, 21},
		{"right after a snapshot that ends with the last applied one", 19, 19, 2, 0, 20},
		{"none", 17, 17, 0, 0, 0},
	} {
		req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: tt.prev, PrevLogTerm: 2, LeaderCommitIndex: 19}
		for i := range tt.count {
			req.Entries = append(req.Entries, &raft.Log{Index: tt.prev + 1 + uint64(i)})
		}
		got := skipApplied(req, applied, func(index uint64) *raft.Log {
			if index <= tt.ends {
				return nil
			}
			return log[index]
		})
		first := uint64(0)
		if len(got.Entries) > 0 {
			first = got.Entries[0].Index
		}
		if got.PrevLogEntry != tt.want || first != tt.first || got.Term != 5 || got.LeaderCommitIndex != 19 ||
			tt.want == 0 && tt.prev > 0 && got.PrevLogTerm != 0 {
			t.Errorf("%s: %+v, want entries from %d on after %d", tt.name, got, tt.first, tt.want)
		}
		if req.PrevLogEntry != tt.prev || len(req.Entries) != tt.count {
			t.Errorf("%s: the request of the sender has changed", tt.name)
		}
	}
}
