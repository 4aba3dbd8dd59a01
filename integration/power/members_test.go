package power

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// majority is the number of the three members that must have each acknowledged write.
const majority = 2

// story is the run of three members from their first start on, and the acknowledgements of their clients.
type story struct {
	ensemble *process.Ensemble
	servers  []string // the server lines
	changes  []change
	acked    []acknowledged
	syncs    map[string][]int // the places of the syncs of each class
	settled  uint64           // the last term before the leader is killed; those of later leaders had two votes of disks that are still there
}

// tell runs three members under load, with some more lines of zoo.cfg. They take snapshots, one of them loses its disk
// and copies the log, and then the leader is killed.
func tell(t *testing.T, seed uint64, lines string) *story {
	t.Helper()
	r, disks := &recorder{}, map[*process.Member]*recorded{}
	e := process.StartEnsemble(t, process.Config{
		Size: 3, Tick: tick, Binary: rollcall, Lines: "maxClientCnxns=0\nsnapCount=40\n" + lines,
		Prepare: func(m *process.Member) {
			disks[m] = r.record(t, rollcall, m.Data, m.ID)
			m.Binary, m.Env = disks[m].Binary, disks[m].Env
		},
	})
	s := &story{ensemble: e}
	for _, m := range e.Members {
		_, line, _ := strings.Cut(m.Line, "=")
		s.servers = append(s.servers, line)
	}
	l := startLoad(t, r, e.Members, seed)
	l.await(t, 150)
	first := l.stop()
	s.awaitAllSynced(t, r, first)
	wiped := e.Members[e.Settle().ID%3]
	wiped.Process.Kill()
	e.Empty(wiped)
	disks[wiped].format(t)
	l = startLoadAt(t, r, e.Members, seed, 10_000)
	e.Start(wiped)
	e.Settle()
	e.Joined()
	l.await(t, 100)
	settled := r.place()
	leader := e.Settle()
	leader.Process.Kill()
	e.Start(leader)
	l.await(t, 100)
	s.acked = slices.Concat(first, l.stop())
	e.KillAll()
	s.changes = r.all()
	s.syncs = syncsOf(s.changes)
	all, err := readAll(cutAll(t, s.changes, settled, len(s.servers), whole{}), s.servers)
	if err != nil {
		t.Fatal(err)
	}
	s.settled = lastTerm(all)
	return s
}

// awaitAllSynced waits until each member has synced every acknowledged write. The member that loses its disk then takes one
// copy of three with it. With a write that another member does not have yet, it would take one of two. So the clients do
// not write until the disk is lost.
func (s *story) awaitAllSynced(t *testing.T, r *recorder, acked []acknowledged) {
	t.Helper()
	var missing error
	err := process.Until(t.Context(), "each member has what was acknowledged", func() bool {
		const nothingUnsynced = 0 // the seed of a loss that keeps nothing else
		changes := r.all()
		dirs, _ := cut(t, changes, len(changes), len(s.servers), nothingUnsynced)
		defer removeAll(dirs)
		all, err := readAll(dirs, s.servers)
		if err != nil {
			t.Fatal(err) // at no moment may a member refuse to start
		}
		missing = judge(all, acked, len(s.servers))
		return missing == nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, missing)
	}
}

// removeAll removes directories that would be removed only at the end of the test otherwise.
func removeAll(dirs []string) {
	for _, dir := range dirs {
		_ = os.RemoveAll(dir)
	}
}

// lastTerm returns the last term of which a member has an entry.
func lastTerm(all []kept) (term uint64) {
	for _, k := range all {
		term = max(term, k.lastTerm)
	}
	return term
}

// votes returns an error if too few members have kept that they voted in the last term that had a leader.
func (s *story) votes(all []kept) error {
	term, voted := lastTerm(all), 0
	for _, k := range all {
		if k.voted >= term {
			voted++
		}
	}
	if term > s.settled && voted < majority {
		return fmt.Errorf("term %d had a leader, and %d members have kept that they voted in it, want %d", term, voted, majority)
	}
	return nil
}

// place draws a moment: any, or one just before or after a sync, of each class as often as of any other.
func (s *story) place(rng *rand.Rand) int {
	if rng.IntN(3) == 0 {
		return 1 + rng.IntN(len(s.changes))
	}
	classes := sortedKeys(s.syncs)
	places := s.syncs[classes[rng.IntN(len(classes))]]
	return max(1, min(len(s.changes), places[rng.IntN(len(places))]+rng.IntN(4)))
}

