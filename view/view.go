// Package view shows an operator the whole ensemble from any member: the members, the sessions, the
// connections, and who watches or owns a node. No member knows all of that. Which sessions exist is
// replicated; the connection of a session is known to the member that serves it, and the time at which
// the session was last heard to the leader. A Collector asks each member for what it knows and puts the
// answers together.
//
//   - Status, Members, Session, Connection, Watch, Owner: what the answers consist of.
//   - Answer: a page of rows, the Cursor of the next page, and the members that did not answer.
//   - Collector: asks all members at the same time, within one deadline.
//
// # What may be missing
//
// A list is read page by page, and each member is asked for its part at its own time. A row that appears
// or moves meanwhile may be missing or be there twice. A member that does not answer is named in
// Answer.Silent, and the rows that only it knows are missing.
//
// # Trust
//
// A member is asked over a connection that has proved its id, but its answer is checked: if it is not an
// answer to the question, it is refused, and the member counts as silent.
//
// There is no lock here. Times are of the asked member's wall clock unless a field says otherwise.
package view

import (
	"time"

	"rollcall/jute"
	"rollcall/tally"
)

const (
	// MaxRows is how many rows a page has at most: some hundred kilobytes, made in a few milliseconds.
	MaxRows = 1000
	// MaxBytes is how many bytes of paths and addresses a member puts into a page. The last row may
	// exceed it.
	MaxBytes = 1 << 20
	// MaxReply is how many bytes a member's reply may have: a page, and a row with the longest path
	// that a client can send, which has 8 MiB.
	MaxReply = 10 << 20
	// MaxDeadline is the longest time within which the members have to answer by default. An operator
	// waits that long.
	MaxDeadline = 2 * time.Second
)

// Answer is a page of rows.
type Answer[T any] struct {
	Rows   []T
	Next   Cursor    // of the next page; "": this is the last one
	Silent []Silence // the members that did not answer, by id
}

// Page says which rows are wanted.
type Page struct {
	Limit int    // the most rows; from 1 to MaxRows; 0: MaxRows
	From  Cursor // Next of the page before; "": the first page
}

// Silence says why a member is missing from an answer.
type Silence struct {
	Member uint32
	Reason Reason
	Detail string
}

// Reason is a reason for a Silence.
type Reason int

// These are the reasons.
const (
	Down    Reason = iota + 1 // the member cannot be reached
	Late                      // no answer came in time
	Older                     // the member's version does not know the question
	Busy                      // the member has too many questions to answer
	Wrong                     // what the member said is no answer to the question
	Skipped                   // the member was silent on an earlier page, and was not asked again
)

var reasonNames = map[Reason]string{
	Down: "down", Late: "no answer in time", Older: "older version", Busy: "busy", Wrong: "wrong answer", Skipped: "not asked again",
}

// String returns the reason as operators see it.
func (r Reason) String() string { return reasonNames[r] }

// State says whether a session's client is connected.
type State int

// These are the states.
const (
	Unknown      State = iota + 1 // the member that the session is attached to did not answer
	Connected                     // a connection carries the session
	Disconnected                  // none does, on the member that the session is attached to
)

var stateNames = map[State]string{Unknown: "unknown", Connected: "connected", Disconnected: "disconnected"}

// String returns the state as operators see it.
func (s State) String() string { return stateNames[s] }

// Session is a session with what all members together know of it.
type Session struct {
	ID         jute.SessionID
	State      State
	Member     uint32 // that it is attached to; 0: none
	Address    string // of the client that connected last, host:port
	Timeout    time.Duration
	Created    time.Time // by the log's time
	Ephemerals int
	Watches    int               // of its connection
	Connection *tally.Connection // nil: it is not connected

	Timed bool          // the leader has answered, and says:
	Heard time.Duration // how long ago it was last heard, or its leader began
	Left  time.Duration // time until its timeout is over if it is not heard
}

// Filter selects sessions. A field that is zero selects all.
type Filter struct {
	ID      jute.SessionID
	Member  uint32
	State   State
	Address string // a host, or host:port
}

// ConnectionFilter selects connections. A field that is zero selects all.
type ConnectionFilter struct {
	Member  uint32
	Address string // a host, or host:port
}

// Connection is a client connection of a member.
type Connection struct {
	Member uint32
	tally.Connection
}

// Watch is a path that a connection of a member watches.
type Watch struct {
	Member uint32
	tally.Watch
}

// Kind is the kind of a node.
type Kind int

// These are the kinds.
const (
	NoNode Kind = iota // there is no such node
	Plain
	Ephemeral
	Container
	TTL
)

var kindNames = map[Kind]string{NoNode: "none", Plain: "persistent", Ephemeral: "ephemeral", Container: "container", TTL: "ttl"}

// String returns the kind as operators see it.
func (k Kind) String() string { return kindNames[k] }

// Owner says which session a node belongs to. Only an ephemeral node has one.
type Owner struct {
	Kind    Kind
	ID      jute.SessionID
	Ended   bool      // the session has ended, and the node is about to be removed
	Session Session   // zero if the session has ended
	Silent  []Silence // the members that did not answer
}
