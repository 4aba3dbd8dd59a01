package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// raft's configuration says who votes, and to whom the leader sends the log. It follows the server list
// (Config.Wanted) one change at a time. Nothing is stored about a change that is under way: the leader
// compares the two, and a new leader does the same. raft takes a change only after the one before is
// committed, and majorities of configurations that are one change apart share a member.

const (
	// followInterval is how often a leader looks for what its configuration lacks.
	followInterval = askInterval
	// replacementWait is how long a voter that is to leave stays so that the one in its place can come in first. A
	// member that is there comes in within a few rounds. One that cannot ask the leaving one comes in only after it.
	replacementWait = 5 * askTimeout
	// handOverTries is how many election timeouts a leader that is to leave tries to hand over, before it looks at
	// the list again.
	handOverTries = 10
)

// followLoop changes raft's configuration towards the server list while this member leads.
func (n *Node) followLoop(ctx context.Context, r *raft.Raft) {
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	f := follow{n: n, r: r, warned: map[uint32]bool{}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-n.wanted:
		}
		for again := true; again && ctx.Err() == nil; {
			if err := n.noteFollowed(r); err != nil {
				n.fatal(err)
				return
			}
			again = r.State() == raft.Leader && f.step(ctx)
		}
	}
}

// follow is the data of followLoop.
type follow struct {
	n      *Node
	r      *raft.Raft
	warned map[uint32]bool // rivals that were logged
	told   string          // what was logged last
	term   uint64          // the term and the list of the last step
	want   []wire.Peer
	ends   [2]uint64 // where this member's log ended at the two last looks that are half an election timeout apart
	at     time.Time // of the last one
}

// step makes one change, if there is one to make that is possible now. It reports whether it did.
func (f *follow) step(ctx context.Context) bool {
	if f.n.cfg.Wanted != nil && f.n.fsm.term.Load() != f.r.CurrentTerm() {
		return false // until an entry of this term has been applied, the list may be an old one
	}
	have, want := f.n.Configuration(), f.n.wantedPeers()
	if slices.Equal(have, want) {
		f.told, f.n.few = "", time.Time{}
		return false
	}
	if term := f.r.CurrentTerm(); term != f.term || !slices.Equal(want, f.want) {
		f.term, f.want, f.n.few = term, want, time.Time{}
	}
	answers := f.n.askAll(ctx)
	if err := f.n.checkRivals(f.r, answers, f.warned); err != nil {
		f.n.fatal(err)
		return false
	}
	next := f.n.nextChange(have, want, answers, f.caughtUp())
	if next.waits != "" && next.waits != f.told {
		f.told = next.waits
		f.n.logger.Info("the configuration does not follow the server list yet", "waiting", next.waits)
	}
	if next.change == nil {
		return false
	}
	if err := next.change(ctx, f); err != nil {
		f.n.logger.Info("a step towards the server list was not made; this member will try again", "step", next.what, "err", err)
		return false
	}
	f.n.few = time.Time{}
	f.n.logger.Info("a step towards the server list was made", "step", next.what)
	return true
}

// mayShrink reports whether a voter may leave although nobody votes in its place yet: because the one that is to come
// needs its address, or cannot ask it, as it seems after a while. More than half of the voters of the list must remain
// all the same, so that one disk never has what three should have. A list of two has no such half.
func (n *Node) mayShrink(have, want []wire.Peer, leaving wire.Peer) bool {
	remain, all := len(wire.Voters(have))-1, len(wire.Voters(want))
	return (all <= 2 || remain > all/2) && (occupied(want, leaving) != 0 || n.waitedForVoters())
}

// waitedForVoters reports whether a voter that is to leave has stayed for long enough, and begins to count if none
// has waited before. Only followLoop calls it.
func (n *Node) waitedForVoters() bool {
	if n.few.IsZero() {
		n.few = time.Now()
	}
	return time.Since(n.few) >= replacementWait
}

// caughtUp returns the ids of the members that have answered raft lately, and whose logs went as far as this
// member's did at least half an election timeout ago: members answer heartbeats several times in that time, and the
// log of a busy ensemble goes on meanwhile.
func (f *follow) caughtUp() []uint32 {
	now, ends := time.Now(), f.n.LastIndex()
	if f.ends[1] == 0 {
		f.ends[0], f.ends[1], f.at = ends, ends, now
	} else if now.Sub(f.at) >= f.n.election/2 {
		f.ends[0], f.ends[1], f.at = f.ends[1], ends, now
	}
	return f.n.trans.Longest(f.n.election, f.ends[0])
}

