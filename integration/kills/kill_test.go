package kills

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rollcall/lab/process"
)

// role names the member to kill, by its role at that moment.
type role string

const (
	leader   role = "leader"
	follower role = "follower"
	all      role = "all at once"
	starting role = "starting" // started a moment ago, does not serve yet
)

// round is one kill: the victim, and whether to kill while a snapshot is written, or while the log is shortened after it.
type round struct {
	role     role
	snapshot bool
}

// rounds are the kills of every run, in any order.
var rounds = []round{
	{leader, true},
	{follower, true},
	{leader, true},
	{follower, false},
	{all, true},
	{starting, false},
}

// kill runs one round: it kills members, leaves them down for a while, and starts them again.
func (r *run) kill(what round) {
	r.t.Helper()
	lead := r.leads()
	victims := []*process.Member{r.Members[(lead.ID+r.rng.IntN(2))%len(r.Members)]} // a follower
	switch what.role {
	case leader:
		victims[0] = lead
	case all:
		victims = r.Members
	}
	if what.snapshot {
		victim := victims[r.rng.IntN(len(victims))]
		r.awaitSnapshot(victim)
		if r.rng.IntN(2) == 0 {
			r.awaitShortening(victim)
		} else {
			time.Sleep(time.Duration(r.rng.Int64N(int64(20 * time.Millisecond))))
		}
	}
	if what.role != starting {
		r.strike(what.role, victims)
		r.continueLoad(600)
		r.restart(victims)
		return
	}
	r.strike(follower, victims)
	if r.rng.IntN(2) == 0 {
		r.continueLoad(600)
		r.restart(victims)
		r.continueLoad(120)
	} else {
		r.goOn(victims[0])
		r.restart(victims)
		r.awaitReceiving(victims[0])
	}
	as := starting
	if victims[0].Mode() != "" {
		as = follower
	}
	r.strike(as, victims)
	r.restart(victims)
}

// goOn waits until the others' logs begin after all entries of a member that is down. Each snapshot
// covers at least a hundred entries, and fewer are kept before it.
func (r *run) goOn(down *process.Member) {
	r.t.Helper()
	const snapshots = 3
	taken := func(m *process.Member) int { return strings.Count(allOutput(m), "raft: snapshot complete up to") }
	others := slices.DeleteFunc(slices.Clone(r.Members), func(m *process.Member) bool { return m == down })
	before := map[*process.Member]int{}
	for _, m := range others {
		before[m] = taken(m)
	}
	if err := process.Until(r.t.Context(), "the log goes on without a member", func() bool {
		r.again(others, r.restart)
		return !slices.ContainsFunc(others, func(m *process.Member) bool { return taken(m) < before[m]+snapshots })
	}); err != nil {
		r.t.Fatal(err)
	}
}

// awaitReceiving waits until a member that starts receives a snapshot, and then a moment longer. It
// also returns if the member serves without one.
func (r *run) awaitReceiving(m *process.Member) {
	limit := time.Now().Add(2 * time.Second)
	for i := 0; len(received(m)) == 0 && time.Now().Before(limit); i++ {
		if i%100 == 99 && m.Mode() != "" {
			return // it needed no snapshot
		}
		time.Sleep(glance)
	}
	r.continueLoad(5)
}

// glance is the interval at which a directory is checked for files that exist only for milliseconds.
const glance = 100 * time.Microsecond

// awaitSnapshot waits until a member writes a snapshot.
func (r *run) awaitSnapshot(m *process.Member) {
	limit := time.Now().Add(5 * time.Second)
	for len(unfinished(m)) == 0 && time.Now().Before(limit) {
		time.Sleep(glance)
	}
}

// awaitShortening waits until a member that writes a snapshot has finished it and shortens its log.
func (r *run) awaitShortening(m *process.Member) {
	limit := time.Now().Add(5 * time.Second)
	for len(unfinished(m)) > 0 && time.Now().Before(limit) {
		time.Sleep(glance)
	}
	for shortening(m) && !strings.Contains(lastSnapshot(m), "raft: compacting logs") && time.Now().Before(limit) {
		time.Sleep(glance)
	}
}