// survives returns an error if three members that lose their power at a place are not as they must be. If the disks forget, too, the
// members must notice that.
func (s *story) survives(t *testing.T, changes []change, place int, seed uint64, forget bool) error {
	dirs, o := cut(t, changes, place, len(s.servers), seed)
	defer removeAll(dirs)
	acked := before(s.acked, place)
	if forget {
		zeroLastSegments(t, dirs)
	}
	all, err := readAll(dirs, s.servers)
	if forget && err != nil {
		return nil
	}
	if err == nil {
		err = errors.Join(judge(all, acked, majority), s.votes(all))
	}
	if err != nil {
		return fmt.Errorf("power was lost after change %d of %d, the disk %v, and has forgotten the last segments of the log: %t: %w", place, len(changes), o, forget, err)
	}
	return nil
}

// zeroLastSegments zeroes the entries in the last segment of each member's log, like a disk that loses bytes after it has
// reported them as stored. The members must reject the directory, unless these segments had no acknowledged write.
func zeroLastSegments(t *testing.T, dirs []string) {
	t.Helper()
	for _, dir := range dirs {
		segments, err := filepath.Glob(filepath.Join(dir, "rollcall", "log", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range slices.Backward(segments) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			const header = 56 // bytes, of a segment
			if len(strings.Trim(string(text[header:]), "\x00")) > 0 {
				writeFile(t, path, string(text[:header])+string(make([]byte, len(text)-header)))
				break
			}
		}
	}
}

// All members lose their power at the same moment. None fails to start, and most of them have every acknowledged write.
// The same story without one kind of sync ends badly.
func TestAllLosePower(t *testing.T) {
	needs.Check(t, needs.Usual)
	first := process.Setting(t, "ROLLCALL_FIRST", 0, 0) // seeds from here on
	s := tell(t, uint64(first), keepsNothing)
	rng := rand.New(rand.NewPCG(uint64(first), 2))
	for seed := first; seed < first+outages(t, 30); seed++ {
		for _, forget := range []bool{false, seed%4 == 0}[:1+(4-seed%4)/4] {
			if err := s.survives(t, s.changes, s.place(rng), uint64(seed), forget); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	t.Run("serve", s.serves)
	t.Run("syncs", s.needsEverySync)
}

// serves starts the members on what a loss of power leaves. They must serve everything that was acknowledged.
func (s *story) serves(t *testing.T) {
	const seed = 0 // keeps nothing that was not synced
	o := newOutage(seed, len(s.changes))
	for _, m := range s.ensemble.Members {
		v := after(s.changes, len(s.changes), m.ID)
		if err := v.cut(o).put(m.Data, v.root); err != nil {
			t.Fatal(err)
		}
		m.Binary, m.Env = rollcall, nil
		s.ensemble.Start(m)
	}
	s.ensemble.Settle()
	for _, m := range s.ensemble.Members {
		if err := shows(m, s.acked); err != nil {
			t.Errorf("the disk %v: member %d: %v", o, m.ID, err)
		}
	}
	s.ensemble.KillAll()
}

// shows reads the nodes that were acknowledged from a member.
func shows(m *process.Member, acked []acknowledged) error {
	raw, err := net.DialTimeout("tcp", m.Clients, answers)
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(process.Patience)); err != nil {
		return err
	}
	conn := wire.New(raw)
	if _, err := conn.Open(sessionTimeout); err != nil {
		return err
	}
	if r, _, err := conn.Call(1, jute.OpSync, &jute.SyncRequest{Path: []byte("/")}); err != nil || r.Err != jute.OK {
		return errors.Join(fmt.Errorf("sync: %v", r), err)
	}
	for _, a := range acked {
		if a.session != 0 {
			continue
		}
		r, _, err := conn.Call(2, jute.OpGetData, &jute.GetDataRequest{Path: []byte(a.path)})
		var found jute.GetDataResponse
		if err == nil {
			err = r.Into(&found)
		}
		if err != nil || string(found.Data) != a.data {
			return fmt.Errorf("%v: %d bytes, %w", a, len(found.Data), err)
		}
	}
	return nil
}

// writeFile writes a text file.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
