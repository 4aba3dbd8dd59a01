// Package view shows an operator the whole ensemble from any member: the members, the sessions, the connections,
// the watches and the owners of nodes. No member knows all of that. The sessions are replicated. Only the member
// that serves a session knows its connection, and only the leader knows when a session was last heard from. A
// Collector queries the members and combines their replies.
//
//   - Members: the servers of the ensemble, with their status. All other results are of the types of package api.
//   - Collector: queries all members at the same time, within one deadline.
//
// # What may be missing
//
// A list is read page by page, and each member is queried at its own time. A row that appears or moves meanwhile
// may be missing or duplicate. api.List.Silent names the members that did not reply, whose rows are missing.
//
// # Trust
//
// A connection to a member has proved the member's id, but its replies are checked all the same. A member whose
// reply does not fit the query counts as silent.
//
// There is no lock here. Times are of the queried member's wall clock unless a field says otherwise.
package view

import (
	"time"

	"rollcall/operator/api"
	"rollcall/zk/jute"
)

const (
	// MaxRows limits the rows of a page: some hundred kilobytes, made in a few milliseconds.
	MaxRows = 1000
	// MaxBytes limits the bytes of paths and addresses in a member's page. The last row may exceed it.
	MaxBytes = 1 << 20
	// MaxReply limits the bytes of a member's reply: a page, and a row with the longest path that a client can
	// send, which has 8 MiB.
	MaxReply = 10 << 20
	// MaxDeadline is the longest default deadline of a query. An operator waits that long.
	MaxDeadline = 2 * time.Second
)

// Page selects a page of a list.
type Page struct {
	Limit  int    // the most rows; from 1 to MaxRows; 0: MaxRows
	Cursor string // Next of the page before; "": the first page
}

// Values of api.Silence.Reason.
const (
	ReasonDown    = "down"              // the member cannot be reached
	ReasonLate    = "no answer in time" // no reply came in time
	ReasonBusy    = api.SilentBusy      // the member has too many queries under way
	ReasonWrong   = "wrong answer"      // the member's reply does not fit the query
	ReasonSkipped = "not asked again"   // the member was silent on an earlier page, and was not queried again
)

// Values of api.Session.State.
const (
	StateUnknown      = "unknown"      // the session's member did not reply
	StateConnected    = "connected"    // a connection carries the session
	StateDisconnected = "disconnected" // no connection does, on the session's member
)

// SessionFilter selects sessions. A zero field selects all.
type SessionFilter struct {
	ID      jute.SessionID
	Member  uint32
	State   string // one of the states
	Address string // a host, or host:port
}

// ConnectionFilter selects connections. A zero field selects all.
type ConnectionFilter struct {
	Member  uint32
	Address string // a host, or host:port
}

// Values of api.Owner.Kind.
const (
	KindNone       = "none" // there is no such node
	KindPersistent = "persistent"
	KindEphemeral  = "ephemeral"
	KindContainer  = "container"
	KindTTL        = "ttl"
)
