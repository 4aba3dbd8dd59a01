// Package api is what members answer over HTTP under /v1/: the JSON, and a Client that asks for it.
//
//   - Caller, Member, Members, Server, Session, OneSession, Connection, Ephemeral, Watch, Owner, End, Removal, Buckets, Setting,
//     Node: the types of the answers.
//   - List: a page of them, the cursor of the next page, and the members that did not answer.
//   - Client: asks a member, and reads lists page by page.
//
// Keys are lower case, and stay as they are within version 1; new ones may be added. An id is "0x" and
// hexadecimal digits. A length of time is a whole number of milliseconds, and its key ends in _ms. A point
// in time is RFC 3339 in UTC with milliseconds. A value that is not known is null. A list is never null.
package api

import "time"

// List is a page of rows.
type List[T any] struct {
	Items      []T       `json:"items"`  // the rows of the page
	NextCursor string    `json:"next"`   // cursor of the next page, its parameter from; "": this is the last one
	Silent     []Silence `json:"silent"` // the members that did not answer, by id
}

// Silence says why a member is missing from an answer.
type Silence struct {
	MemberID uint32 `json:"member"` // its id
	Reason   string `json:"reason"` // "down", "no answer in time", "busy", "wrong answer" or "not asked again"
	Detail   string `json:"detail"` // what happened, in words
}

// Caller says what the member takes a request for.
type Caller struct {
	MemberID      uint32 `json:"member"`        // the id of the member that answers
	Administrator string `json:"administrator"` // "super" or "token", whose credentials the request has; "": nobody's
	MayChange     bool   `json:"changes"`       // whether the caller may change something
	DenialReason  string `json:"why"`           // why the caller may not change anything; "" if it may
	// AcceptedCredentials has "super" if the member knows a password of the super user, and "token" if it knows a token of administrators.
	AcceptedCredentials []string `json:"accepts"`
}

// RoleReadOnly is the role of a member that knows no leader, and serves the clients that ask for a read-only server.
const RoleReadOnly = "read-only"

// Member is the status of a member.
type Member struct {
	MemberID        uint32     `json:"member"`         // its id
	Role            string     `json:"role"`           // "leader", "follower", "observer", "standalone", or "read-only": it knows no leader, and serves clients that ask for that; "": it serves no client
	LeaderID        uint32     `json:"leader"`         // the member that it takes for the leader; 0: none
	Term            uint64     `json:"term"`           // raft's
	ClientAddress   string     `json:"clients"`        // host:port where the member listens for clients. If it has no plain port, this is the port for TLS. It is empty if the member takes no clients
	QuorumAddress   string     `json:"quorum"`         // host:port of its port for members
	ElectionAddress string     `json:"election"`       // host:port of its port for the log
	ConsoleURL      string     `json:"console"`        // URL of its console; "": it serves none. An address of the loopback interface is reached on its own machine alone
	Zxid            string     `json:"zxid"`           // "0x…", of the last transaction applied
	AppliedIndex    uint64     `json:"applied"`        // index of the last log entry applied
	CommittedIndex  uint64     `json:"committed"`      // index of the last log entry that it knows to be committed
	Lag             *uint64    `json:"lag"`            // log entries that the leader knows to be committed and that are not applied here; null: the leader did not answer
	Sessions        int        `json:"sessions"`       // sessions with a connection here
	Connections     int        `json:"connections"`    // client connections
	Watches         int        `json:"watches"`        // watches of its connections
	DataBytes       int64      `json:"data_bytes"`     // bytes of its files, without those of the log
	LogBytes        int64      `json:"log_bytes"`      // bytes of the log's files
	SnapshotIndex   uint64     `json:"snapshot"`       // index of the newest snapshot; 0: there is none
	SnapshotAt      *time.Time `json:"snapshot_at"`    // when that was written
	DigestVerdict   string     `json:"digest"`         // whether its state is that of the others: "agrees", "differs" or "unknown"
	DigestIndex     uint64     `json:"digest_index"`   // log entry that digest is about
	Version         string     `json:"version"`        // of the program
	Started         time.Time  `json:"started"`        // when its process started
	ClockMs         int64      `json:"clock_ahead_ms"` // by how many milliseconds its clock is ahead of that of the member that was asked
	IsJoining       bool       `json:"joining"`        // it catches up, and has no vote in elections
	IsDrained       bool       `json:"drained"`        // it takes no more clients, because an operator has drained it or it is stopping
	InsecurePorts   string     `json:"exposed"`        // how its ports for members are open to processes that are no members; "": they are not
	WasRemoved      bool       `json:"removed"`        // it was removed from the ensemble: stop it, or add it again
	NoMemory        bool       `json:"no_memory"`      // it is short of memory, and refuses its clients' writes that add data
	StallReason     string     `json:"stalled"`        // why its disk or apply is taken to hang; "": it does not
	DamageReason    string     `json:"damaged"`        // why its state is taken to be damaged; "": it is not
}

