package trials

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	// defaultTrials is the number of trials: each combination of ensemble, kind of file and kind of damage once, and
	// most of them twice.
	defaultTrials = 240
	// slots is the number of trials that run in parallel. They mostly wait.
	slots = 6
)

// trial is one line of the table.
type trial struct {
	seed  int
	three bool
	kind  int // index in kinds
	harm  int // index in harms
}

// table returns every combination once.
func table() (all []trial) {
	for _, three := range []bool{false, true} {
		for k := range kinds {
			for h := range harms {
				all = append(all, trial{three: three, kind: k, harm: h})
			}
		}
	}
	return all
}

// counts counts the ends of the trials.
type counts struct {
	mu  sync.Mutex
	all map[harm]map[end]int // by kind of file and name of the damage
}

func (c *counts) add(e end, h harm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h = harm{kind: h.kind, name: h.name}
	if c.all[h] == nil {
		c.all[h] = map[end]int{}
	}
	c.all[h][e]++
}

// of sums the counts of the trials that satisfy in.
func (c *counts) of(in func(harm) bool) map[end]int {
	sum := map[end]int{}
	for h, ends := range c.all {
		for e, n := range ends {
			if in(h) {
				sum[e] += n
			}
		}
	}
	return sum
}

// print prints the counts by kind of file and by kind of damage.
func (c *counts) print() {
	for _, k := range kinds {
		got := c.of(func(h harm) bool { return h.kind == k.name })
		fmt.Printf("trials: %s: right %d, refused %d\n", k.name, got[right], got[refused])
	}
	for _, what := range harms {
		got := c.of(func(h harm) bool { return h.name == what.name })
		fmt.Printf("trials: %s: right %d, refused %d\n", what.name, got[right], got[refused])
	}
}

// floors checks that each kind of damage and each kind of file came to each of its ends at least once, and so did each
// pair of the two whose ends are certain. If only a part of the table ran, it checks only the pairs that ran both alone
// and with others. The kind of file whose content does not matter is not counted for the kinds of damage.
func (c *counts) floors(t *testing.T, played []trial) {
	t.Helper()
	alone, others := map[harm]bool{}, map[harm]bool{}
	for _, tr := range played {
		pair := harm{kind: kinds[tr.kind].name, name: harms[tr.harm].name}
		if tr.three {
			others[pair] = true
		} else {
			alone[pair] = true
		}
	}
	whole := len(played) >= len(table())
	want := func(what string, ends []end, in func(harm) bool) {
		got := c.of(in)
		for _, e := range ends {
			if got[e] == 0 {
				t.Errorf("%s: no trial ended %q, want one at least: right %d, refused %d", what, e, got[right], got[refused])
			}
		}
	}
	for _, k := range kinds {
		if whole {
			want(k.name, k.ends, func(h harm) bool { return h.kind == k.name })
		}
		for i, what := range harms {
			if pair := (harm{kind: k.name, name: what.name}); alone[pair] && others[pair] {
				want(what.name+", "+k.name, certainEnds[k.certain[i]], func(h harm) bool { return h == pair })
			}
		}
	}
	if !whole {
		return
	}
	for _, what := range harms {
		want(what.name, both, func(h harm) bool { return h.name == what.name && h.kind != "lock" })
	}
}

// However a file is damaged, a member has every acknowledged write, or does not start and prints the reason.
func TestTrials(t *testing.T) {
	needs.Check(t, needs.Usual)
	n, first := process.Setting(t, "ROLLCALL_TRIALS", 1, needs.Amount(1, defaultTrials/3+1, defaultTrials)), process.Setting(t, "ROLLCALL_FIRST", 0, 0)
	if one := process.Setting(t, "ROLLCALL_TRIAL", 0, -1); one >= 0 {
		n, first = 1, one
	}
	var played []trial
	all, queue := table(), make(chan trial, n)
	step := (defaultTrials + n - 1) / n // fewer trials are spread over the table
	for i := range n {
		seed := first + i*step
		tr := all[seed%len(all)]
		tr.seed = seed
		played = append(played, tr)
		queue <- tr
	}
	sum := &counts{all: map[harm]map[end]int{}}
	t.Run("slot", func(t *testing.T) {
		close(queue)
		for i := range min(slots, len(queue)) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				s := newSlot(t, rand.New(rand.NewPCG(uint64(i), 1)))
				for tr := range queue {
					t.Run(strconv.Itoa(tr.seed), func(t *testing.T) { tr.play(t, s, sum) })
				}
			})
		}
	})
	sum.print()
	got := sum.of(func(harm) bool { return true })
	if !t.Failed() && got[right]+got[refused] != n || n >= defaultTrials && (got[right] < n/10 || got[refused] < n/3) {
		t.Errorf("of %d trials %d ended with the right data and %d with a refusal", n, got[right], got[refused])
	} else if !t.Failed() {
		sum.floors(t, played)
	}
}

// play damages a file and starts the members.
func (tr trial) play(t *testing.T, s *slot, sum *counts) {
	rng := rand.New(rand.NewPCG(uint64(tr.seed), 2))
	c := s.alone
	if tr.three {
		c = s.three
	}
	i := c.images[0].clone()
	other := c.others[rng.IntN(len(c.others))]
	if kinds[tr.kind].name == "number of the member" {
		other = c.others[len(c.others)-1] // that member is down, so its ports are free
	}
	h := tr.damage(rng, i, other)
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("ROLLCALL_TRIAL") != "" {
			t.Logf("one of %d members: %v; again: ROLLCALL_TRIAL=%d", len(c.members), h, tr.seed)
		}
	})
	if h.path == "" {
		t.Fatal("there is no file of that kind")
	}
	i.put(t, c.members[0].Data)
	for n, m := range c.members[1:] {
		c.images[n+1].put(t, m.Data)
	}
	if tr.three {
		tr.ensemble(t, c, h, sum)
	} else {
		tr.checkAlone(t, c, h, sum)
	}
}

