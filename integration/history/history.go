// Package history records what the clients of an ensemble asked and were told, and what
// its members heard, applied and vouched for, and judges whether that is what Rollcall
// promises. It runs nothing: a harness makes an ensemble, breaks it, and calls a
// Recorder; Check reads the History afterwards.
//
// The promises, each judged by a file of its own, which says what it allows for:
//
//	(a) live.go       no session that was heard within its timeout is expired
//	(b) silent.go     a silent session is closed within T + 1.5 ticks
//	(c) ephemerals.go at each index the ephemerals are those of the live sessions
//	(d) writes.go     an acknowledged write is there, once, in its session's order
//	(e) image.go      a session never looks back, and events come before their data
//	(f) vouch.go      nobody vouches for a session that another member has expired
//	(g) linear.go     writes, and reads behind a sync, are linearizable
//
// # Time and order
//
// Times are time.Duration since the start of the harness's clock, virtual or not. Where
// they are equal, as they often are in virtual time, the order of the calls to the
// Recorder decides, which is Moment.Seq.
//
// # Cost
//
// n records are judged in O(n log n), times the number of members, terms, snapshots or
// unanswered writes to one path where those matter; but for (g), which is NP-hard, and
// therefore has a limit.
package history

import (
	"time"

	"rollcall/jute"
	"rollcall/znode"
)

// History is what happened, as plain data: it can be written as JSON and read back.
// Recorder.History makes one.
type History struct {
	Tick    time.Duration // of the ensemble
	Slack   time.Duration // what slow wires and disks may add to (b), beyond Outages
	Members []uint32
	Linear  bool          // every read must be linearizable, not only those behind a sync
	End     time.Duration // of the recording

	// What clients asked and were told.
	Calls       []Call // in the order of invocation
	Events      []Event
	Connections []Connection

	// What members did.
	Lives     []Life
	Touches   []Touch
	Vouches   []Vouch
	Terms     []Term // in the order of their numbers
	Outages   []Outage
	Snapshots []Snapshot
}

// Moment is when something was recorded.
type Moment struct {
	Seq uint64 // counts the records, from 1
	At  time.Duration
}

// Request is what a client asked for. A multi is recorded as its parts, all with one
// connection and xid. Data must tell the writes to a path apart, or (d) and (g) see less.
type Request struct {
	Session jute.SessionID
	Conn    uint64 // the client's connection; no two in a history are the same
	Xid     int32
	Op      jute.Op
	Path    string          // as asked: of a sequential node, without its number
	Data    string          // written
	Version int32           // asked for by setData and delete; -1: any
	Mode    jute.CreateMode // of a create
	Watch   bool            // the read sets a watch
}

// Reply is what the server said. Mzxid and Version are those of the Stat that getData,
// exists or setData showed; of a setData they may be left out.
type Reply struct {
	Code    jute.Code
	Zxid    int64  // of the header
	Path    string // of the node that a create made
	Data    string // of getData
	Mzxid   int64
	Version int32
}

// Call is a request and what became of it. Without an answer it may have taken effect, may
// still do so, or never.
type Call struct {
	Request
	Invoked  Moment
	Returned Moment // Seq 0: there was no answer
	Reply    Reply
}

// answered reports whether the outcome is known.
func (c *Call) answered() bool { return c.Returned.Seq != 0 }

// Done reports whether the request is known to have succeeded.
func (c *Call) Done() bool { return c.answered() && c.Reply.Code == jute.OK }

// node is the path that the call is about, as far as that is known.
func (c *Call) node() string {
	if c.Mode.IsSequential() && c.Reply.Path != "" {
		return c.Reply.Path
	}
	return c.Path
}

// Event is a watch event that a client received.
type Event struct {
	Moment
	Session jute.SessionID
	Conn    uint64
	Type    jute.EventType
	Path    string
}

// ConnectionKind is what became of a client's connection.
type ConnectionKind string

// What becomes of connections.
const (
	Connected    ConnectionKind = "connected"
	Disconnected ConnectionKind = "disconnected"
	Expired      ConnectionKind = "told that the session is expired"
)

// Connection is what a client noticed of its session.
type Connection struct {
	Moment
	Kind    ConnectionKind
	Session jute.SessionID
	Conn    uint64
	Member  uint32 // who it was connected to, or said so
}

// lifeKind is a change in a session's life.
type lifeKind string

// The changes that the log knows.
const (
	lifeOpened   lifeKind = "opened"
	lifeAttached lifeKind = "attached"
	lifeClosed   lifeKind = "closed"
)

// Life is one change in a session's life, as one member applied it. A member that
// replays its log tells it again.
type Life struct {
	Moment
	Kind    lifeKind
	Member  uint32 // who applied it
	Index   uint64
	Session jute.SessionID
	Owner   znode.Owner   // from here on; of Closed: until here
	Timeout time.Duration // granted
	Expired bool          // Closed, and not by its client
	Zxid    int64         // of Closed; its upper half is the term
}

// Touch is a sign of life that a member received on a connection of the session.
type Touch struct {
	Moment
	Member  uint32
	Session jute.SessionID
}

// Vouch is a member's decision whether a client may be told that its session lives.
type Vouch struct {
	Moment  // At is the time that was judged
	Member  uint32
	Session jute.SessionID
	Conn    uint64 // as znode.Owner has it; 0: not known, counts as the owner's
	Allowed bool
}

// Term is a leader's time in office, from the moment when it had applied its TermStart.
type Term struct {
	Term     uint64
	Leader   uint32
	From, To time.Duration
}

// Outage is a time in which A and B could not talk, in at least one direction. It may be
// told longer than it was, never shorter: it begins before the first thing fails and
// ends when connections are back in use. A leader whose disk hangs hears but decides
// nothing: tell that as an outage between it and every other member.
//
// If A is B, that member was down or stood still, for exactly that time.
type Outage struct {
	A, B     uint32
	From, To time.Duration
	Partial  bool // some of what they say gets through: a slow link, a log that does not flow
}

// Snapshot is what one member's tree held at an index.
type Snapshot struct {
	Moment
	Member uint32
	Index  uint64
	Zxid   int64
	Whole  bool   // all nodes that clients wrote are there, not only the ephemeral ones
	Nodes  []Node // without the root and what is below /zookeeper
}

// Node is a node in a snapshot.
type Node struct {
	Path    string
	Data    string         // if the snapshot is whole, as are the next three
	Owner   jute.SessionID // of an ephemeral, else 0
	Czxid   int64
	Mzxid   int64
	Version int32
}
