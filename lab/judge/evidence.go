// Package judge decides whether an ensemble kept its promises during a drill: from the clients' side, and on Rollcall
// also by what its members know (Testimony). It is a set of pure functions over Evidence, which is plain data. It knows
// no ensemble, so it judges Rollcall, ZooKeeper and ClickHouse Keeper by the same rules.
//
// There is a file for each rule, or for the rules about one thing. Each verdict names the promise and the page of the docs
// that makes it. A rule without anything to judge is NOT RUN, with the reason.
//
// All times are those of one process, by its monotonic clock. The time of a request is taken before it is sent, and
// the time of an answer after it has come. So a rule that says "sent after" or "answered before" errs on the side of
// the ensemble.
package judge

import (
	"cmp"
	"slices"

	"rollcall/lab/result"
)

// Evidence has the requests of a drill's clients, the replies, and what else they noticed. It can be written as JSON. Package load
// collects it; another process with clients of its own may add records, if it converts their times.
type Evidence struct {
	Tick   result.Millis `json:"tickMs,omitempty"` // of the ensemble; 0: unknown
	End    result.Millis `json:"endMs"`            // of the recording
	Faults []Fault       `json:"faults,omitempty"` // what the drill broke; the caller of Judge adds them

	Sessions []Session `json:"sessions,omitempty"`
	Keys     []Key     `json:"keys,omitempty"`
	Creates  []Create  `json:"creates,omitempty"`
	Listings []Listing `json:"listings,omitempty"` // of the nodes of Creates, at the end
	Reads    []Read    `json:"reads,omitempty"`    // in the order of their answers
	Watches  []Step    `json:"watches,omitempty"`  // in the order in which the session's connection delivered them
	Holds    []Hold    `json:"holds,omitempty"`
	Copies   []Copy    `json:"copies,omitempty"`
	Windows  []Window  `json:"windows,omitempty"` // the caller of Judge adds them

	Testimonies []Testimony `json:"testimonies,omitempty"` // of the members; none: they are not Rollcall's, or not known

	Gaps    []result.Gap          `json:"gaps,omitempty"`
	Counts  []result.SessionCount `json:"counts,omitempty"`
	Load    result.Load           `json:"load"`
	Dropped map[string]int        `json:"dropped,omitempty"` // records that were not kept, by kind
	Unread  []string              `json:"unread,omitempty"`  // the members that could not be read at the end, and why
}

// The kinds of records that Dropped counts.
const (
	KindSessions = "sessions"
	KindWrites   = "writes"
	KindCreates  = "creates"
	KindReads    = "reads"
	KindWatches  = "watch steps"
	KindHolds    = "holds"
)

// Fault is something that the drill broke. What the members in it heard from clients may not have reached the others.
type Fault struct {
	Members []string      `json:"members,omitempty"` // nil: all
	From    result.Millis `json:"fromMs"`
	To      result.Millis `json:"toMs"` // when it was healed; 0: never
	Text    string        `json:"text"`
	// Harmless says that what the members heard counts. It may have changed the leader all the same.
	Harmless bool `json:"harmless,omitempty"`
}

// How is the way in which a session ended.
type How string

const (
	Lives     How = ""          // it had not ended at the end of the recording
	Expired   How = "expired"   // a server said so
	Closed    How = "closed"    // by its client, and the close was answered
	Abandoned How = "abandoned" // its client sent nothing more from then on, not even a close
)

// Session is a session of one client.
type Session struct {
	ID      string            `json:"id"`
	Client  string            `json:"client"`
	Timeout result.Millis     `json:"timeoutMs"` // as granted
	Opened  result.Millis     `json:"openedMs"`
	Answers []Answer          `json:"answers,omitempty"` // the latest ones, at most MaxAnswers
	States  []State           `json:"states,omitempty"`  // the latest ones, at most MaxStates
	Ended   How               `json:"ended,omitempty"`
	EndedAt result.Millis     `json:"endedAtMs,omitempty"` // when the client learned it, or did it
	Moves   bool              `json:"moves,omitempty"`     // its client leaves members by itself
	Node    *Ephemeral        `json:"node,omitempty"`      // nil: it has no ephemeral node that an observer lists
	Paused  []result.Interval `json:"paused,omitempty"`    // by the load
}

