package quorum

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// These times are shares of H, Config.HeartbeatTimeout. raft compares three of them: its leader's lease must not be longer than
// its heartbeat timeout, and that not longer than its election timeout. A leader sends heartbeats a tenth to a fifth of its
// heartbeat timeout apart.

// leaseTimeout is 5/3 H: a leader that has heard no majority for so long steps down, and a follower gives up a leader that has
// been silent for so long, on a machine that does not pause. raft's own follower would look at a random moment, up to 3 H after
// the last heartbeat. silenceWatch looks when the time has come, so all of it is left for pauses.
func leaseTimeout(heartbeat time.Duration) time.Duration { return heartbeat + heartbeat*2/3 }

// heartbeatGap is the longest time between two heartbeats of a leader.
func heartbeatGap(heartbeat time.Duration) time.Duration { return leaseTimeout(heartbeat) / 5 }

// usualPause is the longest pause for which a leader keeps its place, if nothing has widened the tolerance.
func usualPause(heartbeat time.Duration) time.Duration {
	return leaseTimeout(heartbeat) - heartbeatGap(heartbeat)
}

// longestPause is the longest tolerance, twice the usual one: a follower then waits for 3 H.
func longestPause(heartbeat time.Duration) time.Duration { return 2 * usualPause(heartbeat) }

// longestSilence is raft's own heartbeat timeout while silenceWatch judges the leader. raft's timer, which is drawn from once to
// twice that time, does not know of pauses. So a member that is paused again and again gives its leader up after that, and one
// that was paused once, for less than that, does not.
func longestSilence(heartbeat time.Duration) time.Duration { return 6 * heartbeat }

// PauseTolerance returns the longest pause of its process for which a leader keeps its place as a rule, with this
// Config.HeartbeatTimeout.
func PauseTolerance(heartbeat time.Duration) time.Duration { return usualPause(heartbeat) }

// raftSettings changes those settings of raft that can change while it runs. It is safe for concurrent use.
type raftSettings struct {
	raft *raft.Raft
	mu   sync.Mutex // held from reading the settings to storing them
}

// change calls edit with the present settings, and stores what it has changed.
func (s *raftSettings) change(edit func(*raft.ReloadableConfig)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.raft.ReloadableConfig()
	after := before
	if edit(&after); after == before {
		return nil
	}
	return s.raft.ReloadConfig(after)
}
