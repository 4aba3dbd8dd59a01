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

// stateSearch has the states that were found, in their order.
type stateSearch struct {
	m             *Model
	size          int
	chunks        [][]byte          // the states, encoded
	predecessors  []uint32          // by state, the one from which it was reached
	indexByHash   map[uint64]uint32 // the number of each state, by its hash, or by the next free one after that
	scratch       []byte
	firstRenaming *renaming // of the first state
}

const chunkStates = 1 << 16

// Run searches all states within the bounds, breadth first. It ends at the first loss.
func (m *Model) Run() Result {
	x := &stateSearch{m: m, indexByHash: map[uint64]uint32{}}
	first := m.firstState()
	x.size = m.encodedSize()
	x.firstRenaming = m.canonicalize(&first)
	x.addState(&first, 0)
	var r Result
	level := 1 // the number of states that are at most r.Depth steps away
	for at := 0; at < len(x.predecessors); at++ {
		if at == level {
			r.Depth++
			level = len(x.predecessors)
		}
		s := m.decodeState(x.encodedState(at))
		if m.Live {
			if up, stuck := m.findStuckMajority(&s); stuck {
				return x.traceLoss(r, at, nil, noProgress, up)
			}
		}
		if bad, broken := x.expandState(&s, at); broken != none {
			return x.traceLoss(r, at, &bad, broken, 0)
		}
	}
	r.States = len(x.predecessors)
	return r
}

// expandState adds the states that follow one. It returns a step that loses something, if there is one.
func (x *stateSearch) expandState(s *modelState, at int) (bad transition, broken loss) {
	x.m.forEachStep(s, func(n *modelState, next transition) {
		if n.broken != none {
			bad, broken = next, n.broken
			return
		}
		x.m.dropUseless(n)
		x.m.canonicalize(n)
		x.addState(n, at)
	})
	return bad, broken
}

// dropUseless removes from s what no step can ever use.
func (m *Model) dropUseless(s *modelState) {
	for t, log := range s.sentLogs {
		if log == 0 {
			continue
		}
		used := false
		for i := range m.Disks {
			d := &s.disks[i]
			used = used || d.role != gone && int(d.term) <= t && m.logs.commonLength(d.log, log) < m.logs.all[log].length
		}
		if !used {
			s.sentLogs[t], s.toldDurable[t] = 0, durableWord{}
		}
		m.dropUselessAcknowledgements(s, t)
	}
}

// dropUselessAcknowledgements removes what was told directly in a term of entries that are shown already, or where two copies are a majority.
func (m *Model) dropUselessAcknowledgements(s *modelState, term int) {
	acks, most := &s.toldDurable[term].acks, 0
	if *acks == 0 {
		return
	}
	l := m.logs.all[s.sentLogs[term]]
	for _, e := range l.entries[:l.length] {
		most = max(most, e.entryVoters().diskCount())
	}
	shown := m.logs.commonLength(s.sentLogs[term], s.shown)
	for v := range m.Disks {
		if most <= maxEarlyCommitVoters || acks.of(v) <= shown {
			acks.set(v, 0)
		}
	}
}

func (x *stateSearch) encodedState(at int) []byte {
	start := at % chunkStates * x.size
	return x.chunks[at/chunkStates][start : start+x.size]
}

// addState adds a state that was reached from another one, unless it is there.
func (x *stateSearch) addState(s *modelState, from int) {
	x.scratch = x.m.encodeState(s, x.scratch[:0])
	place := maphash.Bytes(x.m.seed, x.scratch)
	for ; ; place++ {
		at, taken := x.indexByHash[place]
		if !taken {
			break
		}
		if bytes.Equal(x.encodedState(int(at)), x.scratch) {
			return
		}
	}
	x.indexByHash[place] = uint32(len(x.predecessors))
	if len(x.predecessors)%chunkStates == 0 {
		x.chunks = append(x.chunks, make([]byte, 0, chunkStates*x.size))
	}
	last := &x.chunks[len(x.chunks)-1]
	*last = append(*last, x.scratch...)
	x.predecessors = append(x.predecessors, uint32(from))
}

// traceLoss returns the result of a search that ended in the state at, by a step that was not made there, or without one.
func (x *stateSearch) traceLoss(r Result, at int, last *transition, broken loss, up diskSet) Result {
	r.States, r.Loss = len(x.predecessors), broken.String()
	path := []int{at}
	for at != 0 {
		at = int(x.predecessors[at])
		path = append(path, at)
	}
	slices.Reverse(path)
	names := [maxDisks]int{}
	for i := range names {
		names[i] = i + 1
	}
	x.renameNames(&names, x.firstRenaming)
	for i, from := range path[:len(path)-1] {
		s := x.m.decodeState(x.encodedState(from))
		next, how := x.findStep(&s, x.encodedState(path[i+1]))
		r.Trace = append(r.Trace, next.describe(&names))
		x.renameNames(&names, how)
	}
	if last != nil {
		r.Trace = append(r.Trace, last.describe(&names))
	} else {
		r.Trace = append(r.Trace, "only "+formatDisks(up, &names)+" go on")
	}
	return r
}

// findStep returns the step from s to another state, and how the disks were renamed after it.
func (x *stateSearch) findStep(s *modelState, to []byte) (found transition, how *renaming) {
	ok := false
	x.m.forEachStep(s, func(n *modelState, next transition) {
		if ok || n.broken != none {
			return
		}
		x.m.dropUseless(n)
		r := x.m.canonicalize(n)
		if string(x.m.encodeState(n, nil)) == string(to) {
			found, how, ok = next, r, true
		}
	})
	return found, how
}

// renameNames keeps the names of disks that have them in the trace.
func (x *stateSearch) renameNames(names *[maxDisks]int, how *renaming) {
	if how == nil {
		return
	}
	old := *names
	for i := range x.m.Disks {
		names[how.to[i]] = old[i]
	}
}

func formatDisks(s diskSet, names *[maxDisks]int) string {
	var all []int
	for i := range names {
		if s.contains(i) {
			all = append(all, names[i])
		}
	}
	slices.Sort(all)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}

// describe describes a step. names are those of the disks in the first state, from 1 on.
func (a *transition) describe(names *[maxDisks]int) string {
	name := func(i int) string {
		if i < 0 {
			return "the former leader"
		}
		return fmt.Sprint(names[i])
	}
	switch a.kind {
	case begin:
		return name(a.disk) + " begins an ensemble of which it is the only voter"
	case stand:
		return fmt.Sprintf("%s stands for election in term %d", name(a.disk), a.value)
	case grant:
		return fmt.Sprintf("%s votes for %s in term %d", name(a.disk), name(a.other), a.value)
	case write:
		return fmt.Sprintf("%s appends a write at %d and sends it", name(a.disk), a.value)
	case change:
		return fmt.Sprintf("%s appends a configuration: %s", name(a.disk), formatDisks(diskSet(a.value), names))
	case deliver:
		return fmt.Sprintf("%s stores entry %d of %s", name(a.other), a.value, name(a.disk))
	case snapshot:
		return fmt.Sprintf("%s puts a snapshot up to %d of %s in place of its log", name(a.other), a.value, name(a.disk))
	case flush:
		return fmt.Sprintf("%s has entry %d on its own disk", name(a.disk), a.value)
	case crash:
		return fmt.Sprintf("%s is restarted, and has %d entries", name(a.disk), a.value)
	case wipe:
		return "the disk of " + name(a.disk) + " is lost"
	default:
		return fmt.Sprintf("%s comes in, empty, on the word of %s, in term %d", name(a.disk), formatDisks(diskSet(a.other), names), a.value)
	}
}
