package simulated

import (
	"testing"

	"github.com/hashicorp/raft"
)

// Of two logs the one with the later last term is longer, and of one term the one with more entries.
func TestLongerLog(t *testing.T) {
	filled := func(terms ...uint64) *Disk {
		d := NewDisk()
		for i, term := range terms {
			d.Append(raft.Log{Index: uint64(i + 1), Term: term})
		}
		return d
	}
	for _, tt := range []struct {
		name      string
		log, than *Disk
		longer    bool
	}{
		{"both empty", filled(), filled(), false},
		{"one empty", filled(1), filled(), true},
		{"the same", filled(1, 2), filled(1, 2), false},
		{"more entries", filled(1, 2, 2), filled(1, 2), true},
		{"a later term", filled(1, 3), filled(1, 2), true},
		{"a later term and fewer entries", filled(3), filled(1, 2, 2), true},
	} {
		if got, other := tt.log.IsLonger(tt.than), tt.than.IsLonger(tt.log); got != tt.longer || other {
			t.Errorf("%s: %t, and the other way round %t", tt.name, got, other)
		}
	}
}
