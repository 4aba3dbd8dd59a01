package member

import (
	"context"
	"sync"
	"time"

	"rollcall/znode"
)

// retransferSyncLimits is the minimum time, in sync limits, between the end of a member's term and another
// transfer to it from an unhealthy leader. If no leader is healthy, each transfers to the member that has not
// led for longest, until all have been tried. Of n members, at most n-1 transfer in that time, and then the
// leader stays.
const retransferSyncLimits = 6

// transferTargets records the terms of members since this process started, and picks the next leader. It implements
// leader.Ensemble. It is safe for concurrent use.
type transferTargets struct {
	m *Member

	mu            sync.Mutex
	currentLeader uint32               // the leader by the newest TermStart in raft's term
	lastLed       map[uint32]time.Time // by member: the end of its last term, or the last transfer to it
}

func newTransferTargets(m *Member) *transferTargets {
	return &transferTargets{m: m, lastLed: make(map[uint32]time.Time)}
}

// recordLeader is called for every TermStart, under the tree's lock. It ignores replayed ones.
func (s *transferTargets) recordLeader(t znode.Term) {
	if t.Term < s.m.node.Status().Term() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.currentLeader != t.Leader {
		s.lastLed[s.currentLeader] = time.Now()
	}
	s.currentLeader = t.Leader
}

// ReachedVoters implements leader.Ensemble. Members that raft reaches reply a few times in each HeartbeatTimeout.
func (s *transferTargets) ReachedVoters(d time.Duration) []uint32 {
	return s.m.node.Reachability().VotersRepliedWithin(max(d, s.m.cfg.HeartbeatTimeout))
}

// TransferTarget implements leader.Ensemble. It returns the member that has not led for longest; of several,
// the next by id.
func (s *transferTargets) TransferTarget(reached []uint32) (heir uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pickTransferTarget(s.m.cfg.ID, reached, s.lastLed, time.Now(),
		time.Duration(retransferSyncLimits*s.m.cfg.SyncLimit)*s.m.cfg.Tick)
}

func pickTransferTarget(self uint32, reached []uint32, led map[uint32]time.Time, now time.Time,
	rest time.Duration,
) (heir uint32) {
	// Ties go by id: self+1 comes first, and self-1 last.
	turn := func(id uint32) uint8 { return uint8(id - self - 1) }
	for _, id := range reached {
		ended := led[id]
		if !ended.IsZero() && now.Sub(ended) < rest {
			continue
		}
		if heir == 0 || ended.Before(led[heir]) || ended.Equal(led[heir]) && turn(id) < turn(heir) {
			heir = id
		}
	}
	return heir
}

// HandOver implements leader.Ensemble.
func (s *transferTargets) HandOver(ctx context.Context, to uint32) error {
	s.mu.Lock()
	s.lastLed[to] = time.Now()
	s.mu.Unlock()
	return s.m.node.Transfer().ToMember(ctx, to)
}
