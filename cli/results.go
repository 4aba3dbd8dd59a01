package cli

import "time"

// Health is printed by rollcall health -o json.
type Health struct {
	Address string `json:"address"` // host:port where the member takes clients
	Role    string `json:"role"`    // "leader", "follower" or "standalone"

	Problems []string `json:"problems"` // of a member that serves clients, such as "members are not authenticated"
}

// Version is printed by rollcall version -o json.
type Version struct {
	Version   string     `json:"version"`   // such as 0.1.0
	Commit    string     `json:"commit"`    // "": not known, because the program was built without git
	Modified  bool       `json:"modified"`  // files had changes that were not committed
	Committed *time.Time `json:"committed"` // the date of the commit; null: not known
}

// RecoverResult is printed by rollcall recover -o json: the members' data before the recovery.
type RecoverResult struct {
	Member  uint32       `json:"member"`  // the survivor, which can be started now
	Members []DataExtent `json:"members"` // of the new ensemble; the survivor is the first
}

// DataExtent is the last log entry of a member's data.
type DataExtent struct {
	Member  uint32 `json:"member"`
	Address string `json:"address"` // host:port for the log
	// of the last log entry; 0: it has no data, or silent says why that is not known
	Index        uint64     `json:"index"`
	Term         uint64     `json:"term"`    // of that entry
	Written      *time.Time `json:"written"` // when it was written; null: not known
	SilentReason string     `json:"silent"`  // "": it has replied
}

// RestoreResult is printed by rollcall backup restore -o json.
type RestoreResult struct {
	File     string `json:"file"`
	Index    uint64 `json:"index"`    // of the last entry of the log in the restored state
	Zxid     int64  `json:"zxid"`     // the last one in the restored state
	Term     uint64 `json:"term"`     // the first leader leads in a later term; the upper half of new zxids is above it
	Nodes    uint64 `json:"nodes"`    // in the restored state
	Sessions uint64 `json:"sessions"` // in the restored state
	Closed   int    `json:"closed"`   // sessions of the backup that have ended
	Digest   string `json:"digest"`   // of the restored state
	Member   uint32 `json:"member"`   // that has the state and begins the ensemble
	Config   string `json:"config"`   // its zoo.cfg
	Data     string `json:"data"`     // its data directory
}

// ExportResult is printed by rollcall export -o json.
type ExportResult struct {
	Into      string `json:"into"`      // the directory for ZooKeeper
	Backup    string `json:"backup"`    // the backup that was read; "": a member's data were
	Confirmed bool   `json:"confirmed"` // false: the backup may lack the last writes
	Index     uint64 `json:"index"`     // of the last entry of the log in the state
	Term      uint64 `json:"term"`      // of that entry
	Nodes     int    `json:"nodes"`     // that were written
	Sessions  int    `json:"sessions"`  // that were written
	// of those, sessions that were opened in Rollcall: their clients get new ones
	RollcallSessions   int `json:"born"`
	RollcallEphemerals int `json:"born_ephemerals"` // ephemeral nodes of those
	OrphanNodes        int `json:"ended"`           // nodes of sessions that have ended; they were left out
	// nodes with a time to live, for which ZooKeeper needs extendedTypesEnabled
	TTLs int `json:"ttls"`
	// nodes below which ZooKeeper has no sequential names left
	UsedUpParents int    `json:"used_up_parents"`
	UsedUpParent  string `json:"used_up_parent"` // the first of them; "": there are none
}

// ImportResult is printed by rollcall import -o json.
type ImportResult struct {
	Read       ImportSource `json:"read"`
	Zxid       int64        `json:"zxid"` // the last one that a client can have seen
	Nodes      int          `json:"nodes"`
	Bytes      int64        `json:"bytes"` // of paths and data
	Sessions   int          `json:"sessions"`
	Ephemerals int          `json:"ephemerals"`
	Containers int          `json:"containers"`
	TTLs       int          `json:"ttls"` // nodes with a time to live
	Quotas     int          `json:"quotas"`
	Dropped    []string     `json:"dropped"` // state that does not carry over
	Advice     []string     `json:"advice"`  // settings for zoo.cfg
	Rejected   []string     `json:"refused"` // reasons against the import; then the exit status is 7
	Digest     string       `json:"digest"`  // of the state; "": it was rejected
	Member     uint32       `json:"member"`  // whose directories were filled; 0: nothing was written
	Data       string       `json:"data"`    // its data directory; "": nothing was written
}

// ImportSource describes the data that rollcall import has read.
type ImportSource struct {
	Data         string   `json:"data"`         // the server's dataDir
	Logs         string   `json:"logs"`         // its dataLogDir; "": it has none
	ServerReason string   `json:"why"`          // why this server; "": there was one only
	Snapshot     string   `json:"snapshot"`     // the file; "": the tree began empty
	Transactions int      `json:"transactions"` // after the snapshot
	Digests      int      `json:"digests"`      // that were compared
	Notes        []string `json:"notes"`        // tolerated faults; nothing is lost
	Losses       []string `json:"losses"`       // tolerated because of --as-zookeeper
}

// DrillRow is a drill that `rollcall drill list` prints.
type DrillRow struct {
	Name         string   `json:"name"`
	Part         string   `json:"part"`  // of "all", or only of "full"
	Needs        []string `json:"needs"` // kinds of faults
	TakesSeconds int      `json:"takes_seconds"`
	Does         string   `json:"does"`
}

// HealResult lists the repairs of `rollcall drill heal`.
type HealResult struct {
	Repaired []string `json:"repaired"`
	Removed  []string `json:"removed"` // paths of nodes
}
