package archive

import (
	"fmt"
	"math"
	"path"
	"strings"
	"time"
)

const (
	entriesDir = "entries/"
	statesDir  = "states/"
	timeInName = "20060102T150405Z"
	lastSuffix = ".last"
)

// EntryID identifies an entry of a log. The zero value is the place before the first one.
type EntryID struct {
	Index, Term uint64
	Sum         uint32 // checksum; 0: not known, because only a snapshot has the entry
}

// anyTerm is the term of an entry of which only the index is known.
const anyTerm = math.MaxUint64

// matches reports whether two ids can be of the same entry.
func (e EntryID) matches(o EntryID) bool {
	return e.Index == o.Index && (e.Term == o.Term || e.Term == anyTerm || o.Term == anyTerm) && (e.Sum == o.Sum || e.Sum == 0 || o.Sum == 0)
}

// run is an object with entries.
type run struct {
	log          string
	before, last EntryID // the entry before the first one, and the last one
	member       uint32  // that sent it
	bytes        int64
}

func (r run) first() uint64 { return r.before.Index + 1 }

func (r run) name() string {
	return fmt.Sprintf("%s/%s%020d-%020d.after-%d-%08x.last-%d-%08x.member-%d.zst", r.log, entriesDir, r.first(), r.last.Index,
		r.before.Term, r.before.Sum, r.last.Term, r.last.Sum, r.member)
}

// runsAfter returns a name that comes before those of all runs whose first entry has at least an index.
func runsAfter(log string, index uint64) string {
	return fmt.Sprintf("%s/%s%020d", log, entriesDir, index)
}

// parseRun reads the name of a run.
func parseRun(name string) (r run, ok bool) {
	dir, file := path.Split(name)
	if r.log, ok = strings.CutSuffix(dir, "/"+entriesDir); !ok {
		return r, false
	}
	var first uint64
	n, err := fmt.Sscanf(file, "%020d-%020d.after-%d-%08x.last-%d-%08x.member-%d.zst", &first, &r.last.Index, &r.before.Term, &r.before.Sum,
		&r.last.Term, &r.last.Sum, &r.member)
	r.before.Index = first - 1
	return r, err == nil && n == 7 && first > 0 && r.last.Index >= first && r.last.Index-first < maxRunEntries && r.name() == name
}

// state is a snapshot.
type state struct {
	log         string
	index, term uint64 // of the last entry in it
	at          time.Time
	digest      uint64
	member      uint32 // that sent it
	attempt     uint64 // random
	parts       int
	bytes       int64
}

// dir returns the directory of the parts.
func (s state) dir() string {
	return fmt.Sprintf("%s/%s%020d.term-%d.at-%s.digest-%016x.member-%d.%016x/", s.log, statesDir, s.index, s.term,
		s.at.UTC().Format(timeInName), s.digest, s.member, s.attempt)
}

// partName returns the name of a part, whose numbers begin with 1.
func (s state) partName(number int, last bool) string {
	name := fmt.Sprintf("%s%08d", s.dir(), number)
	if last {
		name += lastSuffix
	}
	return name
}

func statesAfter(log string, index uint64) string {
	return fmt.Sprintf("%s/%s%020d", log, statesDir, index)
}

// parseState reads the name of a snapshot's directory.
func parseState(dir string) (s state, ok bool) {
	above, name := path.Split(strings.TrimSuffix(dir, "/"))
	if s.log, ok = strings.CutSuffix(above, "/"+statesDir); !ok {
		return s, false
	}
	fields := strings.Split(name, ".")
	if len(fields) != 6 {
		return s, false
	}
	for i, form := range []struct {
		text string
		to   any
	}{
		{"%020d", &s.index},
		{"term-%d", &s.term},
		{"", nil},
		{"digest-%016x", &s.digest},
		{"member-%d", &s.member},
		{"%016x", &s.attempt},
	} {
		if form.to == nil {
			continue
		}
		if _, err := fmt.Sscanf(fields[i], form.text, form.to); err != nil {
			return s, false
		}
	}
	at, err := time.Parse("at-"+timeInName, fields[2])
	s.at = at
	return s, err == nil && s.dir() == dir
}
