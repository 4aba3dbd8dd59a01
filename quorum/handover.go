package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

const (
	// handOverPoll is how often a hand-over checks whether leadership has been lost.
	handOverPoll = 5 * time.Millisecond
	// handOverElections is how many election timeouts a hand-over to one member may take. raft gives
	// up by then. It takes no entries meanwhile, so it gets as much time for them before the next
	// hand-over.
	handOverElections = 2
	// asksPerElection is how often within one election timeout HandOver looks for a member to hand over
	// to. A member that refuses is asked half as often each time.
	asksPerElection = 10
)

var (
	errDeclining = errors.New("quorum: this member is about to stop and takes no leadership from others")
	errNobody    = errors.New("no other voting member answers and has the log up to here")
)

// refusal is what a member answered to which this one handed leadership over.
type refusal struct {
	by  uint32
	why error
}

// Decline makes this member refuse the leadership that others hand over to it. It can still be
// elected if it has to.
func (n *Node) Decline() { n.declining.Store(true) }

// HandOver gives leadership to another member: to the one whose log is longest of those that answer
// raft and have caught up, and if it does not take over, to the others by turns. It tries until this member has lost
// leadership or ctx ends. It returns nil if this member does not lead, or is the only voter.
//
// It does not try a member that lacks entries from before the last try. raft would wait for that member's
// replication, which may be away sending a snapshot, and would take no entries before the end of that wait,
// which is not bounded.
func (n *Node) HandOver(ctx context.Context) error {
	tried, index := map[uint32]int{}, n.status.LastIndex()
	for {
		r := n.status.raft.Load()
		if !n.leadsOthers(r) {
			return nil
		}
		wait := n.election / asksPerElection
		to, err := n.heir(tried, index)
		if err == nil {
			if err = n.handOver(ctx, r, to); err == nil || errors.Is(err, ErrNotRunning) {
				return err
			}
			if wait <<= min(tried[to.ID], asksPerElection); !errors.As(err, new(declined)) {
				wait = handOverElections * n.election
			}
			tried[to.ID]++
			index = n.status.LastIndex()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("quorum: hand over: %w", err)
		case <-n.stopped:
			return ErrNotRunning
		case <-time.After(min(wait, handOverElections*n.election)):
		}
	}
}

// heir returns the member to hand over to: of those that hold the log up to an index and were tried the
// least often, the one with the longest log.
func (n *Node) heir(tried map[uint32]int, index uint64) (heir wire.Peer, err error) {
	best, heirs := -1, n.heirs()
	for _, id := range n.trans.Longest(n.election, index) {
		i := slices.IndexFunc(heirs, func(p wire.Peer) bool { return p.ServerID() == id })
		if i < 0 || best >= 0 && tried[heirs[i].ID] >= best {
			continue
		}
		heir, best = heirs[i], tried[heirs[i].ID]
	}
	if best < 0 {
		return wire.Peer{}, errNobody
	}
	return heir, nil
}

// heirs returns the other voters. If the server list wants some of them to vote, only those are returned: the
// next leader should not be one that is to go.
func (n *Node) heirs() []wire.Peer {
	peers := slices.DeleteFunc(n.status.Servers(), func(p wire.Peer) bool { return p.Observer || p.ID == n.cfg.Self })
	staying := slices.DeleteFunc(slices.Clone(peers), func(p wire.Peer) bool { return !n.list.wantsVote(p.ID) })
	if len(staying) > 0 {
		return staying
	}
	return peers
}

// HandOverTo gives leadership to a member, and waits until this member has lost leadership or ctx
// ends. It tries once. It fails if that member lags too far behind, or does not take leadership.
func (n *Node) HandOverTo(ctx context.Context, id uint32) error {
	peers := n.status.Servers()
	i := slices.IndexFunc(peers, func(p wire.Peer) bool { return p.ID == id && !p.Observer })
	if i < 0 {
		return fmt.Errorf("quorum: hand over: %d is not a voting member", id)
	}
	r := n.status.raft.Load()
	if !n.leadsOthers(r) {
		return nil
	}
	if err := n.handOver(ctx, r, peers[i]); err != nil {
		return fmt.Errorf("quorum: hand over: %w", err)
	}
	return nil
}

// leadsOthers reports whether this member leads and there are other voters.
func (n *Node) leadsOthers(r *raft.Raft) bool {
	return r != nil && r.State() == raft.Leader && len(voters(r)) > 1
}

// declined is the error of a hand-over that the member has refused.
type declined struct{ refusal }

func (d declined) Error() string { return fmt.Sprintf("member %d: %v", d.by, d.why) }

func (n *Node) handOver(ctx context.Context, r *raft.Raft, to wire.Peer) error {
	ctx, cancel := context.WithTimeout(ctx, handOverElections*n.election) // raft gives up by then
	defer cancel()
	n.handing.Add(1) // raft may be waiting for a request that is held
	defer n.handing.Add(-1)
	before := n.declined.Load()
	r.LeadershipTransferToServer(to.ServerID(), to.ServerAddress()) // its future is not awaited: raft drops it if it stops first
	ticker := time.NewTicker(handOverPoll)
	defer ticker.Stop()
	for r.State() == raft.Leader {
		select {
		case <-ticker.C:
		case <-n.stopped:
			return ErrNotRunning
		case <-ctx.Done():
			return fmt.Errorf("to member %d: %w", to.ID, ctx.Err())
		}
		if d := n.declined.Load(); d != before && d.by == to.ID && r.State() == raft.Leader {
			return declined{*d}
		}
	}
	return nil
}

// leadsIn reports whether raft leads in term and is not handing leadership over.
func (n *Node) leadsIn(term uint64) bool { return n.handing.Load() == 0 && n.status.leadsIn(term) }
