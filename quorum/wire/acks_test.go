package wire

import (
	"testing"

	"github.com/hashicorp/raft"
)

// configurationOf returns a configuration in which some servers vote, and others do not.
func configurationOf(voters, others []uint32) (c raft.Configuration) {
	for _, id := range voters {
		c.Servers = append(c.Servers, raft.Server{ID: named(id), Suffrage: raft.Voter})
	}
	for _, id := range others {
		c.Servers = append(c.Servers, raft.Server{ID: named(id), Suffrage: raft.Nonvoter})
	}
	return c
}

// A majority of the voters counts, the leader by its own disk. Acknowledgements count in their term only, and only if the last
// entry is of that term.
func TestDurableAcks(t *testing.T) {
	type ack struct {
		from              uint32
		term, last, entry uint64 // of the request; of its last entry
	}
	three, five := configurationOf([]uint32{1, 2, 3}, nil), configurationOf([]uint32{1, 2, 3, 4, 5}, nil)
	for name, tt := range map[string]struct {
		acks []ack
		c    raft.Configuration
		own  uint64
		want uint64
	}{
		"none":                             {nil, three, 9, 0},
		"one of three, with the leader":    {[]ack{{2, 5, 8, 5}}, three, 9, 8},
		"one of three, before the leader":  {[]ack{{2, 5, 8, 5}}, three, 7, 7},
		"two of three, without the leader": {[]ack{{2, 5, 8, 5}, {3, 5, 9, 5}}, three, 4, 8},
		"the same one twice":               {[]ack{{2, 5, 8, 5}, {2, 5, 9, 5}}, three, 4, 4},
		"an old one after a new one":       {[]ack{{2, 5, 8, 5}, {2, 5, 6, 5}, {3, 5, 9, 5}}, three, 4, 8},
		"two of five, with the leader":     {[]ack{{2, 5, 8, 5}, {3, 5, 9, 5}}, five, 9, 8},
		"three of five, without it":        {[]ack{{2, 5, 8, 5}, {3, 5, 9, 5}, {4, 5, 7, 5}}, five, 4, 7},
		"two of five":                      {[]ack{{2, 5, 8, 5}, {3, 5, 9, 5}}, five, 4, 4},
		"an earlier term":                  {[]ack{{2, 4, 8, 4}, {3, 5, 9, 5}}, three, 4, 4},
		"an earlier term, late":            {[]ack{{3, 5, 9, 5}, {2, 4, 8, 4}}, three, 4, 4},
		"an entry of an earlier term":      {[]ack{{2, 5, 8, 4}, {3, 5, 9, 5}}, three, 4, 4},
		"a server without a vote":          {[]ack{{2, 5, 8, 5}, {4, 5, 9, 5}}, configurationOf([]uint32{1, 2, 3}, []uint32{4}), 4, 4},
		"two servers without a vote":       {[]ack{{2, 5, 8, 5}, {4, 5, 9, 5}, {5, 5, 9, 5}}, configurationOf([]uint32{1, 2, 3}, []uint32{4, 5}), 4, 4},
		"a server that was removed":        {[]ack{{2, 5, 8, 5}, {4, 5, 9, 5}}, three, 4, 4},
		"a leader without a vote":          {[]ack{{2, 5, 8, 5}, {3, 5, 9, 5}}, configurationOf([]uint32{2, 3}, []uint32{1}), 4, 8},
		"two voters":                       {[]ack{{2, 5, 8, 5}}, configurationOf([]uint32{1, 2}, nil), 4, 4},
		"nobody votes":                     {[]ack{{2, 5, 8, 5}}, raft.Configuration{}, 4, 0},
	} {
		var a durableAcks
		for _, one := range tt.acks {
			a.note(named(one.from), &raft.AppendEntriesRequest{
				Term: one.term, PrevLogEntry: one.last - 1, PrevLogTerm: one.entry, Entries: []*raft.Log{{Index: one.last, Term: one.entry}},
			})
		}
		if got := a.majorityIndex(5, func() raft.Configuration { return tt.c }, named(1), tt.own); got != tt.want {
			t.Errorf("%s: a majority has %d, want %d", name, got, tt.want)
		}
	}
	var a durableAcks
	if a.note(named(2), &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 9, PrevLogTerm: 5}) {
		t.Error("a request without entries counts")
	}
}

// The configuration is read when no acknowledgement can follow: otherwise copies that came later could be counted by an older one.
func TestConfigurationIsReadAfterTheAcks(t *testing.T) {
	a := durableAcks{term: 5}
	a.majorityIndex(5, func() raft.Configuration {
		if a.mu.TryLock() {
			a.mu.Unlock()
			t.Error("an acknowledgement can come after the configuration was read")
		}
		return configurationOf([]uint32{1, 2, 3}, nil)
	}, named(1), 10)
}
