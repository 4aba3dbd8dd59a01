package hostile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	againConns = 20     // connections that set watches again, all on one member
	againPaths = 75_000 // in each request
	againFrom  = "127.66.66.69"
	// mostAgain bounds the wait of others at p99 meanwhile, as a multiple of their wait in a quiet ensemble, if that is
	// more than leastAgain.
	mostAgain  = 3
	leastAgain = 50 * time.Millisecond
)

// Twenty connections set 75,000 watches of all five kinds again in each request, as fast as they are answered. Other
// clients of the member write and read meanwhile.
func TestWatchesAgain(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", "")
	victim := e.Members[0]
	again := watchesOfAllKinds(againPaths)
	t.Logf("%d bytes", len(again))
	retry(t, func() verdict {
		calm := o.write(t, calmTime).p99(t, "while calm")
		ctx, cancel := context.WithCancel(t.Context())
		var attackers sync.WaitGroup
		var answered atomic.Int64
		for range againConns {
			attackers.Go(func() { answered.Add(sendAgain(ctx, victim, again)) })
		}
		attack := o.write(t, attackTime).p99(t, "beside setWatches")
		cancel()
		attackers.Wait()
		t.Logf("%d answered; ratio %.1f", answered.Load(), float64(attack)/float64(calm))
		if attack <= max(mostAgain*calm, leastAgain) {
			return verdict{}
		}
		return verdict{wrong: fmt.Sprintf("others wait %v at p99, %v while calm: want at most %d times as long, or %v", attack, calm, mostAgain, leastAgain)}
	})
}

func sendAgain(ctx context.Context, m *process.Member, again raw) (answered int64) {
	sock, err := dialFrom(ctx, m, againFrom)
	if err != nil {
		return 0
	}
	defer sock.Close()
	defer context.AfterFunc(ctx, func() { _ = sock.Close() })()
	c := wire.New(sock)
	if _, err := c.Open(othersTimeout); err != nil {
		return 0
	}
	return repeatRequest(c, jute.OpSetWatches2, again) // it also reads the events of what was missed
}
