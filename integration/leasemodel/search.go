package leasemodel

import (
	"hash/maphash"
	"slices"
)

// Result is the outcome of a search.
type Result struct {
	States int
	Depth  int      // how many steps lead to the last state
	Trace  []string // the steps to the first stale read; nil: there is none
}

// known has the states that were found, in their order.
type known struct {
	all     []world
	from    []uint32          // by state, the one from which it was reached
	numbers map[uint64]uint32 // by a state's hash, or the next free one after that
	seed    maphash.Seed
}

// add adds a state that was reached from another one, unless it is there.
func (x *known) add(w *world, from int) {
	place := maphash.Comparable(x.seed, *w)
	for ; ; place++ {
		at, taken := x.numbers[place]
		if !taken {
			break
		}
		if x.all[at] == *w {
			return
		}
	}
	x.numbers[place] = uint32(len(x.all))
	x.all, x.from = append(x.all, *w), append(x.from, uint32(from))
}

// firstWorld has a leader of term 1, whose entry all servers have.
func (m *Model) firstWorld() (w world) {
	first := entry(1)
	if m.Observer {
		first |= addsObserver
	}
	for i := range w.servers {
		w.servers[i] = server{log: [maxLog]entry{first}, length: 1, durable: 1, commit: 1, term: 1}
	}
	w.wins, w.waited, w.acked = 1, 0, 1
	w.servers[0].leadership = leadership{leads: true, won: 1, copies: [voters]uint8{1, 1, 1}}
	return w
}

// Run searches all states within the bounds, breadth first. It ends at the first stale read.
func (m *Model) Run() (r Result) {
	first := m.firstWorld()
	x := &known{seed: maphash.MakeSeed(), numbers: map[uint64]uint32{}}
	x.add(&first, 0)
	level := 1
	for at := 0; at < len(x.all) && r.Trace == nil; at++ {
		if at == level {
			r.Depth++
			level = len(x.all)
		}
		w := x.all[at]
		m.eachStep(&w, func(n world, how step) {
			if r.Trace != nil {
				return
			}
			m.settle(&n)
			if m.isStale(&n) {
				r.Trace = append(m.trace(x, at), how.String())
				return
			}
			m.dropUseless(&n)
			x.add(&n, at)
		})
	}
	r.States = len(x.all)
	return r
}

// isStale reports whether a read has missed a write, or would if it was made now.
func (m *Model) isStale(w *world) bool {
	for i := range w.servers {
		s := &w.servers[i]
		if !m.Reads && s.mayRead(&m.Rules) && (s.commit == s.length || m.ReadsHalf) && s.commit < w.acked {
			return true
		}
	}
	return w.stale
}

// dropUseless removes from w what no step can use.
func (m *Model) dropUseless(w *world) {
	for i := range w.servers {
		l := &w.servers[i]
		if !l.leads {
			continue
		}
		for k := range min(w.acked, maxLog) {
			l.lacking[k] = 0
		}
	}
}

// trace returns the steps to a state.
func (m *Model) trace(x *known, at int) (steps []string) {
	for at != 0 {
		before := x.all[x.from[at]]
		m.eachStep(&before, func(n world, how step) {
			m.settle(&n)
			m.dropUseless(&n)
			if n == x.all[at] && (len(steps) == 0 || steps[len(steps)-1] != "") {
				steps = append(steps, how.String(), "")
			}
		})
		steps = slices.DeleteFunc(steps, func(s string) bool { return s == "" })
		at = int(x.from[at])
	}
	slices.Reverse(steps)
	return steps
}
