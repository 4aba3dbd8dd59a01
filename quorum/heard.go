package quorum

import (
	"slices"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// heard is what other members tell a joining one of the ensemble; see hearing.
type heard struct {
	latest    indexed                // may not be committed
	committed indexed                // the newest one that is known to be committed: latest, or the one before it. No servers: not known
	answered  []uint32               // who has answered
	ends      map[uint32]disk.Extent // where the logs of those end that have data and do not join
}

// voters returns the servers that vote in the latest configuration.
func (h *heard) voters() []wire.Peer {
	return slices.DeleteFunc(slices.Clone(h.latest.servers), func(p wire.Peer) bool { return p.Observer })
}

// joinQuorum returns how many of the voters of the latest configuration must answer member self, if it joins. It may
// have voted before it lost its data. With so many answers, every majority to which its vote belonged has another
// member among those that answered. Its former self may have voted in a configuration that is one step further, which
// none of those that answer has yet, or in the one before. A majority meets those of all neighbours, also without this
// member's own vote in them.
//
// Of two voters, the other one is enough, with those that only vote in the configuration before: no configuration after
// theirs begins without its consent. While a recovered member is the only voter, its answer alone is enough, because
// no other member has been in a majority since.
func (h *heard) joinQuorum(self uint32) int {
	if h.otherVoter(self) != 0 && len(h.committed.servers) > 0 {
		return 1 + len(h.former())
	}
	return len(h.voters())/2 + 1
}

// otherVoter returns the other voter if the latest configuration has two, of which self is one, or else 0.
func (h *heard) otherVoter(self uint32) uint32 {
	switch voters := wire.Voters(h.latest.servers); {
	case len(voters) != 2:
		return 0
	case voters[0] == self:
		return voters[1]
	case voters[1] == self:
		return voters[0]
	}
	return 0
}

// former returns the servers that vote no more in the latest configuration. As long as that is not committed, a
// majority with one of them may have elected another leader, which has acknowledged writes.
func (h *heard) former() []wire.Peer {
	voters := h.voters()
	return slices.DeleteFunc(slices.Clone(h.committed.servers), func(p wire.Peer) bool {
		_, votes := find(voters, p.ID)
		return p.Observer || votes
	})
}

// hasAll reports whether a candidate has everything that was acknowledged without this member, although the latest
// configuration may not be committed: no former voter has a longer log.
func (h *heard) hasAll(candidate uint32) bool {
	return len(h.committed.servers) > 0 && !slices.ContainsFunc(h.former(), func(p wire.Peer) bool {
		end, known := h.ends[p.ID]
		return !known || h.ends[candidate].Before(end)
	})
}

// otherOfTwo reports whether the ensemble that this member joins has two voters, and a candidate is the other one.
// That one has everything that was acknowledged. A member that was removed before may lack some of it. The other one
// may lack it too if a nonvoter has become a voter without it. Every nonvoter comes in with the consent of both, so
// the other one knows of it, and the exception counts only if all nonvoters have answered: hearing has then seen the
// configuration in which one of them votes.
//
// The configuration of which this member has heard must say so, and so must that in its own log. The log may have an
// old one as long as this member is copying it. What this member has heard is old once it has copied a change. But these
// configurations in the log say no more than an empty log:
//
//   - one that is older than that of which this member has heard, if that is committed;
//   - one whose only voter is the candidate. If it is the newer one, nothing was committed since without the candidate.
func (n *Node) otherOfTwo(candidate uint32) bool {
	h := n.heard.Load()
	own := n.latest()
	if len(own.servers) > 0 && n.log.lastChange() == 0 {
		own.index = n.LastIndex() // it came with a snapshot, and is no newer than that
	}
	return h != nil && h.otherOfTwo(n.cfg.Self, candidate, own)
}

// otherOfTwo does that for member self. own is the configuration in its log, or none.
func (h *heard) otherOfTwo(self, candidate uint32, own indexed) bool {
	if !slices.Contains(h.answered, candidate) || !h.areTwo(h.latest.servers, self, candidate) || !h.hasAll(candidate) {
		return false
	}
	older := own.index < h.latest.index && h.latest.equal(h.committed)
	return older || len(own.servers) == 0 || slices.Equal(wire.Voters(own.servers), []uint32{candidate}) || h.areTwo(own.servers, self, candidate)
}

// areTwo reports whether a and b are the voters of a configuration, and all its nonvoters have answered.
func (h *heard) areTwo(servers []wire.Peer, a, b uint32) bool {
	voters := wire.Voters(servers)
	return len(voters) == 2 && slices.Contains(voters, a) && slices.Contains(voters, b) &&
		!slices.ContainsFunc(servers, func(p wire.Peer) bool { return p.Observer && !slices.Contains(h.answered, p.ID) })
}
