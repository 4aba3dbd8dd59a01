package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

const (
	// transferPoll is the interval at which a transfer checks whether leadership has been lost.
	transferPoll = 5 * time.Millisecond
	// transferTimeout limits a transfer to one member, in election timeouts of raft (leaseTimeout). raft gives up by then. It takes no
	// entries meanwhile, so it gets as much time for them before the next transfer.
	transferTimeout = 2
	// transferTriesPerElection is the number of times in one election timeout that ToAny searches for a transfer
	// target. A member that rejects leadership is tried half as often each time.
	transferTriesPerElection = 10
)

var (
	errDeclining        = errors.New("quorum: this member is about to stop and takes no leadership from others")
	errDiskHangs        = errors.New("quorum: this member's disk hangs, so it cannot store another term")
	errNoTransferTarget = errors.New("no other voter replies and has the whole log")
)

// leadershipRejection is the error of a member that has rejected this member's leadership.
type leadershipRejection struct {
	memberID uint32
	reason   error
}

// Transfer gives leadership to another member. It is safe for concurrent use.
type Transfer struct {
	status          *Status
	transport       *wire.Transport
	serverList      *serverList
	electionTimeout time.Duration
	runEnded        <-chan struct{} // closed when Node.Run is over

	inProgress    atomic.Int32 // transfers
	declining     atomic.Bool  // see Decline
	lastRejection atomic.Pointer[leadershipRejection]
}

// DeclineIncoming makes this member reject a leadership transfer. It can still be elected if it has to.
func (t *Transfer) DeclineIncoming() { t.declining.Store(true) }

// ToAny gives leadership to another member: the one with the longest log of those that reply to raft and have
// caught up, and if it does not take over, the others in turn. It tries until this member has lost leadership or
// ctx ends. It returns nil if this member does not lead, or is the only voter.
//
// It does not try a member that lacks entries from before the last try. raft would wait for that member's
// replication, which may be busy with a snapshot, and would take no entries during that unlimited wait.
func (t *Transfer) ToAny(ctx context.Context) error {
	tried, index := map[uint32]int{}, t.status.LastIndex()
	for {
		r := t.status.raft.Load()
		if !t.leadsOthers(r) {
			return nil
		}
		wait := t.electionTimeout / transferTriesPerElection
		to, err := t.nextTarget(tried, index)
		if err == nil {
			began := time.Now()
			if err = t.tryOnce(ctx, r, to); err == nil || errors.Is(err, ErrNotRunning) {
				return err
			}
			wait = t.pauseAfter(time.Since(began), tried[to.ID], errors.As(err, new(*leadershipRejection)))
			tried[to.ID]++
			index = t.status.LastIndex()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("quorum: hand over: %w", err)
		case <-t.runEnded:
			return ErrNotRunning
		case <-time.After(wait):
		}
	}
}

// pauseAfter returns how long this member takes entries before the next try, after one that took so long and in vain. A
// member that rejected leadership, before or now, is tried half as often each time. A rejection can also be a lost
// connection, of which this member learns late: the pause is at least as long as the try.
func (t *Transfer) pauseAfter(took time.Duration, triedBefore int, rejected bool) time.Duration {
	longest := transferTimeout * leaseTimeout(t.electionTimeout)
	if !rejected {
		return longest
	}
	pause := t.electionTimeout / transferTriesPerElection << min(triedBefore, transferTriesPerElection)
	return min(max(pause, took), longest)
}

// nextTarget returns, of the members that hold the log up to index and were tried the least often, the one with
// the longest log.
func (t *Transfer) nextTarget(tried map[uint32]int, index uint64) (target wire.Peer, err error) {
	best, targets := -1, t.possibleTargets()
	for _, id := range t.transport.LongestLogs(t.electionTimeout, index) {
		i := slices.IndexFunc(targets, func(p wire.Peer) bool { return p.ServerID() == id })
		if i < 0 || best >= 0 && tried[targets[i].ID] >= best {
			continue
		}
		target, best = targets[i], tried[targets[i].ID]
	}
	if best < 0 {
		return wire.Peer{}, errNoTransferTarget
	}
	return target, nil
}

// possibleTargets returns the other voters. It prefers those that keep their vote by the server list: the next
// leader should not be a leaving one.
func (t *Transfer) possibleTargets() []wire.Peer {
	peers := slices.DeleteFunc(t.status.Servers(),
		func(p wire.Peer) bool { return p.Observer || p.ID == t.status.selfPeer().ID })
	staying := slices.DeleteFunc(slices.Clone(peers), func(p wire.Peer) bool { return !t.serverList.wantsVote(p.ID) })
	if len(staying) > 0 {
		return staying
	}
	return peers
}

// ToMember gives leadership to a member, and waits until this member has lost leadership or ctx ends. It tries
// once. It fails if that member lags too far behind, or does not take leadership.
func (t *Transfer) ToMember(ctx context.Context, id uint32) error {
	peers := t.status.Servers()
	i := slices.IndexFunc(peers, func(p wire.Peer) bool { return p.ID == id && !p.Observer })
	if i < 0 {
		return fmt.Errorf("quorum: hand over: %d is not a voting member", id)
	}
	r := t.status.raft.Load()
	if !t.leadsOthers(r) {
		return nil
	}
	if err := t.tryOnce(ctx, r, peers[i]); err != nil {
		return fmt.Errorf("quorum: hand over: %w", err)
	}
	return nil
}

// leadsOthers reports whether this member leads and there are other voters.
func (t *Transfer) leadsOthers(r *raft.Raft) bool {
	return r != nil && r.State() == raft.Leader && len(voterServers(r)) > 1
}

func (r *leadershipRejection) Error() string {
	return fmt.Sprintf("member %d: %v", r.memberID, r.reason)
}

func (t *Transfer) tryOnce(ctx context.Context, r *raft.Raft, to wire.Peer) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout*leaseTimeout(t.electionTimeout)) // raft gives up by then
	defer cancel()
	t.inProgress.Add(1) // raft may be waiting for a request that is held
	defer t.inProgress.Add(-1)
	before := t.lastRejection.Load()
	// its future is not awaited: raft drops it if it stops first
	r.LeadershipTransferToServer(to.ServerID(), to.ServerAddress())
	ticker := time.NewTicker(transferPoll)
	defer ticker.Stop()
	for r.State() == raft.Leader {
		select {
		case <-ticker.C:
		case <-t.runEnded:
			return ErrNotRunning
		case <-ctx.Done():
			return fmt.Errorf("to member %d: %w", to.ID, ctx.Err())
		}
		if d := t.lastRejection.Load(); d != before && d.memberID == to.ID && r.State() == raft.Leader {
			return d
		}
	}
	return nil
}

// isStableLeaderIn reports whether raft leads in term and is not handing leadership over.
func (t *Transfer) isStableLeaderIn(term uint64) bool {
	return t.inProgress.Load() == 0 && t.status.isLeaderIn(term)
}

// mayAcceptLeadership returns nil if this member accepts a leadership transfer, or the reason.
func (t *Transfer) mayAcceptLeadership() error {
	switch {
	case t.declining.Load():
		return errDeclining
	case t.status.disk.Durability().Delay().Write > t.electionTimeout:
		return errDiskHangs
	}
	return nil
}

// noteRejection records that a member has rejected this member's leadership.
func (t *Transfer) noteRejection(by raft.ServerID, reason error) {
	t.lastRejection.Store(&leadershipRejection{wire.MemberID(by), reason})
}
