package wire

import "github.com/hashicorp/raft"

// A follower commits by the leader's word. Among at most three voters, two copies are a majority. So a follower that has
// an entry of the leader's term on its disk, and knows that the leader's disk has it too, knows what raft's leader would
// know one message later: the entry is committed. The leader therefore reports its durable index as the commit index.
// The follower checks the request as any other, and accepts it only if it has stored the entries up to the last one in
// the request. It commits a round trip sooner than by the leader's count. The leader itself counts as before, and
// nothing on it may take its own commit index for the last one that a client has seen: see Status.SettledIndex.

// maxEarlyCommitVoters is the number of voters of which two are a majority.
const maxEarlyCommitVoters = 3

// earlyCommitTo returns the index up to which a server commits once it has accepted req, or 0. This is the last entry in req or,
// if that is lower, the last one on this member's disk. The conditions are those of raft's own commit, applied where the
// second copy is:
//
//   - The last entry in req is of the leader's term. So is the last durable one before it: the first entry of a term is on
//     the disk before it is sent (logQueue.mayQueue).
//   - The configuration has at most three voters, this member and the server among them. While a configuration is not
//     committed, there is no word, so it does not matter which of two counts.
//   - Everybody else who may have a lease for reads holds the entries: see Releases.
//   - raft is in the term of req when all that has been read, so log and configuration were not another leader's.
func (t *Transport) earlyCommitTo(id raft.ServerID, req *raft.AppendEntriesRequest) uint64 {
	r, last := t.cfg.Raft(), continueAfter(req)
	if r == nil || last.PrevLogTerm != req.Term || !t.cfg.ConfigurationCommitted() {
		return 0
	}
	index := t.cfg.Durability.LimitToDurable(last.PrevLogEntry)
	if !areMajority(r.GetConfiguration().Configuration(), t.cfg.LocalServer.ServerID(), id) {
		return 0
	}
	index = t.cfg.Releases.LimitEarlyCommit(id, req.Term, index)
	if r.CurrentTerm() != req.Term { // read last: see logPosition
		return 0
	}
	return index
}

// areMajority reports whether two servers are voters of c, and a majority of its voters.
func areMajority(c raft.Configuration, one, other raft.ServerID) bool {
	return one != other && isVoter(c, one) && isVoter(c, other) && countVoters(c) <= maxEarlyCommitVoters
}

func countVoters(c raft.Configuration) (n int) {
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}
