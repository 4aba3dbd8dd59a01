// Package datadir reads and writes the files in which ZooKeeper keeps its data: the snapshots and
// transaction logs of a directory version-2, as the releases 3.4 to 3.9 write them. It knows nothing of
// Rollcall's own state.
//
// Read returns the State that ZooKeeper would have if it started from a directory: its newest valid
// snapshot, and all transactions after it. State.Write writes a directory from which ZooKeeper starts.
//
// # Damage
//
// Where ZooKeeper tolerates damage and nothing is lost, Read does the same and adds to Report.Notes.
// Where ZooKeeper would silently lose transactions, Read returns a Damage with the file and the offset,
// unless Options.AsZooKeeper is set.
//
// # Memory
//
// A State takes as much memory as its data, and a few hundred bytes for each node. A length in a file never
// allocates memory for bytes that have not been read.
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

// Options let Read continue where it would return an error.
type Options struct {
	// AsZooKeeper continues as ZooKeeper would where transactions are missing, a log has an end that no crash
	// leaves, or a digest differs. Report.Losses lists each place.
	AsZooKeeper bool
	// TrustEmpty begins with an empty tree if a directory has logs but no snapshot, as ZooKeeper does with
	// snapshot.trust.empty. Directories of 3.4 may have none.
	TrustEmpty bool
	// NoLogs reads a directory that has a snapshot but no log. Without it Read returns a Damage, because the
	// dataLogDir with the logs may have been forgotten.
	NoLogs bool
	// TTL353 reads the owners of TTL nodes as 3.5.3 wrote them, as ZooKeeper does with emulate353TTLNodes. They look
	// like sessions of servers 128 to 143.
	TTL353 bool
	// CheckRoom is called repeatedly while files are read. If it returns an error, Read returns that: a small
	// compressed file may contain more than the memory holds. nil: there is no limit.
	CheckRoom func() error
}

// Report describes how a State was read.
type Report struct {
	Directory    Directory // the directory that was read
	ChoiceReason string    // the reason for this one, if there were several
	Snapshot     string    // the file; "" if the tree began empty
	SnapshotZxid int64     // from the snapshot's name
	Logs         []string  // the files, in order
	Transactions int       // number applied after the snapshot
	Digests      int       // number of digests of the whole tree that matched
	Notes        []string  // oddities that lose nothing
	Losses       []string  // losses accepted because of Options.AsZooKeeper
}

// Damage is the error of a file that cannot be used as it is.
type Damage struct {
	File         string
	Offset       int64 // in the file, or in its uncompressed contents
	Zxid         int64 // of the transaction there; 0 if it is not known
	Problem      string
	Remedy       string // advice for the operator
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

// The remedies for damage.
const (
	useOtherMember  = "use the directory of another member"
	useOtherOrForce = "use the directory of another member, or add --as-zookeeper, which continues as ZooKeeper would, " +
		"without the missing transactions"
)

// zxidText returns a zxid as ZooKeeper prints it.
func zxidText(zxid int64) string {
	return "0x" + strconv.FormatUint(uint64(zxid), 16)
}

// Epoch returns the epoch of a zxid: the number of the leader's term.
func Epoch(zxid int64) int64 { return zxid >> 32 }

// epochCounter returns the number of a transaction within its epoch.
func epochCounter(zxid int64) uint32 { return uint32(zxid) }
