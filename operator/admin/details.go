package admin

import "rollcall/internal/metrics"

// Details are the metrics of a member that only Prometheus gets, because ZooKeeper has none like them.
// Counters and histograms count since the start of the process, and nothing sets them to zero. The keys
// of a map are the values of a label.
type Details struct {
	Health
	Version      string            // of the program; Words fills it in
	Term         uint64            // raft's
	Applied      uint64            // index of the last entry of the log that is applied here
	Certificates map[string]int64  // seconds until the certificate shown to "members" or "clients" expires; none is shown to others
	TooFast      map[string]uint64 // connections to the ports for members that came too fast, by whether they came from addresses of "members" or from "others"
	Corrupted    uint64            // connections between members that ended because bytes were changed on the way
	Clients      int               // sessions whose clients are connected to this member

	ReadOnlyClients int // clients with sessions of the read-only mode

	MemoryUsed  int64  // bytes that the last run of the collector found in use
	MemoryLimit int64  // bytes that may be in use before writes that add data are refused; 0: there is no limit
	Refused     uint64 // writes refused for that

	Requests   map[string]metrics.Buckets // how long requests took, by class
	Fsyncs     metrics.Buckets            // writes of the log, until they are on disk
	Entries    metrics.Buckets            // sizes of the entries in them
	Applies    metrics.Buckets            // applying an entry
	Flushes    metrics.Buckets            // batches of touches, until they are acknowledged
	Lateness   metrics.Buckets            // how long after their time sessions expired
	Elections  metrics.Buckets            // without a leader
	WriteGaps  metrics.Buckets            // without a write around a change of leader
	Held       metrics.Buckets            // replies, because a lease was over
	TermsLed   uint64
	Pauses     uint64            // late steps of a leader
	Opened     uint64            // sessions, as leader
	Resumed    uint64            // likewise
	Ended      map[string]uint64 // likewise, by reason
	Cut        map[string]uint64 // connections closed for want of a lease, by reason
	Closed     map[string]uint64 // all connections ended or refused, by reason
	Events     map[string]uint64 // events sent, by type
	AuditLines map[string]uint64 // of the audit log, by what came of them; empty without one
	Backups    map[string]uint64 // that the member makes by itself, by what came of them; empty without a schedule
	Guesses    map[string]uint64 // credentials that were wrong, by kind
	Slowed     map[string]uint64 // credentials that were checked later or not at all, by what came of them
	Resent     uint64            // writes
	Queues     map[string]int    // lengths, by queue
	QueueBytes map[string]int
	DiskUsed   map[string]int64 // bytes, by what the files are for; nil: the disk did not say. The collector fills it in
	DiskFree   map[string]int64 // likewise
}

// DiskSpace is the space that a member takes and what is left, in bytes. All of it is 0 for a member
// without files.
type DiskSpace struct {
	Log, Data         int64 // taken by the files of the log, and by all others
	LogFree, DataFree int64 // free to this process where these files are
}
