package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
	"rollcall/lab/history"
	"rollcall/member"
)

// These are the sizes of one schedule in which members come and go. It is short, because there are many.
const (
	changingSchedules = 1060 // so that the list changes in 1,000 of them
	changingSessions  = 3
	changingWrites    = 12
	changingPace      = 120 * time.Millisecond
	changingSpan      = 700 * time.Millisecond
)

// sizes are the numbers of members with which schedules begin, as often as they are here.
var sizes = []int{1, 2, 3, 3, 3, 3, 3, 5}

// knownSeeds once made members wait for ever, lost an acknowledged write, or made a leader alone resume its term. They
// run each time.
var knownSeeds = []uint64{502802, 504462, 504345, 2202423, 2200861, 2200127, 300669}

// changingTotals counts what happened in all schedules.
type changingTotals struct {
	changed, changes, faults, acknowledged, removed, leaders, wiped, observers atomic.Uint64
	dark                                                                       darkTotals
	grown                                                                      [6]atomic.Uint64 // schedules in which the list changed, by the number of members in the beginning
}

// While the list of members changes, with other faults meanwhile, these must hold:
//
//   - each change is made or not, and in the end raft's configuration is the newest list, on all its members;
//   - these members are equal, and serve;
//   - members that have been removed serve no client;
//   - every acknowledged write is there, once and in its session's order;
//   - the sessions live, with their ephemerals;
//   - all rules of package history.
//
// The environment selects schedules as for TestSchedules.
func TestChangingSchedules(t *testing.T) {
	var sum changingTotals
	seeds := seedsToRun(t, needs.Amount(30, 50, changingSchedules), knownSeeds...)
	start := time.Now()
	t.Run("all", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				var h history.History
				var about string
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("seed %d, %s\nto repeat it, as often as it takes: ROLLCALL_SEED=%d go test -count=50 -failfast -run '^TestChangingSchedules$' ./integration", seed, about, seed)
					}
				})
				synctest.Test(t, func(t *testing.T) { h = changingSchedule(t, seed, &sum, &about) })
				for _, v := range history.Check(h) {
					t.Error(v)
				}
			})
		}
	})
	fmt.Printf("%d schedules with members that come and go from seed %d on in %v: the list changed in %d of them, %d times; "+
		"it began with 1, 2, 3 and 5 members in %d, %d, %d and %d; %d disks wiped, %d faults beside, %d voters asked to become observers, %d members removed, %d leader changes, %v, %d writes acknowledged\n",
		len(seeds), seeds[0], time.Since(start).Round(time.Second), sum.changed.Load(), sum.changes.Load(),
		sum.grown[1].Load(), sum.grown[2].Load(), sum.grown[3].Load(), sum.grown[5].Load(),
		sum.wiped.Load(), sum.faults.Load(), sum.observers.Load(), sum.removed.Load(), sum.leaders.Load(), &sum.dark, sum.acknowledged.Load())
	if len(seeds) >= 50 {
		sum.floors(t, uint64(len(seeds)))
	}
}

// floors checks that enough happened in n schedules.
func (s *changingTotals) floors(t *testing.T, n uint64) {
	t.Helper()
	atLeast := func(what string, got, least uint64) {
		if got < least {
			t.Errorf("%d %s in %d schedules, want at least %d", got, what, n, least)
		}
	}
	atLeast("schedules in which the list changed", s.changed.Load(), n*1000/changingSchedules)
	atLeast("disks wiped", s.wiped.Load(), n/10)
	atLeast("voters asked to become observers", s.observers.Load(), n/40)
	for _, members := range slices.Compact(slices.Clone(sizes)) {
		atLeast(fmt.Sprintf("schedules that began with %d members and changed the list", members), s.grown[members].Load(), n/40)
	}
}

