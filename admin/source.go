package admin

import (
	"iter"
	"time"

	"rollcall/jute"
	"rollcall/tally"
)

// Source is the member that is told of. Safe for concurrent use. Its sequences hold no
// lock while they yield, and show what there is a part at a time: what changes meanwhile
// may be missed.
type Source interface {
	// Stats are the member's figures now. It waits for nothing but the tree's lock.
	Stats() Stats
	// Settings returns the lines of conf, in order. data and log are what DiskUsage returns. members is
	// the text of /zookeeper/config, which comes last, or "" for a standalone server.
	Settings(data, log int64) (lines []Line, members string)
	// DiskUsage returns the bytes of the log's files and of all others.
	DiskUsage() (data, log int64, err error)
	// ResetStats sets what is counted to zero, ResetConnections what is for one connection.
	ResetStats()
	ResetConnections()

	// Connections yields this member's client connections.
	Connections() iter.Seq[tally.Connection]
	// Watches yields the sessions that watch nodes here, with the paths in order.
	Watches() iter.Seq2[jute.SessionID, []string]
	// Sessions yields all sessions of the ensemble by id, with their timeouts.
	Sessions() iter.Seq2[jute.SessionID, time.Duration]
	// Expiries yields the sessions with the time at which they end if nothing is heard, in no
	// order. Only who leads knows: ok is false elsewhere.
	Expiries() (expiries iter.Seq2[jute.SessionID, time.Time], ok bool)
	// Ephemerals yields the ephemeral nodes with their owners, each owner's together.
	Ephemerals() iter.Seq2[jute.SessionID, string]
}

// Stats are the figures of one member.
type Stats struct {
	Role string        // "leader", "follower", "standalone"; "": not serving
	Up   time.Duration // since it was started

	Received, Sent  uint64 // packets
	Connections     int
	Outstanding     int // requests
	Handshakes      uint64
	Rejected        uint64        // connections: too many
	Sessionless     uint64        // connections without a session in time
	AuthFailed      uint64        // connections
	ClientMemory    int64         // bytes of requests that wait, and of what clients leave unread
	MostMemory      int64         // how many there may be
	OverBudget      uint64        // connections: they held most when there were too many
	Latency         tally.Summary // of all requests
	Reads, Updates  tally.Summary // of those that change nothing, and of the others
	Responses       tally.Spread  // bytes of replies and events
	BytesIn         uint64        // of frames
	ReplyBytes      uint64
	EventBytes      uint64
	Zxid            int64 // last applied
	Nodes           int   // in the tree, the root among them
	Ephemerals      int
	DataSize        int64 // bytes of all paths and data
	Sessions        int   // of the ensemble
	Watches         int   // of this member's connections
	WatchedPaths    int   // the same three without watches of children alone
	Watching        int   // connections
	DataWatches     int
	Voters          int           // members of the ensemble
	Writes          tally.Summary // of the log, until on disk
	SlowWrites      uint64        // of a second and more
	Snapshots       tally.Summary
	Elections       tally.Summary
	Stands          uint64 // how often this member stood for election
	Proposed        uint64 // transactions, as leader
	Committed       uint64
	Expired         uint64        // sessions, as leader
	Jump            time.Duration // by which the wall clock has jumped
	Held            bool          // leads, and reaps nothing, because its clock is at fault
	Proposals       tally.Spread  // bytes of transactions, in this term
	Learners        int           // the rest is a leader's
	Synced          int
	Syncs           int
	Leading         time.Duration
	Apart           time.Duration // greatest difference to another member's clock
	Files, MaxFiles int64         // descriptors of this process, which Words fill in; -1: unknown
}

// Line is one line of the answer to conf.
type Line struct{ Name, Value string }
