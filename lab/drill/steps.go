package drill

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/lab/target"
)

// wellLimit bounds the wait until an ensemble is well again. A member that was wiped reads the whole tree.
const wellLimit = time.Minute

// breaks returns steps that make a fault of one member for so many session timeouts. In text, %s stands for the member's name.
func breaks(which func(*stage) (string, error), n float64, f target.Fault, text string) func(*stage) error {
	return func(s *stage) error {
		name, err := which(s)
		if err != nil {
			return err
		}
		own := f
		own.Member = name
		return s.breakFor(n, textFault{own, fmt.Sprintf(text, name)})
	}
}

// breaksEach returns steps that make a fault of all members for so many session timeouts.
func breaksEach(n float64, f target.Fault, text string) func(*stage) error {
	return func(s *stage) error { return s.breakFor(n, faultsOf(memberNames(s.target), f, text)...) }
}

// faultsOf returns the same fault of several members.
func faultsOf(names []string, f target.Fault, text string) (faults []textFault) {
	for _, name := range names {
		f.Member = name
		faults = append(faults, textFault{f, fmt.Sprintf(text, name)})
	}
	return faults
}

var killFollower = breaks((*stage).pickFollower, 1, kills[0], "kill -9 of member %s, a follower")

func killMajority(s *stage) error {
	leader, others, err := s.listRoles()
	if err != nil {
		return err
	}
	down := append([]string{leader}, others[:len(s.target.Members())/2]...)
	return s.stopsMajority(func() error { return s.breakFor(1.5, faultsOf(down, kills[0], killText)...) })
}

func killAll(s *stage) error {
	return s.stopsMajority(func() error { return breaksEach(0.25, kills[0], killText)(s) })
}

const killText = "kill -9 of member %s"

// restartEach ends the followers and then the leader, and starts each before the next one.
func restartEach(s *stage) error {
	leader, others, err := s.listRoles()
	if err != nil {
		return err
	}
	for _, name := range append(others, leader) {
		if err := s.breakMember(target.Fault{Kind: target.Shut, Member: name}, "restart of "+s.describeMember(name)); err != nil {
			return err
		}
		if err := s.repairAll(); err != nil {
			return err
		}
		if err := s.awaitWell(wellLimit); err != nil {
			return err
		}
	}
	return nil
}

func wipeFollower(s *stage) error {
	wipe := breaks((*stage).pickFollower, 0.5, target.Fault{Kind: target.Wipe}, wipeText)
	if err := wipe(s); err != nil {
		return err
	}
	return s.awaitWell(wellLimit)
}

const wipeText = "the data of member %s is gone"

// wipeMajority leaves a member that is behind and one that is empty alone, and then brings the leader back. Together the
// two are a majority by number, but neither has what was acknowledged last.
func wipeMajority(s *stage) error {
	leader, others, err := s.listRoles()
	if err != nil {
		return err
	}
	behind, empty := others[0], others[1]
	err = s.breakEach(textFault{target.Fault{Kind: target.Kill, Member: behind}, "member " + behind + " is killed, and falls behind"})
	if err != nil {
		return err
	}
	err = s.stopsMajority(func() error {
		if err := s.breakEach(
			textFault{target.Fault{Kind: target.Wipe, Member: empty}, fmt.Sprintf(wipeText, empty)},
			textFault{target.Fault{Kind: target.Kill, Member: leader}, fmt.Sprintf(killText, leader) + ", the leader"},
		); err != nil {
			return err
		}
		if err := errors.Join(s.repairMember(behind), s.repairMember(empty)); err != nil {
			return err
		}
		if err := s.waitTimeouts(1.5); err != nil {
			return err
		}
		return s.repairAll()
	})
	if err != nil {
		return err
	}
	return s.awaitWell(wellLimit)
}

// breakEach makes the faults, and waits for half of a session timeout after each.
func (s *stage) breakEach(faults ...textFault) error {
	for _, f := range faults {
		if err := s.breakMember(f.Fault, f.text); err != nil {
			return err
		}
		if err := s.waitTimeouts(0.5); err != nil {
			return err
		}
	}
	return nil
}

func bridgePartition(s *stage) error {
	leader, others, err := s.listRoles()
	if err != nil {
		return err
	}
	cut := target.Fault{Kind: target.Cut, Member: leader, From: others[:1]}
	return s.breakFor(2, textFault{cut, "members " + leader + " and " + others[0] + " do not reach each other"})
}

// memberNames returns the names of all members, sorted.
func memberNames(t target.Target) (names []string) {
	for _, m := range t.Members() {
		names = append(names, m.Name)
	}
	return slices.Sorted(slices.Values(names))
}
