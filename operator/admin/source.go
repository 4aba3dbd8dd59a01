package admin

import (
	"fmt"
	"iter"
	"time"

	"rollcall/internal/metrics"
	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// Source is the member whose state the package shows. It is safe for concurrent use. Its sequences hold no lock
// while they yield. They read the state in parts, so they may miss concurrent changes.
type Source interface {
	// Stats returns the member's metrics. It waits only for the tree's lock.
	Stats() Stats
	// NativeMetrics returns the metrics that only Prometheus gets. Their values wait for no lock that apply may
	// hold for long.
	NativeMetrics() []metrics.Native
	// Health waits for no lock that apply may hold.
	Health() Health
	// Ensemble returns the server list, likewise.
	Ensemble() Ensemble
	// Settings returns the lines of conf, in order. data and log are the results of DiskUsage. members is the
	// text of /zookeeper/config, which comes last, or "" for a standalone server.
	Settings(data, log int64) (lines []ConfLine, members string)
	// DiskUsage returns the bytes of the log's files and of all others.
	DiskUsage() (data, log int64, err error)
	// DiskSpace returns the used and the free space. It hangs as long as the disk does.
	DiskSpace() (DiskSpace, error)
	// ResetStats sets the member's counters to zero, and ResetConnections the counters of each connection.
	ResetStats()
	ResetConnections()

	// Connections yields this member's client connections.
	Connections() iter.Seq[clients.Connection]
	// Watches yields the sessions that watch nodes here, each with its paths in order.
	Watches() iter.Seq2[jute.SessionID, []string]
	// Sessions yields all sessions of the ensemble by id, with their timeouts.
	Sessions() iter.Seq2[jute.SessionID, time.Duration]
	// Expiries yields the sessions, in no order, with the time at which each expires if it stays silent. ok is
	// false except on the leader, because only the leader knows that time.
	Expiries() (expiries iter.Seq2[jute.SessionID, time.Time], ok bool)
	// HasPublicAncestors reports whether everyone may know that a node is at path, because everyone may read all nodes
	// above it. It waits only for the tree's lock.
	HasPublicAncestors(path string) bool
	// Ephemerals yields the ephemeral nodes with their owners. The nodes of one owner are adjacent.
	Ephemerals() iter.Seq2[jute.SessionID, string]
}

// Stats holds the metrics of one member.
type Stats struct {
	Role   string        // "leader", "follower", "observer", "standalone", api.RoleReadOnly; "": not serving
	Uptime time.Duration // since its start

	InsecurePorts string // as in Health
	NoMemory      bool   // as in Health
	// a sentence for each voter that the leader has not heard for long, with the command that removes it
	SilentVoters []string

	PacketsReceived, PacketsSent uint64 // packets
	Connections                  int
	OutstandingRequests          int // requests
	Handshakes                   uint64
	RejectedConnections          uint64          // connections rejected because of a limit or the connection throttle
	DropProbability              float64         // with which the connection throttle rejects a new session
	TokenDeficit                 int64           // tokens that are missing in its bucket
	ClosedSessionless            uint64          // connections closed because they opened no session in time
	AuthFailed                   uint64          // connections
	ClientMemory                 int64           // bytes of waiting requests and of output that clients have not read
	ClientMemoryLimit            int64           // bytes; above it, connections are closed
	ClosedOverBudget             uint64          // connections closed because they held most when there was too much
	Latency                      metrics.Summary // of all requests
	Reads, Updates               metrics.Summary // latency of requests that change nothing, and of the others
	Responses                    metrics.Spread  // bytes of replies and events
	BytesReceived                uint64          // of frames
	ReplyBytes                   uint64
	EventBytes                   uint64
	Zxid                         int64 // of the last applied transaction
	Nodes                        int   // in the tree, including the root
	Ephemerals                   int
	DataSize                     int64 // bytes of all paths and data
	DataQuota                    int64 // bytes that they may have in this term; 0: there is no limit
	DataUsed                     int64 // bytes that count against the quota
	MostCreated                  int64 // children ever created in one parent, as znode.State.MostCreated counts them
	LongNames                    bool  // the numbers of sequential names go on after 2147483647 in this term
	Sessions                     int   // of the ensemble
	Watches                      int   // of this member's connections
	WatchedPaths                 int   // these three without watches on children alone
	WatchingConnections          int   // connections
	DataWatches                  int
	Voters                       int             // members of the ensemble that vote
	LogWrites                    metrics.Summary // how long log writes took until they were on disk
	SlowLogWrites                uint64          // those that took a second or more
	Snapshots                    metrics.Summary
	Elections                    metrics.Summary
	Candidacies                  uint64 // how often this member was a candidate in an election
	ProposedTransactions         uint64 // transactions, as leader
	CommittedTransactions        uint64
	ExpiredSessions              uint64        // sessions, as leader
	ClockJump                    time.Duration // by how much the wall clock has jumped
	// this leader removes no TTL nodes or containers, because its clock is wrong
	ReaperPaused       bool
	Proposals          metrics.Spread // bytes of transactions in this term
	Learners           int            // the fields from here to ClockDifference are 0 unless this member leads
	SyncedFollowers    int            // voters among the learners that have applied what was committed when they connected
	SyncedObservers    int            // likewise, members without a vote
	SyncsAwaitingProof int            // calls of Sync by members that wait for a proof round
	LeaderUptime       time.Duration
	ClockDifference    time.Duration // the greatest difference to another member's clock
	// file descriptors of this process, which FourLetterCommands fills in; -1: unknown
	OpenFiles, MaxFiles int64
}

// Health describes whether a member works, and whether it serves clients.
type Health struct {
	Role    string // as in Stats; "": not serving
	Stalled string // why this member must not serve at the moment: its disk or apply hangs
	Damage  string // why it no longer serves: its state is damaged
	// why it does not serve for now: its state differs from the leader's, and no majority decides which one is right
	Divergence string
	// why it does not serve for now: it has no contact with a leader, and the others may have one
	CutOff string
	// the version of the list that does not have this member any more, which may still vote; 0: it has
	LeavingVersion int64
	// as LeavingVersion, if raft's configuration does not have this member either; 0: one of them has
	RemovedVersion int64
	// why the others do not find it, if it has waited for a leader at an address that the list does not have; "": it has not
	OtherAddress string
	// the condition without which it can neither join an ensemble nor get a leader; "": none is known
	WaitingFor    string
	Progress      string // what it still has to do before it takes part, such as "applies its log, 40 %"; "": nothing
	ReadsData     bool   // it has started and reads its data, as Progress says
	Joining       bool   // it has read its data, catches up, and takes part in no election
	Drained       bool   // it takes no more clients, because an operator has drained it or it is stopping
	HasLeader     bool   // this member knows a leader
	InsecurePorts string // how the ports for members are open to processes that are no members; "": they are not
	NoMemory      bool   // it is short of memory, and rejects writes that add data
}

// serves reports whether the member serves all clients, including those that do not accept a read-only server.
func (h Health) serves() bool {
	return h.Role != "" && h.Role != api.RoleReadOnly && !h.Drained && h.LeavingVersion == 0
}

// shortOfMemory is the text for NoMemory.
const shortOfMemory = "short of memory: writes that add data are rejected"

const noLeader = "no leader is known: a majority of the members must be up, reach each other and accept each other's secret " +
	"or certificate"

// StatusText returns the member's role, or the reason why it does not serve clients.
func (h Health) StatusText() (text string, serves bool) {
	switch {
	case h.serves() && h.NoMemory:
		return h.Role + ", " + shortOfMemory, true
	case h.serves():
		return h.Role, true
	case h.Damage != "":
		return "the state of this member is damaged: " + h.Damage, false
	case h.Divergence != "":
		return "this member does not serve for now: " + h.Divergence, false
	case h.Stalled != "":
		return h.Stalled, false
	case h.Drained:
		return "this member takes no more clients: it is stopping, or drained until its next start", false
	case h.RemovedVersion != 0:
		return fmt.Sprintf("this member was removed from the ensemble (the list of version 0x%x): stop it, or add it again",
			uint64(h.RemovedVersion)), false
	case h.LeavingVersion != 0:
		return fmt.Sprintf("this member is not in the list of servers any more (since version 0x%x), and votes until "+
			"another one can take its place: do not stop it before", uint64(h.LeavingVersion)), false
	case h.OtherAddress != "" && h.WaitingFor != "":
		return h.OtherAddress + "; it waits for " + h.WaitingFor, false
	case h.OtherAddress != "":
		return h.OtherAddress, false
	case h.CutOff != "" && h.Role == api.RoleReadOnly:
		return "read-only: " + h.CutOff + "; clients that ask for a read-only server are served", false
	case h.CutOff != "" && h.WaitingFor != "":
		return h.CutOff + "; it waits for " + h.WaitingFor, false
	case h.CutOff != "":
		return h.CutOff, false
	case h.WaitingFor != "" && !h.HasLeader:
		return "no leader is known: this member waits for " + h.WaitingFor, false
	case h.Joining && h.Progress != "":
		return "this member is joining the ensemble: it " + h.Progress, false
	case h.Joining:
		return "this member is joining the ensemble and has not caught up yet", false
	case h.Progress != "":
		return "this member has started: it " + h.Progress, false
	case h.Role == api.RoleReadOnly:
		return "read-only: " + noLeader + "; clients that ask for a read-only server are served", false
	case !h.HasLeader:
		return noLeader, false
	}
	return "this member has caught up, and its leader has not announced it yet", false
}

// Ensemble is the server list, as the member sees it.
type Ensemble struct {
	Self, Leader uint32 // Leader is 0 if there is none
	Peers        []Peer // none on a standalone server
}

// Peer is one member in the server list. Its addresses are host:port.
type Peer struct {
	ID                                            uint32
	QuorumAddress, ElectionAddress, ClientAddress string // ClientAddress is "" if the list does not name it
	IsObserver                                    bool   // it does not vote
}

// ConfLine is one line of conf.
type ConfLine struct{ Name, Value string }
