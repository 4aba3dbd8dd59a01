// Package archive keeps a copy of an ensemble's log off its machines, and reads it: snapshots, and every entry after them.
//
//   - Store: named objects, in a directory or a bucket.
//   - Sender: sends what the leader has committed, in a member that runs.
//   - List and Chain: what an archive has of each log, and a past.Chain of it.
//   - Verify: proves that every moment can be built.
//
// # The rule
//
// An object never changes: it is committed entries or a snapshot, its name has the log and the range of the entries, and a
// store rejects a name that it has. So any number of senders may write at once, and a reader takes any objects whose ends meet.
//
// # Objects
//
//	LOG/entries/FIRST-LAST.after-TERM-SUM.last-TERM-SUM.member-ID.zst
//	LOG/states/INDEX.term-TERM.at-TIME.digest-DIGEST.member-ID.ATTEMPT/NUMBER       parts of a backup, compressed
//	LOG/states/INDEX.term-TERM.at-TIME.digest-DIGEST.member-ID.ATTEMPT/NUMBER.last  the last part
//
// LOG is the id of the ensemble, or of the disk of a standalone server. By raft's log matching, entries of one log with the same index
// and the same term are the same. SUM, the checksum of an entry, also tells apart two logs that were one until a copy of all
// directories was put back, because entries have the time and a random number of their leader's term. "after" is the entry before FIRST, so objects are joined by their names alone. ATTEMPT is random: parts of
// two attempts are never mixed, and a snapshot counts only if all its parts are there.
//
// There is no index and no list besides the names. Nothing is ever removed.
package archive

import (
	"context"
	"errors"
	"io"
	"iter"
)

// ErrExists is the error for an object whose name is taken.
var ErrExists = errors.New("archive: there is such an object already")

// maxObjectBytes limits the content of an object, in bytes, so that one request stores it and a sender needs one buffer for it. A
// single long entry may exceed it.
const maxObjectBytes = 8 << 20

// Store is a place for objects. Its methods may be called by any goroutine, and wait for the network or a disk until ctx ends.
type Store interface {
	// Put stores an object that is new: whole, or not at all. If the name is taken, the error wraps ErrExists, and the object that
	// has it stays as it is. After another error the object may be there.
	Put(ctx context.Context, name string, content []byte) error
	// Open returns the content of an object. The error wraps fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List yields what is directly in a directory, in the order of the names, without those up to after. dir is "" or ends with a
	// slash; after is a name, or "". An error is the last that it yields. There is no error if nothing is in the directory.
	List(ctx context.Context, dir, after string) iter.Seq2[Item, error]
	// Location returns the place of an object, for users.
	Location(name string) string
}

// Item is an object, or a directory with objects.
type Item struct {
	Name  string // with the directory in front; a directory ends with a slash
	Bytes int64  // 0 for a directory
}
