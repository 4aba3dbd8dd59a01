package checker

import (
	"fmt"
	"slices"
)

// checkQueues finds elements that were lost, invented, or done twice. An element of Put that was acked must be done or still
// be in the queue. Done that was acked takes it out.
func checkQueues(h History) (found []string) {
	type element struct{ subject, text string }
	put, done := map[element]Outcome{}, map[element]int{}
	unsure := map[element]bool{} // a done of unknown outcome
	for _, e := range h.eventsOf(Put, Take, Done) {
		key := element{e.Subject, e.Text}
		switch {
		case e.Kind == Put:
			put[key] = e.Outcome
		case put[key] == "" || put[key] == Refused:
			found = append(found, fmt.Sprintf("no client had put it: %v", e))
		case e.Kind == Done && e.Outcome == Acked:
			done[key]++
		case e.Kind == Done && e.Outcome == Unknown:
			unsure[key] = true
		case e.Kind == Take && done[key] > 0:
			found = append(found, fmt.Sprintf("taken after it was done: %v", e))
		}
	}
	for key, outcome := range put {
		rest := 0
		for _, text := range h.Rest[key.subject] {
			if text == key.text {
				rest++
			}
		}
		switch {
		case rest > 1:
			found = append(found, fmt.Sprintf("%v is in the queue %d times", key, rest))
		case outcome == Refused && rest > 0:
			found = append(found, fmt.Sprintf("%v is in the queue, but its put had failed", key))
		case done[key] > 1 || done[key] == 1 && rest > 0:
			found = append(found, fmt.Sprintf("%v was done %d times, and is in the queue %d times", key, done[key], rest))
		case outcome == Acked && done[key] == 0 && rest == 0 && !unsure[key]:
			found = append(found, fmt.Sprintf("%v is lost", key))
		}
	}
	return found
}

// maxUnknown limits the adds of unknown outcome for which all totals are tried.
const maxUnknown = 16

// checkCounters finds totals that the adds cannot have made: each acked one counts once, and each unknown one at most once.
func checkCounters(h History) (found []string) {
	sum, unknown := map[string]int64{}, map[string][]int64{}
	for _, e := range h.eventsOf(Add) {
		switch e.Outcome {
		case Acked:
			sum[e.Subject] += e.N
		case Unknown:
			unknown[e.Subject] = append(unknown[e.Subject], e.N)
		}
	}
	for subject, total := range h.Totals {
		adds := unknown[subject]
		if len(adds) > maxUnknown {
			found = append(found, fmt.Sprintf("%s: %d adds of unknown outcome are too many to judge", subject, len(adds)))
			continue
		}
		possible := []int64{sum[subject]}
		for _, n := range adds {
			for _, t := range slices.Clone(possible) {
				possible = append(possible, t+n)
			}
		}
		if !slices.Contains(possible, total) {
			found = append(found, fmt.Sprintf("%s is %d; the acked adds make %d, and %v are unknown", subject, total, sum[subject], adds))
		}
	}
	return found
}

// party is a client at a subject, such as a double barrier, a group, or a right that it waits for.
type party struct {
	subject string
	client  int
}

// doubleBarriers finds clients that entered a double barrier before enough had come, and clients that left it before all
// others. An entry that failed may have been counted by others for some time, so it counts as one that stays.
func doubleBarriers(h History) (found []string) {
	waiting := map[party]int{}       // the index of the last Want
	left := map[party][]int{}        // the indices of all Pass
	entered := map[heldRight]int{}   // the index of Hold
	leaving := map[heldRight]bool{}  // it had called Leave
	leavingAt := map[heldRight]int{} // the index of Release
	ousted := oustedRights(h)
	for i, e := range h.Events {
		key, right := party{e.Subject, e.Client}, heldRight{e.Subject, e.Client, e.Token}
		if h.Parties[e.Subject] == 0 {
			continue
		}
		switch e.Kind {
		case Want:
			waiting[key] = i
		case Hold:
			entered[right] = i
			if n := countParties(waiting, left, key); n < h.Parties[e.Subject] {
				found = append(found, fmt.Sprintf("entered with %d of %d clients: %v", n, h.Parties[e.Subject], e))
			}
		case Release:
			leaving[right], leavingAt[right] = true, i
		case Pass:
			left[key] = append(left[key], i)
			for _, other := range e.Holders {
				stays := heldRight{e.Subject, other.Client, other.Token}
				at, ok := entered[stays]
				if ok && at < leavingAt[right] && !leaving[stays] && !ousted(stays) && !ousted(right) {
					found = append(found, fmt.Sprintf("client %d left before client %d: %v", e.Client, other.Client, e))
				}
			}
		}
	}
	return found
}

// countParties returns the number of clients that may have been at a double barrier since a client began to wait there: all
// that have come and had not left before.
func countParties(waiting map[party]int, left map[party][]int, own party) (n int) {
	for other, came := range waiting {
		lefts := left[other]
		if other.subject == own.subject &&
			(len(lefts) == 0 || lefts[len(lefts)-1] < came || lefts[len(lefts)-1] > waiting[own]) {
			n++
		}
	}
	return n
}

// checkBarriers finds clients that a barrier let through although it was set all the time that they waited. A barrier is set in
// the beginning, and from the reply to the request that sets it to the request that removes it.
func checkBarriers(h History) (found []string) {
	isSet := map[string]bool{}
	seenOpen := map[party]bool{}
	waits := map[party]bool{}
	for _, e := range h.eventsOf(Lift, Lower, Arrive, Through) {
		key := party{e.Subject, e.Client}
		if _, known := isSet[e.Subject]; !known {
			isSet[e.Subject] = true
		}
		switch e.Kind {
		case Lift:
			isSet[e.Subject] = false
			for other := range waits {
				if other.subject == e.Subject {
					seenOpen[other] = true
				}
			}
		case Lower:
			isSet[e.Subject] = true
		case Arrive:
			waits[key], seenOpen[key] = true, !isSet[e.Subject]
		case Through:
			if !seenOpen[key] {
				found = append(found, fmt.Sprintf("the barrier was set: %v", e))
			}
			delete(waits, key)
		}
	}
	return found
}

// checkGroups finds members of a group that are not listed once, and others that are.
func checkGroups(h History) (found []string) {
	present, listed := map[party]bool{}, map[party]int{}
	for _, e := range h.eventsOf(Present, Listed) {
		key := party{e.Subject, e.Client}
		if e.Kind == Present {
			present[key] = true
		} else {
			listed[key]++
		}
	}
	for key := range present {
		if listed[key] != 1 {
			found = append(found, fmt.Sprintf("%+v is listed %d times", key, listed[key]))
		}
	}
	for key := range listed {
		if !present[key] {
			found = append(found, fmt.Sprintf("%+v is listed, but is no member", key))
		}
	}
	return found
}