// These are the states of a server.
const (
	StateLeader     = "leader"
	StateFollower   = "follower"
	StateObserver   = "observer"
	StateCatchingUp = "catching up" // raft's configuration has it, and it copies the log
	StateJoining    = "joining"     // the list has it, and raft's configuration does not yet
	StateLeaving    = "leaving"     // raft's configuration has it, and the list does not any more
	StateRemoved    = "removed"     // neither has it; only the member that answers can say that of itself
	StateSilent     = "silent"      // it does not answer
	StateNotServing = "not serving" // it answers, and serves no client; its detail says why, if that is known
)

// Members is the list of the ensemble's servers, and what each of them does.
type Members struct {
	EnsembleID     string    `json:"ensemble"`  // the ensemble's id, in hexadecimal digits; "": this member does not know it yet
	Version        string    `json:"version"`   // "0x…", of the list: the zxid of the change that set it
	LeaderID       uint32    `json:"leader"`    // the member that leads; 0: this member knows none
	CommittedIndex *uint64   `json:"committed"` // index of the last log entry that the leader knows to be committed; null: the leader did not answer
	WasRemoved     bool      `json:"removed"`   // the member that answers was removed from the ensemble, so this may be an old list
	IsSettled      bool      `json:"settled"`   // raft's configuration is as the list says, for all servers that answer
	Items          []Server  `json:"items"`     // the servers of the list and of raft's configuration, by id
	Silent         []Silence `json:"silent"`    // the members that did not answer, by id
}

// Server is a server of the ensemble.
type Server struct {
	MemberID          uint32  `json:"member"`     // its id
	ListLine          string  `json:"server"`     // its line in the list, such as "server.1=zoo1:2888:3888:participant;0.0.0.0:2181"; "": the list does not have it
	QuorumAddress     string  `json:"quorum"`     // host:port of its port for members, by the list
	ElectionAddress   string  `json:"election"`   // host:port of its port for the log, by the list, or else by raft's configuration
	ClientAddress     string  `json:"clients"`    // host:port of its port for clients, by the list; "": the list does not say
	RaftAddress       string  `json:"configured"` // host:port of its port for the log in raft's configuration; "": that does not have it
	Role              string  `json:"role"`       // in the list, "participant" or "observer"; "": the list does not have it
	IsVoter           bool    `json:"voter"`      // its disk has a vote in raft's configuration
	State             string  `json:"state"`      // "leader", "follower", "observer", "standalone", "read-only", "catching up", "joining", "leaving", "removed", "silent" or "not serving"
	AppliedIndex      uint64  `json:"applied"`    // index of the last log entry applied; 0: it did not answer
	Lag               *uint64 `json:"lag"`        // log entries that the leader knows to be committed and that are not applied here; null: it or the leader did not answer
	NeededForMajority bool    `json:"needed"`     // without it no majority of the voters would be alive
	IsDrained         bool    `json:"drained"`    // it takes no more clients, because an operator has drained it or it is stopping
	Detail            string  `json:"detail"`     // why it is silent, serves nobody or does not vote, if that is known
}

