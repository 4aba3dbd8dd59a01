package checker

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Bound is the true time within which a client that waits must get a right once all faults are over. The sessions of
// clients that have gone end within it, and every other client works for less than a second each time.
const Bound = 45 * time.Second

// heldRight is a right that a client got.
type heldRight struct {
	subject string
	client  int
	token   int64
}

// oustedRights returns a function that reports whether an operator has ended a right, at any time. Its client cannot know
// that at once.
func oustedRights(h History) func(heldRight) bool {
	holds := map[heldRight]Event{}
	for _, e := range h.eventsOf(Hold) {
		holds[heldRight{e.Subject, e.Client, e.Token}] = e
	}
	ousted := h.eventsOf(Ousted)
	return func(right heldRight) bool {
		hold := holds[right]
		return slices.ContainsFunc(ousted, func(o Event) bool {
			return o.Session != 0 && o.Session == hold.Session ||
				o.Node != "" && (o.Node == hold.Node || o.Token != 0 && o.Token == hold.Token)
		})
	}
}

// checkHolders finds moments at which more clients held a right than may hold it, and rights that were held after their
// release. Rights that an operator has ended do not count.
func checkHolders(h History) (found []string) {
	isOusted := oustedRights(h)
	for _, e := range h.eventsOf(Sample) {
		found = append(found, judgeSample(h, e, isOusted)...)
	}
	return found
}

// judgeSample judges the holders of a right at one moment.
func judgeSample(h History, e Event, isOusted func(heldRight) bool) (found []string) {
	exclusive, n := false, 0
	for _, holder := range e.Holders {
		key := heldRight{e.Subject, holder.Client, holder.Token}
		if holder.Released {
			found = append(found, fmt.Sprintf("client %d held token %#x after its release: %v", holder.Client, holder.Token, e))
		}
		if isOusted(key) {
			continue
		}
		n++
		exclusive = exclusive || holder.Exclusive
	}
	limit := h.Limits[e.Subject]
	if n > 1 && exclusive || limit > 0 && n > limit {
		found = append(found, fmt.Sprintf("%d clients held the right at one moment: %v", n, e))
	}
	return found
}

// checkTokens finds rights of two clients with the same token, and exclusive rights that were given with a smaller token than
// an earlier one.
func checkTokens(h History) (found []string) {
	type right struct {
		subject string
		token   int64
	}
	first := map[right]Event{}
	greatest := map[string]int64{}
	isOusted := oustedRights(h) // its client may learn that it has the right when that has ended
	for _, e := range h.eventsOf(Hold) {
		key := right{e.Subject, e.Token}
		if other, ok := first[key]; ok && other.Client != e.Client {
			found = append(found, fmt.Sprintf("two clients got the same token: %v; %v", other, e))
		}
		first[key] = e
		if e.Exclusive && h.Limits[e.Subject] == 1 && e.Token < greatest[e.Subject] && !isOusted(heldRight{e.Subject, e.Client, e.Token}) {
			found = append(found, fmt.Sprintf("the token is smaller than %#x, which was given before: %v", greatest[e.Subject], e))
		}
		greatest[e.Subject] = max(greatest[e.Subject], e.Token)
	}
	return found
}

// writeOrder finds writes under the guard of a right that had ended: the servers carried them out after a write of a
// holder with a greater token, which excludes the first one.
func writeOrder(h History) (found []string) {
	for subject, written := range h.Written {
		if h.Limits[subject] > 1 {
			continue // the holders of a semaphore do not exclude each other
		}
		var last, lastExclusive Written
		for _, w := range written {
			if w.Token < lastExclusive.Token {
				found = append(found, fmt.Sprintf("%s: %+v after %+v", subject, w, lastExclusive))
			} else if w.Exclusive && w.Token < last.Token {
				found = append(found, fmt.Sprintf("%s: %+v after %+v", subject, w, last))
			}
			if w.Token > last.Token {
				last = w
			}
			if w.Exclusive && w.Token > lastExclusive.Token {
				lastExclusive = w
			}
		}
	}
	return found
}

// writeOutcomes finds writes under a guard whose outcome differs from the reply to the client.
func writeOutcomes(h History) (found []string) {
	times := map[string]int{}
	for _, written := range h.Written {
		for _, w := range written {
			times[w.ID]++
		}
	}
	for _, e := range h.eventsOf(Write) {
		n := times[e.Text]
		delete(times, e.Text)
		if n > 1 || n == 0 && e.Outcome == Acked || n > 0 && e.Outcome == Refused {
			found = append(found, fmt.Sprintf("carried out %d times: %v", n, e))
		}
	}
	for id := range times {
		found = append(found, fmt.Sprintf("no client sent the write %s", id))
	}
	return found
}

// checkWaiters finds clients that waited in vain: they still waited, or gave up, when Bound had passed since the last fault. A client whose session has ended does not wait any more.
func checkWaiters(h History) (found []string) {
	calm := time.Duration(-1)
	waiting := map[party]Event{}
	for _, e := range h.eventsOf(Want, Hold, Fail, Calm, Vanished) {
		key := party{e.Subject, e.Client}
		switch e.Kind {
		case Calm:
			calm = e.At
		case Vanished:
			maps.DeleteFunc(waiting, func(w party, _ Event) bool { return w.client == e.Client })
		case Want:
			waiting[key] = e
		case Hold, Fail:
			since, waited := waiting[key]
			delete(waiting, key)
			if waited && calm >= 0 && e.At-max(calm, since.At) > Bound {
				found = append(found, fmt.Sprintf("waited for too long, from %v on: %v", since.At, e))
			}
		}
	}
	for _, e := range waiting {
		found = append(found, fmt.Sprintf("waited in vain: %v", e))
	}
	return found
}

// nodesLeft finds nodes that were left after the last release.
func nodesLeft(h History) []string { return h.Left }

// checkSurprises finds errors that a recipe must not return.
func checkSurprises(h History) (found []string) {
	for _, e := range h.eventsOf(Surprise) {
		found = append(found, e.String())
	}
	return found
}

// Wakes finds nodes whose deletion woke more than one client besides their owner. It holds for mutexes and elections in
// schedules without faults.
func Wakes(h History) (found []Violation) {
	owner := map[string]int{}
	for _, e := range h.eventsOf(Hold) {
		owner[e.Node] = e.Client
	}
	woken := map[string][]Event{}
	for _, e := range h.eventsOf(Woken) {
		if by, ok := owner[e.Text]; ok && by == e.Client {
			continue
		}
		woken[e.Text] = append(woken[e.Text], e)
	}
	for path, events := range woken {
		if len(events) > 1 {
			found = append(found, Violation{"wakes", fmt.Sprintf("%s woke %d clients: %v", path, len(events), events)})
		}
	}
	return found
}
