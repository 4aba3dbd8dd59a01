// Package datadir reads and writes the files in which ZooKeeper keeps its data: the snapshots and
// transaction logs of a directory version-2, as the releases 3.4 to 3.9 write them. It knows nothing of
// Rollcall's own state.
//
// Read returns the State that ZooKeeper would have if it started from a directory: its newest valid
// snapshot, and all transactions after it. State.Write writes a directory from which ZooKeeper starts.
//
// # What is refused
//
// Where ZooKeeper tolerates damage and nothing is lost, Read does the same and says so in Report.Notes.
// Where ZooKeeper would silently lose transactions, Read refuses, unless Options.AsZooKeeper asks for
// ZooKeeper's way. Such a refusal is a Damage, which names the file and the offset.
//
// # Memory
//
// A State takes as much memory as its data, and a few hundred bytes for each node. No memory is
// allocated by a length in a file before the bytes are there.
//
// # Concurrency
//
// Nothing here locks or starts a goroutine. Use a value from one goroutine at a time.
//
// zxids are as in ZooKeeper: the epoch in the upper 32 bits, a counter in the lower ones. Times are
// milliseconds since 1970, and time-outs are milliseconds.
package datadir

import (
	"fmt"
	"strconv"
)

// Options say how Read goes on where it would refuse.
type Options struct {
	// AsZooKeeper goes on as ZooKeeper would where transactions are missing, where a log has an end
	// that no crash leaves, and where a digest differs. Report.Losses lists each place.
	AsZooKeeper bool
	// TrustEmpty begins with an empty tree if a directory has logs and no snapshot, as ZooKeeper does
	// with snapshot.trust.empty. Directories of 3.4 may be so.
	TrustEmpty bool
	// NoLogs reads a directory that has a snapshot and no log. Without it the directory is refused, because
	// its logs may be in a dataLogDir that was forgotten.
	NoLogs bool
	// TTL353 reads the owners of TTL nodes as 3.5.3 wrote them, as ZooKeeper does with
	// emulate353TTLNodes. Sessions of servers 128 to 143 cannot be told from them.
	TTL353 bool
	// CheckRoom is called again and again while files are read. If it returns an error, Read returns that:
	// a small compressed file may stand for more than the memory holds. nil: there is no limit.
	CheckRoom func() error
}

// Report says how a State was read.
type Report struct {
	Directory    Directory // the directory that was read
	ChoiceReason string    // why this one, if there were several
	Snapshot     string    // the file; "" if the tree began empty
	SnapshotZxid int64     // from the snapshot's name
	Logs         []string  // the files, in order
	Transactions int       // how many were applied after the snapshot
	Digests      int       // how many digests of the whole tree were compared, and were equal
	Notes        []string  // what was tolerated although it is unusual; nothing is lost
	Losses       []string  // what was tolerated only because of Options.AsZooKeeper
}

// Damage says that a file cannot be used as it is.
type Damage struct {
	File         string
	Offset       int64 // in the file, or in its uncompressed contents
	Zxid         int64 // of the transaction there; 0 if it is not known
	Problem      string
	Remedy       string // what the operator can do
	isCompressed bool   // Offset is in the uncompressed contents
}

// Error implements error.
func (d *Damage) Error() string {
	text := fmt.Sprintf("%s: offset %d", d.File, d.Offset)
	if d.isCompressed {
		text += " of the uncompressed contents"
	}
	if d.Zxid != 0 {
		text += ", zxid " + zxidText(d.Zxid)
	}
	text += ": " + d.Problem
	if d.Remedy != "" {
		text += "; " + d.Remedy
	}
	return text
}

// These are what operators can do about damage.
const (
	useOtherMember  = "use the directory of another member"
	useOtherOrForce = "use the directory of another member, or add --as-zookeeper, which goes on as ZooKeeper would, without what is missing"
)

// zxidText returns a zxid as ZooKeeper prints it.
func zxidText(zxid int64) string {
	return "0x" + strconv.FormatUint(uint64(zxid), 16)
}

// Epoch returns the epoch of a zxid: the number of the leader's term.
func Epoch(zxid int64) int64 { return zxid >> 32 }

// epochCounter returns the number of a transaction within its epoch.
func epochCounter(zxid int64) uint32 { return uint32(zxid) }
