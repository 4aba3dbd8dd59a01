package integration

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
)

// killed counts what happened in the schedules of TestLeaderKilledWithWritesInFlight.
type killed struct {
	leaders, resent, dropped, acknowledged, unknown atomic.Uint64
}

// In each schedule the leader of three members is killed while writes of four sessions are in
// flight. Every acknowledged write is there once, in its session's order. Clients of the surviving
// members see no disconnect and no error.
func TestLeaderKilledWithWritesInFlight(t *testing.T) {
	var sum killed
	seeds := seedsToRun(t, needs.Amount(20, 25, 200))
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killLeader(t, seed, &sum) })
		})
	}
	fmt.Printf("%d leaders killed with writes in flight: %d leader changes, %d writes sent again, %d duplicates dropped, %d writes acknowledged, %d of unknown outcome\n",
		len(seeds), sum.leaders.Load(), sum.resent.Load(), sum.dropped.Load(), sum.acknowledged.Load(), sum.unknown.Load())
	if len(seeds) >= 50 && (sum.leaders.Load() == 0 || sum.resent.Load() == 0 || sum.dropped.Load() == 0) {
		t.Error("the schedules are too tame: each of these must happen")
	}
}

func killLeader(t *testing.T, seed uint64, sum *killed) {
	const writes = 30 // of each session
	rng := rand.New(rand.NewPCG(seed, 2))
	e := cluster.Start(t, 3, cluster.Options{Write: time.Duration(1 + rng.Int64N(int64(maxDiskWrite)))})
	e.Ready()
	e.Joined() // the member that started last has caught up and votes
	first := e.Leader()
	writers := startWriters(t, e, rng, sessions, writes, sessionTimeout, 4*time.Millisecond)

	at := rng.Int64N(sessions * writes / 2)
	for told(writers) < at {
		if rng.IntN(8) == 0 {
			sendAgain(e, first, rng)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
	}
	for inFlight(writers) == 0 && !finished(writers) {
		time.Sleep(time.Millisecond)
	}
	if inFlight(writers) == 0 {
		t.Fatal("nothing is in flight")
	}
	e.Kill(first)
	if rng.IntN(2) == 0 {
		time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Second))))
		e.Boot(first)
	}
	for _, w := range writers {
		<-w.done
	}
	if e.Leader() != first {
		sum.leaders.Add(1)
	}
	for _, w := range writers {
		w.check(t)
		sum.acknowledged.Add(uint64(len(w.acked)))
		sum.unknown.Add(uint64(len(w.lost)))
		if n := w.client.Disconnects(); w.client.Home() != first && (n > 0 || len(w.lost) > 0) {
			t.Errorf("%s: client of member %d, which survived, saw %d disconnects and lost sight of %d writes",
				w.dir, w.client.Home(), n, len(w.lost))
		}
	}
	if !e.Running(first) {
		e.Boot(first)
	}
	e.Ready()
	e.Equal()
	s := e.Stats()
	sum.resent.Add(s.ResentTxns)
	sum.dropped.Add(s.DroppedTxns)
}

// sendAgain makes a follower send writes again that are already in the log. It keeps the log from
// the follower for a moment, and meanwhile breaks the connection on which the follower forwards
// writes.
func sendAgain(e *cluster.Ensemble, leader uint32, rng *rand.Rand) {
	f := e.Followers()[rng.IntN(2)]
	e.BlockLog(leader, f)
	time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	e.ResetForwarding(f, leader)
	time.Sleep(time.Duration(40+rng.IntN(60)) * time.Millisecond)
	e.UnblockLog(leader, f)
}

func told(writers []*writer) (n int64) {
	for _, w := range writers {
		n += w.told.Load()
	}
	return n
}

func inFlight(writers []*writer) (n int) {
	for _, w := range writers {
		n += w.client.InFlight()
	}
	return n
}
