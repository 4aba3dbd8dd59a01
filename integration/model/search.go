package model

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// Result is the outcome of a search.
type Result struct {
	States int      // that were found
	Depth  int      // of the last one: how many steps lead to it
	Loss   string   // the first loss, or ""
	Trace  []string // the steps that lead to it
}

// search has the states that were found, in their order.
type search struct {
	m       *Model
	size    int
	chunks  [][]byte          // the states, encoded
	before  []uint32          // by state, the one from which it was reached
	places  map[uint64]uint32 // the number of each state, by its hash, or by the next free one after that
	scratch []byte
	first   *renaming // of the first state
}

const chunkStates = 1 << 16

// Run searches all states within the bounds, breadth first. It ends at the first loss.
func (m *Model) Run() Result {
	x := &search{m: m, places: map[uint64]uint32{}}
	first := m.first()
	x.size = m.size()
	x.first = m.canonical(&first)
	x.add(&first, 0)
	var r Result
	level := 1 // the number of states that are at most r.Depth steps away
	for at := 0; at < len(x.before); at++ {
		if at == level {
			r.Depth++
			level = len(x.before)
		}
		s := m.decode(x.bytes(at))
		if m.Live {
			if up, stuck := m.stuck(&s); stuck {
				return x.lost(r, at, nil, noProgress, up)
			}
		}
		if bad, broken := x.expand(&s, at); broken != none {
			return x.lost(r, at, &bad, broken, 0)
		}
	}
	r.States = len(x.before)
	return r
}

// expand adds the states that follow one. It returns a step that loses something, if there is one.
func (x *search) expand(s *state, at int) (bad step, broken loss) {
	x.m.steps(s, func(n *state, next step) {
		if n.broken != none {
			bad, broken = next, n.broken
			return
		}
		x.m.tidy(n)
		x.m.canonical(n)
		x.add(n, at)
	})
	return bad, broken
}

// tidy removes from s what no step can ever use.
func (m *Model) tidy(s *state) {
	for t, log := range s.sent {
		if log == 0 {
			continue
		}
		used := false
		for i := range m.Disks {
			d := &s.disks[i]
			used = used || d.role != gone && int(d.term) <= t && m.logs.common(d.log, log) < m.logs.all[log].length
		}
		if !used {
			s.sent[t], s.said[t] = 0, word{}
		}
	}
}

func (x *search) bytes(at int) []byte {
	start := at % chunkStates * x.size
	return x.chunks[at/chunkStates][start : start+x.size]
}

// add adds a state that was reached from another one, unless it is there.
func (x *search) add(s *state, from int) {
	x.scratch = x.m.encode(s, x.scratch[:0])
	place := maphash.Bytes(x.m.seed, x.scratch)
	for ; ; place++ {
		at, taken := x.places[place]
		if !taken {
			break
		}
		if bytes.Equal(x.bytes(int(at)), x.scratch) {
			return
		}
	}
	x.places[place] = uint32(len(x.before))
	if len(x.before)%chunkStates == 0 {
		x.chunks = append(x.chunks, make([]byte, 0, chunkStates*x.size))
	}
	last := &x.chunks[len(x.chunks)-1]
	*last = append(*last, x.scratch...)
	x.before = append(x.before, uint32(from))
}

// lost returns the result of a search that ended in the state at, by a step that was not made there, or without one.
func (x *search) lost(r Result, at int, last *step, broken loss, up set) Result {
	r.States, r.Loss = len(x.before), broken.String()
	path := []int{at}
	for at != 0 {
		at = int(x.before[at])
		path = append(path, at)
	}
	slices.Reverse(path)
	names := [maxDisks]int{}
	for i := range names {
		names[i] = i + 1
	}
	x.renameNames(&names, x.first)
	for i, from := range path[:len(path)-1] {
		s := x.m.decode(x.bytes(from))
		next, how := x.between(&s, x.bytes(path[i+1]))
		r.Trace = append(r.Trace, next.text(&names))
		x.renameNames(&names, how)
	}
	if last != nil {
		r.Trace = append(r.Trace, last.text(&names))
	} else {
		r.Trace = append(r.Trace, "only "+list(up, &names)+" go on")
	}
	return r
}

// between returns the step from s to another state, and how the disks were renamed after it.
func (x *search) between(s *state, to []byte) (found step, how *renaming) {
	ok := false
	x.m.steps(s, func(n *state, next step) {
		if ok || n.broken != none {
			return
		}
		x.m.tidy(n)
		r := x.m.canonical(n)
		if string(x.m.encode(n, nil)) == string(to) {
			found, how, ok = next, r, true
		}
	})
	return found, how
}

// renameNames keeps the names of disks that have them in the trace.
func (x *search) renameNames(names *[maxDisks]int, how *renaming) {
	if how == nil {
		return
	}
	old := *names
	for i := range x.m.Disks {
		names[how.to[i]] = old[i]
	}
}

func list(s set, names *[maxDisks]int) string {
	var all []int
	for i := range names {
		if s.has(i) {
			all = append(all, names[i])
		}
	}
	slices.Sort(all)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}

// text describes a step. names are those of the disks in the first state, from 1 on.
func (a *step) text(names *[maxDisks]int) string {
	name := func(i int) string {
		if i < 0 {
			return "the former leader"
		}
		return fmt.Sprint(names[i])
	}
	switch a.kind {
	case begin:
		return name(a.a) + " begins an ensemble of which it is the only voter"
	case stand:
		return fmt.Sprintf("%s stands for election in term %d", name(a.a), a.n)
	case grant:
		return fmt.Sprintf("%s votes for %s in term %d", name(a.a), name(a.b), a.n)
	case write:
		return fmt.Sprintf("%s appends a write at %d and sends it", name(a.a), a.n)
	case change:
		return fmt.Sprintf("%s appends a configuration: %s", name(a.a), list(set(a.n), names))
	case deliver:
		return fmt.Sprintf("%s stores entry %d of %s", name(a.b), a.n, name(a.a))
	case snapshot:
		return fmt.Sprintf("%s puts a snapshot up to %d of %s in place of its log", name(a.b), a.n, name(a.a))
	case flush:
		return fmt.Sprintf("%s has entry %d on its own disk", name(a.a), a.n)
	case crash:
		return fmt.Sprintf("%s is restarted, and has %d entries", name(a.a), a.n)
	case wipe:
		return "the disk of " + name(a.a) + " is lost"
	default:
		return fmt.Sprintf("%s comes in, empty, on the word of %s, in term %d", name(a.a), list(set(a.b), names), a.n)
	}
}