// checkAlone checks a single member, and checks it again after another kill.
func (tr trial) checkAlone(t *testing.T, c cast, h harm, sum *counts) {
	want := maps.Clone(c.want)
	for again := range 2 {
		m := start(t, c.members[0])
		if !m.settles(t) {
			if again > 0 {
				t.Error("the member has served, and does not start again")
			}
			checkRejection(t, m, h, aloneWay)
			sum.add(refused, h)
			return
		}
		if err := read(m.Member, want); err != nil {
			t.Fatalf("start %d: %v", again+1, err)
		}
		createNodes(t, m.Member, rand.New(rand.NewPCG(uint64(tr.seed), 3)), want, 5)
		m.proc.Kill()
	}
	sum.add(right, h)
}

// ensemble checks a member when the third member is down, and a second member needs its data. Without these data no
// member may serve.
func (tr trial) ensemble(t *testing.T, c cast, h harm, sum *counts) {
	damaged, behind := start(t, c.members[0]), start(t, c.members[1], "-v")
	if damaged.settles(t) {
		for _, m := range []*run{damaged, behind} {
			if !until(m.serves) {
				t.Fatalf("member %d does not serve", m.ID)
			}
			if err := read(m.Member, c.want); err != nil {
				t.Fatalf("member %d: %v", m.ID, err)
			}
		}
		sum.add(right, h)
		return
	}
	checkRejection(t, damaged, h, othersWay)
	sum.add(refused, h)
	checkWaits(t, behind)
	if tr.seed%3 > 0 {
		return
	}
	third := start(t, c.members[2])
	for _, m := range []*run{behind, third} {
		if !until(m.serves) {
			t.Fatalf("member %d does not serve", m.ID)
		}
		if err := read(m.Member, c.want); err != nil {
			t.Errorf("member %d: %v", m.ID, err)
		}
	}
}

// vainElections is the number of elections that a member must have lost before it counts as not serving alone. The first
// may have begun while the damaged member was still running.
const vainElections = 2

// checkWaits checks a member that lacks the last writes, when the only other member has ended. It loses elections and never
// serves.
func checkWaits(t *testing.T, m *run) {
	t.Helper()
	serves, before := false, m.elections(t)
	if !until(func() bool {
		serves = serves || m.serves()
		return serves || !m.proc.IsRunning() || m.elections(t) >= before+vainElections
	}) {
		t.Fatalf("member %d, without the last writes and alone, lost %d elections in %v, want %d",
			m.ID, m.elections(t)-before, patience, vainElections)
	}
	if serves {
		t.Errorf("member %d, without the last writes, serves alone", m.ID)
	}
	if !m.proc.IsRunning() {
		t.Errorf("member %d, whose data are whole, has ended", m.ID)
	}
}

var (
	// traces match the output of a program that crashes.
	traces = regexp.MustCompile(`(?m)^(panic:|fatal error:|goroutine \d+|SIG[A-Z]+:|unexpected fault)`)
	// ways match the instructions of a member that ends without finding its data damaged.
	ways = regexp.MustCompile(`start each member with its own number and its own directory|configure the list that the directory has|` +
		`start the newer version|correct one of the two|must be a number from 1 to \d+|it must hold the number of this member`)
)

// These are the instructions of a member with damaged data, if it is alone and if there are others.
const (
	aloneWay  = "The way out: put a copy of the data directory and of the log directory in their place"
	othersWay = "The way out: if the other members have their data, move this member's data directory and log directory away " +
		"and start it with empty ones: it gets everything from them. If not, put a copy of the directories in their place"
)

// checkRejection checks the output of a member that has ended. way is the instruction that it must print if its data are
// damaged.
func checkRejection(t *testing.T, m *run, h harm, way string) {
	t.Helper()
	<-m.proc.Done()
	text := m.printed()
	if trace := traces.FindString(text); trace != "" {
		t.Errorf("the member ended with a stack trace: %s", trace)
	}
	if status := m.proc.Cmd.ProcessState.ExitCode(); status <= 0 {
		t.Errorf("the member ended with status %d", status)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	if !h.names(last, m.Data) {
		t.Errorf("the message does not name %s: %s", filepath.Join(m.Data, cmp.Or(h.part, h.path)), last)
	}
	if !strings.HasSuffix(last, way) && !ways.MatchString(last) {
		t.Errorf("the message does not say what to do: %s", last)
	}
	if os.Getenv("ROLLCALL_TRIAL") != "" {
		t.Logf("refused: %s", last)
	}
}

// damage damages i as the trial says. other supplies files for swapping.
func (tr trial) damage(rng *rand.Rand, i, other image) harm {
	k, what := kinds[tr.kind], harms[tr.harm]
	h := harm{kind: k.name, name: what.name}
	var paths []string
	for _, name := range i.names() {
		if k.is(name) {
			paths = append(paths, name)
		}
	}
	if len(paths) == 0 {
		return h
	}
	h.path = paths[rng.IntN(len(paths))]
	if k.last {
		h.path = paths[len(paths)-1]
	}
	if k.part != "" {
		h.part = filepath.Join(filepath.Dir(h.path), k.part)
	}
	left, there := what.do(rng, i[h.path], other.like(rng, h.path))
	if there {
		i[h.path] = left
	} else {
		delete(i, h.path)
	}
	return h
}
