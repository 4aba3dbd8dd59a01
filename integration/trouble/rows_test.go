package trouble

import (
	"fmt"
	"slices"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/target"
)

// row is a row of the table: a member in trouble, and how long clients may wait.
type row struct {
	name    string
	title   string        // as the table has it
	timeout time.Duration // of the sessions; 0: defaultTimeout
	nightly bool          // only the nightly form has it
	lines   map[target.Program]string
	only    target.Program // "": the row applies to each software
	// play makes the fault and ends it. It returns the name of the member in trouble.
	play func(s *scene) string
	// These are the longest gaps that Rollcall may have, at clients of the member in trouble, and at those of the others. They are far from
	// what is measured on a quiet machine, and nearer to that than to what the fault costs if the ensemble does nothing about it.
	own, others time.Duration
}

// defaultTimeout is the timeout of the sessions of most rows.
const defaultTimeout = 30 * time.Second

// leaderOf and followerOf say which member is in trouble.
func leaderOf(s *scene) string   { return s.leader }
func followerOf(s *scene) string { return s.followers[0] }

// permanent runs faults that end only when all clients are served elsewhere.
func permanent(who func(*scene) string, faults func(s *scene, name string) []target.Fault) func(*scene) string {
	return func(s *scene) string {
		name := who(s)
		s.breakUntilServed(faults(s, name)...)
		return name
	}
}

// passing runs faults that end after some time.
func passing(who func(*scene) string, long time.Duration, faults func(s *scene, name string) []target.Fault) func(*scene) string {
	return func(s *scene) string {
		name := who(s)
		s.breakFor(long, faults(s, name)...)
		return name
	}
}

func of(f target.Fault) func(*scene, string) []target.Fault {
	return func(_ *scene, name string) []target.Fault {
		f.Member = name
		return []target.Fault{f}
	}
}

var (
	killed  = of(target.Fault{Kind: target.Kill})
	stopped = of(target.Fault{Kind: target.Stop})
	shut    = of(target.Fault{Kind: target.Shut})
	cutOff  = of(target.Fault{Kind: target.Cut})
	unheard = of(target.Fault{Kind: target.Cut, OneWay: true})
	frozen  = of(target.Fault{Kind: target.Disk, Mode: target.Stall})
	failing = of(target.Fault{Kind: target.Disk, Mode: target.Fail})
	full    = of(target.Fault{Kind: target.Fill})
)

// loseIncoming loses the other members' messages to a member.
func loseIncoming(s *scene, name string) (faults []target.Fault) {
	for _, other := range s.others(name) {
		faults = append(faults, target.Fault{Kind: target.Cut, Member: other, From: []string{name}, OneWay: true})
	}
	return faults
}

// withoutOthers kills the other two members.
func withoutOthers(s *scene, name string) (faults []target.Fault) {
	for _, other := range s.others(name) {
		faults = append(faults, target.Fault{Kind: target.Kill, Member: other})
	}
	return faults
}

// minorityTime is the time for which two members are down.
const minorityTime = 5 * time.Second

// diskPause is the least time for which a disk pauses in each second: freezing it first writes its unwritten data.
const diskPause = 50 * time.Millisecond

// withoutFault is the baseline for pausingDisk: no fault for as long.
func withoutFault(s *scene) string {
	name, begin := followerOf(s), time.Now()
	sleep(s.t.Context(), time.Duration(needs.Amount(10, 10, 60))*time.Second)
	s.notePercentiles(name, begin)
	return name
}

func pausingDisk(who func(*scene) string) func(*scene) string {
	return func(s *scene) string {
		name, pauses := who(s), needs.Amount(10, 10, 60)
		begin, longest := time.Now(), time.Duration(0)
		for i := range pauses {
			sleep(s.t.Context(), time.Until(begin.Add(time.Duration(i)*time.Second)))
			paused := time.Now()
			s.breakFor(diskPause, frozen(s, name)...)
			longest = max(longest, time.Since(paused))
		}
		s.notePercentiles(name, begin)
		s.note += fmt.Sprintf("; longest pause: %v at most", longest.Round(time.Millisecond))
		return name
	}
}

// drained is a member that an operator drains, and then ends.
func drained(who func(*scene) string) func(*scene) string {
	return func(s *scene) string {
		name := who(s)
		if err := s.p.RunCommand(s.t.Context(), name, "drain", "--over", "1s"); err != nil {
			s.t.Fatal(err)
		}
		s.breakUntilServed(target.Fault{Kind: target.Shut, Member: name})
		return name
	}
}

// removed is a member that an operator removes from the ensemble. It still runs.
func removed(who func(*scene) string) func(*scene) string {
	return func(s *scene) string {
		name := who(s)
		if err := s.remove(name); err != nil {
			s.t.Fatal(err)
		}
		s.gone = append(s.gone, name)
		s.awaitServed(s.timeout + 10*time.Second)
		return name
	}
}

// These are the bounds of several rows.
const (
	second = time.Second
	// unnoticed is for clients of members that are well under a leader that is.
	unnoticed = 2 * second
	// moved is for clients whose connection ends at once.
	moved = 2 * second
	// elected is for clients that wait for another leader, whose silence the others must notice first.
	elected = 3 * second
	// given is for clients of a member that cannot reach the others, which its member must give up.
	given = 4 * second
)

// overtaken is for clients of a member whose disk hangs for longer: the other disks suffice.
func overtaken(hangs time.Duration) time.Duration { return min(hangs-500*time.Millisecond, 2*second) }