// MembersChange asks for a change of the list of servers. Either members has the whole new list, or joining and
// leaving say what changes.
type MembersChange struct {
	Joining string `json:"joining"` // lines server.N=…, separated by commas, of servers to add or to change; left out: none
	Leaving string `json:"leaving"` // ids of servers to remove, separated by commas; left out: none
	Members string `json:"members"` // the lines server.N=… of all servers, separated by commas or newlines; left out: joining and leaving count
	Version string `json:"version"` // "0x…", that the list must have; left out: any
	Force   bool   `json:"force"`   // also make a change that leaves one voter, or after which too few servers would serve for a majority, as far as the member sees that is asked; left out: refuse it. The leader refuses a list of whose voters it does not reach a majority
}

// MembersChanged says that the list of servers was changed. Raft's configuration follows it.
type MembersChanged struct {
	Version string   `json:"version"` // "0x…", of the list now
	Servers []string `json:"servers"` // the lines server.N=… of the list now, by id
}

// MembersLead asks for another leader.
type MembersLead struct {
	Member uint32 `json:"member"` // that is to lead
}

// MembersLed says which member leads.
type MembersLed struct {
	LeaderID uint32 `json:"leader"` // the member that leads now
}

// MembersDrain asks for the drain of a member, which is answered with Drained.
type MembersDrain struct {
	Member uint32 `json:"member"`  // that is to be drained
	OverMs int64  `json:"over_ms"` // how long closing the clients' connections takes
}

// MembersRebalance asks for about as many clients on each member.
type MembersRebalance struct {
	PerSecond int `json:"per_second"` // connections that a member closes in a second at most
}

// Rebalanced says what a rebalance has done.
type Rebalanced struct {
	Balanced          bool               `json:"balanced"`    // all members answered, at least two take clients, and none has clearly more than its share now
	ClosedConnections int                `json:"connections"` // that were closed
	TookMs            int64              `json:"took_ms"`     // how long that took
	Items             []RebalancedMember `json:"items"`       // the members that take clients, by id
	Silent            []Silence          `json:"silent"`      // the members that did not answer, by id
}

// RebalancedMember says what a rebalance has done on a member.
type RebalancedMember struct {
	MemberID          uint32 `json:"member"` // its id
	ClientsBefore     int    `json:"before"` // clients when it began
	ClientsAfter      int    `json:"after"`  // clients when it ended
	ClosedConnections int    `json:"closed"` // connections that it has closed
	FailureReason     string `json:"failed"` // why it closed none at last; "": it did, or had no more than its share
}

// Session is a session with what all members together know of it.
type Session struct {
	ID             string    `json:"id"`         // "0x…"
	State          string    `json:"state"`      // "connected", "disconnected" or "unknown"
	MemberID       uint32    `json:"member"`     // the member that it is attached to; 0: none
	Address        string    `json:"address"`    // of the client that connected last, host:port
	TimeoutMs      int64     `json:"timeout_ms"` // granted by the last connect
	LeftMs         *int64    `json:"left_ms"`    // time until it expires if it is not heard; null: the leader did not answer
	HeardMs        *int64    `json:"heard_ms"`   // how long ago it was last heard, or its leader began; null: the leader did not answer
	CreatedAt      time.Time `json:"created"`    // when it was opened, by the log's time
	EphemeralCount int       `json:"ephemerals"` // how many ephemeral nodes it owns
	WatchCount     int       `json:"watches"`    // how many watches its connection has
	// Connection is null if no connection carries the session, or if its member did not answer.
	Connection *Connection `json:"connection"`
}

// Connection is a client connection of a member.
type Connection struct {
	MemberID       uint32    `json:"member"`      // the member that serves it
	Number         uint64    `json:"number"`      // counts the connections of the member
	Address        string    `json:"address"`     // of the client, host:port
	TLS            string    `json:"tls"`         // its version, such as "TLSv1.3"; "": the connection is plain
	Cipher         string    `json:"cipher"`      // the cipher suite of TLS; "": the connection is plain
	SessionID      string    `json:"session"`     // that it carries; "": it has none yet
	TimeoutMs      int64     `json:"timeout_ms"`  // of the session
	EstablishedAt  time.Time `json:"established"` // when it was made
	Received       uint64    `json:"received"`    // requests
	Sent           uint64    `json:"sent"`        // replies and events
	QueuedRequests int       `json:"queued"`      // requests that are not answered yet
	LastOp         string    `json:"last_op"`     // the last operation that was answered; "": none
	LastZxid       string    `json:"last_zxid"`   // "0x…", in the last reply
	LastUs         int64     `json:"last_us"`     // latency of the last request, in microseconds
	MinUs          int64     `json:"min_us"`      // the least latency
	AvgUs          int64     `json:"avg_us"`      // the average latency
	MaxUs          int64     `json:"max_us"`      // the greatest latency
}

