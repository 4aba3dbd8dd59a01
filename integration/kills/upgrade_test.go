package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/znode"
)

// buildNext builds the version that will follow this one: its format of entries is one higher. Nothing has been released, so no former
// version is left to upgrade from.
func buildNext(t *testing.T) string {
	t.Helper()
	next, err := process.BuildHurried(filepath.Join("..", ".."), t.TempDir(), process.Changed{
		File: "znode/state.go",
		Old:  fmt.Sprint("const FormatLevel = ", znode.FormatLevel),
		New:  fmt.Sprint("const FormatLevel = ", nextFormat),
	})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

const nextFormat = znode.FormatLevel + 1

// Members of this version are upgraded one by one under load to the next one. While one of them is still of this
// version, the others are rolled back. Then all are upgraded again. Leaders of both versions catch up members of the
// other version by snapshots. No acknowledged write is lost, and members are equal throughout. Once all have been
// upgraded, this version rejects the data.
func TestUpgrade(t *testing.T) {
	needs.Check(t, needs.Usual)
	began := time.Now()
	next := buildNext(t)
	r := &run{t: t, sum: &totals{kills: map[role]int{}}, rng: rand.New(rand.NewPCG(1, 9)), left: map[string]bool{}}
	r.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Flags: []string{"-v"}, Size: 3, Tick: tick, Lines: "snapCount=100\nmaxClientCnxns=0\n",
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.load(ctx)
	judge := func() {
		t.Helper()
		if r.judge(ctx); t.Failed() {
			t.FailNow()
		}
		if got := r.minFormat(); got != znode.FormatLevel {
			t.Fatalf("the lowest format announced is %d, want %d", got, znode.FormatLevel)
		}
	}
	judge()

	// The first leader stays at this version until the end.
	last := r.leads()
	first := slices.DeleteFunc(slices.Clone(r.Members), func(m *process.Member) bool { return m == last })
	for _, m := range first {
		r.replaceBehind(m, next)
	}
	judge()
	r.replaceBehind(last, rollcall) // a member of the next version leads by now
	judge()

	for _, m := range first {
		r.replace(m, rollcall)
	}
	judge()

	for _, m := range r.Members {
		r.replace(m, next)
	}
	r.awaitWrites()                  // in entries of the next format
	r.judgeTrees(ctx)                // this test cannot read the directories any more
	r.checkRejected(r.leads(), next) // its log has such entries
	r.judgeTrees(ctx)
	fmt.Printf("upgrade to format %d, roll back, upgrade: %d comparisons of three members, %d writes acknowledged, in %v\n",
		nextFormat, r.sum.comparisons, r.countAcked(), time.Since(began).Round(time.Second))
}

// replace ends a member, and starts it again with another binary.
func (r *run) replace(m *process.Member, to string) {
	r.t.Helper()
	r.terminate(m)
	m.Binary = to
	r.Start(m)
	r.awaitAllServing()
}

// replaceBehind does the same. Before it starts the member, the others go so far on that the leader sends it a snapshot.
func (r *run) replaceBehind(m *process.Member, to string) {
	r.t.Helper()
	r.terminate(m)
	r.goOn(m)
	before := len(allOutput(m))
	m.Binary = to
	r.Start(m)
	if err := process.Until(r.t.Context(), fmt.Sprintf("member %d is sent a snapshot", m.ID), func() bool {
		r.again(r.Members, r.restart)
		return strings.Contains(allOutput(m)[before:], "raft: Installed remote snapshot")
	}); err != nil {
		r.t.Fatal(err)
	}
	r.awaitAllServing()
}

// checkRejected starts a member with this version, which must reject its data, and then with the next one again.
func (r *run) checkRejected(m *process.Member, next string) {
	r.t.Helper()
	r.terminate(m)
	m.Binary = rollcall
	r.Start(m)
	if _, err := m.Process.ExitStatus(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if last, words := lastWords(m), fmt.Sprintf("has format %d, this version knows up to %d", nextFormat, znode.FormatLevel); !strings.Contains(last, words) {
		r.t.Errorf("this version does not refuse the data of the next one with %q:\n%s", words, last)
	}
	m.Binary = next
	r.Start(m)
	r.awaitAllServing()
}

// terminate stops a member with SIGTERM, as an operator does.
func (r *run) terminate(m *process.Member) {
	r.t.Helper()
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if status, err := m.Process.ExitStatus(r.t.Context()); err != nil || status != 0 {
		r.t.Fatalf("member %d after SIGTERM: exit status %d, %v; want 0", m.ID, status, err)
	}
}

// awaitWrites waits until a write of each writer is acknowledged that was sent after the call.
func (r *run) awaitWrites() {
	r.t.Helper()
	for _, w := range r.writers {
		before, _ := w.outcomes()
		if err := process.Until(r.t.Context(), "a write of "+w.dir, func() bool {
			acked, _ := w.outcomes()
			return acked > before+window // at most window of them were in flight
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// countAcked returns the number of acknowledged writes.
func (r *run) countAcked() (n int) {
	for _, w := range r.writers {
		acked, _ := w.outcomes()
		n += acked
	}
	return n
}

// minFormat returns the lowest format announced, from the directory of the first member.
func (r *run) minFormat() uint32 {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := freeze(r.Members[:1], dir); err != nil {
		r.t.Fatal(err)
	}
	s, _, err := compare([]string{directory(dir, r.Members[0])})
	if err != nil {
		r.t.Fatal(err)
	}
	return s.MinFormat()
}
