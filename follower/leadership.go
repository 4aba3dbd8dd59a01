package follower

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/znode"
)

// leadership is the present term and its leader, by the log here, and the streams of that leader's pings.
// Make one with newLeadership. It is safe for concurrent use, and nothing blocks.
type leadership struct {
	self  uint32
	raft  Raft
	clock monotonic.Clock

	mu            sync.Mutex
	term          *term  // the newest TermStart applied; of term 0 before the first
	retiredNonce  uint64 // of the TermStart before it, if raft's term was the same
	gaps          leaderGaps
	lost          lostReports
	leaderStreams []*pingStream // the present leader's, all of one term; the oldest first; at most maxLeaderStreams
}

// maxLeaderStreams is more than the streams of a leader, which may open one again before the end of the last is known
// here.
const maxLeaderStreams = 4

// term is a TermStart that has been applied. Its ctx ends when a newer one has been applied.
type term struct {
	znode.Term
	why znode.LeaderCause // of the change to its leader; zero if the term is known from a snapshot
	leaderContact
	ctx    context.Context // ends with the term
	cancel context.CancelFunc
}

func newTerm(t znode.Term, now time.Time) *term {
	ctx, end := context.WithCancel(context.Background())
	return &term{Term: t, leaderContact: leaderContact{lastReached: now}, ctx: ctx, cancel: end}
}

// leaderContact is the time when the leader of a term last replied to a probe, or when raft last had no contact
// with it.
type leaderContact struct {
	mu          sync.Mutex
	lastReached time.Time
}

func (r *leaderContact) markReached(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastReached = now
}

func (r *leaderContact) sinceReached(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.lastReached)
}

func newLeadership(cfg *Config) *leadership {
	return &leadership{
		self: cfg.Self, raft: cfg.Raft, clock: cfg.Monotonic,
		term: newTerm(znode.Term{}, cfg.Monotonic.Now()),
		gaps: leaderGaps{tick: cfg.Tick, lastPing: cfg.Monotonic.Now()}, // before the first ping, no leader is known
	}
}

func (l *leadership) currentTerm() *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

func (l *leadership) startTerm(t znode.Term, why znode.LeaderCause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replaceTerm(t)
	l.term.why = why
}

// startTermIfNewer makes t, of a snapshot, the current term if it is newer.
func (l *leadership) startTermIfNewer(t znode.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Index > l.term.Index {
		l.replaceTerm(t)
	}
}

func (l *leadership) replaceTerm(t znode.Term) {
	l.retiredNonce = 0
	if l.term.Term.Term == t.Term {
		l.retiredNonce = l.term.Nonce
	}
	l.term.cancel()
	l.term = newTerm(t, l.clock.Now())
}

// mayStillLead reports whether t's leader may still lead, as far as raft on this member knows. It may
// not while an old log is replayed, nor during elections.
func (l *leadership) mayStillLead(t *term) bool {
	return t.Index > 0 && t.Term.Term >= l.raft.Term()
}

// unreachedFor returns the time for which this member has not reached the leader's service. It returns 0 if
// no leader is known in raft's term, or this member leads.
func (l *leadership) unreachedFor(now time.Time) time.Duration {
	t := l.currentTerm()
	if t.Leader == l.self || !l.mayStillLead(t) {
		return 0
	}
	return t.leaderContact.sinceReached(now)
}

// resetUnreachedWithoutRaft restarts the time of unreachedFor while raft has no contact with the leader either.
func (l *leadership) resetUnreachedWithoutRaft(now time.Time) {
	if t := l.currentTerm(); l.raft.Leader() != t.Leader {
		t.markReached(now)
	}
}

// acceptPing makes s a stream of the present leader, or rejects it. A leader may ping before its
// TermStart has been applied here. Then only its term can be checked.
func (l *leadership) acceptPing(s *pingStream, ping *proto.Ping) error {
	if err := l.checkTerm(ping); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ping.Term == l.term.Term.Term && ping.Leader != l.term.Leader:
		return wrongLeaderError(ping, l.term.Leader)
	case ping.Term < l.term.Term.Term || ping.Term == l.term.Term.Term && ping.Nonce == l.retiredNonce:
		return status.Errorf(codes.FailedPrecondition, "ping of term %d, which has ended", ping.Term)
	case s.term == 0 && (len(l.leaderStreams) == 0 || l.leaderStreams[0].term <= ping.Term):
		s.term = ping.Term
		l.addStream(s)
	case !slices.Contains(l.leaderStreams, s):
		return status.Error(codes.Aborted, "newer streams of pings have taken over")
	case s.term != ping.Term:
		return status.Errorf(codes.InvalidArgument, "pings of terms %d and %d on one stream", s.term, ping.Term)
	}
	now := l.clock.Now()
	if former, changed := l.gaps.notePing(ping.Nonce, ping.Term, now, l.raft.LastLead); changed {
		l.lost.endTerm(former)
	}
	l.lost.record(ping, now)
	return nil
}

// lostReport returns the newest report of lost members by the leader of an earlier term than that with a nonce, or nil.
func (l *leadership) lostReport(nonce uint64) *proto.LostMembers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost.before(nonce)
}

// silentMembers returns the members that the leader has not heard for least or longer: see lostReports.silentMembers.
func (l *leadership) silentMembers(least, maxAge time.Duration) []SilentMember {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost.silentMembers(l.clock.Now(), least, maxAge)
}

// leaderlessTimes returns the times in which a silence does not count, up to the first ping of the present leader.
func (l *leadership) leaderlessTimes() gapList {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaps.all()
}

// addStream adds a stream, and drops those of earlier terms.
func (l *leadership) addStream(s *pingStream) {
	kept := l.leaderStreams[:0:0]
	for _, other := range l.leaderStreams {
		if other.term == s.term {
			kept = append(kept, other)
		}
	}
	if len(kept) == maxLeaderStreams {
		kept = kept[1:]
	}
	l.leaderStreams = append(kept, s)
}

// checkTerm returns an error unless raft is in the term of a ping and knows no other leader of it. raft
// learns of a term before its leader pings, because the leader has requested votes and has sent entries
// to observers too. So a leader whose term is not known here is cut off from this member's raft, claims
// a term, or is early and tries again.
func (l *leadership) checkTerm(ping *proto.Ping) error {
	term := l.raft.Term() // before its leader: raft forgets that before it takes a new term
	leader := l.raft.Leader()
	switch {
	case ping.Term < term:
		return status.Errorf(codes.FailedPrecondition, "ping of term %d in term %d", ping.Term, term)
	case ping.Term > term:
		return status.Errorf(codes.Unavailable, "ping of term %d, of which the log has not heard here: it is in term %d",
			ping.Term, term)
	case leader != 0 && leader != ping.Leader:
		return wrongLeaderError(ping, leader)
	}
	return nil
}

// wrongLeaderError returns the error for a ping of a member that does not lead its term.
func wrongLeaderError(ping *proto.Ping, leader uint32) error {
	return status.Errorf(codes.FailedPrecondition, "ping of member %d in term %d, which member %d leads", ping.Leader,
		ping.Term, leader)
}

// dropStream forgets s if it is a stream of the present leader.
func (l *leadership) dropStream(s *pingStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaderStreams = slices.DeleteFunc(slices.Clone(l.leaderStreams), func(other *pingStream) bool { return other == s })
}

// pingStreams returns the present leader's streams of pings that are open. The caller must not change the result.
func (l *leadership) pingStreams() []*pingStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaderStreams
}