var rows = slices.Concat(
	[]row{
		{name: "killed-follower", title: "killed: a follower", play: permanent(followerOf, killed), own: moved, others: unnoticed},
		{name: "killed-leader", title: "killed: the leader", play: permanent(leaderOf, killed), own: elected, others: elected},
		{name: "shut-follower", title: "ended with SIGTERM: a follower", play: permanent(followerOf, shut), own: moved, others: unnoticed},
		{name: "shut-leader", title: "ended with SIGTERM: the leader", play: permanent(leaderOf, shut), own: elected, others: elected},
		{name: "drained-follower", title: "drained, and ended: a follower", only: target.Rollcall, play: drained(followerOf), own: moved, others: unnoticed},
		{name: "drained-leader", title: "drained, and ended: the leader", only: target.Rollcall, play: drained(leaderOf), own: moved, others: unnoticed},
		{name: "removed-follower", title: "removed from the ensemble: a follower", lines: reconfigurable, play: removed(followerOf), own: elected, others: unnoticed},
		{name: "removed-leader", title: "removed from the ensemble: the leader", lines: reconfigurable, play: removed(leaderOf), own: elected, others: elected},
		{name: "no-leader", title: "a follower alone for 5 s: the others are killed", play: passing(followerOf, minorityTime, withoutOthers), own: minorityTime + 7*second, others: minorityTime + 7*second},
		{name: "no-followers", title: "the leader alone for 5 s: the others are killed", play: passing(leaderOf, minorityTime, withoutOthers), own: minorityTime + 7*second, others: minorityTime + 7*second},
		{name: "deaf-follower", title: "hears nothing of the others: a follower", play: permanent(followerOf, loseIncoming), own: given, others: elected},
		{name: "deaf-leader", title: "hears nothing of the others: the leader", play: permanent(leaderOf, loseIncoming), own: given, others: elected},
		{name: "unheard-follower", title: "is not heard by the others: a follower", play: permanent(followerOf, unheard), own: given, others: unnoticed},
		{name: "unheard-leader", title: "is not heard by the others: the leader", play: permanent(leaderOf, unheard), own: given, others: elected},
	},
	cuts(10*second, true), cuts(defaultTimeout, false), cuts(90*second, true),
	hangs(1500*time.Millisecond, true), hangs(2500*time.Millisecond, false), hangs(12*second, false), hangs(20*second, true),
	[]row{
		{name: "pausing-none", title: "nothing", play: withoutFault, own: unnoticed, others: unnoticed},
		{name: "pausing-disk-follower", title: "disk pauses for 50 ms in each second: a follower's", play: pausingDisk(followerOf), own: unnoticed, others: unnoticed},
		{name: "pausing-disk-leader", title: "disk pauses for 50 ms in each second: the leader's", play: pausingDisk(leaderOf), own: unnoticed, others: unnoticed},
		{name: "failing-disk-follower", title: "disk fails: a follower's", play: permanent(followerOf, failing), own: moved, others: unnoticed},
		{name: "failing-disk-leader", title: "disk fails: the leader's", play: permanent(leaderOf, failing), own: elected, others: elected},
		{name: "full-disk-follower", title: "disk is full: a follower's", play: permanent(followerOf, full), own: moved, others: unnoticed},
		{name: "full-disk-leader", title: "disk is full: the leader's", play: permanent(leaderOf, full), own: elected, others: elected},
	},
	stops(1500*time.Millisecond), stops(12*second),
)

// cuts returns the rows of a member that is cut off from the others, for sessions with a timeout.
func cuts(timeout time.Duration, nightly bool) []row {
	title := fmt.Sprintf("cut off from the others, T = %g s: ", timeout.Seconds())
	return []row{
		{name: fmt.Sprintf("cut-follower-%v", timeout), title: title + "a follower", timeout: timeout, nightly: nightly, play: permanent(followerOf, cutOff), own: given, others: unnoticed},
		{name: fmt.Sprintf("cut-leader-%v", timeout), title: title + "the leader", timeout: timeout, nightly: nightly, play: permanent(leaderOf, cutOff), own: given, others: elected},
	}
}

// hangs returns the rows of a member whose disk hangs.
func hangs(long time.Duration, nightly bool) []row {
	title, most := fmt.Sprintf("disk hangs for %g s: ", long.Seconds()), overtaken(long)
	return []row{
		{name: fmt.Sprintf("disk-follower-%v", long), title: title + "a follower's", nightly: nightly, play: passing(followerOf, long, frozen), own: most, others: unnoticed},
		{name: fmt.Sprintf("disk-leader-%v", long), title: title + "the leader's", nightly: nightly, play: passing(leaderOf, long, frozen), own: most, others: most},
	}
}

// stops returns the rows of a member whose process stands still. Its clients have connections to it, and wait as long as they are
// patient.
func stops(long time.Duration) []row {
	title := fmt.Sprintf("process stopped for %g s: ", long.Seconds())
	return []row{
		{name: fmt.Sprintf("stopped-follower-%v", long), title: title + "a follower", play: passing(followerOf, long, stopped), own: long + 2*second, others: unnoticed},
		{name: fmt.Sprintf("stopped-leader-%v", long), title: title + "the leader", play: passing(leaderOf, long, stopped), own: long + 2*second, others: elected},
	}
}

// reconfigurable lets clients of ZooKeeper remove members.
var reconfigurable = map[target.Program]string{target.ZooKeeper: "reconfigEnabled=true\nskipACL=yes\n"}
