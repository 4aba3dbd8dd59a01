// Package api has the JSON that members serve over HTTP under /v1/, and a Client for it.
//
//   - Caller, Member, Members, Server, Session, OneSession, Connection, Ephemeral, Watch, Owner, End, Removal, Buckets, Setting,
//     Node: the types of the replies.
//   - List: a page of them, the cursor of the next page, and the members that did not reply.
//   - Client: sends requests to a member, and reads lists page by page.
//
// Keys are lower case and stable within version 1; new ones may be added. An id is "0x" and hexadecimal digits. A
// duration is a whole number of milliseconds, and its key ends in _ms. A point in time is RFC 3339 in UTC with
// milliseconds. An unknown value is null. A list is never null.
package api

import "time"

// List is a page of rows.
type List[T any] struct {
	Items      []T       `json:"items"`  // the rows of the page
	NextCursor string    `json:"next"`   // cursor of the next page, its parameter from; "": this is the last one
	Silent     []Silence `json:"silent"` // the members that did not reply, by id
}

// SilentBusy is the Silence.Reason of a member that replies, and is too busy for this request.
const SilentBusy = "busy"

// Silence is a member that is missing from a reply.
type Silence struct {
	MemberID uint32 `json:"member"` // its id
	Reason   string `json:"reason"` // "down", "no answer in time", "busy", "wrong answer" or "not asked again"
	Detail   string `json:"detail"` // a sentence
}

// Caller is the identity that the member assigned to this request.
type Caller struct {
	MemberID uint32 `json:"member"` // the id of the replying member
	// "super" or "token" for an administrator's credentials; "": the request has none
	Administrator string `json:"administrator"`
	MayChange     bool   `json:"changes"` // whether the caller may change something
	DenialReason  string `json:"why"`     // the reason if changes is false
	// "super" if the member knows a password of the super user, and "token" if it knows a token of administrators
	AcceptedCredentials []string `json:"accepts"`
}

// RoleReadOnly is the role of a member that knows no leader, and serves the clients that accept a read-only
// server.
const RoleReadOnly = "read-only"

// Member is the status of a member.
type Member struct {
	MemberID uint32 `json:"member"` // its id
	// "leader", "follower", "observer", "standalone", or "read-only": it knows no leader, and serves clients that
	// ask for that; "": it serves no client
	Role     string `json:"role"`
	LeaderID uint32 `json:"leader"` // the member that it takes for the leader; 0: none
	Term     uint64 `json:"term"`   // raft's
	// host:port where the member listens for clients. If it has no plain port, this is the port for TLS. It is
	// empty if the member takes no clients
	ClientAddress   string `json:"clients"`
	QuorumAddress   string `json:"quorum"`   // host:port of its port for members
	ElectionAddress string `json:"election"` // host:port of its port for the log
	// URL of its console; "": it serves none. An address of the loopback interface is reached on its own machine alone
	ConsoleURL     string `json:"console"`
	Zxid           string `json:"zxid"`      // "0x…", of the last transaction applied
	AppliedIndex   uint64 `json:"applied"`   // index of the last log entry applied
	CommittedIndex uint64 `json:"committed"` // index of the last log entry that it knows to be committed
	// log entries that the leader knows to be committed and that are not applied here; null: the leader did not reply
	Lag           *uint64    `json:"lag"`
	Sessions      int        `json:"sessions"`    // sessions with a connection here
	Connections   int        `json:"connections"` // client connections
	Watches       int        `json:"watches"`     // watches of its connections
	DataBytes     int64      `json:"data_bytes"`  // bytes of its files, without those of the log
	LogBytes      int64      `json:"log_bytes"`   // bytes of the log's files
	SnapshotIndex uint64     `json:"snapshot"`    // index of the newest snapshot; 0: there is none
	SnapshotAt    *time.Time `json:"snapshot_at"` // when that was written
	// its state compared with the other members: "agrees", "differs" or "unknown"
	DigestVerdict string    `json:"digest"`
	DigestIndex   uint64    `json:"digest_index"` // log entry that digest is about
	Version       string    `json:"version"`      // of the program
	Started       time.Time `json:"started"`      // when its process started
	// by how many milliseconds its clock is ahead of the replying member's clock
	ClockMs   int64 `json:"clock_ahead_ms"`
	IsJoining bool  `json:"joining"` // it catches up, and has no vote in elections
	// it takes no more clients, because an operator has drained it or it is stopping
	IsDrained bool `json:"drained"`
	// the weakness of its ports for members, which processes that are no members can use; "": none
	InsecurePorts string `json:"exposed"`
	WasRemoved    bool   `json:"removed"`      // it was removed from the ensemble: stop it, or add it again
	NoMemory      bool   `json:"no_memory"`    // it is short of memory, and rejects writes that add data
	NotServing    string `json:"not_serving"`  // the reason why it serves no client, as /readyz says it; "": it serves
	DataFree      int64  `json:"data_free"`    // bytes that it can still write where its files are; 0: unknown
	LogFree       int64  `json:"log_free"`     // likewise where the log is
	DataQuota     int64  `json:"data_quota"`   // bytes that the tree may have; 0: there is no limit
	DataUsed      int64  `json:"data_used"`    // bytes that count against the quota
	MemoryLimit   int64  `json:"memory_limit"` // bytes; 0: there is no limit
	MemoryUsed    int64  `json:"memory_used"`  // bytes
	StallReason   string `json:"stalled"`      // the reason if its disk or apply is taken to hang
	DamageReason  string `json:"damaged"`      // the reason if its state is taken to be damaged
}

