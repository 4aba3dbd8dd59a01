package leader

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
)

// maxStateHashes limits the hashes in a reply: a few times as many as any member sends.
const maxStateHashes = 64

// comparison finds the members whose state differs from the others' states. It compares the digests of the
// members' states at the same indexes of the log, which should be equal, whichever member led. Observers and
// members that are still joining are compared too, but a majority is one of the voters.
type comparison struct {
	self             uint32
	undecidedTimeout time.Duration // longest wait for voters whose hashes could still decide a difference

	mu             sync.Mutex
	stateHashes    map[uint32]*proto.StateHashes // by member: the hashes in its last reply that had some
	undecidedSince time.Time                     // zero if no difference waits for further voters
	verdicts       map[uint32]*proto.Verdict
}

func newComparison(cfg *Config) *comparison {
	return &comparison{
		self: cfg.Self, undecidedTimeout: time.Duration(cfg.SyncLimit) * cfg.Tick, stateHashes: make(map[uint32]*proto.StateHashes),
	}
}

// forgetMember drops a member's hashes and verdict, because its next hashes may come from another process.
func (c *comparison) forgetMember(member uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stateHashes, member)
	delete(c.verdicts, member)
}

// verdictFor returns the verdict to send to a member, or nil.
func (c *comparison) verdictFor(member uint32) *proto.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdicts[member]
}

// updateVerdicts records a member's hashes, unless they are nil, and compares them with the others' hashes. It
// returns the verdicts that are new.
func (c *comparison) updateVerdicts(member uint32, marks *proto.StateHashes, voters []uint32,
	now time.Time,
) (fresh map[uint32]*proto.Verdict, err error) {
	if marks == nil {
		return nil, nil
	}
	if len(marks.Indexes) != len(marks.Digests) || len(marks.Indexes) > maxStateHashes {
		return nil, fmt.Errorf("leader: member %d sent %d marks with %d digests, want as many, and at most %d",
			member, len(marks.Indexes), len(marks.Digests), maxStateHashes)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stateHashes[member] = marks
	late := !c.undecidedSince.IsZero() && now.Sub(c.undecidedSince) >= c.undecidedTimeout
	verdicts, undecided := map[uint32]*proto.Verdict{}, false
	for index, marked := range c.hashesByIndex() {
		open := addVerdictsAt(index, marked, c.self, voters, late, verdicts)
		undecided = undecided || open
	}
	switch {
	case !undecided:
		c.undecidedSince = time.Time{}
	case c.undecidedSince.IsZero():
		c.undecidedSince = now
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

type memberView struct {
	member uint32
	view   view
}

// view is a digest and its version. Members that agree have the same view.
type view struct {
	version uint32
	digest  uint64
}

func (c *comparison) hashesByIndex() map[uint64][]memberView {
	all := map[uint64][]memberView{}
	for id, marks := range c.stateHashes {
		for i, index := range marks.Indexes {
			all[index] = append(all[index], memberView{id, view{marks.Version, marks.Digests[i]}})
		}
	}
	return all
}

// addVerdictsAt compares the members' views at one index, and adds verdicts. A majority of the voters that
// agrees is right. Without one, the leader (self) and the members that agree with it are right, because one
// side must continue. If several indexes of a member differ, it gets the verdict with which most voters agree,
// and the newest among equals: the others keep that hash for longest.
//
// While some voter has not reported, it could still make a majority. Then addVerdictsAt reports undecided, and
// adds verdicts only if late is set. Digests of different versions cannot be compared.
func addVerdictsAt(index uint64, all []memberView, self uint32, voters []uint32, late bool,
	verdicts map[uint32]*proto.Verdict,
) (undecided bool) {
	agree, reported := map[view]uint32{}, 0
	var right view
	known := false
	for _, m := range all {
		if slices.Contains(voters, m.member) {
			reported++
			agree[m.view]++
		}
		if m.member == self {
			right, known = m.view, true
		}
	}
	majority := false
	for as, n := range agree {
		if int(n) > len(voters)/2 {
			right, known, majority = as, true, true
		}
	}
	for _, m := range all {
		switch {
		case m.view.version != right.version || m.view.digest == right.digest || !known:
			continue
		case !majority && reported < len(voters):
			if undecided = true; !late {
				continue
			}
		}
		v := &proto.Verdict{
			Index: index, Own: m.view.digest, Theirs: right.digest, Agree: agree[right], Members: uint32(len(voters)),
		}
		if old := verdicts[m.member]; old == nil ||
			cmp.Or(cmp.Compare(v.Agree, old.Agree), cmp.Compare(v.Index, old.Index)) > 0 {
			verdicts[m.member] = v
		}
	}
	return undecided
}

// compareAndLogHashes records the hashes of a reply, and logs new verdicts.
func (p *pinger) compareAndLogHashes(m *link, marks *proto.StateHashes, now time.Time) error {
	fresh, err := p.compared.updateVerdicts(m.id, marks, p.membership.voterIDs(), now)
	for id, v := range fresh {
		p.log.Error("a member's state differs from that of the others", "peer", id, "index", v.Index,
			"digest", fmt.Sprintf("%016x", v.Own), "others", fmt.Sprintf("%016x", v.Theirs), "agree", v.Agree)
	}
	return err
}
