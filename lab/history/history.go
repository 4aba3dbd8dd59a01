// Package history records the requests of an ensemble's clients with their replies, and what its
// members heard, applied and vouched for. It judges whether the ensemble kept Rollcall's promises.
// It runs nothing: a harness makes an ensemble, breaks it and calls a Recorder. Afterwards Check
// reads the History.
//
// Each promise is judged by a file of its own, which names the allowances:
//
//	(a) live.go       no session that was heard within its timeout is expired
//	(b) silent.go     a silent session is closed within T + 1.5 ticks
//	(c) ephemerals.go at each index the ephemerals are those of the live sessions
//	(d) writes.go     an acknowledged write is there, once, in its session's order
//	(e) image.go      a session never goes back in time, and events come before their data
//	(f) vouch.go      no member vouches for a session that another member has expired
//	(g) linear.go     writes, and reads after a sync, are linearizable
//	(h) leaders.go    one member leads in a term
//
// # Time and order
//
// Times are time.Duration since the start of the harness's clock, virtual or real. Equal times are
// common in virtual time; then the order of the calls to the Recorder decides, which is Moment.Seq.
//
// The clocks of the members may run at other rates (History.Rates). Timeouts run by the clock of the
// leader, so (a) and (b) judge by it. The age of a touch is counted by the clock of the member that
// received it. A rate outside of the range from minRate to maxRate is judged as the end of that range.
//
// # Cost
//
// n records are judged in O(n log n), times the number of members, terms, snapshots or unanswered
// writes to one path where those matter. The exception is (g), which is NP-hard and therefore has a
// time limit.
package history

import (
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// History is a recorded run of an ensemble, as plain data: it can be written as JSON and read back.
// Recorder.History returns one.
type History struct {
	Tick    time.Duration // of the ensemble
	Slack   time.Duration // how much slow wires and disks may add to (b), besides Outages
	Members []uint32      // with which it begins
	// Rates are the seconds that the members' clocks count in one of the harness's. Default: 1 for each member.
	Rates  map[uint32]float64
	Linear bool          // every read must be linearizable, not only those after a sync
	End    time.Duration // of the recording

	// These fields are the requests of clients, and what they received.
	Calls       []Call // in the order of invocation
	Events      []Event
	Connections []Connection

	// These fields are what members did.
	Lives     []Life
	Touches   []Touch
	Vouches   []Vouch
	Terms     []Term // in the order of their numbers
	Outages   []Outage
	Snapshots []Snapshot

	Configurations []Configuration // that followed Members, in the order of their times
}

// Configuration says which members vote from a moment on, until the next Configuration.
type Configuration struct {
	From    time.Duration
	Members []uint32
	Moving  bool // the ensemble is on its way from one list to another, and Members are those of both
}

// Moment says when something was recorded.
type Moment struct {
	Seq uint64 // the number of the record, from 1
	At  time.Duration
}

// Request is a client's request. A multi is recorded as its parts, all with the same connection and
// xid. The data of two writes to a path must differ, or (d) and (g) detect less.
type Request struct {
	Session jute.SessionID
	Conn    uint64 // the client's connection; no two in a history are the same
	Xid     int32
	Op      jute.Op
	Path    string          // in the request: without the number of a sequential node
	Data    string          // written
	Version int32           // the expected version in setData and delete; -1: any
	Mode    jute.CreateMode // of a create
	Watch   bool            // the read sets a watch
}

// Reply is the server's reply. Mzxid and Version are those of the Stat that getData, exists or
// setData returned; for a setData they may be left out.
type Reply struct {
	Code    jute.Code
	Zxid    int64  // in the header
	Path    string // of the node that a create created
	Data    string // of getData
	Mzxid   int64
	Version int32
}

// Call is a request with its result. A request without an answer may have taken effect, may still
// do so, or may never.
type Call struct {
	Request
	Invoked  Moment
	Returned Moment // Seq 0: no answer arrived
	Reply    Reply
}

// hasReply reports whether the outcome is known.
func (c *Call) hasReply() bool { return c.Returned.Seq != 0 }

// Done reports whether the request is known to have succeeded.
func (c *Call) Done() bool { return c.hasReply() && c.Reply.Code == jute.OK }

// nodePath returns the path that the call concerns, as far as it is known.
func (c *Call) nodePath() string {
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

// ConnectionKind is an event of a client's connection.
type ConnectionKind string

// These are the events of connections.
const (
	Connected    ConnectionKind = "connected"
	Disconnected ConnectionKind = "disconnected"
	Expired      ConnectionKind = "told that the session is expired"
)

// Connection is an event of a session's connection as its client saw it.
type Connection struct {
	Moment
	Kind    ConnectionKind
	Session jute.SessionID
	Conn    uint64
	Member  uint32 // the member that it was connected to, or that answered
}

// lifeKind is a change in a session's life.
type lifeKind string

// These are the changes in the log.
const (
	lifeOpened   lifeKind = "opened"
	lifeAttached lifeKind = "attached"
	lifeClosed   lifeKind = "closed"
)

// Life is one change in a session's life, as one member applied it. A member that replays its log
// records it again.
type Life struct {
	Moment
	Kind    lifeKind
	Member  uint32 // the member that applied it
	Index   uint64
	Session jute.SessionID
	Owner   znode.SessionOwner // from here on; of Closed: until here
	Timeout time.Duration      // granted
	Expired bool               // Closed, and not by its client
	Zxid    int64              // of Closed; its upper half is the term
}

// Touch is a sign of life that a member received on a connection of the session.
type Touch struct {
	Moment
	Member  uint32
	Session jute.SessionID
}

// Vouch is a member's decision whether a session's lease lets it answer the client.
type Vouch struct {
	Moment  // At is the time for which it was decided
	Member  uint32
	Session jute.SessionID
	Conn    uint64 // as in znode.SessionOwner; 0: not known, taken for the owner's
	Allowed bool
}

// Term is the time that a leader leads, from the moment when it has applied its TermStart. A leader that gave up leading, and
// leads again in the same term, has two of them.
type Term struct {
	Term     uint64
	Index    uint64 // of its TermStart
	Leader   uint32
	From, To time.Duration
}

// Outage is a time in which A and B could not communicate in at least one direction. It may be
// recorded as longer than it was, never as shorter: it begins before the first failure and ends
// when connections are in use again. A leader whose disk hangs hears the others but decides
// nothing; record that as an outage between it and every other member.
//
// If A is B, and it is not Partial, that member was down or paused for exactly that time. If it is Partial, the member's disk
// hung: it heard the others, but nothing that it decided took effect.
type Outage struct {
	A, B     uint32
	From, To time.Duration
	Partial  bool // some messages get through: a slow link, or a log that does not flow
}

// Snapshot is the content of one member's tree at an index.
type Snapshot struct {
	Moment
	Member uint32
	Index  uint64
	Zxid   int64
	Whole  bool   // it has all nodes that clients wrote, not only the ephemeral ones
	Nodes  []Node // without the root and the nodes below /zookeeper
}

// Node is a node in a snapshot.
type Node struct {
	Path    string
	Data    string         // set if the snapshot is whole, as are the next three
	Owner   jute.SessionID // the session of an ephemeral node, else 0
	Czxid   int64
	Mzxid   int64
	Version int32
}