// These are the states of a server.
const (
	StateLeader     = "leader"
	StateFollower   = "follower"
	StateObserver   = "observer"
	StateCatchingUp = "catching up" // raft's configuration has it, and it copies the log
	StateJoining    = "joining"     // the list has it, and raft's configuration does not yet
	StateLeaving    = "leaving"     // raft's configuration has it, and the list does not any more
	StateRemoved    = "removed"     // neither has it; only the replying member can have this state
	StateSilent     = "silent"      // it does not reply
	StateUnknown    = "unknown"     // in a state of the past, in which only the leader is known
	StateNotServing = "not serving" // it replies, and serves no client; its detail has the reason, if that is known
)

// Members is the list of the ensemble's servers with their status.
type Members struct {
	// the ensemble's id, in hexadecimal digits; "": this member does not know it yet
	EnsembleID string `json:"ensemble"`
	Version    string `json:"version"` // "0x…", of the list: the zxid of the change that set it
	LeaderID   uint32 `json:"leader"`  // the member that leads; 0: this member knows none
	// index of the last log entry that the leader knows to be committed; null: the leader did not reply
	CommittedIndex *uint64 `json:"committed"`
	// the replying member was removed from the ensemble, so this may be an old list
	WasRemoved bool      `json:"removed"`
	IsSettled  bool      `json:"settled"` // raft's configuration matches the list, for all servers that reply
	Items      []Server  `json:"items"`   // the servers of the list and of raft's configuration, by id
	Silent     []Silence `json:"silent"`  // the members that did not reply, by id
}

