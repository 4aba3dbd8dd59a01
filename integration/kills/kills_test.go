package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/process"
	"rollcall/quorum/disk"
)

const (
	// tick makes elections begin 200 ms after the leader has fallen silent.
	tick = 800 * time.Millisecond
	// sessionTimeout is longer than any effect of a kill.
	sessionTimeout = 16 * time.Second
	// defaultRuns is how many ensembles there are; two run at a time.
	defaultRuns = 14
	// sessions is how many sessions write all the time; each member is home to two.
	sessions = 6
	// big nodes of bigSize bytes make snapshots take a while.
	big, bigSize = 256, 16 << 10
)

// Processes are killed and started again under load. Nothing acknowledged is lost, and members are
// equal. ROLLCALL_KILLS sets the number of runs, and ROLLCALL_FIRST the seed of the first one.
func TestKills(t *testing.T) {
	runs, first := process.Setting(t, "ROLLCALL_KILLS", 1, defaultRuns), process.Setting(t, "ROLLCALL_FIRST", 1, 1)
	kinds, err := logKinds()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	sum := &totals{kills: map[role]int{}, kinds: map[disk.LogKind]int{}}
	t.Run("run", func(t *testing.T) {
		for i := range runs {
			t.Run(strconv.Itoa(first+i), func(t *testing.T) {
				t.Parallel()
				play(t, uint64(first+i), kinds[i%len(kinds)], sum)
			})
		}
	})
	sum.print(time.Since(began))
	if !t.Failed() {
		sum.floors(t, runs, kinds)
	}
}

// logKinds returns the kinds of logs that the runs use in turn: both, or only the one that
// ROLLCALL_LOGSTORE names.
func logKinds() ([]disk.LogKind, error) {
	kind := disk.LogKind(os.Getenv("ROLLCALL_LOGSTORE"))
	switch {
	case kind == "":
		return []disk.LogKind{disk.LogBolt, disk.LogWAL}, nil
	case kind.IsKnown():
		return []disk.LogKind{kind}, nil
	}
	return nil, fmt.Errorf("ROLLCALL_LOGSTORE=%s: want %s or %s", kind, disk.LogBolt, disk.LogWAL)
}

// logKindOf returns the kind of all logs in the members' directories that have entries.
func logKindOf(members []*process.Member) (kind disk.LogKind, err error) {
	for _, m := range members {
		dir, err := disk.MemberDirectory(m.Data)
		if err != nil {
			return "", err
		}
		here := disk.LogBolt
		if files, _ := filepath.Glob(filepath.Join(dir, "wal", "*.wal")); len(files) > 0 {
			here = disk.LogWAL
		}
		if kind != "" && here != kind {
			return "", fmt.Errorf("member %d has its log in %s, others in %s", m.ID, here, kind)
		}
		kind = here
	}
	return kind, nil
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

func play(t *testing.T, seed uint64, kind disk.LogKind, sum *totals) {
	r := &run{t: t, sum: sum, rng: rand.New(rand.NewPCG(seed, 9)), left: map[string]bool{}}
	r.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Flags: []string{"-v"}, Size: 3, Tick: tick,
		Lines: fmt.Sprintf("snapCount=100\nmaxClientCnxns=0\nlogStore=%s\n", kind),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.load(ctx)
	for _, i := range r.rng.Perm(len(rounds)) {
		r.rest(400)
		r.kill(rounds[i])
		r.awaitAllServing()
		r.rest(300)
		r.judge(ctx)
		if t.Failed() {
			return
		}
	}
	used, err := logKindOf(r.Members)
	if err != nil || used != kind {
		t.Errorf("the members' logs are in %s (%v), want %s", used, err, kind)
	}
	r.sum.mu.Lock()
	defer r.sum.mu.Unlock()
	r.sum.runs++
	r.sum.kinds[used]++
	for _, m := range r.Members {
		r.sum.installed += strings.Count(printed(m), "raft: Installed remote snapshot")
	}
	for _, w := range r.writers {
		acked, unknown := w.outcomes()
		r.sum.acked += acked
		r.sum.unknown += unknown
	}
}