// OneSession is a session that was asked for alone.
type OneSession struct {
	Session
	Silent []Silence `json:"silent"` // the members that did not answer
}

// Ephemeral is an ephemeral node of a session.
type Ephemeral struct {
	Path string `json:"path"` // of the node
}

// Watch is a path that a connection of a member watches.
type Watch struct {
	MemberID   uint32 `json:"member"`     // the member that serves the connection
	Connection uint64 `json:"connection"` // its number
	SessionID  string `json:"session"`    // of the connection
	Path       string `json:"path"`       // that is watched
	Data       bool   `json:"data"`       // once, for the node: created, deleted, or its data changed
	Children   bool   `json:"children"`   // once, for the node's children
	Persistent bool   `json:"persistent"` // both, until the client removes the watch
	Recursive  bool   `json:"recursive"`  // the node and everything below it, until the client removes the watch
}

// Owner says which session a node belongs to. Only an ephemeral node has one.
type Owner struct {
	Path         string    `json:"path"`    // that was asked for
	Kind         string    `json:"kind"`    // of the node: "none" (there is no such node), "persistent", "ephemeral", "container" or "ttl"
	SessionID    string    `json:"id"`      // of the session; "": none
	SessionEnded bool      `json:"ended"`   // the session has ended, and the node is about to be removed
	Session      *Session  `json:"session"` // the session; null: there is none, or it has ended
	Silent       []Silence `json:"silent"`  // the members that did not answer
}

// End says how a session ended.
type End struct {
	ID             string    `json:"id"`         // of the session
	State          string    `json:"state"`      // "ended"
	EndedAt        time.Time `json:"ended"`      // when, by the log's time
	Reason         string    `json:"reason"`     // "closed", "expired" or "killed"
	EndedBy        string    `json:"by"`         // who asked for it, if an operator did; "": nobody did
	Address        string    `json:"address"`    // of the client that connected last, host:port
	MemberID       uint32    `json:"member"`     // the member that the session was attached to
	LeaderID       uint32    `json:"leader"`     // the member that led
	Term           uint64    `json:"term"`       // raft's, in which it led
	Zxid           string    `json:"zxid"`       // "0x…", of the transaction that ended the session
	SilentMs       int64     `json:"silent_ms"`  // how long the leader had not heard from it; 0 if its client closed it
	TimeoutMs      int64     `json:"timeout_ms"` // granted by the last connect
	EphemeralCount int       `json:"ephemerals"` // how many ephemeral nodes it had
	Number         uint64    `json:"number"`     // counts the ends that are kept
}

// Removal says what removed a node.
type Removal struct {
	Path      string    `json:"path"`    // of the node
	RemovedAt time.Time `json:"removed"` // when, by the log's time
	Zxid      string    `json:"zxid"`    // "0x…", of the transaction that removed it
	Cause     string    `json:"cause"`   // "delete", "session ended", "ttl" or "container"
	SessionID string    `json:"session"` // that deleted it, or whose end removed it; "": none
	Address   string    `json:"address"` // of the client that deleted it
	MemberID  uint32    `json:"member"`  // the member that took the request
	End       *End      `json:"end"`     // of the session, if that removed the node and is still kept; else null
}

// Buckets is the time axis of the leader's session table.
type Buckets struct {
	TickMs        int64     `json:"tick_ms"` // a tick; each bucket is one tick wide
	At            time.Time `json:"at"`      // now, by the leader's clock
	LeaderID      uint32    `json:"leader"`  // the member that leads
	Buckets       []Bucket  `json:"buckets"` // those that hold sessions, by time
	LaterSessions int       `json:"later"`   // sessions that fall due more than 1,000 ticks from At on
	Silent        []Silence `json:"silent"`  // the leader, if it did not answer
}

