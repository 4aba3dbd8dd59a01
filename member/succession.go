package member

import (
	"context"
	"sync"
	"time"

	"rollcall/znode"
)

// passOver is for how many sync limits after its term a member is not handed leadership
// again by a leader that cannot do its work. If no leader can do its work, each hands over
// to the member that has not led for longest, until all have been tried: of n members at most
// n-1 hand over in that time, and then the leader stays.
const passOver = 6

// succession knows which members have led, as this process has seen it, and picks the next
// leader. It implements leader.Ensemble. Safe for concurrent use.
type succession struct {
	m *Member

	mu     sync.Mutex
	leader uint32               // of the newest TermStart in raft's term
	led    map[uint32]time.Time // when each member's last term was over, or it was to lead and did not
}

func newSuccession(m *Member) *succession { return &succession{m: m, led: make(map[uint32]time.Time)} }

// started is told of every TermStart, under the tree's lock. Those of a log that is only
// replayed do not count.
func (s *succession) started(t znode.Term) {
	if t.Term < s.m.node.Term() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader != t.Leader {
		s.led[s.leader] = now()
	}
	s.leader = t.Leader
}

// Reached implements leader.Ensemble.
func (s *succession) Reached(d time.Duration) []uint32 { return s.m.node.Reached(d) }

// Heir implements leader.Ensemble: the one that has not led for longest, the next by id of
// several.
func (s *succession) Heir(reached []uint32) (heir uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return heirOf(s.m.cfg.ID, reached, s.led, now(), time.Duration(passOver*s.m.cfg.SyncLimit)*s.m.cfg.Tick)
}

func heirOf(self uint32, reached []uint32, led map[uint32]time.Time, now time.Time, rest time.Duration) (heir uint32) {
	// In turn, by id: self+1 comes first, and self-1 last.
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
func (s *succession) HandOver(ctx context.Context, to uint32) error {
	s.mu.Lock()
	s.led[to] = now()
	s.mu.Unlock()
	return s.m.node.HandOverTo(ctx, to)
}