// change is the next change of the configuration. waits says what it, or a later one, waits for.
type change struct {
	what   string
	change func(ctx context.Context, f *follow) error // nil: there is none now
	waits  string
}

// nextChange returns the first change of those from have to want that is possible: members that answer are
// taken in, then become voters once they have the log, then addresses change, and members stop voting or leave
// at last. A change is not made if the voters after it that can be reached are no majority. caught has the
// members whose logs go as far as this member's did when the round began.
func (n *Node) nextChange(have, want []wire.Peer, answers map[uint32]*proto.HelloReply, caught []uint32) change {
	var waits string
	for _, kind := range []func() (change, bool){
		func() (change, bool) { return n.addition(have, want, answers) },
		func() (change, bool) { return n.promotion(have, want, answers, caught) },
		func() (change, bool) { return n.move(have, want, answers) },
		func() (change, bool) { return n.departure(have, want, answers) },
	} {
		next, goesOn := kind()
		if waits == "" {
			waits = next.waits
		}
		if next.change != nil || !goesOn {
			next.waits = waits
			return next
		}
	}
	return change{waits: waits}
}

// addition takes a member in that answers, and that either has joined or has this ensemble's data. It does
// not vote yet.
func (n *Node) addition(have, want []wire.Peer, answers map[uint32]*proto.HelloReply) (next change, goesOn bool) {
	for _, p := range want {
		a := answers[p.ID]
		if _, in := find(have, p.ID); in || a.GetRecovery() != n.Recovery() || !a.GetJoining() && !n.ours(a) {
			continue
		}
		if holder := occupied(have, p); holder != 0 {
			next.waits = fmt.Sprintf("member %d, until the address of member %d is free", p.ID, holder)
			continue
		}
		p.Observer = true
		return n.put(fmt.Sprintf("member %d comes in", p.ID), p), true
	}
	return next, true
}

// ours reports whether a member that answers has data of this ensemble.
func (n *Node) ours(a *proto.HelloReply) bool {
	own := n.cfg.Book.Ensemble()
	return a.GetHasData() && own != wire.EnsembleID{} && ensembleOf(a) == own
}

// occupied returns the other member that has the address of p in a configuration, or 0. raft takes no address twice.
func occupied(have []wire.Peer, p wire.Peer) uint32 {
	for _, h := range have {
		if h.Addr == p.Addr && h.ID != p.ID {
			return h.ID
		}
	}
	return 0
}

// promotion makes a member a voter that has the log.
func (n *Node) promotion(have, want []wire.Peer, answers map[uint32]*proto.HelloReply, caught []uint32) (next change, goesOn bool) {
	var ready []wire.Peer
	for _, p := range want {
		h, in := find(have, p.ID)
		switch a := answers[p.ID]; {
		case p.Observer || !in || !h.Observer || p.ID != n.cfg.Self && a == nil:
		case p.ID != n.cfg.Self && (!a.GetCaughtUp() || !slices.Contains(caught, p.ID)):
			next.waits = fmt.Sprintf("member %d, which is catching up", p.ID)
		default:
			h.Observer = false
			ready = append(ready, h)
		}
	}
	if voters := wire.Voters(want); n.Recovery() != 0 && len(wire.Voters(have)) == 1 && 1+len(ready) <= len(voters)/2 {
		ready = nil // less than a majority of the list's voters is less safe than the one that was recovered
	}
	if len(ready) > 0 {
		return n.put(fmt.Sprintf("member %d votes", ready[0].ID), ready[0]), true
	}
	return next, next.waits == "" // while a new voter is catching up, no voter leaves
}

// move changes the address of a member.
func (n *Node) move(have, want []wire.Peer, answers map[uint32]*proto.HelloReply) (next change, goesOn bool) {
	for _, p := range want {
		h, in := find(have, p.ID)
		if !in || h.Addr == p.Addr {
			continue
		}
		if holder := occupied(have, p); holder != 0 {
			next.waits = fmt.Sprintf("member %d, until the address of member %d is free", p.ID, holder)
			continue
		}
		if !h.Observer && answers[p.ID] == nil && p.ID != n.cfg.Self && !n.commits(have, p.ID) {
			next.waits = fmt.Sprintf("member %d at %s, without which there is no majority", p.ID, p.Addr)
			continue
		}
		p.Observer = h.Observer
		return n.put(fmt.Sprintf("member %d is at %s", p.ID, p.Addr), p), true
	}
	return next, true
}

