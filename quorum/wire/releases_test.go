package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// A follower knows of a commit once it has heard that the entry is released, and that a majority has it or by its own
// disk. A notice that a majority has an entry is news, although the entry is not released, because the follower
// acknowledges it then.
func TestToldOfMajorityBeforeRelease(t *testing.T) {
	for _, tt := range []struct {
		name             string
		told             *toldCommits
		commit, majority uint64
		isNews           bool
		knows            uint64 // the last entry that it knows to be committed, without the notice
	}{
		{"a majority has more than is released", &toldCommits{commit: 5, majority: 5, acked: 5}, 5, 7, true, 5},
		{"it was told so", &toldCommits{commit: 5, majority: 7, acked: 5}, 5, 7, false, 5},
		{"and then the entries are released", &toldCommits{commit: 5, majority: 7, acked: 5}, 7, 7, true, 5},
		{"on its own disk, too, but not released", &toldCommits{commit: 5, majority: 5, acked: 7}, 5, 7, true, 5},
		{"nothing new", &toldCommits{commit: 7, majority: 7, acked: 7}, 7, 7, false, 7},
		{"the word, and its disk may be in time", &toldCommits{commit: 7, majority: 5, acked: 5}, 7, 7, false, 5},
		{"the word, and its disk is late", &toldCommits{commit: 7, majority: 5, acked: 5, acksLate: true}, 7, 7, true, 5},
		{"the word, and its disk was late", &toldCommits{commit: 7, majority: 5, acked: 7, acksLate: true}, 7, 7, false, 7},
		{"the word for a part", &toldCommits{commit: 6, majority: 5, acked: 6}, 6, 7, true, 6},
	} {
		if got := tt.told.isNews(tt.commit, tt.majority); got != tt.isNews {
			t.Errorf("%s: news: %v", tt.name, got)
		}
		for index := uint64(4); index < 9; index++ {
			if got := tt.told.knows(index); got != (index <= tt.knows) {
				t.Errorf("%s: it knows that %d is committed: %v", tt.name, index, got)
			}
		}
	}
}

// The majority index of a frame may be above the commit index, and is at most the index of the last entry if the commit
// index is lower.
func TestCheckMajority(t *testing.T) {
	entries := []*raft.Log{{Index: 11}, {Index: 12}}
	for _, tt := range []struct {
		name             string
		entries          []*raft.Log
		commit, majority uint64
		ok               bool
	}{
		{"not released", entries, 9, 12, true},
		{"above the last entry", entries, 9, 13, false},
		{"the commit index is above the last entry", entries, 15, 15, true},
		{"above both", entries, 15, 16, false},
		{"without entries", nil, 9, 10, true},
		{"above the previous entry", nil, 9, 11, false},
	} {
		err := checkMajority(&raft.AppendEntriesRequest{PrevLogEntry: 10, Entries: tt.entries, LeaderCommitIndex: tt.commit}, tt.majority)
		if tt.ok != (err == nil) ||
			err != nil && (!errors.Is(err, errNotRaftRequest) || !strings.Contains(err.Error(), "must be at most that of the last entry")) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