// Server is a server of the ensemble.
type Server struct {
	MemberID uint32 `json:"member"` // its id
	// its line in the list, such as "server.1=zoo1:2888:3888:participant;0.0.0.0:2181"; "": the list does not have it
	ListLine      string `json:"server"`
	QuorumAddress string `json:"quorum"` // host:port of its port for members, by the list
	// host:port of its port for the log, by the list, or else by raft's configuration
	ElectionAddress string `json:"election"`
	ClientAddress   string `json:"clients"` // host:port of its port for clients, by the list; "": not in the list
	// host:port of its port for the log in raft's configuration; "": that does not have it
	RaftAddress string `json:"configured"`
	// in the list, "participant" or "observer"; "": the list does not have it
	Role    string `json:"role"`
	IsVoter bool   `json:"voter"` // its disk has a vote in raft's configuration
	// "leader", "follower", "observer", "standalone", "read-only", "catching up", "joining", "leaving", "removed",
	// "silent", "not serving" or "unknown"
	State        string `json:"state"`
	AppliedIndex uint64 `json:"applied"` // index of the last log entry applied; 0: it did not reply
	// log entries that the leader knows to be committed and that are not applied here; null: it or the leader did
	// not reply
	Lag               *uint64 `json:"lag"`
	NeededForMajority bool    `json:"needed"` // without it no majority of the voters would be alive
	// it takes no more clients, because an operator has drained it or it is stopping
	IsDrained bool   `json:"drained"`
	Detail    string `json:"detail"` // the reason if it is silent, serves no client or does not vote
}

// MembersChange is a change of the server list. Either members has the whole new list, or joining and leaving
// have the changes.
type MembersChange struct {
	// lines server.N=…, separated by commas, of servers to add or to change; left out: none
	Joining string `json:"joining"`
	Leaving string `json:"leaving"` // ids of servers to remove, separated by commas; left out: none
	// the lines server.N=… of all servers, separated by commas or newlines; left out: joining and leaving count
	Members string `json:"members"`
	Version string `json:"version"` // "0x…", that the list must have; left out: any
	// also make a change that leaves one voter, or after which too few servers would serve for a majority, as far
	// as the replying member sees; left out: false. The leader rejects a list if it does not reach a majority of
	// its voters
	Force bool `json:"force"`
	// the replying member is one of leaving, and leaves by itself: with members.join=auto it may come in by itself again; left out: false
	BySelf bool `json:"by_self"`
}

// MembersChanged is the new server list. Raft's configuration follows it.
type MembersChanged struct {
	Version string   `json:"version"` // "0x…", of the list now
	Servers []string `json:"servers"` // the lines server.N=… of the list now, by id
}

// MembersLead selects another leader.
type MembersLead struct {
	Member uint32 `json:"member"` // that is to lead
}

// MembersLed names the new leader.
type MembersLed struct {
	LeaderID uint32 `json:"leader"` // the member that leads now
}

// MembersDrain selects a member to be drained. The reply is Drained.
type MembersDrain struct {
	Member uint32 `json:"member"`  // that is to be drained
	OverMs int64  `json:"over_ms"` // time over which the clients' connections are closed
}

// MembersRebalance is a request for about as many clients on each member.
type MembersRebalance struct {
	PerSecond int `json:"per_second"` // connections that a member closes in a second at most
}

// Rebalanced is the result of a rebalance.
type Rebalanced struct {
	// all members replied, at least two take clients, and none has clearly more than its share now
	Balanced          bool               `json:"balanced"`
	ClosedConnections int                `json:"connections"` // that were closed
	TookMs            int64              `json:"took_ms"`     // duration
	Items             []RebalancedMember `json:"items"`       // the members that take clients, by id
	Silent            []Silence          `json:"silent"`      // the members that did not reply, by id
}

// RebalancedMember is the result of a rebalance on one member.
type RebalancedMember struct {
	MemberID          uint32 `json:"member"` // its id
	ClientsBefore     int    `json:"before"` // clients when it began
	ClientsAfter      int    `json:"after"`  // clients when it ended
	ClosedConnections int    `json:"closed"` // connections that it has closed
	FailureReason     string `json:"failed"` // the reason if it closed none in the end although it had more than its share
}

// Session is a session, as all members together know it.
type Session struct {
	ID        string `json:"id"`         // "0x…"
	State     string `json:"state"`      // "connected", "disconnected" or "unknown"
	MemberID  uint32 `json:"member"`     // the member that it is attached to; 0: none
	Address   string `json:"address"`    // of the client that connected last, host:port
	TimeoutMs int64  `json:"timeout_ms"` // granted by the last connect
	// time until it expires if it stays silent; null: the leader did not reply
	LeftMs *int64 `json:"left_ms"`
	// time since the session was last heard from, or since its leader began; null: the leader did not reply
	HeardMs        *int64    `json:"heard_ms"`
	CreatedAt      time.Time `json:"created"`    // when it was opened, by the log's time
	EphemeralCount int       `json:"ephemerals"` // number of its ephemeral nodes
	WatchCount     int       `json:"watches"`    // number of watches of its connection
	// null if no connection carries the session, or if its member did not reply
	Connection *Connection `json:"connection"`
}

