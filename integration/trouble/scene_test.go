package trouble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/lab/process"
	"rollcall/lab/target"
)

// tick is tickTime of all members. ZooKeeper's followers and leaders give each other up after five of them (syncLimit).
const tick = 2 * time.Second

// scene is an ensemble of three, with one writer at each member.
type scene struct {
	t         *testing.T
	p         *target.Processes
	gone      []string // members that are down or removed for good
	leader    string   // when the row began
	followers []string
	writers   map[string]*writer // by their first member
	timeout   time.Duration      // of their sessions
	note      string             // what a row has to say beside its gaps
}

// openScene starts an ensemble and its writers.
func openScene(t *testing.T, r row) *scene {
	t.Helper()
	dir, err := os.MkdirTemp(root, "row-")
	if err != nil {
		t.Fatal(err)
	}
	j, err := target.OpenJournal(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := target.ProcessConfig{
		Journal: j, Dir: dir, Binary: rollcall, Program: software(), Jars: os.Getenv("ROLLCALL_ZOOKEEPER_JARS"), Disks: true, Tick: tick,
		Lines: fmt.Sprintf("maxSessionTimeout=%d\n", (2*time.Minute).Milliseconds()) + r.lines[software()],
	}
	p, err := target.NewNamespaces(t.Context(), cfg)
	if err != nil {
		t.Fatal(errors.Join(err, j.Close()))
	}
	s := &scene{t: t, p: p, writers: map[string]*writer{}, timeout: r.timeout}
	t.Cleanup(func() { s.close(j) })
	if s.leader = target.Leader(t.Context(), p.Members()); s.leader == "" {
		t.Fatal("no member leads")
	}
	for _, m := range p.Members() {
		if m.Name != s.leader {
			s.followers = append(s.followers, m.Name)
		}
	}
	for _, m := range p.Members() {
		s.startWriter(m.Name)
	}
	s.awaitServed(process.Patience)
	return s
}

// startWriter starts the writer whose first member has this name.
func (s *scene) startWriter(name string) {
	s.t.Helper()
	var servers []string
	for _, m := range s.p.Members() {
		if m.Name == name {
			servers = slices.Insert(servers, 0, m.Clients)
		} else {
			servers = append(servers, m.Clients)
		}
	}
	w, start := &writer{member: name}, startGo
	if os.Getenv("ROLLCALL_CLIENT") == "kazoo" {
		start = startKazoo
	}
	start(s.t, w, strings.Join(servers, ","), s.timeout)
	s.writers[name] = w
}

// close ends the ensemble, and checks that nothing is left of it.
func (s *scene) close(j *target.Journal) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	if s.t.Failed() {
		s.showLogs()
	}
	if err := s.p.Close(ctx); err != nil {
		s.t.Errorf("Close: %v", err)
	}
	if left := j.Entries(); len(left) > 0 {
		s.t.Errorf("left in the journal after Close: %v", left)
	}
	_ = j.Close() // it holds a lock alone
}

// shownLog is the number of bytes of a member's log that a failure shows.
const shownLog = 4 << 10

func (s *scene) showLogs() {
	for _, m := range s.p.Members() {
		log, err := os.ReadFile(filepath.Join(s.p.Dir(m.Name), "log"))
		s.t.Logf("member %s printed, at the end: %s (%v)", m.Name, log[max(0, len(log)-shownLog):], err)
	}
}

// breakFor makes faults for some time, and ends them.
func (s *scene) breakFor(long time.Duration, faults ...target.Fault) {
	s.t.Helper()
	s.breakAll(faults...)
	sleep(s.t.Context(), long)
	s.repairAll(faults...)
}

// breakUntilServed makes faults, and ends them when all clients are served again, wherever that is.
func (s *scene) breakUntilServed(faults ...target.Fault) {
	s.t.Helper()
	s.breakAll(faults...)
	s.awaitServed(s.timeout + 10*time.Second)
	s.repairAll(faults...)
}

func (s *scene) breakAll(faults ...target.Fault) {
	s.t.Helper()
	for _, f := range faults {
		if err := s.p.Break(s.t.Context(), f); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) repairAll(faults ...target.Fault) {
	s.t.Helper()
	for _, f := range slices.Backward(faults) {
		if err := s.p.Repair(s.t.Context(), f); err != nil {
			s.t.Fatal(err)
		}
	}
}

// settled is the time for which all clients must have been served before a fault counts as over. It is longer than the pauses before
// whatever comes late: members that notice a silence, and connections that were about to end.
const settled = 2 * time.Second

// awaitServed waits until all clients have been served for settled, or until limit has passed: their gaps then say so.
func (s *scene) awaitServed(limit time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	for since := time.Now(); ; {
		if !sleep(ctx, writeInterval/2) {
			return
		}
		now := time.Now()
		for _, w := range s.writers {
			if !w.servedSince(now.Add(-settled)) {
				since = now
			}
		}
		if now.Sub(since) > 2*settled { // so that each of its gaps is in the past
			return
		}
	}
}

// present returns the members that are to be well at the end.
func (s *scene) present() []target.Member {
	return slices.DeleteFunc(s.p.Members(), func(m target.Member) bool { return slices.Contains(s.gone, m.Name) })
}

// patienceWithOthers is the time that members of other software may take until they are well. They may never be: one of
// ZooKeeper 3.9.6 whose disk had failed found log entries and no snapshot, and ended.
const patienceWithOthers = 20 * time.Second

// awaitWell waits until all members are well. Members of other software need not be: then s.note reports that.
func (s *scene) awaitWell(ctx context.Context) error {
	if software() == target.Rollcall {
		return target.AwaitHealthy(ctx, s.present())
	}
	ctx, cancel := context.WithTimeout(ctx, patienceWithOthers)
	defer cancel()
	if err := target.AwaitHealthy(ctx, s.present()); err != nil {
		s.note = err.Error()
	}
	return nil
}

// settle waits until all members are well after a fault, and all clients served.
func (s *scene) settle() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), process.Patience)
	defer cancel()
	if err := s.awaitWell(ctx); err != nil {
		s.t.Fatal(err)
	}
	well := time.Now()
	if err := process.Until(ctx, "all clients are served again", func() bool {
		for _, w := range s.writers {
			if !w.servedSince(well) {
				return false
			}
		}
		return true
	}); err != nil {
		s.t.Error(err)
	}
}
