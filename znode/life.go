package znode

import (
	"cmp"
	"math"
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// life says how a node may end other than by a client's delete. The zero value is that of a plain
// node; at most one field is set.
type life struct {
	owner     jute.SessionID // the session of an ephemeral node
	ttl       int64          // ms
	container bool
}

// life returns how n may end.
func (n *node) life() life {
	if n.plain() {
		return life{}
	}
	return life{owner: n.owner, ttl: n.reaping.ttl(), container: n.reaping == ofContainer}
}

// setLife sets how n may end. n must be of the present generation.
func (n *node) setLife(l life) {
	if l != (life{}) || !n.plain() {
		f := n.found()
		f.owner, f.reaping = l.owner, reaping(l.ttl)
		if l.container {
			f.reaping = ofContainer
		}
	}
}

// ttl returns the time to live that r has, or 0 if it has none.
func (r reaping) ttl() int64 {
	if r == ofContainer {
		return 0
	}
	return int64(r)
}

// reapable reports whether the reaper may ever remove n.
func (n *node) reapable() bool { return !n.plain() && n.reaping != 0 }

// Candidate is a node without children that the reaper may remove, now or later. The zero value
// comes before all candidates.
type Candidate struct {
	Path  string
	class candidacy
	at    int64 // ms since 1970
}

// candidacy is the reason why a node is a candidate.
type candidacy uint8

const (
	emptied   candidacy = iota + 1 // a container that lost its last child; at is 0, it is due
	outdated                       // a node with a TTL; due at the time at
	neverUsed                      // a container that never had a child, last changed at the time at
)

// cause returns what the removal of such a candidate is due to.
func (c candidacy) cause() Cause {
	if c == outdated {
		return TimeOver
	}
	return Unused
}

func (c Candidate) compare(d Candidate) int {
	return cmp.Or(cmp.Compare(c.class, d.class), cmp.Compare(c.at, d.at), strings.Compare(c.Path, d.Path))
}

// candidacy returns the place of n among the candidates, and false if it has none.
func (n *node) candidacy() (Candidate, bool) {
	switch {
	case !n.reapable() || n.children.n > 0:
		return Candidate{}, false
	case n.reaping.ttl() != 0:
		return Candidate{Path: n.path, class: outdated, at: end(n.mtime, n.reaping.ttl())}, true
	case n.creates > 0:
		return Candidate{Path: n.path, class: emptied}, true
	}
	return Candidate{Path: n.path, class: neverUsed, at: n.mtime}, true
}

// end returns from + ms, or the largest possible time if the sum overflows.
func end(from, ms int64) int64 {
	if from > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return from + ms
}

// recast runs change, then updates n's place among the candidates if the change affected it. n must
// be of generation gen. For a container or a node with a TTL this costs two changes of a sorted
// map. For other nodes it costs one comparison.
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

// Reapable returns up to limit candidates after the given one that are due at the time now, in ms
// since 1970. An empty result means that there are no more. The cost is in proportion to the number
// of results. A container that never had a child is due if it was last changed more than
// neverUsedMs ago. If neverUsedMs is 0, it is never due. The caller holds at least the read lock.
func (s *State) Reapable(now, neverUsedMs int64, after Candidate, limit int) []Candidate {
	var due []Candidate
	from := after
	for len(due) < limit {
		skipped := false
		for c := range s.candidates.from(from) {
			if c == after {
				continue
			}
			if !c.due(now, neverUsedMs) { // the candidates after c in its class are not due either
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

// reap removes a node that the leader took for due, provided it is due now. Since the leader
// looked, the node may have got a child, or been changed, deleted or created again; reap then does
// nothing.
func (t *transaction) reap() {
	var req proto.Reap
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	n := t.state.get(req.GetPath())
	if n == nil {
		return
	}
	c, ok := n.candidacy()
	if !ok || !c.due(t.state.now, req.GetNeverUsedMs()) {
		return
	}
	t.take()
	t.remove(n)
	t.remember(Removal{Cause: c.class.cause()})
}
