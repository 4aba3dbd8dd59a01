package znode

import (
	"cmp"
	"math"
	"strings"

	"rollcall/jute"
	"rollcall/proto"

	pb "google.golang.org/protobuf/proto"
)

// life is how a node may end without being deleted. The zero value is that of a plain
// node; at most one field is set.
type life struct {
	owner     jute.SessionID // ephemeral
	ttl       int64          // ms
	container bool
}

// life returns how n may end.
func (n *node) life() life {
	if n.family == nil {
		return life{owner: n.owner}
	}
	return life{owner: n.owner, ttl: n.ttl, container: n.container}
}

// setLife says how n, which may be changed, may end.
func (n *node) setLife(l life) {
	n.owner = l.owner
	if l.ttl != 0 || l.container || n.family != nil {
		f := n.found()
		f.ttl, f.container = l.ttl, l.container
	}
}

// reapable reports whether the reaper may ever remove n.
func (n *node) reapable() bool { return n.family != nil && (n.container || n.ttl != 0) }

// Candidate is a node without children that the reaper may remove, now or at a time to
// come. The zero value stands before all.
type Candidate struct {
	Path  string
	class candidacy
	at    int64 // ms since 1970
}

// candidacy is what makes a node a candidate.
type candidacy uint8

const (
	emptied   candidacy = iota + 1 // a container whose last child has gone; at is 0: it is due
	outdated                       // due at the time at, when its time to live is over
	neverUsed                      // a container without a child ever, last changed at
)

func (c Candidate) compare(d Candidate) int {
	return cmp.Or(cmp.Compare(c.class, d.class), cmp.Compare(c.at, d.at), strings.Compare(c.Path, d.Path))
}

// candidacy returns the place of n among the candidates, false if it has none.
func (n *node) candidacy() (Candidate, bool) {
	switch {
	case !n.reapable() || n.children.n > 0:
		return Candidate{}, false
	case n.ttl != 0:
		return Candidate{Path: n.path, class: outdated, at: end(n.mtime, n.ttl)}, true
	case n.creates > 0:
		return Candidate{Path: n.path, class: emptied}, true
	}
	return Candidate{Path: n.path, class: neverUsed, at: n.mtime}, true
}

// end is from + ms, but no later than times go.
func end(from, ms int64) int64 {
	if from > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return from + ms
}

// recast does change, which may move n, of generation gen, among the candidates. For all
// but containers and nodes with a TTL that costs a comparison; for these, two changes of
// a sorted map.
func (t *tree) recast(gen uint64, n *node, change func()) {
	if !n.reapable() {
		change()
		return
	}
	before, was := n.candidacy()
	change()
	after, is := n.candidacy()
	if was == is && before == after {
		return
	}
	if was {
		t.candidates.drop(gen, before)
	}
	if is {
		t.candidates.put(gen, after, struct{}{})
	}
}

// Reapable returns up to limit nodes behind after that are due at the time now, in ms
// since 1970, at a cost in proportion to their number; none means that there are no more.
// A container that never had a child is due if it was last changed more than neverUsedMs
// ago; 0: it never is. The caller holds the lock at least to read.
func (s *State) Reapable(now, neverUsedMs int64, after Candidate, limit int) []Candidate {
	var due []Candidate
	from := after
	for len(due) < limit {
		skipped := false
		for c := range s.candidates.from(from) {
			if c == after {
				continue
			}
			if !c.due(now, neverUsedMs) { // nor is what follows in its class
				from, skipped = Candidate{class: c.class + 1}, true
				break
			}
			if due = append(due, c); len(due) == limit {
				break
			}
		}
		if !skipped {
			break
		}
	}
	return due
}

func (c Candidate) due(now, neverUsedMs int64) bool {
	switch c.class {
	case emptied:
		return true
	case outdated:
		return c.at <= now
	default:
		return neverUsedMs > 0 && end(c.at, neverUsedMs) < now
	}
}

// reap removes a node that the leader thought due, if it is due now: it may have got a
// child or been changed, deleted or made anew since. Else it does nothing.
func (s *State) reap(txn *proto.Txn, r *Result) {
	var req proto.Reap
	if err := pb.Unmarshal(txn.GetBody(), &req); err != nil {
		r.Code = jute.MarshallingError
		return
	}
	n := s.get(req.GetPath())
	if n == nil {
		return
	}
	if c, ok := n.candidacy(); !ok || !c.due(s.now, req.GetNeverUsedMs()) {
		return
	}
	s.take()
	s.remove(n)
}
