package leader

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

// proofs runs the rounds that prove that this leader still leads. A round is a number that is sent
// to every member. It is done when a majority of the voters has sent it back: no member does so once
// it knows of a later term. One round runs at a time, and all requests that come meanwhile share the
// next, which begins after each of them came.
//
// # Which majority
//
// The voters are those of raft's latest configuration when the replies are counted, even if that
// configuration is not committed. This is sound, as the following steps show.
//
//  1. A round that is done must prove that no later term had a leader when the round began. Suppose
//     that there was one, and take the first. A majority M of a configuration D has elected it, and
//     each voter in M has refused this leader's term ever since.
//  2. raft changes one voter at a time. It appends the next change when the last one is committed, and
//     not before it has committed an entry of its own term. The later leader had everything that was
//     committed, so its log was this leader's, or the beginning of it. Let C be this leader's latest
//     configuration at that election. Then D is C, or D is the one before C and C was not
//     committed. Majorities of two configurations that differ in one voter have a member in common.
//     So each majority of C has a member in M. If C has one voter, raft commits a change at once, and may
//     append another before a second member has either. That voter is in each of these majorities.
//  3. This leader can therefore commit nothing more while C is its latest configuration. If C was
//     committed, it can append one more change, C'. Then D is C, a majority of C' has a member in M
//     too, and C' is never committed. So this leader never gets further than one step from D.
//  4. Whichever of these configurations is counted, a majority of it has a member in M, which has
//     replied to nothing since the round began.
//
// This holds for configurations that this leader has appended or begun with. If raft here has learned
// of a later term, its configuration may be a later leader's, and any number of steps away. So
// replies count only if raft is in this term after the configuration was read.
//
// Observers and members that are still joining take part in no election, and their replies do not count. A leader
// that is not a voter counts the others alone.
//
// A voter is a disk. A member that has lost its disk has lost its votes, so a reply from its new disk counts only
// when that disk votes.
type proofs struct {
	mu          sync.Mutex
	begunRound  uint64                // under way if it is not done
	doneRound   uint64                // newest round to which a majority has replied
	nextWanted  bool                  // a round after begunRound is wanted
	lastReplies map[uint32]proofReply // by member
	doneChanged chan struct{}         // closed and replaced when doneRound changes
}

// proofReply is a member's last reply. A member has one process at a time, so one disk.
type proofReply struct{ disk, round uint64 }

func newProofs() *proofs {
	return &proofs{lastReplies: make(map[uint32]proofReply), doneChanged: make(chan struct{})}
}

// requestRound returns the number of a round that has not been sent yet. It reports whether to send it
// now; otherwise it is sent when the round under way is done.
func (p *proofs) requestRound() (round uint64, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begunRound == p.doneRound {
		p.begunRound++
		return p.begunRound, true
	}
	p.nextWanted = true
	return p.begunRound + 1, false
}

// recordReply records a member's reply, and reports whether that completes the round.
func (p *proofs) recordReply(member uint32, by proofReply, configuration func() []Member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if by.round > p.begunRound || by.round < p.lastReplies[member].round {
		return false
	}
	p.lastReplies[member] = by
	return p.completeIfProved(configuration)
}

// completeIfNowProved completes the round if its replies are enough in a changed configuration, and reports whether it
// did.
func (p *proofs) completeIfNowProved(configuration func() []Member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.completeIfProved(configuration)
}

func (p *proofs) forgetMember(member uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lastReplies, member)
}

// completeIfProved completes the round if a majority has replied, and reports whether it did.
func (p *proofs) completeIfProved(configuration func() []Member) bool {
	if p.doneRound == p.begunRound || !p.isProved(configuration()) {
		return false
	}
	p.doneRound = p.begunRound
	if p.nextWanted {
		p.nextWanted = false
		p.begunRound++
	}
	close(p.doneChanged)
	p.doneChanged = make(chan struct{})
	return true
}

func (p *proofs) isProved(members []Member) bool {
	voters, replies := 0, 0
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		if p.lastReplies[m.ID] == (proofReply{m.Disk, p.begunRound}) {
			replies++
		}
	}
	return replies > voters/2
}

