// Package view shows an operator the whole ensemble from any member: the members, the sessions, the
// connections, and who watches or owns a node. No member knows all of that. Which sessions exist is
// replicated; the connection of a session is known to the member that serves it, and the time at which
// the session was last heard to the leader. A Collector asks each member for what it knows and puts the
// answers together.
//
//   - Members: the servers of the ensemble, and what each of them does. All other answers are of the types of package api.
//   - Collector: asks all members at the same time, within one deadline.
//
// # What may be missing
//
// A list is read page by page, and each member is asked for its part at its own time. A row that appears
// or moves meanwhile may be missing or be there twice. A member that does not answer is named in
// api.List.Silent, and the rows that only it knows are missing.
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

	"rollcall/zk/jute"
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

// Page says which rows are wanted.
type Page struct {
	Limit  int    // the most rows; from 1 to MaxRows; 0: MaxRows
	Cursor string // Next of the page before; "": the first page
}

// These are the reasons of an api.Silence.
const (
	ReasonDown    = "down"              // the member cannot be reached
	ReasonLate    = "no answer in time" // no answer came in time
	ReasonBusy    = "busy"              // the member has too many questions to answer
	ReasonWrong   = "wrong answer"      // what the member said is no answer to the question
	ReasonSkipped = "not asked again"   // the member was silent on an earlier page, and was not asked again
)

// These are the states of an api.Session.
const (
	StateUnknown      = "unknown"      // the member that the session is attached to did not answer
	StateConnected    = "connected"    // a connection carries the session
	StateDisconnected = "disconnected" // none does, on the member that the session is attached to
)

// SessionFilter selects sessions. A field that is zero selects all.
type SessionFilter struct {
	ID      jute.SessionID
	Member  uint32
	State   string // one of the states
	Address string // a host, or host:port
}

// ConnectionFilter selects connections. A field that is zero selects all.
type ConnectionFilter struct {
	Member  uint32
	Address string // a host, or host:port
}

// These are the kinds of a node in an api.Owner.
const (
	KindNone       = "none" // there is no such node
	KindPersistent = "persistent"
	KindEphemeral  = "ephemeral"
	KindContainer  = "container"
	KindTTL        = "ttl"
)
