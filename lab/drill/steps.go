package drill

import (
	"errors"
	"slices"
	"time"

	"rollcall/lab/target"
)

// wellLimit bounds the wait until an ensemble is well again. A member that was wiped reads the whole tree.
const wellLimit = time.Minute

func killLeader(s *stage) error {
	name, err := s.awaitLeader()
	if err != nil {
		return err
	}
	return s.breakFor(1, textFault{target.Fault{Kind: target.Kill, Member: name}, "kill -9 of member " + name + ", the leader"})
}

func killFollower(s *stage) error {
	name, err := s.pickFollower()
	if err != nil {
		return err
	}
	return s.breakFor(1, textFault{target.Fault{Kind: target.Kill, Member: name}, "kill -9 of member " + name + ", a follower"})
}

func killMajority(s *stage) error {
	leader, err := s.awaitLeader()
	if err != nil {
		return err
	}
	others, err := s.listFollowers()
	if err != nil {
		return err
	}
	down := append([]string{leader}, others[:len(s.target.Members())/2]...)
	return s.stopsMajority(func() error { return s.breakFor(1.5, killsOf(down)...) })
}

func killAll(s *stage) error {
	return s.stopsMajority(func() error { return s.breakFor(0.25, killsOf(memberNames(s.target))...) })
}

func killsOf(names []string) (faults []textFault) {
	for _, name := range names {
		faults = append(faults, textFault{target.Fault{Kind: target.Kill, Member: name}, "kill -9 of member " + name})
	}
	return faults
}

// pauseMember returns steps that stop a member for so many session timeouts.
func pauseMember(which func(*stage) (string, error), n float64) func(*stage) error {
	return func(s *stage) error {
		name, err := which(s)
		if err != nil {
			return err
		}
		return s.breakFor(n, textFault{target.Fault{Kind: target.Stop, Member: name}, "SIGSTOP of " + s.describeMember(name)})
	}
}

// restartEach ends the followers and then the leader, and starts each before the next one.
func restartEach(s *stage) error {
	names, err := s.listFollowers()
	if err != nil {
		return err
	}
	leader, err := s.awaitLeader()
	if err != nil {
		return err
	}
	for _, name := range append(names, leader) {
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
	name, err := s.pickFollower()
	if err != nil {
		return err
	}
	wipe := textFault{target.Fault{Kind: target.Wipe, Member: name}, "the data of member " + name + " is gone"}
	if err := s.breakFor(0.5, wipe); err != nil {
		return err
	}
	return s.awaitWell(wellLimit)
}

// wipeMajority leaves a member that is behind and one that is empty alone, and then brings the leader back. Together the
// two are a majority by number, but neither has what was acknowledged last.
func wipeMajority(s *stage) error {
	leader, err := s.awaitLeader()
	if err != nil {
		return err
	}
	others, err := s.listFollowers()
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
			textFault{target.Fault{Kind: target.Wipe, Member: empty}, "the data of member " + empty + " is gone"},
			textFault{target.Fault{Kind: target.Kill, Member: leader}, "kill -9 of member " + leader + ", the leader"},
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

// cutsOff returns steps that cut a member off, as f says, for two session timeouts.
func cutsOff(which func(*stage) (string, error), f target.Fault, text string) func(*stage) error {
	return func(s *stage) error {
		name, err := which(s)
		if err != nil {
			return err
		}
		f := f
		f.Kind, f.Member = target.Cut, name
		return s.breakFor(2, textFault{f, s.describeMember(name) + ": " + text})
	}
}

func bridgePartition(s *stage) error {
	leader, err := s.awaitLeader()
	if err != nil {
		return err
	}
	name, err := s.pickFollower()
	if err != nil {
		return err
	}
	cut := target.Fault{Kind: target.Cut, Member: leader, From: []string{name}}
	return s.breakFor(2, textFault{cut, "members " + leader + " and " + name + " do not reach each other"})
}

func slowLinks(s *stage) error {
	return s.onEachLink(slowLink, "25 ms on the links of member ")
}

func lossyLinks(s *stage) error {
	return s.onEachLink(lossyLink, "2 % loss on the links of member ")
}

func forgetFlows(s *stage) error {
	name, err := s.awaitLeader()
	if err != nil {
		return err
	}
	return s.breakFor(2, textFault{target.Fault{Kind: target.Forget, Member: name}, "the connections of member " + name + ", the leader, are forgotten"})
}

func narrowLinks(s *stage) error {
	return s.onEachLink(narrowLink, "256 kB a second on the links of member ")
}

// onEachLink makes a fault of the links of all members for two session timeouts.
func (s *stage) onEachLink(f target.Fault, text string) error {
	var faults []textFault
	for _, m := range s.target.Members() {
		f.Member = m.Name
		faults = append(faults, textFault{f, text + m.Name})
	}
	return s.breakFor(2, faults...)
}

// breaksDisk returns steps that break the leader's disk.
func breaksDisk(mode string) func(*stage) error {
	n := map[string]float64{"stall": 1.5, "fail": 1}[mode]
	return func(s *stage) error {
		name, err := s.awaitLeader()
		if err != nil {
			return err
		}
		return s.breakFor(n, textFault{target.Fault{Kind: target.Disk, Member: name, Mode: mode}, "disk " + mode + " at member " + name + ", the leader"})
	}
}

func fillsDisk(s *stage) error {
	name, err := s.awaitLeader()
	if err != nil {
		return err
	}
	return s.breakFor(1, textFault{target.Fault{Kind: target.Fill, Member: name}, "the disk of member " + name + ", the leader, is full"})
}

func stepsClock(s *stage) error {
	name, err := s.awaitLeader()
	if err != nil {
		return err
	}
	ahead := target.Fault{Kind: target.Clock, Member: name, Delay: time.Hour}
	return s.breakFor(1, textFault{ahead, "the clock of member " + name + ", the leader, is an hour ahead"})
}

// memberNames returns the names of all members, sorted.
func memberNames(t target.Target) (names []string) {
	for _, m := range t.Members() {
		names = append(names, m.Name)
	}
	return slices.Sorted(slices.Values(names))
}
