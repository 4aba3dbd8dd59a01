package kills

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// totals counts what happened in all runs.
type totals struct {
	mu                                     sync.Mutex
	runs, restarts, again                  int // again: members that asked to be restarted
	processes                              int // killed
	kills                                  map[role]int
	writing, compacting                    int // kills while a snapshot was written, or while the log was shortened after it
	receiving                              int // kills while a snapshot was received
	installed                              int // snapshots that were installed
	acked, unknown, comparisons, shortened int
	nodes                                  int
}

func (s *totals) print(took time.Duration) {
	fmt.Printf("kill -9: %d runs, %d kills (leader %d, follower %d, all at once %d, starting %d), %d processes killed; "+
		"%d kills during a snapshot (%d while it was written, %d while the log was shortened), %d while one was received, %d installed; "+
		"%d restarts, %d of them asked for by members; %d writes acknowledged, %d of unknown outcome; "+
		"%d comparisons of three members, %d nodes, %d shortened logs; %v\n",
		s.runs, s.count(), s.kills[leader], s.kills[follower], s.kills[all], s.kills[starting], s.processes,
		s.writing+s.compacting, s.writing, s.compacting, s.receiving, s.installed,
		s.restarts, s.again, s.acked, s.unknown, s.comparisons, s.nodes, s.shortened, took.Round(time.Second))
}

func (s *totals) count() int {
	return s.kills[leader] + s.kills[follower] + s.kills[all] + s.kills[starting]
}

// floors checks that enough happened in the runs. The numbers are those for 20 runs. Other numbers of runs need a share of them.
func (s *totals) floors(t *testing.T, runs int) {
	for what, f := range map[string]struct{ got, twenty int }{
		"runs":                           {s.runs, 20},
		"kills":                          {s.count(), 100},
		"kills during snapshots":         {s.writing + s.compacting, 20},
		"kills while a log is shortened": {s.compacting, 5},
		"kills of leaders":               {s.kills[leader], 20},
		"kills of followers":             {s.kills[follower], 20},
		"kills of all at once":           {s.kills[all], 10},
		"kills of starting members":      {s.kills[starting], 10},
		"writes acknowledged":            {s.acked, 20_000},
		"writes of unknown outcome":      {s.unknown, 100},
		"comparisons":                    {s.comparisons, 100},
		"shortened logs in comparisons":  {s.shortened, 100},
	} {
		if least := f.twenty * runs / 20; f.got < least {
			t.Errorf("%s in %d runs: %d, want %d at least", what, runs, f.got, least)
		}
	}
}
