// Package checker checks histories of clients that use recipes: locks, elections, queues and others. A History has the
// actions and observations of the clients, and the nodes of the servers at the end. Each rule is a pure function of a
// History. It returns a line for each violation that it finds.
package checker

import (
	"fmt"
	"slices"
	"time"
)

// Kind is the kind of an Event.
type Kind string

// These are the events of every recipe that gives rights. A right has a Subject, such as the path of a lock.
const (
	Want     Kind = "want"     // a client begins to wait for a right
	Hold     Kind = "hold"     // it got the right, with Token and Node
	Fail     Kind = "fail"     // it did not get it; Text is the error, or "gave up" if the client wanted so
	Release  Kind = "release"  // it begins to release the right with Token
	Sample   Kind = "sample"   // all of Holders reported at the same moment that they hold the right
	Write    Kind = "write"    // a write under a guard, with Token, has ended; Text is its id and Outcome its outcome
	Ousted   Kind = "ousted"   // an operator ends all rights of Session, or the one of Node, which Token created
	Woken    Kind = "woken"    // a watch of the client has fired; Text is the path
	Calm     Kind = "calm"     // all faults are over
	Surprise Kind = "surprise" // an error that the recipe must not return; Text describes it
)

// These are the events of the other recipes.
const (
	Put      Kind = "put"      // an element, Text, was put into a queue; Outcome is known
	Take     Kind = "take"     // an element was taken
	Done     Kind = "done"     // the client was done with an element; Outcome is known
	Add      Kind = "add"      // N was added to a counter; Outcome is known
	Count    Kind = "count"    // N was read from a counter
	Pass     Kind = "pass"     // the client left a double barrier with all others; Holders are those that are members now
	Lift     Kind = "lift"     // the client begins to remove a barrier
	Lower    Kind = "lower"    // the client has set a barrier
	Arrive   Kind = "arrive"   // the client begins to wait for a barrier
	Through  Kind = "through"  // the barrier let the client through
	Vanished Kind = "vanished" // the client's session has ended
	Present  Kind = "present"  // the client is a member of a group, and stays one
	Listed   Kind = "listed"   // the group lists the client, in the end
)

// Outcome is the outcome of a write, as the client knows it.
type Outcome string

// These are all outcomes.
const (
	Acked   Outcome = "acked"   // it was carried out
	Refused Outcome = "refused" // it was not carried out
	Unknown Outcome = "unknown" // it may have been carried out
)

// Event is something that a client did or saw.
type Event struct {
	At        time.Duration // true time since the schedule began
	Client    int
	Kind      Kind
	Subject   string
	Token     int64
	Exclusive bool  // of Want, Hold and Write: no other client may hold the right at the same time
	Session   int64 // of Hold and Ousted
	Node      string
	Text      string
	N         int64
	Outcome   Outcome
	Holders   []Holder
}

// String returns the event as a line of a history.
func (e Event) String() string {
	text := fmt.Sprintf("%10.6f client %d %s %s", e.At.Seconds(), e.Client, e.Kind, e.Subject)
	if e.Token != 0 {
		text += fmt.Sprintf(" token %#x", e.Token)
	}
	for _, field := range []string{e.Node, e.Text, string(e.Outcome)} {
		if field != "" {
			text += " " + field
		}
	}
	if e.N != 0 {
		text += fmt.Sprintf(" %d", e.N)
	}
	if len(e.Holders) > 0 {
		text += fmt.Sprintf(" %+v", e.Holders)
	}
	return text
}

// Holder is a client that holds a right.
type Holder struct {
	Client    int
	Token     int64
	Exclusive bool
	Released  bool // it had released the right before the sample began
}

// Written is a write under a guard that the servers carried out.
type Written struct {
	ID        string
	Token     int64
	Exclusive bool
}

// History is a whole schedule.
type History struct {
	Events  []Event              // in the order in which they happened
	Written map[string][]Written // by subject, in the servers' order
	Limits  map[string]int       // the number of holders that a subject may have; 0: any number, unless one is exclusive
	Parties map[string]int       // of the double barriers: the number of clients
	Left    []string             // nodes that are left after the last release
	Totals  map[string]int64     // of the counters, in the end
	Rest    map[string][]string  // of the queues: the elements in the end
}

// Violation is a rule that a history breaks.
type Violation struct{ Rule, Text string }

// String returns the rule and the text.
func (v Violation) String() string { return v.Rule + ": " + v.Text }

// Waiters is the name of the one rule that also judges a schedule which could not be played to its end.
const Waiters = "waiters"

// rules are all rules by name.
var rules = []struct {
	name  string
	check func(History) []string
}{
	{"holders", checkHolders},
	{"tokens", checkTokens},
	{"order of writes", writeOrder},
	{"outcome of writes", writeOutcomes},
	{Waiters, checkWaiters},
	{"nodes left", nodesLeft},
	{"surprises", checkSurprises},
	{"queue", checkQueues},
	{"counter", checkCounters},
	{"double barrier", doubleBarriers},
	{"barrier", checkBarriers},
	{"group", checkGroups},
}

// Check returns the violations of all rules but Wakes.
func Check(h History) []Violation {
	var all []Violation
	for _, rule := range rules {
		for _, text := range rule.check(h) {
			all = append(all, Violation{rule.name, text})
		}
	}
	return all
}

// eventsOf returns the events of some kinds, in order.
func (h History) eventsOf(kinds ...Kind) []Event {
	return slices.DeleteFunc(slices.Clone(h.Events), func(e Event) bool { return !slices.Contains(kinds, e.Kind) })
}