// unfinished returns the snapshots that are being written, or were when the process died.
func unfinished(m *process.Member) []string {
	found, _ := filepath.Glob(filepath.Join(m.Data, "rollcall", "snapshots", "*.tmp")) // the pattern is valid
	return found
}

// received returns the snapshots that are being received, or were when the process died.
func received(m *process.Member) []string {
	found, _ := filepath.Glob(filepath.Join(m.Data, "rollcall", "receiving-*"))
	return found
}

// strike kills members at once, and records what they were doing.
func (r *run) strike(as role, victims []*process.Member) {
	process.KillAll(victims)
	if as == leader && !led(victims[0]) {
		as = follower
	}
	r.sum.mu.Lock()
	defer r.sum.mu.Unlock()
	r.sum.kills[as]++
	r.sum.processes += len(victims)
	writing, compacting, receiving := 0, 0, 0
	for _, m := range victims {
		switch {
		case r.fresh(received(m)):
			receiving++
		case r.fresh(unfinished(m)):
			writing++
		case shortening(m):
			compacting++
		}
	}
	switch {
	case writing > 0:
		r.sum.writing++
	case compacting > 0:
		r.sum.compacting++
	case receiving > 0:
		r.sum.receiving++
	}
}

// fresh reports whether at least one of the paths was not there at any earlier kill. No two
// snapshots have a path in common. A start that is killed early has not cleaned up yet.
func (r *run) fresh(paths []string) (some bool) {
	for _, path := range paths {
		some = some || !r.left[path]
		r.left[path] = true
	}
	return some
}

// shortening reports whether the last process has logged that it began a snapshot, and not that it
// has shortened the log after it.
func shortening(m *process.Member) bool {
	log := lastSnapshot(m)
	return log != "" && !strings.Contains(log, "raft: snapshot complete up to")
}

// lastSnapshot returns the last process's log from the begin of its last snapshot on, or nothing if it has begun none.
func lastSnapshot(m *process.Member) string {
	log := lastWords(m)
	if began := strings.LastIndex(log, "raft: starting snapshot up to"); began >= 0 {
		return log[began:]
	}
	return ""
}

// led reports whether the last process led until its end.
func led(m *process.Member) bool {
	log := lastWords(m)
	return strings.LastIndex(log, "raft: entering leader state") > strings.LastIndex(log, "raft: entering follower state")
}

// lastWords returns the log of a member's last process.
func lastWords(m *process.Member) string {
	log := allOutput(m)
	return log[max(0, strings.LastIndex(log, "member starts")):]
}

// allOutput returns the logs of all of a member's processes.
func allOutput(m *process.Member) string {
	text, err := os.ReadFile(m.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (r *run) restart(members []*process.Member) {
	for _, m := range members {
		r.Start(m)
	}
	r.sum.mu.Lock()
	defer r.sum.mu.Unlock()
	r.sum.restarts += len(members)
}

// leads waits for a leader and returns it.
func (r *run) leads() (found *process.Member) {
	r.t.Helper()
	if err := process.Until(r.t.Context(), "a member leads", func() bool {
		for _, m := range r.Members {
			if m.Mode() == "leader" {
				found = m
			}
		}
		return found != nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return found
}

// awaitAllServing waits until all members serve, and starts members again that ended because they had started again
// in their processes too often.
func (r *run) awaitAllServing() {
	r.t.Helper()
	if err := process.Until(r.t.Context(), "all members serve", func() bool {
		r.again(r.Members, r.restart)
		for _, m := range r.Members {
			if m.Mode() == "" {
				return false
			}
		}
		return true
	}); err != nil {
		r.t.Fatal(err)
	}
}

// again calls do with each of members that has ended because it must be started again, and has done so too often by itself: raft's memory
// of the log was wrong.
func (r *run) again(members []*process.Member, do func([]*process.Member)) {
	for _, m := range members {
		if m.Process.IsRunning() || !strings.Contains(lastWords(m), "must start again after a snapshot was installed") {
			continue
		}
		m.Process.Forgive()
		do([]*process.Member{m})
		r.sum.mu.Lock()
		r.sum.again++
		r.sum.mu.Unlock()
	}
}