// Connection is a client connection of a member.
type Connection struct {
	MemberID      uint32    `json:"member"`      // the member that serves it
	Number        uint64    `json:"number"`      // counts the connections of the member
	Address       string    `json:"address"`     // of the client, host:port
	TLS           string    `json:"tls"`         // its version, such as "TLSv1.3"; "": the connection is plain
	Cipher        string    `json:"cipher"`      // the cipher suite of TLS; "": the connection is plain
	SessionID     string    `json:"session"`     // that it carries; "": it has none yet
	TimeoutMs     int64     `json:"timeout_ms"`  // of the session
	EstablishedAt time.Time `json:"established"` // when it was made
	Received      uint64    `json:"received"`    // requests
	Sent          uint64    `json:"sent"`        // replies and events
	// requests per second over the last 50 to 60 s, or since the connection was made
	RequestsPerS float64 `json:"requests_per_s"`
	// bytes per second over the same time: of requests, replies and events
	BytesPerS      int64  `json:"bytes_per_s"`
	QueuedRequests int    `json:"queued"`    // requests without a reply yet
	LastOp         string `json:"last_op"`   // the operation of the last reply; "": none
	LastZxid       string `json:"last_zxid"` // "0x…", in the last reply
	LastUs         int64  `json:"last_us"`   // latency of the last request, in microseconds
	MinUs          int64  `json:"min_us"`    // the least latency
	AvgUs          int64  `json:"avg_us"`    // the average latency
	MaxUs          int64  `json:"max_us"`    // the greatest latency
}

