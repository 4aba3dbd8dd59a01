package znode

import (
	pb "google.golang.org/protobuf/proto"

	"rollcall/jute"
	"rollcall/proto"
)

const (
	// endAtOnce is how many ephemeral nodes go with their session's end, in one transaction.
	// Everybody waits meanwhile, some 3 ms where three members share two processors (10,000
	// took 13 ms, six times what a write takes else).
	endAtOnce = 2_000

	// stepsFormat is the first Entry.format in which more of them go in steps.
	stepsFormat = 2
)

// Unswept reports whether ended sessions have left nodes. The caller holds the lock at
// least to read.
func (s *State) Unswept() bool { return s.unswept.n > 0 }

// sweep removes some nodes of the first session, by id, that ended and left any. The leader
// proposes it as long as there are such sessions. To everybody the nodes are as any
// others until then: they may be read, watched, changed and deleted.
func (s *State) sweep(txn *proto.Txn, r *Result) {
	var req proto.Sweep
	if err := pb.Unmarshal(txn.GetBody(), &req); err != nil {
		r.Code = jute.MarshallingError
		return
	}
	key, ok := s.unswept.first()
	if !ok {
		return
	}
	s.take()
	id := jute.SessionID(key)
	s.removeOwned(id, int(req.GetNodes()))
	last := len(s.owned(id, 1)) == 0
	if last {
		s.unswept.drop(s.gen.Load(), key)
	}
	s.fire()
	s.obs.Swept(id, last)
}

// removeOwned removes up to limit of a session's ephemeral nodes, in the order of their
// paths.
func (s *State) removeOwned(id jute.SessionID, limit int) {
	paths := s.owned(id, limit)
	for _, path := range paths {
		s.remove(s.get(path))
	}
}

// unsweptIDs returns the sessions that ended and left nodes, in order.
func (c *content) unsweptIDs() (ids []jute.SessionID) {
	for key := range c.unswept.all() {
		ids = append(ids, jute.SessionID(key))
	}
	return ids
}
