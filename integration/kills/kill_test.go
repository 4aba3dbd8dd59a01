package kills

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"rollcall/integration/process"
)

// role is who is killed, in terms of what it is at that moment.
type role string

const (
	leader   role = "leader"
	follower role = "follower"
	all      role = "all at once"
	starting role = "starting" // started a moment ago, does not serve yet
)

// round is one kill: whom, and whether in the middle of a snapshot.
type round struct {
	role     role
	snapshot bool
}

// rounds are those of every run, in any order.
var rounds = []round{
	{leader, true},
	{follower, true},
	{leader, true},
	{follower, false},
	{all, true},
	{starting, false},
}

// kill plays one round: it kills, leaves them down for a while, and starts them again.
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
		r.awaitSnapshot(victims[r.rng.IntN(len(victims))])
	}
	if what.role != starting {
		r.strike(what.role, victims)
		r.rest(600)
		r.restart(victims)
		return
	}
	r.strike(follower, victims)
	if r.rng.IntN(2) == 0 {
		r.rest(600)
		r.restart(victims)
		r.rest(120)
	} else {
		time.Sleep(2 * time.Second) // the log goes on beyond what the others keep of it
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

// awaitReceiving waits until a member that starts receives a snapshot, and for a moment of
// that, or until it serves without one.
func (r *run) awaitReceiving(m *process.Member) {
	limit := time.Now().Add(2 * time.Second)
	for i := 0; len(received(m)) == 0 && time.Now().Before(limit); i++ {
		if i%100 == 99 && m.Mode() != "" {
			return // it needed none
		}
		time.Sleep(glance)
	}
	r.rest(5)
}

// glance is how often a folder is looked at for what is there for milliseconds.
const glance = 100 * time.Microsecond

// awaitSnapshot waits until a member writes a snapshot, and for a moment of it.
func (r *run) awaitSnapshot(m *process.Member) {
	limit := time.Now().Add(5 * time.Second)
	for len(unfinished(m)) == 0 && time.Now().Before(limit) {
		time.Sleep(glance)
	}
	time.Sleep(time.Duration(r.rng.Int64N(int64(20 * time.Millisecond))))
}

// unfinished lists the snapshots that are being written, or were when the process died.
func unfinished(m *process.Member) []string {
	found, _ := filepath.Glob(filepath.Join(m.Data, "rollcall", "snapshots", "*.tmp")) // the pattern is good
	return found
}

// received lists the snapshots that are being received, likewise.
func received(m *process.Member) []string {
	found, _ := filepath.Glob(filepath.Join(m.Data, "rollcall", "receiving-*"))
	return found
}

// strike kills members at once, and notes what they were doing.
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

// fresh reports whether one of the paths, which no two snapshots have in common, was not
// there at any former kill: a start that is killed early has not cleaned up yet.
func (r *run) fresh(paths []string) (some bool) {
	for _, path := range paths {
		some = some || !r.left[path]
		r.left[path] = true
	}
	return some
}

// shortening reports whether the process that ended last had told of a snapshot that it
// had begun, and not that it had shortened the log behind it.
func shortening(m *process.Member) bool {
	log := lastWords(m)
	began := strings.LastIndex(log, "raft: starting snapshot up to")
	return began >= 0 && !strings.Contains(log[began:], "raft: snapshot complete up to")
}

// led reports whether the process that ended last led until its end.
func led(m *process.Member) bool {
	log := lastWords(m)
	return strings.LastIndex(log, "raft: entering leader state") > strings.LastIndex(log, "raft: entering follower state")
}

// lastWords is what a member's last process has logged.
func lastWords(m *process.Member) string {
	log := printed(m)
	return log[max(0, strings.LastIndex(log, "member starts")):]
}

// printed is all that a member's processes have logged.
func printed(m *process.Member) string {
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

// leads waits for a member that leads.
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

// awaitAllServing waits until all members serve, and starts those again that ended to be.
func (r *run) awaitAllServing() {
	r.t.Helper()
	if err := process.Until(r.t.Context(), "all members serve", func() bool {
		r.again(r.restart)
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

// again does what is to be done to members that have ended because they must be started
// again: raft's memory of the log was wrong.
func (r *run) again(do func([]*process.Member)) {
	for _, m := range r.Members {
		if m.Process.Running() || !strings.Contains(lastWords(m), "restart needed after a snapshot was installed") {
			continue
		}
		m.Process.Forgive()
		do([]*process.Member{m})
		r.sum.mu.Lock()
		r.sum.again++
		r.sum.mu.Unlock()
	}
}
