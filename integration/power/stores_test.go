package power

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"rollcall/config"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/disk"
)

const (
	// keeperDir is the variable that makes the test binary a keeper, in the directory that it names.
	keeperDir = "ROLLCALL_KEEPER"
	// keeperAppends is the variable that makes a keeper open its stores as they are, and append so many entries.
	keeperAppends = "ROLLCALL_KEEPER_APPENDS"
	// journalName is the file in which a keeper records each step when it begins and when it is done.
	journalName = "journal"
	// keeperSteps is the number of a keeper's writes: rounds of all kinds of step.
	keeperSteps = 5 * len(stepKinds)
	// restartEvery is the number of steps after which a keeper opens its stores again. It has no factor in common with
	// the number of kinds.
	restartEvery = 9
)

// stepKinds are the writes of a keeper, in the order of a round. Each is durable when it returns.
var stepKinds = [...]string{"term", "vote", "entries", "list", "first entries go", "server lines", "last entries go"}

// These are keys of raft and of package quorum in the stable store.
var (
	voteTermKey  = []byte("LastVoteTerm")
	candidateKey = []byte("LastVoteCand")
	listKey      = []byte("RollcallList")
)

// holding is the contents of a keeper's stores.
type holding struct {
	term, voteTerm uint64
	candidate      string
	list           int    // the length of the server list
	first, last    uint64 // of the log; 0: it is empty
	servers        string
}

// holdingAfter returns the contents of the stores after the first n steps.
func holdingAfter(n int) holding {
	h := holding{servers: "1"}
	for step := range n {
		h.step(step)
	}
	return h
}

// step makes a step in the model, and returns the write that makes it in the stores.
func (h *holding) step(step int) (write func(d *disk.Data) error) {
	switch stepKinds[step%len(stepKinds)] {
	case "term":
		h.term++
		return func(d *disk.Data) error { return d.Stable().SetTerm(h.term) }
	case "vote":
		h.voteTerm, h.candidate = h.term, fmt.Sprintf("member %d", h.term)
		return func(d *disk.Data) error {
			return errors.Join(d.Stable().SetUint64(voteTermKey, h.voteTerm), d.Stable().Set(candidateKey, []byte(h.candidate)))
		}
	case "entries":
		var logs []*raft.Log
		for range 6 {
			h.last++
			logs = append(logs, &raft.Log{Index: h.last, Term: h.term, Type: raft.LogCommand, Data: make([]byte, 500*h.last)})
		}
		h.first = max(h.first, 1)
		return func(d *disk.Data) error { return d.Log().StoreLogs(logs) }
	case "list": // it takes several pages, and the file grows
		h.list = 20_000 * int(h.term)
		return func(d *disk.Data) error { return d.Stable().Set(listKey, make([]byte, h.list)) }
	case "first entries go":
		from := h.first
		h.first += 2
		return func(d *disk.Data) error { return d.Log().DeleteRange(from, h.first-1) }
	case "server lines":
		h.servers = fmt.Sprintf("1 %d", h.term)
		return func(d *disk.Data) error { return d.WriteIdentity(1, strings.Fields(h.servers)) }
	default: // "last entries go"
		to := h.last
		h.last -= 2
		return func(d *disk.Data) error { return d.Log().DeleteRange(h.last+1, to) }
	}
}

