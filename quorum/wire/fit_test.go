package wire

import (
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

func entries(sizes ...int) (list []*raft.Log) {
	for _, n := range sizes {
		list = append(list, &raft.Log{Index: uint64(len(list) + 1), Term: 1, Data: make([]byte, n)})
	}
	return list
}

// A request takes entries until they have maxAppendBytes, and at least one. The other side finds out
// by the same rule whether there may be more.
func TestFitting(t *testing.T) {
	const half = maxAppendBytes / 2
	tests := []struct {
		name    string
		entries []*raft.Log
		want    int
	}{
		{"none", nil, 0},
		{"small", entries(1, 2, 3), 3},
		{"one below", entries(half, half-1, 1, 1), 3},
		{"just full", entries(half, half, 1), 2},
		{"large behind small", entries(1, 8<<20, 1), 2},
		{"large first", entries(8<<20, 1), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := fittingCount(tt.entries)
			if n != tt.want {
				t.Errorf("%d fit, want %d", n, tt.want)
			}
		})
	}
}

// A pipeline sends one long request as several, each of which continues the one before. raft gets a reply to each, the
// reply to its own request last.
func TestLongRequestInPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 9, PrevLogTerm: 4, LeaderCommitIndex: 12}
		for i, size := range []int{1, maxAppendBytes, 10, maxAppendBytes, 20} {
			req.Entries = append(req.Entries, &raft.Log{Index: uint64(10 + i), Term: 5, Data: make([]byte, size)})
		}
		go func() {
			if _, err := s.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
				t.Error(err)
			}
		}()
		for _, want := range []struct{ prev, term, entries, commit uint64 }{{9, 4, 2, 11}, {11, 5, 2, 12}, {13, 5, 1, 12}} {
			part := <-s.far.sent
			if part.PrevLogEntry != want.prev || part.PrevLogTerm != want.term || uint64(len(part.Entries)) != want.entries ||
				part.LeaderCommitIndex != want.commit {
				t.Errorf("sent %d entries behind %d of term %d, commit %d; want %+v",
					len(part.Entries), part.PrevLogEntry, part.PrevLogTerm, part.LeaderCommitIndex, want)
			}
			if f := s.answer(true, ""); !isTo(f, part) {
				t.Error("raft has no answer to a part")
			}
		}
		if len(req.Entries) != 5 {
			t.Errorf("raft's request has %d entries now", len(req.Entries))
		}
	})
}
