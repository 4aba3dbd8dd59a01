package quorum

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/readlease"
)

// leaseLog is a part of a log from index 11 on. A byte is an entry's data: "s" and "l" are TermStarts with a short and a long lease, "0"
// is one without leases, "w" is a write. "-" is an entry of raft's, "e" an empty one, and "?" cannot be read. Each word is a term.
func leaseLog(terms ...string) []*raft.Log {
	var log []*raft.Log
	for i, term := range terms {
		for _, b := range []byte(term) {
			entry := &raft.Log{Term: uint64(3 + i), Type: raft.LogCommand, Data: []byte{b}}
			switch b {
			case '-':
				entry.Type = raft.LogConfiguration
			case 'e':
				entry.Data = nil
			case '?':
				entry = nil
			}
			log = append(log, entry)
		}
	}
	return log
}

// A new leader finds the longest lease of the term that it has applied and of the terms above it, and the last of these
// leases. A lease that it cannot read counts as the longest possible, and the last one as none.
func TestLongestLease(t *testing.T) {
	const before, short, long = 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond
	terms := func(n int) (terms []string) {
		for range n {
			terms = append(terms, "-0w")
		}
		return terms
	}
	for _, tt := range []struct {
		name         string
		terms        []string
		want, newest time.Duration
	}{
		{"no entries", nil, before, before},
		{"entries of raft's alone", []string{"-e", "-"}, before, before},
		{"a TermStart first", []string{"s"}, short, short},
		{"after an entry of raft's and empty ones", []string{"-eeswww"}, short, short},
		{"the term has begun before", []string{"www"}, before, before},
		{"without leases", []string{"-0w"}, before, 0},
		{"the longest is the first", []string{"www", "-lw", "-s"}, long, short},
		{"the longest is in the middle", []string{"-s", "-l", "-0w"}, long, 0},
		{"the longest is the last", []string{"-0", "-s", "--l"}, long, long},
		{"a term of raft's entries between", []string{"-s", "-e", "-0"}, short, 0},
		{"many entries of terms without a TermStart", []string{"-eeeeeeeee", "-eeeeeeeee", "-s"}, short, short},
		{"a TermStart after a write counts for nothing", []string{"wl"}, before, before},
		{"the first entry cannot be read", []string{"?s"}, readlease.MaxLease, 0},
		{"the TermStart cannot be read", []string{"-?s"}, readlease.MaxLease, 0},
		{"the beginning of a term cannot be read", []string{"-sw", "?0"}, readlease.MaxLease, 0},
		{"as many terms as are read", terms(maxScannedTerms), before, 0},
		{"more terms", terms(maxScannedTerms + 1), readlease.MaxLease, 0},
		{"as many entries as are read", []string{"-eeeeeeeeeeeeee" + "sw"}, short, short}, // the 16th
		{"more entries", []string{"-eeeeeeeeeeeeeee" + "sw"}, readlease.MaxLease, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := leaseLog(tt.terms...)
			got, newest := longestLease(before, 11, 10+uint64(len(log)), func(index uint64) *raft.Log { return log[index-11] }, func(data []byte) (time.Duration, bool) {
				lease, ok := map[string]time.Duration{"s": short, "l": long, "0": 0}[string(data)]
				return lease, ok
			})
			if got != tt.want || newest != tt.newest {
				t.Errorf("%v and %v, want %v and %v", got, newest, tt.want, tt.newest)
			}
		})
	}
	t.Run("few entries of a long term are read", func(t *testing.T) {
		const entries = 1 << 20
		reads := 0
		longestLease(0, 1, entries, func(uint64) *raft.Log {
			reads++
			return &raft.Log{Term: 3, Type: raft.LogCommand, Data: []byte("w")}
		}, func([]byte) (time.Duration, bool) { return 0, false })
		if reads > 30 {
			t.Errorf("%d of %d entries were read", reads, entries)
		}
	})
}