// OneSession is a session that was requested alone.
type OneSession struct {
	Session
	Silent []Silence `json:"silent"` // the members that did not reply
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

// Owner is the session that a node belongs to. Only an ephemeral node has one.
type Owner struct {
	Path string `json:"path"` // of the node
	// of the node: "none" (there is no such node), "persistent", "ephemeral", "container" or "ttl"
	Kind         string   `json:"kind"`
	SessionID    string   `json:"id"`      // of the session; "": none
	SessionEnded bool     `json:"ended"`   // the session has ended, and the node is about to be removed
	Session      *Session `json:"session"` // the session; null: there is none, or it has ended
	// the node's ephemeral children in the order of the numbers in their names, the first 100
	Children       []OwnedChild `json:"children"`
	EphemeralCount int          `json:"ephemeral_children"` // the number of ephemeral children
	ChildrenCut    bool         `json:"children_cut"`       // there are more children than a member looks at: others may come before
	Silent         []Silence    `json:"silent"`             // the members that did not reply
}

// OwnedChild is an ephemeral child of a node, such as a contender for a lock.
type OwnedChild struct {
	Name string `json:"name"` // of the node, without the path of its parent
	// "holds" or "waits", if all children have names of one kind of lock or election that Rollcall knows; otherwise ""
	Turn         string `json:"turn"`
	SessionID    string `json:"id"`      // of the session that it belongs to
	SessionEnded bool   `json:"ended"`   // the session has ended, and the node is about to be removed
	MemberID     uint32 `json:"member"`  // that serves the session; 0: none
	Address      string `json:"address"` // of the session's client; "": not known
}

// End is the end of a session.
type End struct {
	ID             string    `json:"id"`         // of the session
	State          string    `json:"state"`      // "ended"
	EndedAt        time.Time `json:"ended"`      // when, by the log's time
	Reason         string    `json:"reason"`     // "closed", "expired" or "killed"
	EndedBy        string    `json:"by"`         // the operator who killed it; "": no operator did
	Address        string    `json:"address"`    // of the client that connected last, host:port
	MemberID       uint32    `json:"member"`     // the member that the session was attached to
	LeaderID       uint32    `json:"leader"`     // the member that led
	Term           uint64    `json:"term"`       // raft's, in which it led
	Zxid           string    `json:"zxid"`       // "0x…", of the transaction that ended the session
	SilentMs       int64     `json:"silent_ms"`  // time since the leader last heard from it; 0 if its client closed it
	TimeoutMs      int64     `json:"timeout_ms"` // granted by the last connect
	EphemeralCount int       `json:"ephemerals"` // number of its ephemeral nodes
	Number         uint64    `json:"number"`     // counts the ends that are kept
}

// Removal is the removal of a node.
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

// PauseOp is the Op of a SlowRequest that is no request, but a time in which a member's process did not run.
const PauseOp = "pause"

// SlowRequest is a request that took long, with the stages of its time, or a pause of a member's process, with one stage.
type SlowRequest struct {
	ID         string      `json:"id"`       // such as "2-19a3f0c2b41"; it begins with the member
	MemberID   uint32      `json:"member"`   // that received the request
	ReceivedAt time.Time   `json:"received"` // when, by that member's clock
	SessionID  string      `json:"session"`  // of the client
	Address    string      `json:"address"`  // of the client
	Op         string      `json:"op"`       // its name, such as "setData"; "pause": no request, but a time in which the member's process did not run
	Path       string      `json:"path"`     // cut after 256 bytes; "": there is none, or the caller may not see it
	Xid        int32       `json:"xid"`      // the client's number of the request
	Index      uint64      `json:"index"`    // of the entry of the log that has the write; 0: it is no write
	TotalUs    int64       `json:"total_us"` // from reading the request to queueing its reply, or until the client took that
	Largest    string      `json:"largest"`  // the longest stage, in words
	Stages     []SlowStage `json:"stages"`   // in the order of time; their sum is the total
	Causes     []SlowCause `json:"causes"`   // events on members while the request was under way, the longest first
	MissingIDs []uint32    `json:"missing"`  // members that did not say what they recorded, so that stages may be missing
	ErrorUs    int64       `json:"error_us"` // by which a stage between two members may be wrong, because their clocks differ
	Complete   bool        `json:"complete"` // false: the other members are still being asked

	Connections int  `json:"connections"` // of a pause: clients that were connected to the member when it was over
	Lost        bool `json:"lost"`        // the connection ended before there was a reply, at the end of the total
}

// SlowStage is a part of the time of a slow request.
type SlowStage struct {
	Stage      string `json:"stage"`     // as in the metric rollcall_stage_seconds
	MemberID   uint32 `json:"member"`    // where the time went; 0: unknown
	ToMemberID uint32 `json:"to_member"` // of a way between two members, its end; else 0
	TookUs     int64  `json:"took_us"`   // its length
	Text       string `json:"text"`      // in words
}

// SlowCause is an event on a member while a request was under way.
type SlowCause struct {
	// "paused", "no leader", "snapshot", "backup", "slow sync", "paused before": the process did not run just before it read
	// the request, which may have waited in its socket for so long; or "unknown": one that only newer members know
	Cause    string `json:"cause"`
	MemberID uint32 `json:"member"`  // on which it was
	TookUs   int64  `json:"took_us"` // while the request was under way; of "paused before", the whole pause
}

// Buckets is the time axis of the leader's session table.
type Buckets struct {
	TickMs        int64     `json:"tick_ms"` // a tick; each bucket is one tick wide
	At            time.Time `json:"at"`      // now, by the leader's clock
	LeaderID      uint32    `json:"leader"`  // the member that leads
	Buckets       []Bucket  `json:"buckets"` // those that hold sessions, by time
	LaterSessions int       `json:"later"`   // sessions that fall due more than 1,000 ticks from At on
	Silent        []Silence `json:"silent"`  // the leader, if it did not reply
}

// Bucket is the number of sessions that fall due at a time.
type Bucket struct {
	DueMs    int64 `json:"due_ms"`   // from Buckets.At on; 0 or less: due
	Sessions int   `json:"sessions"` // number of sessions
}

// Events has the data of each event of /v1/events under the event's name. One event has one of them.
type Events struct {
	Status  List[Member] `json:"status"`  // each second
	Buckets Buckets      `json:"buckets"` // each second
	Load    Load         `json:"load"`    // each second
	Session SessionEvent `json:"session"` // at once; at most 50 in a second
	Omitted Omitted      `json:"omitted"` // after a second with more
	Leader  LeaderEvent  `json:"leader"`  // the last ones when the stream begins, and then at once
	Slow    SlowRequest  `json:"slow"`    // when its stages are known, with the path only if the caller may see it
}

// SessionEvent reports that a session was created, has moved to another connection, or has ended.
type SessionEvent struct {
	Kind           string    `json:"kind"`       // "created", "moved" or "ended"
	At             time.Time `json:"at"`         // when the replying member applied it, by its clock
	ID             string    `json:"id"`         // of the session
	MemberID       uint32    `json:"member"`     // that the session is attached to, or was
	FromMember     uint32    `json:"from"`       // that it was attached to before it moved; 0: none
	Address        string    `json:"address"`    // of the client that connected last, host:port
	TimeoutMs      int64     `json:"timeout_ms"` // granted by the last connect
	Reason         string    `json:"reason"`     // of its end: "closed", "expired" or "killed"; else ""
	EndedBy        string    `json:"by"`         // the operator who killed it
	SilentMs       int64     `json:"silent_ms"`  // time since the leader last heard from it, at its end
	EphemeralCount int       `json:"ephemerals"` // nodes that it had when it ended
}

// Omitted counts the sessions that were created, have moved or have ended without an event, because there were
// too many.
type Omitted struct {
	Sessions int64 `json:"sessions"` // since the last Omitted
}

// LeaderEvent reports that a leader has opened its term. A stream of events begins with the last ones that the
// replying member has applied since its start, at most 8, oldest first. One may come twice.
type LeaderEvent struct {
	At       time.Time `json:"at"`     // when it opened its term, by the log's time
	LeaderID uint32    `json:"leader"` // the member that leads
	Term     uint64    `json:"term"`   // raft's
	// what ended the leader before, as far as the new one knows: "handed over": that handed over to this one; "died": its process
	// ended; "silent": it sent no heartbeats; "elected again": this leader led before, and stepped down; "resumed": this leader
	// begins once more in the same term; "started": this leader had known no other since its start; or "unknown"
	Cause    string `json:"cause"`
	FormerID uint32 `json:"former"`    // the leader before; 0: none or unknown
	SilentMs int64  `json:"silent_ms"` // if it was silent, the time for which it was when the new leader stood for election
}

// Load is the load of a member's own clients.
type Load struct {
	At time.Time `json:"at"` // by the member's clock
	// the time that the rates and averages are about; 0: there are none yet
	OverMs         int64   `json:"over_ms"`
	RequestsPerS   float64 `json:"requests_per_s"` // reads and updates
	AvgUs          int64   `json:"avg_us"`         // average latency of these, in microseconds
	ReadsPerS      float64 `json:"reads_per_s"`    // requests that change nothing
	ReadAvgUs      int64   `json:"read_avg_us"`    // average latency of these, in microseconds
	UpdatesPerS    float64 `json:"updates_per_s"`  // all other requests
	UpdateAvgUs    int64   `json:"update_avg_us"`  // average latency of these, in microseconds
	QueuedRequests int     `json:"queued"`         // requests without a reply yet
	Connections    int     `json:"connections"`    // of clients
}

// Setting is a configuration key of the replying member.
type Setting struct {
	Key     string `json:"key"`     // its name
	Value   string `json:"value"`   // in force; "" if it is secret
	Default string `json:"default"` // or a sentence about the behaviour without the key
	Origin  string `json:"from"`    // "default", a file with its line, a variable or a flag
	State   string `json:"state"`   // "in force", "default", "no effect", "unknown", "dangerous" or "refused"
	Warning string `json:"warning"` // the reason if it has no effect, or is unknown, dangerous or refused
}

// Node is a znode, as the caller may see it.
type Node struct {
	Path string `json:"path"` // of the node
	Data []byte `json:"data"` // base64; the first MiB, if the node has more
	// the data are omitted, because the request has no credentials and admin.localReads is not data
	DataHidden   bool     `json:"hidden"`
	Children     []string `json:"children"` // a page of names, in order
	NextChildren string   `json:"next"`     // cursor of the next page of children
	Stat         Stat     `json:"stat"`     // its Stat
	ACL          []ACL    `json:"acl"`      // its access control list
}

// NodeCreate is a node to be created.
type NodeCreate struct {
	Path       string `json:"path"`       // of the node
	Data       []byte `json:"data"`       // base64; left out: none
	ACL        []ACL  `json:"acl"`        // left out: everyone may do everything
	Sequential bool   `json:"sequential"` // the path gets a number at its end, of ten digits or 19; left out: it does not
}

// NodeSet is new data for a node.
type NodeSet struct {
	Path    string `json:"path"`    // of the node
	Data    []byte `json:"data"`    // base64
	Version *int32 `json:"version"` // that the data must have; left out: any
}

// NodeDelete is a node to be deleted. It must have no children.
type NodeDelete struct {
	Path    string `json:"path"`    // of the node
	Version *int32 `json:"version"` // that its data must have; left out: any
}

// NodeChanged is a node that was created, set or deleted.
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
	Version     int32     `json:"version"`     // number of changes of its data
	Cversion    int32     `json:"cversion"`    // number of creations and deletions of children
	Aversion    int32     `json:"aversion"`    // number of changes of its ACL
	Owner       string    `json:"owner"`       // session of an ephemeral node; "": none
	DataLength  int32     `json:"data_length"` // bytes
	NumChildren int32     `json:"children"`    // number of children
}

