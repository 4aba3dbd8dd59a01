package main

import (
	"cmp"
	"fmt"
	"slices"
)

// ensemble is the size of an ensemble.
type ensemble struct{ voters, observers int }

// Loads of the part observers, as in the names of its rows after the size.
const (
	setAtAll = "set 64x1"
	getAtAll = "get 64x1"
	setAt    = "set at " // a role follows
)

// clientRoles are the members of the single client.
var clientRoles = []string{"the leader", "a follower", "an observer"}

// observerCurves lists the curves of ensembles with observers: one per number of voters, over the number of
// observers.
var observerCurves = []struct{ load, figure, unit string }{
	{setAtAll, "ops/s", "/s"},
	{setAtAll, "server CPU per op", "µs"},
	{getAtAll, "ops/s", "/s"},
	{getAtAll, "server CPU per op", "µs"},
	{setAt + clientRoles[0], "p50", "ms"},
	{setAt + clientRoles[0], "p99", "ms"},
	{setAt + clientRoles[1], "p50", "ms"},
	{setAt + clientRoles[1], "p99", "ms"},
	{setAt + clientRoles[2], "p50", "ms"},
	{setAt + clientRoles[2], "p99", "ms"},
}

func observerCurveName(voters int, load, figure string) string {
	unit := "voters"
	if voters == 1 {
		unit = "voter"
	}
	return fmt.Sprintf("observers: %s, %s: %d %s", load, figure, voters, unit)
}

// panelByVoters returns a panel of a figure with a curve per number of voters.
func panelByVoters(title, load, figure string) curvePanel {
	p := curvePanel{title: title, linearY: true}
	for _, voters := range membersDrawn {
		p.curves = append(p.curves, observerCurveName(int(voters), load, figure))
	}
	return p
}

// panelsByRole returns a panel per role for the sets of one client.
func panelsByRole(figure string) []curvePanel {
	var list []curvePanel
	for _, role := range clientRoles {
		list = append(list, panelByVoters(fmt.Sprintf("%s of sets, one client at %s, ms", figure, role), setAt+role, figure))
	}
	return list
}

// observerEnsembles returns the measured sizes with observers, in order.
func (k *measurements) observerEnsembles() (sizes []ensemble) {
	for _, row := range k.rowNames("observers") {
		var size ensemble
		if _, err := fmt.Sscanf(row, "%d+%d", &size.voters, &size.observers); err == nil {
			sizes = appendNew(sizes, size)
		}
	}
	slices.SortFunc(sizes, func(a, b ensemble) int {
		return cmp.Or(cmp.Compare(a.voters, b.voters), cmp.Compare(a.observers, b.observers))
	})
	return sizes
}

func (size ensemble) loadSpread(k *measurements, load, figure string) spread {
	return k.rowSpread("observers", fmt.Sprintf("%d+%d %s", size.voters, size.observers, load), "Rollcall", figure)
}

// ObserverSetText describes the CPU time of a set per observer, or returns "" if it was not measured.
func (k *measurements) ObserverSetText() string {
	const voters, observers = 3, 4
	without, with := ensemble{voters, 0}.loadSpread(k, setAtAll, "server CPU per op"),
		ensemble{voters, observers}.loadSpread(k, setAtAll, "server CPU per op")
	if without.runs == 0 || with.runs == 0 {
		return ""
	}
	return fmt.Sprintf("With 64 writers on one machine, a set took %s µs of CPU time in %d voters, and each observer "+
		"added %s µs.",
		formatNumber(without.median), voters, formatNumber((with.median-without.median)/observers))
}

func (k *measurements) HasObservers() bool { return len(k.runsByPart["observers"]) > 0 }
