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
	"rollcall/integration/history"
	"rollcall/member"
)

// These are the sizes of one schedule in which members come and go. It is short, because there are many.
const (
	changingSchedules = 1060 // so that the list changes in 1,000 of them
	changingSessions  = 3
	changingWrites    = 12
	changingPace      = 120 * time.Millisecond
	changingSpan      = 700 * time.Millisecond
	changingLimit     = 3 * time.Minute
)

// newcomers are the members that may come in.
var newcomers = []uint32{4, 5, 6}

// changingTotals counts what happened in all schedules.
type changingTotals struct {
	changed, changes, faults, acknowledged, removed, leaders atomic.Uint64
}

// While the list of members changes, with other faults meanwhile, these must hold:
//
//   - each change is made or not, and raft's configuration is the newest list in the end, on all its members;
//   - these members are equal, and serve;
//   - members that have been removed serve nobody;
//   - every acknowledged write is there, once and in its session's order;
//   - the sessions live, with their ephemerals;
//   - all rules of package history.
//
// The environment selects schedules as for TestSchedules.
func TestChangingSchedules(t *testing.T) {
	var sum changingTotals
	seeds := seedsToRun(t, changingSchedules)
	start := time.Now()
	t.Run("all", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				var h history.History
				var about string
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("seed %d; faults:\n%s\nto repeat it, as often as it takes: ROLLCALL_SEED=%d go test -count=50 -failfast -run '^TestChangingSchedules$' ./integration", seed, about, seed)
					}
				})
				synctest.Test(t, func(t *testing.T) { h = changingSchedule(t, seed, &sum, &about) })
				for _, v := range history.Check(h) {
					t.Error(v)
				}
			})
		}
	})
	fmt.Printf("%d schedules with members that come and go from seed %d on in %v: the list changed in %d of them, %d times; %d faults beside, %d members removed, %d leader changes, %d writes acknowledged\n",
		len(seeds), seeds[0], time.Since(start).Round(time.Second), sum.changed.Load(), sum.changes.Load(), sum.faults.Load(), sum.removed.Load(), sum.leaders.Load(), sum.acknowledged.Load())
	if n := uint64(len(seeds)); n >= 50 && sum.changed.Load() < n*1000/changingSchedules {
		t.Errorf("the list changed in %d schedules of %d, want at least %d", sum.changed.Load(), n, n*1000/changingSchedules)
	}
}

// changingSchedule runs one seed, and describes in about the faults that it has drawn.
func changingSchedule(t *testing.T, seed uint64, sum *changingTotals, about *string) history.History {
	rng := rand.New(rand.NewPCG(seed, 7))
	plan := planFromFile(t, cluster.ChangingPlan(rng, changingSpan))
	*about = plan.String()
	secret := ""
	if seed%secretEvery == 0 {
		secret = secretFile(t)
	}
	var terms atomic.Int64
	e := cluster.Start(t, 3, cluster.Options{
		Write: time.Duration(1 + rng.Int64N(int64(maxDiskWrite))), Logger: logger(), Record: true, Reconfig: true, Linear: seed%linearEvery == 0,
		Events: func(e member.Event) {
			if e.Kind == member.EventLeader && terms.Add(1) > 1 {
				sum.leaders.Add(1)
			}
		},
		Adjust: func(cfg *member.Config) { cfg.Trust.SecretFile = secret },
	})
	e.Ready()
	e.Joined()
	writers := startWriters(t, e, rng, changingSessions, changingWrites, sessionTimeout, changingPace, newcomers...)
	started := time.Now()
	e.Play(plan, func(p cluster.Played) {
		if p.Hit != 0 && !p.Changing() {
			sum.faults.Add(1)
		}
	}, func() bool { return finished(writers) || time.Since(started) > changingLimit })
	e.Follow()
	if made := e.Changes(); made > 0 {
		sum.changed.Add(1)
		sum.changes.Add(uint64(made))
	}
	judgeChanged(t, e, writers, sum)
	h, err := e.History()
	if err != nil {
		t.Error(err)
	}
	return h
}

// judgeChanged judges an ensemble whose members have changed, and which has had time since.
func judgeChanged(t *testing.T, e *cluster.Ensemble, writers []*writer, sum *changingTotals) {
	t.Helper()
	if !finished(writers) {
		t.Fatalf("writers have not finished %v after the first fault", changingLimit)
	}
	e.Healed()
	e.Joined()
	for _, w := range writers {
		w.check(t)
		sum.acknowledged.Add(uint64(len(w.acked)))
	}
	e.Equal()
	living(t, e.Member(e.Leader()).State(), writers)
	for _, id := range e.IDs() {
		if slices.Contains(e.Members(), id) {
			if why := e.Member(id).Damage(); why != "" {
				t.Errorf("member %d was taken for damaged: %s", id, why)
			}
			continue
		}
		sum.removed.Add(1)
		e.Silent(id)
	}
	for _, why := range e.Exits() {
		if !strings.Contains(why, "input/output error") && !strings.Contains(why, "restart needed") {
			t.Errorf("ended by itself: %s", why)
		}
	}
}