// changingSchedule runs one seed, and describes in about the faults that it has drawn.
func changingSchedule(t *testing.T, seed uint64, sum *changingTotals, about *string) history.History {
	rng := rand.New(rand.NewPCG(seed, 7))
	members := sizes[rand.New(rand.NewPCG(seed, 8)).IntN(len(sizes))]
	plan := planFromFile(t, cluster.Darkened(cluster.ChangingPlan(rng, members, changingSpan), darkEvery, members, changingSpan))
	*about = fmt.Sprintf("%d members; faults:\n%v", members, plan)
	secret := ""
	if seed%secretEvery == 0 {
		secret = secretFile(t)
	}
	e := cluster.Start(t, members, cluster.Options{
		Write: maxDiskWrite, Speeds: rand.New(rand.NewPCG(seed, 2)), Logger: logger(), Record: true, Reconfig: true, Linear: seed%linearEvery == 0,
		Events: sum.event(), HTTP: includes(plan, cluster.Snap, cluster.Stray),
		Adjust: func(cfg *member.Config) { cfg.Trust.SecretFile = secret },
	})
	e.DrawRates(rand.New(rand.NewPCG(seed, 3)))
	e.DrawLinks(rand.New(rand.NewPCG(seed, 4)))
	*about = fmt.Sprintf("links of up to %v, %s", e.LinkDelay(), *about)
	e.Ready()
	e.Joined()
	writers := startWriters(t, e, rng, changingSessions, changingWrites, sessionTimeout, changingPace, cluster.NewIDs(members)...)
	playChanging(t, e, plan, writers, sum.began)
	if made := e.Changes(); made > 0 {
		sum.changed.Add(1)
		sum.grown[members].Add(1)
		sum.changes.Add(uint64(made))
	}
	judgeChanged(t, e, writers, sum)
	h, err := e.History()
	if err != nil {
		t.Error(err)
	}
	return h
}

// playChanging runs a plan, until members have followed all changes of the list. The ensemble must serve soon after the
// last fault: then all writers finish.
func playChanging(t *testing.T, e *cluster.Ensemble, plan cluster.Plan, writers []*writer, began func(cluster.Played)) {
	t.Helper()
	var over time.Time // the end of the last fault
	e.Play(plan, func(p cluster.Played) {
		began(p)
		if end := time.Now().Add(p.For); end.After(over) {
			over = end
		}
	}, func() bool { return finished(writers) || time.Since(over) > serveLimit })
	if !finished(writers) {
		t.Errorf("writers have not finished %v after the last fault", serveLimit)
	}
	e.Follow()
}

// event returns a function that counts the leaders of one schedule after the first.
func (s *changingTotals) event() func(member.Event) {
	var terms atomic.Int64
	return func(e member.Event) {
		if e.Kind == member.EventLeader && terms.Add(1) > 1 {
			s.leaders.Add(1)
		}
	}
}

// began counts a fault that has begun.
func (s *changingTotals) began(p cluster.Played) {
	if p.Hit != 0 && p.Kind == cluster.Demote {
		s.observers.Add(1)
	}
	switch {
	case p.Hit == 0 || p.Changing():
	case p.Kind == cluster.Wipe:
		s.wiped.Add(1)
		fallthrough
	default:
		s.faults.Add(1)
	}
}

// judgeChanged checks an ensemble after its members have changed and things have settled.
func judgeChanged(t *testing.T, e *cluster.Ensemble, writers []*writer, sum *changingTotals) {
	t.Helper()
	if !finished(writers) {
		t.FailNow() // see playChanging
	}
	e.Healed()
	e.Joined()
	sum.dark.add(e)
	for _, w := range writers {
		w.check(t)
		sum.acknowledged.Add(uint64(len(w.acked)))
	}
	e.Equal()
	checkSessions(t, e.Member(e.Leader()).State(), writers)
	for _, id := range e.IDs() {
		if slices.Contains(e.Members(), id) {
			if why := e.Member(id).DamageReason(); why != "" {
				t.Errorf("member %d was taken for damaged: %s", id, why)
			}
			continue
		}
		sum.removed.Add(1)
		e.AwaitSilent(id)
	}
	for _, why := range e.Exits() {
		if !strings.Contains(why, "input/output error") && !strings.Contains(why, "must start again") {
			t.Errorf("ended by itself: %s", why)
		}
	}
}