// departure makes a member stop voting, or removes it. This member hands leadership over before that.
func (n *Node) departure(have, want []wire.Peer, answers map[uint32]*proto.HelloReply) (next change, goesOn bool) {
	for _, h := range have {
		w, stays := find(want, h.ID)
		if stays && (h.Observer || !w.Observer) {
			continue
		}
		switch {
		case h.Observer:
		case !n.majority(have, h.ID, answers):
			next.waits = fmt.Sprintf("a majority without member %d", h.ID)
			continue
		case len(wire.Voters(have)) <= len(wire.Voters(want)) && !n.mayShrink(have, want, h):
			next.waits = fmt.Sprintf("a voter in place of member %d", h.ID)
			continue
		}
		if h.ID == n.cfg.Self && !h.Observer {
			return change{what: fmt.Sprintf("member %d hands leadership over before it leaves or stops voting", h.ID), change: func(ctx context.Context, _ *follow) error {
				ctx, cancel := context.WithTimeout(ctx, handOverTries*n.election)
				defer cancel()
				return n.HandOver(ctx)
			}}, true
		}
		what := fmt.Sprintf("member %d leaves", h.ID)
		if stays {
			what = fmt.Sprintf("member %d votes no more", h.ID)
		}
		return change{what: what, change: func(ctx context.Context, f *follow) error {
			remove := f.r.RemoveServer
			if stays {
				remove = f.r.DemoteVoter
			}
			return await(ctx, func() raft.IndexFuture { return remove(h.ServerID(), 0, n.election) })
		}}, true
	}
	return next, true
}

// majority reports whether the voters without one can be reached as a majority of themselves. A voter that joins, because
// it has lost its disk, does not count, nor does one that does not say whether it joins: it elects nobody before it has
// caught up, so a leader that is lost meanwhile might never be replaced.
func (n *Node) majority(have []wire.Peer, without uint32, answers map[uint32]*proto.HelloReply) bool {
	voters := slices.DeleteFunc(wire.Voters(have), func(id uint32) bool { return id == without })
	there := slices.DeleteFunc(append(n.Reached(n.election), n.cfg.Self), func(id uint32) bool {
		a := answers[id]
		return !slices.Contains(voters, id) || id != n.cfg.Self && (a == nil || a.GetJoining())
	})
	return len(there) > len(voters)/2
}

// commits reports whether the voters without one can be reached as a majority of all voters.
func (n *Node) commits(have []wire.Peer, without uint32) bool {
	voters := wire.Voters(have)
	there := slices.DeleteFunc(append(n.Reached(n.election), n.cfg.Self), func(id uint32) bool { return id == without || !slices.Contains(voters, id) })
	return len(there) > len(voters)/2
}

// put returns the change that gives a server in the configuration its role and address.
func (n *Node) put(what string, p wire.Peer) change {
	return change{what: what, change: func(ctx context.Context, f *follow) error {
		add := f.r.AddVoter
		if p.Observer {
			add = f.r.AddNonvoter
		}
		return await(ctx, func() raft.IndexFuture {
			return add(p.ServerID(), raft.ServerAddress(p.Addr), 0, n.election)
		})
	}}
}

func find(peers []wire.Peer, id uint32) (wire.Peer, bool) {
	i := slices.IndexFunc(peers, func(p wire.Peer) bool { return p.ID == id })
	if i < 0 {
		return wire.Peer{}, false
	}
	return peers[i], true
}

// await makes one change and waits for its outcome.
func await(ctx context.Context, change func() raft.IndexFuture) error {
	outcome := make(chan error, 1)
	go func() { outcome <- change().Error() }() // raft ends it with the term, or when it stops
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// votes reports whether this member is a voter of its own configuration.
func (n *Node) votes(r *raft.Raft) bool {
	return slices.Contains(voters(r), n.self().ServerID())
}

// voters returns the voters in raft's latest configuration.
func voters(r *raft.Raft) (ids []raft.ServerID) {
	for _, s := range r.GetConfiguration().Configuration().Servers { // does not wait
		if s.Suffrage == raft.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