// MaxAnswers and MaxStates limit the answers and the states that are kept of a session. The answers reach back for
// more than twice the timeout, and no rule needs earlier ones.
const (
	MaxAnswers = 128
	MaxStates  = 64
)

// Ask names a kind of request.
type Ask string

const (
	Connect Ask = "connect" // the handshake, which opens or resumes the session
	Sync    Ask = "sync"
	Write   Ask = "write"
	Query   Ask = "read"
	Ping    Ask = "ping"
)

// Answer is a request of a session that a server answered, if only with an error of the request. An answer that says
// that the session has expired is none.
type Answer struct {
	Sent   result.Millis `json:"sentMs"` // or earlier than it was sent, but not later
	At     result.Millis `json:"atMs"`
	Ask    Ask           `json:"ask"`
	Member string        `json:"member,omitempty"` // "": unknown
}

// State is a change of the state that a client showed.
type State struct {
	At     result.Millis `json:"atMs"`
	Name   string        `json:"name"` // "connected", "suspended"
	On     bool          `json:"on"`   // it showed that it was connected
	Member string        `json:"member,omitempty"`
}

// Ephemeral is the ephemeral node of a session, as its owner and an observer saw it.
type Ephemeral struct {
	Path    string        `json:"path"`
	Created result.Millis `json:"createdMs"` // when that was answered
	// Existed is the time at which the node certainly existed: when the observer sent the sync before the last list with
	// the node.
	Existed result.Millis `json:"existedMs,omitempty"`
	Gone    result.Millis `json:"goneMs,omitempty"`    // the observer had a list without it, after one with it; 0: never
	Missing result.Millis `json:"missingMs,omitempty"` // a write of its owner was answered "no node"; 0: never
}

// Outcome is a client's knowledge of a write.
type Outcome string

const (
	Acked   Outcome = "acknowledged"
	Unknown Outcome = "unknown" // no reply came: it may have been carried out
	Failed  Outcome = "failed"  // it was not carried out
)

// Put is a write to a Key.
type Put struct {
	Sent    result.Millis `json:"sentMs"`
	At      result.Millis `json:"atMs"`
	Session string        `json:"session"`
	Value   int64         `json:"value"`
	Outcome Outcome       `json:"outcome"`
	Version int32         `json:"version,omitempty"` // in the reply
}

// Key is a node that one client writes, from version 0 with value 0 on, with values that increase.
type Key struct {
	Path    string  `json:"path"`
	Puts    []Put   `json:"puts,omitempty"` // in order; those above the limit are missing
	Last    Put     `json:"last"`           // the last one that was acknowledged
	Acked   int     `json:"acked"`          // in all, also those that are not in Puts
	Unknown int     `json:"unknown"`
	Finals  []Final `json:"finals,omitempty"` // what the members showed at the end, after a sync
}

// Final is a Key as a member showed it at the end.
type Final struct {
	Member  string        `json:"member"`
	At      result.Millis `json:"atMs"`
	Value   int64         `json:"value"`
	Version int32         `json:"version"`
	Missing bool          `json:"missing,omitempty"` // there was no node
}

// Create is the creation of a sequential node. No two have the same ID, and the name of the node begins with it.
type Create struct {
	ID      string        `json:"id"`
	Sent    result.Millis `json:"sentMs"`
	At      result.Millis `json:"atMs"`
	Session string        `json:"session"`
	Outcome Outcome       `json:"outcome"`
	Name    string        `json:"name,omitempty"` // in the reply
}

// Listing is the names that a member showed at the end, after a sync.
type Listing struct {
	Member string        `json:"member"`
	At     result.Millis `json:"atMs"`
	Names  []string      `json:"names"`
}