// Bucket is how many sessions fall due at a time.
type Bucket struct {
	DueMs    int64 `json:"due_ms"`   // from Buckets.At on; 0 or less: due
	Sessions int   `json:"sessions"` // how many
}

// Events has the data of each event of /v1/events under the event's name. One event has one of them.
type Events struct {
	Status  List[Member] `json:"status"`  // each second
	Buckets Buckets      `json:"buckets"` // each second
	Load    Load         `json:"load"`    // each second
	Session SessionEvent `json:"session"` // at once; at most 50 in a second
	Omitted Omitted      `json:"omitted"` // after a second with more
	Leader  LeaderEvent  `json:"leader"`  // the last ones when the stream begins, and then at once
}

// SessionEvent says that a session was created, has moved to another connection, or has ended.
type SessionEvent struct {
	Kind           string    `json:"kind"`       // "created", "moved" or "ended"
	At             time.Time `json:"at"`         // when the member that answers has applied it, by its clock
	ID             string    `json:"id"`         // of the session
	MemberID       uint32    `json:"member"`     // that the session is attached to, or was
	FromMember     uint32    `json:"from"`       // that it was attached to before it moved; 0: none
	Address        string    `json:"address"`    // of the client that connected last, host:port
	TimeoutMs      int64     `json:"timeout_ms"` // granted by the last connect
	Reason         string    `json:"reason"`     // why it ended: "closed", "expired" or "killed"; else ""
	EndedBy        string    `json:"by"`         // who asked for its end, if an operator did
	SilentMs       int64     `json:"silent_ms"`  // how long the leader had not heard from it when it ended
	EphemeralCount int       `json:"ephemerals"` // nodes that it had when it ended
}

// Omitted says how many sessions were created, have moved or have ended without an event, because there were too
// many of them.
type Omitted struct {
	Sessions int64 `json:"sessions"` // since the last Omitted
}

// LeaderEvent says that a leader has opened its term. A stream of events begins with the last ones that the member that answers
// has applied since its start, at most 8, oldest first. One may come twice.
type LeaderEvent struct {
	At       time.Time `json:"at"`     // when it opened its term, by the log's time
	LeaderID uint32    `json:"leader"` // the member that leads
	Term     uint64    `json:"term"`   // raft's
}

// Load is what a member does for its own clients.
type Load struct {
	At             time.Time `json:"at"`             // by the member's clock
	OverMs         int64     `json:"over_ms"`        // the time that the rates and averages are about; 0: there are none yet
	RequestsPerS   float64   `json:"requests_per_s"` // reads and updates
	AvgUs          int64     `json:"avg_us"`         // average latency of these, in microseconds
	ReadsPerS      float64   `json:"reads_per_s"`    // requests that change nothing
	ReadAvgUs      int64     `json:"read_avg_us"`    // average latency of these, in microseconds
	UpdatesPerS    float64   `json:"updates_per_s"`  // all other requests
	UpdateAvgUs    int64     `json:"update_avg_us"`  // average latency of these, in microseconds
	QueuedRequests int       `json:"queued"`         // requests that are not answered yet
	Connections    int       `json:"connections"`    // of clients
}

// Setting is a key of the configuration of the member that answers.
type Setting struct {
	Key     string `json:"key"`     // its name
	Value   string `json:"value"`   // in force; "" for one that is secret
	Default string `json:"default"` // or, in words, what holds without the key
	Origin  string `json:"from"`    // "default", a file with its line, a variable or a flag
	State   string `json:"state"`   // "in force", "default", "no effect", "unknown", "dangerous" or "refused"
	Warning string `json:"warning"` // why it has no effect, or is unknown, dangerous or refused
}

// Node is a znode, as the caller may see it.
type Node struct {
	Path         string   `json:"path"`     // of the node
	Data         []byte   `json:"data"`     // base64; the first MiB, if the node has more
	DataHidden   bool     `json:"hidden"`   // the data are not shown, because the request has no credentials and admin.localReads is not data
	Children     []string `json:"children"` // a page of names, in order
	NextChildren string   `json:"next"`     // cursor of the next page of children
	Stat         Stat     `json:"stat"`     // its Stat
	ACL          []ACL    `json:"acl"`      // who may do what with it
}