// ACL is an entry of an access control list.
type ACL struct {
	Scheme string `json:"scheme"` // such as "world", "digest" or "ip"
	ID     string `json:"id"`     // the identity, as the scheme writes it
	Perms  string `json:"perms"`  // letters of cdrwa
}

// LogLevel is the minimum level of the member's log.
type LogLevel struct {
	Level string `json:"level"` // "debug", "info", "warn" or "error"
}

// Limit is a limit for tenants of the member.
type Limit struct {
	Name string `json:"name"` // letters, digits, - and _
	Rule string `json:"rule"` // as in zoo.cfg after limit.NAME=
}

// Limits are all limits for tenants of the member.
type Limits struct {
	Limits []Limit `json:"limits"` // in the order in which they were set
}

// LimitsChange sets and removes limits for tenants of the member.
type LimitsChange struct {
	Set    []Limit  `json:"set"`    // replace those of the same name, or are added
	Remove []string `json:"remove"` // names of limits that are removed
}

// Line is a line of the member's log.
type Line struct {
	At    time.Time `json:"at"`    // when it was written
	Level string    `json:"level"` // "debug", "info", "warn" or "error"
	Text  string    `json:"text"`  // the whole line, as it was written
}

// MinHandOver is the least time that a drain tries to transfer leadership before it closes connections. A member
// that has just started may need some seconds before it can lead, and a drain is not urgent.
const MinHandOver = 5 * time.Second