// Read is an answered read of a Key.
type Read struct {
	Session string        `json:"session"`
	Sent    result.Millis `json:"sentMs"`
	At      result.Millis `json:"atMs"`
	Member  string        `json:"member,omitempty"`
	Path    string        `json:"path"`
	Value   int64         `json:"value"`
	Version int32         `json:"version"`
	Mzxid   int64         `json:"mzxid"`
	Zxid    int64         `json:"zxid,omitempty"` // of the reply; 0: unknown
	// Floor is the value that the read must show at least: the session wrote it before, or with Synced, any client had
	// its acknowledgement before the session sent the sync before the read.
	Floor  int64 `json:"floor,omitempty"`
	Synced bool  `json:"synced,omitempty"`
}

// StepKind is a kind of Step.
type StepKind string

const (
	Armed  StepKind = "armed" // a read that sets a watch is answered
	Event  StepKind = "event"
	Seen   StepKind = "seen"   // a read without a watch is answered
	Ending StepKind = "ending" // a read without a watch, after a sync, at the end: all events must have come
)

// Step is one thing that happened to a session that watches a Key with watches that fire once.
type Step struct {
	Session string        `json:"session"`
	At      result.Millis `json:"atMs"`
	Path    string        `json:"path"`
	Kind    StepKind      `json:"kind"`
	Version int32         `json:"version,omitempty"` // of an answer
	Zxid    int64         `json:"zxid,omitempty"`    // of an event; -1: the server does not say
	Text    string        `json:"text,omitempty"`    // of an event: its type
}

// Hold is one time that a client had a lock.
type Hold struct {
	Lock    string        `json:"lock"`
	Client  string        `json:"client"`
	Session string        `json:"session"`
	Token   int64         `json:"token"`
	From    result.Millis `json:"fromMs"` // when Held had first returned true
	To      result.Millis `json:"toMs"`   // when Held was last called and returned true
	Checks  int           `json:"checks"` // the calls of Held that returned true
}

// Copy is the nodes of a member that got its state as a copy.
type Copy struct {
	Kind    CopyKind      `json:"kind"`
	From    result.Millis `json:"fromMs"` // what was acknowledged before is in the copy
	To      result.Millis `json:"toMs"`   // what was sent after is not in it
	Listing Listing       `json:"listing"`
	Keys    []CopiedKey   `json:"keys"`
}

// CopyKind is the origin of a copy.
type CopyKind string

const (
	Restored CopyKind = "restored" // from a backup, into another ensemble
	Joined   CopyKind = "joined"   // by a member that came in
)

// CopiedKey is a Key in a Copy.
type CopiedKey struct {
	Path string `json:"path"`
	Final
}

// Window is a time for which the docs promise more, or less, than at other times.
type Window struct {
	Kind WindowKind    `json:"kind"`
	From result.Millis `json:"fromMs"`
	To   result.Millis `json:"toMs"`
	Text string        `json:"text"`
}

// WindowKind is the promise for a Window.
type WindowKind string

const (
	Calm  WindowKind = "calm"  // no client loses its connection
	Moved WindowKind = "moved" // no session ends, although nothing is served
	// Stopped is a time in which the drill keeps a majority from working: nothing can be answered.
	Stopped WindowKind = "stopped"
)

// tickOr returns the ensemble's tick, or if it is unknown half of the timeout, because servers accept no timeout below
// two ticks by default.
func (e *Evidence) tickOr(timeout result.Millis) result.Millis {
	if e.Tick > 0 {
		return e.Tick
	}
	return timeout / 2
}

// endOfFault returns the end of a fault.
func (e *Evidence) endOfFault(f Fault) result.Millis {
	if f.To <= 0 {
		return e.End
	}
	return f.To
}

// groupBy groups records by a key, such as their session, in the order of the keys. The order within a group stays.
func groupBy[T any, K cmp.Ordered](records []T, key func(T) K) [][]T {
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	var groups [][]T
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && key(sorted[n]) == key(sorted[0]) {
			n++
		}
		groups, sorted = append(groups, sorted[:n]), sorted[n:]
	}
	return groups
}