func (p *proofs) newestRounds() (begun, done uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begunRound, p.doneRound
}

// isDone reports whether round is done, and returns a channel that is closed when that may have changed.
func (p *proofs) isDone(round uint64) (done bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doneRound >= round, p.doneChanged
}

// requestProofRound returns the number of a round that begins after the call: now, or when the round under way is done.
func (p *pinger) requestProofRound() uint64 {
	round, now := p.proofs.requestRound()
	if now {
		p.membership.wakeAll()
	}
	return round
}

// Sync serves the call of a member whose clients wait for a sync. It returns an index that is at or above everything that any member had
// acknowledged before the call: the last one on this member's disk. A follower may have committed by its own copy and this
// member's, of which this member has not heard yet. The caller waits until it has applied that index, and what has no
// majority yet is committed meanwhile. It returns after a proof round begun since the call, which proves that this leader knew of
// all that. It blocks as long as no majority replies.
//
// If this member and the caller are a majority of the voters, it returns at once, for the call is itself the reply to a
// round that began with it: see proofs. The caller was in this leader's term after its syncs had begun
// (follower.requestIndex), so it had voted for no later leader. This member is in that term now, when the index is known,
// so it has not voted for one either. disk is the caller's, by its connection, or 0.
//
// The leader has touched the request's sessions, except those that it is closing. So the reply proves to a client that
// its session lives for a whole timeout from when it sent the sync, by the leader's clock. A later leader hears of the sync from the
// caller itself, which knows the time of each request. If the caller is lost, it counts the caller's silence from the call at the earliest,
// because the call is a life sign as a pong is: see lostMembers.
//
// With the proof, the caller gets a lease for reads if it wants one: see package readlease. If it gives one back, there is no proof, and the
// reply has nothing.
func (l *Leader) Sync(ctx context.Context, request *proto.SyncRequest, disk uint64) (*proto.SyncReply, error) {
	if err := l.tenure.checkNonce(request.Nonce); err != nil {
		return nil, err
	}
	if last := request.GetReturnedLease(); last > 0 {
		l.cfg.Log.ReturnRead(l.cfg.Term, request.Member, disk, LeaseRequest{Boot: request.Boot, Number: last})
		return &proto.SyncReply{}, nil
	}
	reply, err := l.proveIndex(ctx, request, disk)
	if number := request.GetLeaseRequest(); err == nil && number > 0 {
		lease, index := l.cfg.Log.GrantRead(l.cfg.Term, request.Member, disk, LeaseRequest{Boot: request.Boot, Number: number})
		reply.LeaseUs, reply.LeaseIndex = uint64(lease.Microseconds()), index
	}
	return reply, err
}

// proveIndex returns the reply without a lease.
func (l *Leader) proveIndex(ctx context.Context, request *proto.SyncRequest, disk uint64) (*proto.SyncReply, error) {
	l.syncsAwaitingProof.Add(1)
	defer l.syncsAwaitingProof.Add(-1)
	applied, now := l.cfg.AppliedIndex(), l.cfg.Monotonic.Now()
	wasSilent := false // pings have named the caller as silent: the next pings must correct that before the caller gets its reply
	if l.membership.isMember(request.Member) && request.Boot != 0 {
		wasSilent = l.pinger.lost.heard(request.Member, request.Boot, now, applied) // before the round, whose pings pass it on
	}
	ending := l.expiry.touchSyncers(request.Sessions, now)
	index := l.cfg.Log.SettledIndex()
	if !wasSilent && l.membership.isMajorityWith(Member{ID: request.Member, Disk: disk}) { // read after the index
		return &proto.SyncReply{Index: index, Ending: ending}, nil
	}
	round := l.pinger.requestProofRound()
	for {
		done, changed := l.proofs.isDone(round)
		if done {
			return &proto.SyncReply{Index: index, Ending: ending}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-l.tenure.over:
			return nil, status.Errorf(codes.FailedPrecondition, "leader: term %d ended before its proof", l.cfg.Term)
		}
	}
}
