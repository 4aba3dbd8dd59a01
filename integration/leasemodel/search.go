package leasemodel

import (
	"hash/maphash"
	"slices"
)

// Result is the outcome of a search.
type Result struct {
	States int
	Depth  int // how many steps lead to the last state
	Fault  string
	Trace  []string // the steps to the first fault; nil: there is none
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
	first := entry(1) | startsTerm
	if !m.BeginsWithout {
		first |= grantsLeases
	}
	if m.Observer {
		first |= addsObserver
	}
	for i := range w.servers {
		w.servers[i] = server{log: [maxLog]entry{first}, length: 1, durable: 1, applied: 1, term: 1}
	}
	w.wins, w.waited, w.applied, w.shown[0] = 1, 0, 1, first
	w.servers[0].leadership = leadership{leads: true, won: 1, copies: [voters]uint8{1, 1, 1}, holds: [maxServers]uint8{1, 1, 1, 1}}
	return w
}

// Run searches all states within the bounds, breadth first. It ends at the first fault.
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
			if n.fault != 0 {
				r.Fault, r.Trace = n.fault.String(), m.trace(x, at)
				r.Trace = append(r.Trace, how.String())
				return
			}
			m.forgetReleased(&n)
			x.add(&n, at)
		})
	}
	r.States = len(x.all)
	return r
}

// forgetReleased makes worlds equal that no later step tells apart. Once a leader has released an entry, it needs no replies about it any
// more, so all servers count as having it.
func (m *Model) forgetReleased(w *world) {
	for i := range w.servers {
		l := &w.servers[i]
		if !l.leads {
			continue
		}
		for j := range l.copies {
			l.copies[j] = max(l.copies[j], l.applied)
		}
		for j := range l.holds {
			l.holds[j] = max(l.holds[j], l.applied)
		}
		if l.given <= l.applied {
			l.given = 0
		}
	}
}

// trace returns the steps to a state.
func (m *Model) trace(x *known, at int) (steps []string) {
	for at != 0 {
		before := x.all[x.from[at]]
		m.eachStep(&before, func(n world, how step) {
			m.settle(&n)
			m.forgetReleased(&n)
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
