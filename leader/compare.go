package leader

import (
	"fmt"
	"sync"
	"time"

	"rollcall/proto"
)

// maxMarks is how many marks a member may answer with: a few times as many as any does.
const maxMarks = 64

// comparison finds the members whose state is not that of the others, by the digests with
// which they mark the same indexes of the log. A member's marks are of what it has applied,
// so at an equal index all should be equal, whoever led.
type comparison struct {
	self     uint32
	members  int           // of the ensemble
	patience time.Duration // how long those are waited for who have not reached an index

	mu       sync.Mutex
	marks    map[uint32]*proto.Marks // the newest of each member
	split    time.Time               // since when there are differences that no majority decides; zero: there are none
	verdicts map[uint32]*proto.Verdict
}

func (c *comparison) init(cfg *Config) {
	c.self, c.members = cfg.Self, len(cfg.Members)
	c.patience = time.Duration(cfg.SyncLimit) * cfg.Tick
	c.marks = make(map[uint32]*proto.Marks, c.members)
}

// forget drops a member's marks, and what was found with them: it may be another process of it from now on.
func (c *comparison) forget(member uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.marks, member)
	delete(c.verdicts, member)
}

// verdict returns what a member is to be told, nil if there is nothing to say against it.
func (c *comparison) verdict(member uint32) *proto.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdicts[member]
}

// report takes a member's marks, nil if it sent none, and compares them with those of the
// others. It returns the verdicts that are new.
func (c *comparison) report(member uint32, marks *proto.Marks, now time.Time) (fresh map[uint32]*proto.Verdict, err error) {
	if marks == nil {
		return nil, nil
	}
	if len(marks.Indexes) != len(marks.Digests) || len(marks.Indexes) > maxMarks {
		return nil, fmt.Errorf("leader: member %d sent %d marks with %d digests, want as many, and at most %d",
			member, len(marks.Indexes), len(marks.Digests), maxMarks)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks[member] = marks
	late := !c.split.IsZero() && now.Sub(c.split) >= c.patience
	verdicts, undecided := map[uint32]*proto.Verdict{}, false
	for index, marked := range c.byIndex() {
		open := decide(index, marked, c.self, c.members, late, verdicts)
		undecided = undecided || open
	}
	switch {
	case !undecided:
		c.split = time.Time{}
	case c.split.IsZero():
		c.split = now
	}
	fresh = map[uint32]*proto.Verdict{}
	for id, v := range verdicts {
		if c.verdicts[id] == nil {
			fresh[id] = v
		}
	}
	c.verdicts = verdicts
	return fresh, nil
}

// marked is what one member has at an index.
type marked struct {
	member uint32
	as     view
}

// view is what members have in common that agree.
type view struct {
	version uint32
	digest  uint64
}

// byIndex sorts the marks of all members by where they are.
func (c *comparison) byIndex() map[uint64][]marked {
	all := map[uint64][]marked{}
	for id, marks := range c.marks {
		for i, index := range marks.Indexes {
			all[index] = append(all[index], marked{id, view{marks.Version, marks.Digests[i]}})
		}
	}
	return all
}

// decide compares what members have at one index, and adds verdicts. Most of the ensemble
// are right if they agree; else the leader, self, and those who agree with it are, for one
// side has to go on. But a member that has not said anything could still make a majority:
// undecided until all have, which is not waited for if it is late. Digests of other versions say nothing of each
// other.
func decide(index uint64, all []marked, self uint32, members int, late bool, verdicts map[uint32]*proto.Verdict) (undecided bool) {
	agree := map[view]uint32{}
	var right view
	known := false
	for _, m := range all {
		if agree[m.as]++; m.member == self {
			right, known = m.as, true
		}
	}
	majority := false
	for as, n := range agree {
		if int(n) > members/2 {
			right, known, majority = as, true, true
		}
	}
	for _, m := range all {
		switch {
		case m.as.version != right.version || m.as.digest == right.digest || !known:
			continue
		case !majority && len(all) < members:
			if undecided = true; !late {
				continue
			}
		}
		verdicts[m.member] = &proto.Verdict{
			Index: index, Own: m.as.digest, Theirs: right.digest, Agree: agree[right], Members: uint32(members),
		}
	}
	return undecided
}

// compare takes the marks of an answer.
func (l *Leader) compare(m *link, marks *proto.Marks, now time.Time) error {
	fresh, err := l.compared.report(m.id, marks, now)
	for id, v := range fresh {
		l.log.Error("the state of a member is not that of the others", "member", id, "index", v.Index,
			"digest", fmt.Sprintf("%016x", v.Own), "others", fmt.Sprintf("%016x", v.Theirs), "agree", v.Agree)
	}
	return err
}