// NodeCreate asks for a new node.
type NodeCreate struct {
	Path       string `json:"path"`       // of the node
	Data       []byte `json:"data"`       // base64; left out: none
	ACL        []ACL  `json:"acl"`        // left out: everybody may do everything
	Sequential bool   `json:"sequential"` // the path gets a number of ten digits at its end; left out: it does not
}

// NodeSet asks for other data of a node.
type NodeSet struct {
	Path    string `json:"path"`    // of the node
	Data    []byte `json:"data"`    // base64
	Version *int32 `json:"version"` // that the data must have; left out: any
}

// NodeDelete asks for the end of a node, which must have no children.
type NodeDelete struct {
	Path    string `json:"path"`    // of the node
	Version *int32 `json:"version"` // that its data must have; left out: any
}

// NodeChanged says that a node was created, set or deleted.
type NodeChanged struct {
	Path string `json:"path"` // of the node
	Stat *Stat  `json:"stat"` // of the node as it is now; null: it was deleted
}

// Stat is ZooKeeper's Stat of a node.
type Stat struct {
	Czxid       string    `json:"czxid"`       // of the transaction that created the node
	Mzxid       string    `json:"mzxid"`       // of the one that last set its data
	Pzxid       string    `json:"pzxid"`       // of the one that last created or deleted a child
	Ctime       time.Time `json:"ctime"`       // when it was created, by the log's time
	Mtime       time.Time `json:"mtime"`       // when its data were last set
	Version     int32     `json:"version"`     // how often its data were set
	Cversion    int32     `json:"cversion"`    // how often children were created and deleted
	Aversion    int32     `json:"aversion"`    // how often its ACL was set
	Owner       string    `json:"owner"`       // session of an ephemeral node; "": none
	DataLength  int32     `json:"data_length"` // bytes
	NumChildren int32     `json:"children"`    // how many there are
}

// ACL is an entry of an access control list.
type ACL struct {
	Scheme string `json:"scheme"` // such as "world", "digest" or "ip"
	ID     string `json:"id"`     // whom it is about, as the scheme writes it
	Perms  string `json:"perms"`  // letters of cdrwa
}

// LogLevel is the level from which on the member logs.
type LogLevel struct {
	Level string `json:"level"` // "debug", "info", "warn" or "error"
}

// Line is a line of the member's log.
type Line struct {
	At    time.Time `json:"at"`    // when it was written
	Level string    `json:"level"` // "debug", "info", "warn" or "error"
	Text  string    `json:"text"`  // the whole line, as it was written
}

// MinHandOver is how long a drain tries, at least, to hand leadership over before it closes connections: a member
// that has just started may need some seconds before it can lead, and a drain is not urgent.
const MinHandOver = 5 * time.Second

// Drain is how a member is drained.
type Drain struct {
	OverMs int64 `json:"over_ms"` // how long closing the clients' connections takes
}

// Snapshot describes a snapshot that a member has written to its disk.
type Snapshot struct {
	MemberID uint32 `json:"member"`  // that wrote it
	Index    uint64 `json:"index"`   // of the last log entry in it
	Term     uint64 `json:"term"`    // of that entry
	Zxid     string `json:"zxid"`    // "0x…", of the last transaction in it
	Bytes    int64  `json:"bytes"`   // of its state
	TookMs   int64  `json:"took_ms"` // from copying the state until the snapshot was on the disk
}

// Drained says what a drain has done.
type Drained struct {
	ClosedConnections int   `json:"connections"` // that were closed
	StillLeads        bool  `json:"leads"`       // no other member could take over
	TookMs            int64 `json:"took_ms"`     // how long that took
}

// ReasonRemoved is the reason of a Failure of a member that was removed from the ensemble.
const ReasonRemoved = "removed"

// Failure is the body of an answer whose status is not 200.
type Failure struct {
	Error  string `json:"error"`  // what was wrong, what is allowed, and what to do
	Reason string `json:"reason"` // for programs: "removed" if the member was removed from the ensemble, so that another one must be asked; "": the status says enough
}
