package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// drawFaults draws n faults from the packages, by seed: first a kind, then a place. It draws
// only faults with which the code compiles, and at most one for each line, unless crowded allows more.
func (t *tree) drawFaults(packages []string, n int, seed uint64, crowded bool) ([]*mutant, error) {
	places := map[string][]*mutant{}
	for _, path := range packages {
		s, err := t.readSource(path)
		if err != nil {
			return nil, err
		}
		for _, m := range t.findFaults(s) {
			places[m.kind] = append(places[m.kind], m)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range kinds {
		all := places[kind]
		slices.SortStableFunc(all, byPlace)
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	var drawn []*mutant
	lines := map[string]bool{}
	left := slices.Clone(kinds)
	for len(drawn) < n && len(left) > 0 {
		i := random.IntN(len(left))
		kind := left[i]
		if len(places[kind]) == 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		m := places[kind][0]
		places[kind] = places[kind][1:]
		line := fmt.Sprintf("%s:%d", m.file.name, m.line)
		m.number = len(drawn) + 1
		if lines[line] && !crowded || !t.compiles(m, drawn) {
			continue
		}
		lines[line] = true
		drawn = append(drawn, m)
	}
	if len(drawn) == 0 {
		return nil, fmt.Errorf("the packages have no place for a fault")
	}
	return drawn, nil
}

// compiles reports whether the code compiles with the fault in it, and also with all that were drawn before it, each
// behind its switch.
func (t *tree) compiles(m *mutant, drawn []*mutant) bool {
	s := t.parsed[m.pkg]
	if _, err := t.checkTypes(s, map[string]string{m.file.path: m.faultyText()}, nil); err != nil {
		return false
	}
	_, err := t.checkTypes(s, guardPackage(s, append(faultsIn(m.pkg, drawn), m)), nil)
	return err == nil
}

// faultsIn returns the faults in a package.
func faultsIn(pkg string, faults []*mutant) []*mutant {
	return slices.DeleteFunc(slices.Clone(faults), func(m *mutant) bool { return m.pkg != pkg })
}

// byPlace orders faults by where they are.
func byPlace(a, b *mutant) int {
	return cmp.Or(cmp.Compare(a.file.name, b.file.name), cmp.Compare(a.edits[0].from, b.edits[0].from), cmp.Compare(a.kind, b.kind))
}
