package archive

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Log is what an archive has of one log.
type Log struct {
	Name       string   // the directory: the id of an ensemble or of a disk
	Spans      []Span   // the oldest first
	Unfinished []string // directories of snapshots that lack a part: a sender ended meanwhile, or still sends it
	Unknown    []string // names that are none of an archive

	runs   []run    // by their first entries
	reach  []uint64 // the last entry that a run or one before it has, by the numbers of the runs
	states []state
}

// Span is a part of a log without a gap. Its states are sorted, the oldest first.
type Span struct {
	First, Last uint64 // the entries that it has; Last is First-1 if there is only a snapshot
	states      []state
}

// Begins returns the index of the first state that can be built from the span, and false if none can: no snapshot is at its beginning.
func (s Span) Begins() (index uint64, ok bool) {
	switch {
	case s.First == 1:
		return 0, true
	case len(s.states) == 0:
		return 0, false
	}
	return s.states[0].index, true
}

// List lists the logs of an archive. It reads names only.
func List(ctx context.Context, store Store) (logs []Log, err error) {
	for item, err := range store.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		name, isDir := strings.CutSuffix(item.Name, "/")
		if !isDir || !IsLogName(name) {
			continue // archives may share a directory with other files
		}
		l, err := listLog(ctx, store, name, 0)
		if err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	return logs, nil
}

// IsLogName reports whether a directory in an archive can be that of a log.
func IsLogName(name string) bool {
	for _, prefix := range []string{ensemblePrefix, diskPrefix} {
		if id, found := strings.CutPrefix(name, prefix); found && id != "" && strings.Trim(id, "0123456789abcdef") == "" {
			return true
		}
	}
	return false
}

const (
	ensemblePrefix = "ensemble-"
	diskPrefix     = "disk-"
)

// EnsembleLog returns the name of the log of an ensemble.
func EnsembleLog(id []byte) string { return fmt.Sprintf("%s%x", ensemblePrefix, id) }

// DiskLog returns the name of the log of a standalone server, by the id of its disk.
func DiskLog(id uint64) string { return fmt.Sprintf("%s%016x", diskPrefix, id) }

// listLog lists a log from an index on: the runs and the states that begin at it or after it.
func listLog(ctx context.Context, store Store, name string, from uint64) (l Log, err error) {
	l.Name = name
	for item, err := range store.List(ctx, name+"/"+entriesDir, runsAfter(name, from)) {
		if err != nil {
			return l, err
		}
		if r, ok := parseRun(item.Name); ok {
			r.bytes = item.Bytes
			l.runs = append(l.runs, r)
		} else {
			l.Unknown = append(l.Unknown, item.Name)
		}
	}
	for item, err := range store.List(ctx, name+"/"+statesDir, statesAfter(name, from)) {
		if err != nil {
			return l, err
		}
		s, ok := parseState(item.Name)
		if !ok {
			l.Unknown = append(l.Unknown, item.Name)
			continue
		}
		if s, ok, err = countParts(ctx, store, s); err != nil {
			return l, err
		}
		if ok {
			l.states = append(l.states, s)
		} else {
			l.Unfinished = append(l.Unfinished, item.Name)
		}
	}
	slices.SortFunc(l.runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.first(), b.first()), cmp.Compare(a.last.Index, b.last.Index))
	})
	slices.SortFunc(l.states, func(a, b state) int { return cmp.Or(cmp.Compare(a.index, b.index), strings.Compare(a.dir(), b.dir())) })
	l.findSpans()
	return l, nil
}

// countParts counts the parts of a snapshot. whole is false if one is missing.
func countParts(ctx context.Context, store Store, s state) (_ state, whole bool, err error) {
	found, last := 0, 0
	for item, err := range store.List(ctx, s.dir(), "") {
		if err != nil {
			return s, false, err
		}
		name, isLast := strings.CutSuffix(path.Base(item.Name), lastSuffix)
		number, err := strconv.Atoi(name)
		if err != nil || s.partName(number, isLast) != item.Name {
			continue
		}
		found++
		s.bytes += item.Bytes
		if isLast {
			last = number
		}
	}
	s.parts = last
	return s, last > 0 && found == last, nil
}

// findSpans finds the parts without a gap.
func (l *Log) findSpans() {
	l.reach = make([]uint64, len(l.runs))
	reach := uint64(0)
	for i, r := range l.runs {
		reach = max(reach, r.last.Index)
		l.reach[i] = reach
	}
	for i := 0; i < len(l.runs); {
		span, place := Span{First: l.runs[i].first()}, l.runs[i].last
		for next, ok := l.nextRun(place, nil); ok; next, ok = l.nextRun(place, nil) {
			place = next.last
		}
		span.Last = place.Index
		l.Spans = append(l.Spans, span)
		for i < len(l.runs) && l.runs[i].last.Index <= place.Index {
			i++
		}
	}
	for _, s := range l.states {
		l.addState(s)
	}
	slices.SortFunc(l.Spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last)) })
}

// addState adds a snapshot to the span that continues it, or makes one of it alone.
func (l *Log) addState(s state) {
	for i := range l.Spans {
		if span := &l.Spans[i]; s.index+1 >= span.First && s.index <= span.Last {
			span.states = append(span.states, s)
			return
		}
	}
	l.Spans = append(l.Spans, Span{First: s.index + 1, Last: s.index, states: []state{s}})
}

// nextRun returns the run that leads farthest from a place: it begins with the entry after the place, or before that. Of two that lead
// equally far it returns one that begins at the place, because its name shows that the ends meet. It leaves out the damaged runs.
func (l *Log) nextRun(place EntryID, damaged map[string]bool) (best run, found bool) {
	end, _ := slices.BinarySearchFunc(l.runs, place.Index+2, func(r run, first uint64) int { return cmp.Compare(r.first(), first) })
	for i := end - 1; i >= 0 && l.reach[i] > place.Index; i-- {
		r := l.runs[i]
		meets := r.before.matches(place)
		if r.last.Index <= place.Index || r.first() == place.Index+1 && !meets || len(damaged) > 0 && damaged[r.name()] {
			continue
		}
		if !found || r.last.Index > best.last.Index || r.last.Index == best.last.Index && meets {
			best, found = r, true
		}
	}
	return best, found
}