// Drain configures the drain of a member.
type Drain struct {
	OverMs int64 `json:"over_ms"` // time over which the clients' connections are closed
}

// Snapshot is a snapshot on a member's disk.
type Snapshot struct {
	MemberID uint32 `json:"member"`  // that wrote it
	Index    uint64 `json:"index"`   // of the last log entry in it
	Term     uint64 `json:"term"`    // of that entry
	Zxid     string `json:"zxid"`    // "0x…", of the last transaction in it
	Bytes    int64  `json:"bytes"`   // of its state
	TookMs   int64  `json:"took_ms"` // from copying the state until the snapshot was on the disk
}

// History is what a member keeps of the past. A state can be built from a snapshot and the entries after it.
type History struct {
	MemberID uint32        `json:"member"`  // that keeps it
	Spans    []HistorySpan `json:"spans"`   // the oldest first; between two of them entries are missing
	Damaged  []string      `json:"damaged"` // files that cannot be used, with the reason
}

// HistorySpan is a part of the past without a gap.
type HistorySpan struct {
	First     uint64            `json:"first"`     // index of the first entry
	Last      uint64            `json:"last"`      // index of the last entry
	Snapshots []HistorySnapshot `json:"snapshots"` // the oldest first
	Segments  []HistorySegment  `json:"segments"`  // the oldest first
}