// held reads what stores hold.
func held(d *disk.Data) (h holding, err error) {
	s := d.Stable()
	if h.term, err = s.Term(); err != nil {
		return h, err
	}
	if h.voteTerm, err = s.GetUint64(voteTermKey); err != nil {
		return h, err
	}
	candidate, err := s.Value(candidateKey)
	if err != nil {
		return h, err
	}
	list, err := s.Value(listKey)
	if err != nil {
		return h, err
	}
	h.candidate, h.list, h.servers = string(candidate), len(list), strings.Join(d.ServerList(), " ")
	if h.first, err = d.Log().FirstIndex(); err != nil {
		return h, err
	}
	if h.last, err = d.Log().LastIndex(); err != nil {
		return h, err
	}
	for i := h.first; i > 0 && i <= h.last; i++ {
		if err := d.Log().GetLog(i, new(raft.Log)); err != nil {
			return h, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return h, nil
}

// openKept opens the stores in a keeper's directory.
func openKept(dir string) (*disk.Data, error) {
	return disk.Open(disk.Config{
		MemberID: 1, ServerList: []string{"1"}, DataDir: filepath.Join(dir, "data"), SegmentBytes: 16 << 10,
		RaftRunning: func() bool { return false }, Logger: slog.New(slog.DiscardHandler), RaftLogger: hclog.NewNullLogger(), StallLimit: config.DefaultStallLimit,
	})
}

// keep is the process of a keeper. It begins in an empty directory, and makes all steps. The journal has a line for each start
// with the id of the disk, one before each step, and one after it.
func keep(dir string) error {
	if entries := os.Getenv(keeperAppends); entries != "" {
		return appendTo(dir, entries == "1")
	}
	journal, err := os.OpenFile(filepath.Join(dir, journalName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close()
	var h holding
	for step := 0; step < keeperSteps; {
		d, err := openKept(dir)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(journal, "id %v\n", d.ID()); err != nil {
			return err
		}
		for end := min(step+restartEvery, keeperSteps); step < end; step++ {
			if _, err := fmt.Fprintf(journal, "begin %d\n", step+1); err != nil {
				return err
			}
			if err := h.step(step)(d); err != nil {
				return fmt.Errorf("step %d: %w", step+1, err)
			}
			if _, err := fmt.Fprintf(journal, "done %d\n", step+1); err != nil {
				return err
			}
		}
		if err := d.Close(); err != nil {
			return err
		}
	}
	return nil
}

// appendTo opens the stores in a keeper's directory, and may append an entry.
func appendTo(dir string, one bool) error {
	d, err := openKept(dir)
	if err != nil {
		return err
	}
	last, err := d.Log().LastIndex()
	if err == nil && one {
		err = d.Log().StoreLog(&raft.Log{Index: last + 1})
	}
	return errors.Join(err, d.Close())
}

// told has the steps that a keeper has reported up to a place.
type told struct {
	id          string // of the disk; "": none
	begun, done int    // steps
}

func (k *told) read(journal string) {
	for line := range strings.Lines(journal) {
		_, _ = fmt.Sscanf(line, "id %s", &k.id)
		_, _ = fmt.Sscanf(line, "begin %d", &k.begun)
		_, _ = fmt.Sscanf(line, "done %d", &k.done)
	}
}

// judge opens a keeper's directory. It has the steps that the keeper has reported as done, or also the step that had
// begun, and nothing else. The disk has kept its id. Once it is open, the next vote is stored.
func (k told) judge(dir string) error {
	d, err := openKept(dir)
	if err != nil {
		return fmt.Errorf("a start refuses: %w", err)
	}
	h, err := held(d)
	switch {
	case err != nil:
	case k.id != "" && d.ID().String() != k.id:
		err = fmt.Errorf("the disk has the id %v, and had %s", d.ID(), k.id)
	case h != holdingAfter(k.done) && h != holdingAfter(k.begun):
		err = fmt.Errorf("there is %+v, want %+v or %+v", h, holdingAfter(k.done), holdingAfter(k.begun))
	default:
		err = errors.Join(d.Stable().SetUint64(voteTermKey, h.term+1), d.Stable().Set(candidateKey, []byte("member 1")))
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// keeping is the record of a keeper.
type keeping struct {
	dir string
	d   *recorded
}

func newKeeping(t *testing.T) *keeping {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := &keeping{dir: t.TempDir()}
	k.d = (&recorder{}).record(t, self, k.dir, 1)
	k.d.Env = append(k.d.Env, keeperDir+"="+k.dir)
	return k
}

// run runs a keeper in the empty directory, with a fault at a place of its calls, and returns its reports.
func (k *keeping) run(t *testing.T, at *place) (said told, out string, err error) {
	t.Helper()
	for _, name := range []string{"data", journalName} {
		if err := os.RemoveAll(filepath.Join(k.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	k.d.format(t)
	k.d.setRefusal(func(c *process.Call) syscall.Errno {
		if c.Number == unix.SYS_WRITE && k.d.nameOf(c.Thread, c.Args[0]) == journalName {
			return 0 // the journal is the test's
		}
		return at.refuses(c)
	})
	defer k.d.setRefusal(nil)
	out, err = output(t, k.d.Binary, k.d.Env)
	text, rerr := os.ReadFile(filepath.Join(k.dir, journalName))
	if rerr != nil && at.n == 0 {
		t.Fatal(rerr)
	}
	said.read(string(text))
	return said, out, err
}

// The stores keep terms, votes, the id of the disk, entries and the server lines, whatever a loss of power leaves of the writes since the
// last sync: what was acknowledged is there, and what was under way is there as a whole or not at all.
func TestStoresLosePower(t *testing.T) {
	needs.Check(t, needs.Usual)
	k := newKeeping(t)
	all, out, err := k.run(t, &place{recorded: k.d})
	if err != nil || all.done != keeperSteps {
		t.Fatalf("%d of %d steps: %v\n%s", all.done, keeperSteps, err, out)
	}
	changes := k.d.recorder.all()
	said := saidAt(changes)
	survives := func(place int, v *volume, o *outage) error {
		if err := onDisk(t, v, o, said[place].judge); err != nil {
			return fmt.Errorf("in step %d: %w", said[place].begun, err)
		}
		return nil
	}
	tried := losesPowerEverywhere(t, changes, 1, survives)
	fmt.Printf("power: %s: %d outages at %d places\n", t.Name(), tried, len(changes))
	t.Run("syncs", func(t *testing.T) { needsSyncs(t, changes, keeperSyncs(changes), keeperClasses, survives) })
}

// saidAt returns the reports of a keeper after each number of changes.
func saidAt(changes []change) (said []told) {
	journal, k := 0, told{}
	said = append(said, k)
	for _, c := range changes {
		switch {
		case c.kind == makes && c.name == journalName:
			journal = c.node
		case c.kind == write && c.on == journal:
			k.read(string(c.data))
		}
		said = append(said, k)
	}
	return said
}

// keeperClasses are the syncs of a keeper. A loss of power needs each of them.
var keeperClasses = []string{
	".",
	"data",
	"data/rollcall",
	"data/rollcall/identity.json.tmp",
	"data/rollcall/log",
	againstCopies,
	"data/rollcall/log.durable.tmp",
	"data/rollcall/log/#-#.log",
	"data/rollcall/log/#-#.log.tmp",
	"data/rollcall/log/durable.tmp",
	"data/rollcall/raft.db, a meta page",
	"data/rollcall/raft.db, other pages",
	"data/rollcall/raft.db.tmp",
	"data/rollcall/raft.durable.tmp",
}

// keeperSyncs returns the places of all syncs, by their classes: the path of the synced file. raft.db has a class for
// each of the two syncs of a transaction. The sync that follows a new size alone is left out: the sync of the pages
// keeps the size, too.
func keeperSyncs(changes []change) map[string][]int {
	const metaPages = 2 * 4096
	syncs, last := map[string][]int{}, map[int]change{}
	for place, c := range changes {
		switch c.kind {
		case write, resize, grow:
			last[c.on] = c
		case sync:
			class := figures.ReplaceAllString(c.name, "#")
			if path.Base(class) == "durable" {
				continue // it matters only if the disk has lost what it called durable
			}
			if path.Base(c.name) == "raft.db" {
				switch last := last[c.on]; {
				case last.kind == resize:
					continue
				case last.at < metaPages:
					class += ", a meta page"
				default:
					class += ", other pages"
				}
			}
			syncs[class] = append(syncs[class], place)
		}
	}
	return syncs
}

// A process that is killed, or finds no space, at any of its calls leaves stores with what it has acknowledged, and with
// the step that it had begun or without it. The next start takes votes.
func TestStoresAreInterrupted(t *testing.T) {
	needs.Check(t, needs.Usual)
	k := newKeeping(t)
	whole := &place{recorded: k.d}
	if _, out, err := k.run(t, whole); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rng := rand.New(rand.NewPCG(uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0)), 1))
	for _, kind := range faults {
		places, failed := sample(rng, whole.calls, outages(t, 8)), 0
		for _, n := range places {
			at := &place{recorded: k.d, fault: kind, n: n}
			said, out, err := k.run(t, at)
			if err != nil {
				failed++
			}
			if err := said.judge(k.dir); err != nil {
				t.Errorf("%s at call %d of %d, %s, in step %d: %v\n%s", kind.name, n, whole.calls, at.what, said.begun, err, out)
			}
		}
		fmt.Printf("power: %s: %s at %d of %d calls, of which %d ended the process\n", t.Name(), kind.name, len(places), whole.calls, failed)
		if failed == 0 {
			t.Errorf("%s: no process ended", kind.name)
		}
	}
}

// A process is killed before it has synced its writes, and the next one reads them and continues. From then on they
// survive a loss of power.
func TestStartSyncsWhatItFinds(t *testing.T) {
	needs.Check(t, needs.Usual)
	k := newKeeping(t)
	for _, c := range []struct {
		name, unsynced, appends string // an entry's own sync would make the batch before it durable
	}{{"batch", "data/rollcall/log/#-#.log", "0"}, {"name of a segment", "data/rollcall/log", "1"}} {
		for n := range 4 {
			seen := 0
			for _, name := range []string{"data", journalName} {
				if err := os.RemoveAll(filepath.Join(k.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			k.d.format(t)
			k.d.setRefusal(func(call *process.Call) syscall.Errno {
				syncs := call.Number == unix.SYS_FDATASYNC || call.Number == unix.SYS_FSYNC
				if syncs && figures.ReplaceAllString(k.d.nameOf(call.Thread, call.Args[0]), "#") == c.unsynced {
					if seen++; seen == 3+n {
						_ = unix.Kill(call.Thread, unix.SIGKILL)
						return unix.EIO
					}
				}
				return 0
			})
			if out, err := output(t, k.d.Binary, k.d.Env); err == nil {
				t.Fatalf("%s %d: the process was not killed\n%s", c.name, n, out)
			}
			k.d.setRefusal(nil)
			if out, err := output(t, k.d.Binary, append(k.d.Env, keeperAppends+"="+c.appends)); err != nil {
				t.Fatalf("%s %d: the next start: %v\n%s", c.name, n, err, out)
			}
			changes := k.d.recorder.all()
			changes = changes[lastFormat(changes):]
			want, err := heldIn(k.dir)
			if err != nil {
				t.Fatal(err)
			}
			const nothingKept = 0
			err = onDisk(t, after(changes, len(changes), 1), newOutage(nothingKept, len(changes)), func(dir string) error {
				got, err := heldIn(dir)
				if err == nil && got != want {
					err = fmt.Errorf("there is %+v, and was %+v", got, want)
				}
				return err
			})
			if err != nil {
				t.Errorf("killed before the sync of a %s, %d: %v", c.name, n, err)
			}
		}
	}
}

// heldIn returns the contents of the stores in a keeper's directory.
func heldIn(dir string) (h holding, err error) {
	d, err := openKept(dir)
	if err != nil {
		return h, err
	}
	h, err = held(d)
	return h, errors.Join(err, d.Close())
}
