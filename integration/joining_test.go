package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
	"rollcall/lab/history"
	"rollcall/lab/simulated"
	"rollcall/member"
)

// These are the sizes of one schedule in which members join while others are lost. Members copy a long log, so it is longer
// than one in which the list changes.
const (
	joiningSchedules = 100
	joiningWrites    = 20
	joiningSpan      = 3 * time.Second // in which faults begin, while writes go on
	firstSpan        = 2 * time.Second // in which those begin that hit members before anybody serves
	joiningDarkEvery = 3               // see darkEvery
	serveLimit       = 30 * time.Second
)

// begin is a way in which an ensemble begins.
type begin int

const (
	beginEmpty     begin = iota // three members without data
	beginAlone                  // one, which then gets others
	beginTogether               // three that have the same log
	beginFive                   // five that have
	beginPlanted                // three, the first of which has a state that was restored
	beginRecovered              // three, the first of which was recovered
	begins
)

func (b begin) String() string {
	return [...]string{"empty", "alone", "together", "five", "planted", "recovered"}[b]
}

// size returns with how many members the ensemble begins.
func (b begin) size() int {
	switch b {
	case beginAlone:
		return 1
	case beginFive:
		return 5
	default:
		return 3
	}
}

// knownJoining are seeds in which a disk was lost that the ensemble had not promised to spare. They run each time.
var knownJoining = []uint64{73100114}

// lengths are numbers of entries in a log, as often as they are here. Raft copies at most 64 at a time.
var lengths = []uint64{100, 1000, 1000, 10_000}

// joiningTotals counts what happened in all schedules.
type joiningTotals struct {
	changingTotals
	begun    [begins]atomic.Uint64
	long     atomic.Uint64 // schedules whose logs have 10,000 entries or more
	installs atomic.Uint64 // snapshots that members copied
}

// While members copy a long log or a snapshot, disks are lost: of the first member, of members that join, and of two
// members one after the other. Other faults occur meanwhile. Then the same must hold as in TestChangingSchedules, and
// the ensemble serves within 30 s of the last fault. A disk is lost only if the ensemble promises to survive that: see
// cluster.Ensemble.Play.
//
// The environment selects schedules as for TestSchedules.
func TestJoiningSchedules(t *testing.T) {
	var sum joiningTotals
	seeds := seedsToRun(t, needs.Amount(20, joiningSchedules/2, joiningSchedules), knownJoining...)
	start := time.Now()
	t.Run("all", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				var h history.History
				var about string
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("seed %d, %s\nto repeat it, as often as it takes: ROLLCALL_SEED=%d go test -count=50 -failfast -run '^TestJoiningSchedules$' ./integration", seed, about, seed)
					}
				})
				synctest.Test(t, func(t *testing.T) { h = joiningSchedule(t, seed, &sum, &about) })
				for _, v := range history.Check(h) {
					t.Error(v)
				}
			})
		}
	})
	fmt.Printf("%d schedules with members that join from seed %d on in %v: ", len(seeds), seeds[0], time.Since(start).Round(time.Second))
	for b := range begins {
		fmt.Printf("%d began %v, ", sum.begun[b].Load(), b)
	}
	fmt.Printf("%d with long logs; %d disks wiped, %d snapshots copied, %d faults beside, the list changed %d times, %d leader changes, %v, %d writes acknowledged\n",
		sum.long.Load(), sum.wiped.Load(), sum.installs.Load(), sum.faults.Load(), sum.changes.Load(), sum.leaders.Load(), &sum.dark, sum.acknowledged.Load())
	if n := uint64(len(seeds)); n >= 50 && (sum.wiped.Load() < n || sum.installs.Load() < n/10 || sum.long.Load() < n/10) {
		t.Errorf("the schedules are too tame: want %d disks wiped, %d snapshots copied, %d with long logs at least", n, n/10, n/10)
	}
}

// joiningSchedule runs one seed, and describes in about what it has drawn.
func joiningSchedule(t *testing.T, seed uint64, sum *joiningTotals, about *string) history.History {
	rng := rand.New(rand.NewPCG(seed, 11))
	how := begin(rng.IntN(int(begins)))
	length := lengths[rng.IntN(len(lengths))]
	snapCount := []uint64{0, 40, 400}[rng.IntN(3)]
	first := cluster.FirstPlan(rng, how.size(), firstSpan)
	if rng.IntN(2) == 0 || how == beginAlone {
		first = nil
	}
	plan := planFromFile(t, cluster.Darkened(cluster.JoiningPlan(rng, how.size(), joiningSpan), joiningDarkEvery, how.size(), joiningSpan))
	*about = fmt.Sprintf("begins %v with %d entries, snapCount %d; faults before it serves:\n%v\nfaults:\n%v", how, length, snapCount, first, plan)
	sum.begun[how].Add(1)
	if length >= 10_000 && how != beginEmpty && how != beginPlanted {
		sum.long.Add(1)
	}
	e := cluster.Start(t, how.size(), cluster.Options{
		Write: maxDiskWrite, Speeds: rand.New(rand.NewPCG(seed, 2)), Logger: logger(), Record: true, Reconfig: true,
		HTTP:   includes(plan, cluster.Snap, cluster.Stray),
		Events: sum.event(), Disks: how.disks(t, length),
		Adjust: func(cfg *member.Config) { cfg.SnapCount = snapCount },
	})
	for _, id := range e.IDs() {
		if snapCount > 0 {
			e.Disk(id).KeepLog(16)
		}
	}
	e.DrawLinks(rand.New(rand.NewPCG(seed, 4)))
	*about = fmt.Sprintf("links of up to %v, %s", e.LinkDelay(), *about)
	e.Play(first, sum.began, func() bool { return true })
	e.Wait("the ensemble to serve after the first faults", serveLimit, func() bool {
		e.Restart()
		return slices.ContainsFunc(e.Members(), func(id uint32) bool {
			return e.Running(id) && slices.Contains([]string{"leader", "standalone"}, e.Member(id).Role())
		})
	})
	writers := startWriters(t, e, rng, changingSessions, joiningWrites, sessionTimeout, changingPace, cluster.NewIDs(how.size())...)
	playChanging(t, e, plan, writers, sum.began)
	sum.changes.Add(uint64(e.Changes()))
	judgeChanged(t, e, writers, &sum.changingTotals)
	for _, id := range e.IDs() {
		sum.installs.Add(uint64(e.Disk(id).Installs()))
	}
	h, err := e.History()
	if err != nil {
		t.Error(err)
	}
	return h
}

// disks returns the disks with which an ensemble begins so. Another one has left them.
func (b begin) disks(t *testing.T, length uint64) map[uint32]*simulated.Disk {
	switch b {
	case beginEmpty:
		return nil
	case beginPlanted:
		_, state := cluster.FormerEnsemble(t, b.size(), 0)
		return map[uint32]*simulated.Disk{1: cluster.PlantedDisk(t, 1, state)}
	case beginRecovered:
		disks, _ := cluster.FormerEnsemble(t, b.size(), length)
		cluster.RecoverDisk(t, 1, disks[1])
		return map[uint32]*simulated.Disk{1: disks[1]}
	}
	disks, _ := cluster.FormerEnsemble(t, b.size(), length)
	return disks
}