// HistorySnapshot is a snapshot of the past.
type HistorySnapshot struct {
	Name  string    `json:"name"`  // of its directory
	Index uint64    `json:"index"` // of the last entry in it
	Term  uint64    `json:"term"`  // of that entry
	At    time.Time `json:"at"`    // when it was written, by the member's clock
	Bytes int64     `json:"bytes"` // of its state
}

// HistorySegment is a part of a log.
type HistorySegment struct {
	Name  string `json:"name"`  // of its file
	First uint64 `json:"first"` // index of the first entry that counts
	Last  uint64 `json:"last"`  // index of the last entry that counts
	Bytes int64  `json:"bytes"` // of the file
}

// Drained is the result of a drain.
type Drained struct {
	ClosedConnections int   `json:"connections"` // that were closed
	StillLeads        bool  `json:"leads"`       // no other member could take over
	TookMs            int64 `json:"took_ms"`     // duration
}

// ReasonEntriesGone is the reason of a Failure for entries that the log of a member does not have any more.
const ReasonEntriesGone = "entries gone"

// ReasonTooLarge is the reason of a Failure for a state of the past that is too large for a member.
const ReasonTooLarge = "too large"

// ReasonRemoved is the reason of a Failure from a member that was removed from the ensemble.
const ReasonRemoved = "removed"

// Failure is the body of a reply whose status is not 200.
type Failure struct {
	Error string `json:"error"` // the fault, the allowed values, and the remedy
	// for programs: "removed" if the member was removed from the ensemble, so use another one; "": the status suffices
	Reason string `json:"reason"`
}

// Change is a change of a node, of a session, or of the list of servers, in the order of the log. It has no data, no access
// control list and no secret.
type Change struct {
	Zxid   string    `json:"zxid"`   // "0x…", of the transaction
	Number uint32    `json:"number"` // of the change in its transaction, from 1
	At     time.Time `json:"at"`     // by the leader's clock
	// "create", "delete", "set data", "set acl", "open session", "close session", "expire session", "kill session" or
	// "change servers"; in a stream over HTTP also "passed": no change, but all up to this zxid have been sent
	Operation string `json:"operation"`
	Path      string `json:"path"` // of the node; "": the change is one of a session
	// the node's version after the change, or its last one if it was deleted: of its access control list after "set acl",
	// and otherwise of its data; null: the change is one of a session
	Version    *int32 `json:"version"`
	DataLength *int   `json:"data_length"` // of the node's data in bytes, likewise
	Kind       string `json:"kind"`        // of the node, as in Owner; "": the change is one of a session
	// why a node was deleted, as in Removal, or which operator has killed a session; "": neither
	Cause     string `json:"cause"`
	SessionID string `json:"session"` // whose client made the change, or that was opened or ended; "": none
	Address   string `json:"address"` // of that session's client, or the host of a client without a session; "": unknown
	// that received the change from its client, or that the ended session was connected to; 0: none
	MemberID uint32 `json:"member"`
}
