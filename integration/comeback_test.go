package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
)

// The leader and a have the acknowledged writes, b does not. The leader goes down, a loses its
// disk, and b and a come back without the leader: neither can lead, since neither has the writes.
// Whenever and however the old leader comes back, it leads, and within two ticks clients can write
// through every member.
func TestOldLeaderComesBackToTheWiped(t *testing.T) {
	t.Parallel()
	var leads, serve []time.Duration
	for _, seed := range seedsToRun(t, needs.Amount(10, 15, 120)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				led, served := comeback(t, rand.New(rand.NewPCG(seed, 23)))
				leads, serve = append(leads, led), append(serve, served)
			})
		})
	}
	if len(leads) > 0 {
		fmt.Printf("%d old leaders came back: each led within %v, and clients wrote through all members within %v\n", len(leads), slices.Max(leads), slices.Max(serve))
	}
}

// comeback runs this once. It returns the time until the old leader led, and the time until all served.
func comeback(t *testing.T, rng *rand.Rand) (leads, serve time.Duration) {
	const tick = 2 * time.Second
	pause := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
	e := cluster.Start(t, 3, cluster.Options{Tick: tick, Write: time.Duration(1 + rng.Int64N(int64(maxDiskWrite)))})
	e.Ready()
	e.Joined()
	leader, a, b := e.Leader(), e.Followers()[0], e.Followers()[1]
	if rng.IntN(2) == 0 {
		a, b = b, a
	}
	c := e.Connect(20*tick, leader, a)
	whole := aways(e)
	lacks, leaves := whole[rng.IntN(len(whole))], whole[rng.IntN(len(whole))]
	t.Logf("leader %d %s, member %d %s, member %d wiped", leader, leaves.name, b, lacks.name, a)
	lacks.leave(b)
	pause(3 * time.Second)
	write(t, c, "/acknowledged", 10, nil)
	pause(time.Second)
	first, second := func() { leaves.leave(leader) }, func() { e.Kill(a) }
	if rng.IntN(2) == 0 {
		first, second = second, first
	}
	first()
	pause(tick)
	second()
	e.Wipe(a)
	pause(tick)
	first, second = func() { lacks.back(b) }, func() { e.Boot(a) }
	if rng.IntN(2) == 0 {
		first, second = second, first
	}
	first()
	pause(tick)
	second()
	for end := time.Now().Add(time.Duration(rng.Int64N(int64(30 * time.Second)))); time.Now().Before(end); time.Sleep(tick / 10) {
		for _, id := range leaders(e) {
			if id != leader {
				t.Fatalf("member %d leads, and does not have the acknowledged writes", id)
			}
		}
	}
	leaves.back(leader)
	begun := time.Now()
	e.Wait("the old leader to lead", 2*tick, func() bool { return slices.Equal(leaders(e), []uint32{leader}) })
	leads = time.Since(begun)
	e.Wait("every member to serve", 2*tick, func() bool {
		return !slices.ContainsFunc(e.IDs(), func(id uint32) bool { return e.Member(id).Role() == "" })
	})
	for _, id := range e.IDs() {
		c := e.Connect(20*tick, id)
		write(t, c, fmt.Sprint("/through", id, "-"), 1, nil)
	}
	if serve = time.Since(begun); serve > 2*tick {
		t.Errorf("clients of all members have written after %v, want at most two ticks of %v", serve, tick)
	}
	e.Equal()
	if !has(e, b, "/acknowledged9") {
		t.Error("an acknowledged write is lost")
	}
	return leads, serve
}

// away is a way in which a member goes down and comes back.
type away struct {
	name        string
	leave, back func(id uint32)
}

func aways(e *cluster.Ensemble) []away {
	const ways = cluster.In | cluster.Out | cluster.Silent
	return []away{
		{"killed", e.Kill, e.Boot},
		{"stopped", e.Stop, e.Boot},
		{"paused", e.Pause, e.Resume},
		{"cut off", e.Isolate, e.Rejoin},
		{
			"cut off silently",
			func(id uint32) { e.Shut(id, cluster.GRPCPort, ways); e.Shut(id, cluster.RaftPort, ways) },
			func(id uint32) { e.Unshut(id, cluster.GRPCPort, ways); e.Unshut(id, cluster.RaftPort, ways) },
		},
	}
}
