package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a fault in one line.
type mutant struct {
	number int // from 1 on, of those that are drawn
	kind   string
	pkg    string // import path
	file   *file
	line   int
	edits  []edit
}

// edit replaces a part of a file.
type edit struct {
	from, to int    // bytes of the file
	plain    string // what the fault puts there
	guarded  form   // what stands there while the fault can be switched
}

// form returns code that does the fault if on holds, and else what the original does. The original may itself have
// faults that can be switched.
type form func(on, original string) string

// These forms fit expressions. The fault must have the type of the original.
func never(on, original string) string   { return "(!" + on + " && (" + original + "))" }
func negated(on, original string) string { return "(" + on + " != (" + original + "))" }

// either is for conditions: only one of the two texts is evaluated.
func either(fault string) form {
	return func(on, original string) string {
		return "(" + on + " && (" + fault + ") || !" + on + " && (" + original + "))"
	}
}

// value is for expressions of a type whose name is given.
func value(typ, fault string) form {
	return func(on, original string) string {
		return "(func() " + typ + " { if " + on + " { return " + fault + " }; return " + original + " }())"
	}
}

// These forms fit statements.
func skipped(on, original string) string { return "if !" + on + " { " + original + " }" }

func instead(fault string) form {
	return func(on, original string) string { return "if " + on + " { " + fault + " } else { " + original + " }" }
}

// faultyText returns the file's text with the fault in it.
func (m *mutant) faultyText() string {
	edits := slices.SortedFunc(slices.Values(m.edits), func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	text := string(m.file.text)
	for _, e := range edits {
		text = text[:e.from] + e.plain + text[e.to:]
	}
	return text
}

// changedLines returns the lines that the fault changes, before and after, without the space around them.
func (m *mutant) changedLines() (before, after string) {
	text, changed := string(m.file.text), m.faultyText()
	from, to := len(text), 0
	for _, e := range m.edits {
		from, to = min(from, e.from), max(to, e.to)
	}
	from = strings.LastIndexByte(text[:from], '\n') + 1
	rest := len(text) - to
	if end := strings.IndexByte(text[to:], '\n'); end >= 0 {
		rest -= end
	}
	return oneLine(text[from : len(text)-rest]), oneLine(changed[from : len(changed)-rest])
}

// maxShown limits the bytes of a line that are printed: enough to find it, and a long condition still fits a screen.
const maxShown = 240

// oneLine returns text in one line of at most maxShown bytes.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return text
}

// withMutants returns the file's text with all of the mutants, each of which mutantOn switches.
func withMutants(f *file, mutants []*mutant) string {
	var places []place
	for _, m := range mutants {
		for _, e := range m.edits {
			places = append(places, place{e, fmt.Sprintf("mutantOn(%d)", m.number)})
		}
	}
	// Outer places come first, and of the same place the one that was drawn first.
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	text, rest := fillPlaces(string(f.text), 0, len(f.text), places)
	if len(rest) > 0 {
		panic(fmt.Sprintf("%s: places overlap at %d", f.name, rest[0].from))
	}
	return text
}

// place is an edit with the condition that switches it on.
type place struct {
	edit
	on string
}

// fillPlaces returns the text between the offsets from and to with its places filled in, and the places after it.
func fillPlaces(text string, from, to int, places []place) (string, []place) {
	var b strings.Builder
	for len(places) > 0 && places[0].from >= from && places[0].to <= to {
		p := places[0]
		b.WriteString(text[from:p.from])
		var inner string
		inner, places = fillPlaces(text, p.from, p.to, places[1:])
		b.WriteString(p.guarded(p.on, inner))
		from = p.to
	}
	b.WriteString(text[from:to])
	return b.String(), places
}

// These variables of the environment switch a test binary: to the number of a fault, to 0 for none, or to reach to
// write the numbers of those that are reached to a file.
const (
	mutantVariable  = "ROLLCALL_MUTANT"
	reachedVariable = "ROLLCALL_MUTANTS_REACHED"
	reach           = "-1"
)

// guardFile is the file that each package with faults gets. Its variables depend on nothing of the package, so they are
// set before any other variable of it.
const guardFile = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantSet, _ = strconv.Atoi(os.Getenv("` + mutantVariable + `"))
	mutantFile   = os.Getenv("` + reachedVariable + `")
	mutantSeen   [%d]atomic.Bool
)

func mutantOn(n int) bool {
	return mutantSet != 0 && (mutantSet == n || mutantSet < 0 && mutantReached(n))
}

func mutantReached(n int) bool {
	if mutantSeen[n].Load() || mutantSeen[n].Swap(true) {
		return false
	}
	f, err := os.OpenFile(mutantFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(n) + "\n")
		f.Close()
	}
	if err != nil {
		panic(err)
	}
	return false
}
`

// guardPackage returns the texts of a package with mutants, by the paths of their files.
func guardPackage(s *source, mutants []*mutant) map[string]string {
	last := slices.MaxFunc(mutants, func(a, b *mutant) int { return cmp.Compare(a.number, b.number) }).number
	texts := map[string]string{filepath.Join(s.Dir, "mutants_on.go"): fmt.Sprintf(guardFile, s.types.Name(), last+1)}
	for _, f := range s.files {
		here := slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return m.file != f })
		if len(here) > 0 {
			texts[f.path] = withMutants(f, here)
		}
	}
	return texts
}
