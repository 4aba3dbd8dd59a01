package kills

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	// tick makes elections begin 200 ms after the leader has fallen silent.
	tick = 800 * time.Millisecond
	// sessionTimeout is longer than any effect of a kill.
	sessionTimeout = 16 * time.Second
	// sessions is how many sessions write all the time; each member is home to two.
	sessions = 6
	// big nodes of bigSize bytes make snapshots take a while.
	big, bigSize = 256, 16 << 10
)

// Processes are killed and started again under load. Nothing acknowledged is lost, and members are
// equal. ROLLCALL_KILLS sets the number of runs, and ROLLCALL_FIRST the seed of the first one.
func TestKills(t *testing.T) {
	runs, first := process.Setting(t, "ROLLCALL_KILLS", 1, needs.Amount(1, 2, 14)), process.Setting(t, "ROLLCALL_FIRST", 1, 1)
	began := time.Now()
	sum := &totals{kills: map[role]int{}}
	t.Run("run", func(t *testing.T) {
		for i := range runs {
			t.Run(strconv.Itoa(first+i), func(t *testing.T) {
				t.Parallel()
				play(t, uint64(first+i), sum)
			})
		}
	})
	sum.print(time.Since(began))
	if !t.Failed() {
		sum.floors(t, runs)
	}
}

// run is one ensemble and its load.
type run struct {
	*process.Ensemble
	t        *testing.T
	rng      *rand.Rand
	sum      *totals
	writers  []*writer
	visitors *visitors
	coming   []*process.Member // members that come in later; clients know their addresses
	turn     atomic.Uint64     // counts questions, so that each goes to another member
	left     map[string]bool   // unfinished snapshots that kills have left
}

func play(t *testing.T, seed uint64, sum *totals) {
	r := &run{t: t, sum: sum, rng: rand.New(rand.NewPCG(seed, 9)), left: map[string]bool{}}
	r.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Flags: []string{"-v"}, Size: 3, Tick: tick,
		Lines: "snapCount=100\nmaxClientCnxns=0\n",
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.load(ctx)
	for _, i := range r.rng.Perm(len(rounds)) {
		r.continueLoad(400)
		r.kill(rounds[i])
		r.awaitAllServing()
		r.continueLoad(300)
		r.judge(ctx)
		if t.Failed() {
			return
		}
	}
	r.sum.mu.Lock()
	defer r.sum.mu.Unlock()
	r.sum.runs++
	for _, m := range r.Members {
		r.sum.installed += strings.Count(allOutput(m), "raft: Installed remote snapshot")
	}
	for _, w := range r.writers {
		acked, unknown := w.outcomes()
		r.sum.acked += acked
		r.sum.unknown += unknown
	}
}
