package follower

import (
	"bytes"
	"context"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/zk/jute"
)

const (
	// pathSlots is the number of slots for paths: 256 KiB. If two paths share a slot, a read may wait for an entry that
	// does not concern it. A multi of the most operations fills a fifth of them.
	pathSlots = 1 << 15
	// readWaitDivisor divides the tick into the longest wait of a read for an entry: 10 ms of 2 s. A busy machine with
	// three members applies 98 of 100 entries within that time.
	readWaitDivisor = 200
	// maxWaitingReads limits the reads that wait at the same time, because each may take a goroutine. Other reads do
	// not wait.
	maxWaitingReads = 256
	// usualTimeWeight is the number of measured entries over which usualTime is smoothed.
	usualTimeWeight = 8
)

// unapplied knows which paths the entries write that this member has stored in its log and has not applied. A client
// whose write one member has acknowledged may read at another member at once. The entry has usually come there by
// then, and waits for the disk or for the leader's word that it is committed. A read of such a path waits for it.
//
// This makes stale reads rare, and promises nothing: the entry may not have come, and a read waits for a short time
// only. It does not wait for the end of a session, because that entry does not name the nodes that it deletes.
// A read by a lease does, and waits as long as it must: see heldToRead. unapplied is safe for concurrent use.
type unapplied struct {
	clock        monotonic.Clock
	longestWait  time.Duration
	seed         maphash.Seed
	lastWrites   [pathSlots]atomic.Uint64 // by the hash of a path: the last stored entry that may write it
	lastUnnamed  atomic.Uint64            // the last stored entry that may write nodes whose paths it does not name
	storedIndex  atomic.Uint64            // of the last stored entry
	appliedIndex atomic.Uint64
	skipThrough  atomic.Uint64 // no read waits for entries up to this index: one has waited in vain
	usualTime    atomic.Int64  // nanoseconds from storing an entry until it is applied, at most twice longestWait
	numWaiting   atomic.Int32

	mu      sync.Mutex
	applied chan struct{} // closed when the next entries are applied while a read waits

	// Entries are measured one at a time. raft's goroutine sets storedAt while measuredIndex is 0. Apply reads it while
	// measuredIndex is not.
	measuredIndex atomic.Uint64
	storedAt      time.Time
}

func newUnapplied(clock monotonic.Clock, tick time.Duration) *unapplied {
	return &unapplied{
		clock: clock, longestWait: tick / readWaitDivisor, seed: maphash.MakeSeed(), applied: make(chan struct{}),
	}
}

// entryStored notes the paths that an entry writes. raft's main goroutine calls it before it stores the entry. The
// time is linear in the operations of the entry; see BenchmarkEntryStored.
func (u *unapplied) entryStored(index uint64, data []byte) {
	u.storedIndex.Store(index)
	namesAll := true
	isWhole := proto.EachTxn(data, func(op int32, body []byte) {
		namesAll = namesAll && writesOnlyNamed(jute.Op(op))
		eachWrittenPath(jute.Op(op), body, func(path []byte, inParent bool) {
			u.slot(path).Store(index)
			if inParent {
				u.slot(path[:max(0, bytes.LastIndexByte(path, '/'))]).Store(index)
			}
		})
	})
	if !namesAll || !isWhole {
		u.lastUnnamed.Store(index)
	}
	if u.measuredIndex.Load() == 0 {
		u.storedAt = u.clock.Now()
		u.measuredIndex.Store(index)
	}
}

// eachWrittenPath calls note with each path that a client's write names. inParent is true if the write also changes the
// parent's children.
func eachWrittenPath(op jute.Op, body []byte, note func(path []byte, inParent bool)) {
	switch op {
	case jute.OpMulti:
		jute.EachMultiOp(body, func(step *jute.MultiOp) bool {
			if step.Op != jute.OpCheck {
				note(step.Path(), step.Op != jute.OpSetData)
			}
			return true
		})
	case jute.OpSetData, jute.OpSetACL:
		note(firstPath(body), false)
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete:
		note(firstPath(body), true)
	}
}

// writesOnlyNamed reports whether a transaction writes no node but those that eachWrittenPath names, and those below /zookeeper. A new
// session, or a new owner or identity of one, writes no node.
func writesOnlyNamed(op jute.Op) bool {
	switch op {
	case jute.OpMulti, jute.OpSetData, jute.OpSetACL, jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete,
		jute.OpCreateSession, jute.OpAttach, jute.OpIdentify, jute.OpEmpty:
		return true
	}
	return false
}

// firstPath returns the path at the beginning of a request's record, or nil if it cannot be decoded.
func firstPath(body []byte) []byte {
	d := jute.NewDecoder(body)
	return d.ReadBytes()
}

// slot returns the slot of a path.
func (u *unapplied) slot(path []byte) *atomic.Uint64 {
	if len(path) == 1 { // the root, which is "" as a parent
		path = nil
	}
	return &u.lastWrites[maphash.Bytes(u.seed, path)%pathSlots]
}

// entryFinished records that the log is applied up to index, and wakes the reads that wait.
func (u *unapplied) entryFinished(index uint64) {
	u.appliedIndex.Store(index)
	if measured := u.measuredIndex.Load(); measured != 0 && measured <= index {
		took := min(u.clock.Now().Sub(u.storedAt), 2*u.longestWait)
		usual := u.usualTime.Load()
		u.usualTime.Store(usual + (int64(took)-usual)/usualTimeWeight)
		u.measuredIndex.Store(0)
	}
	if u.numWaiting.Load() == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.applied)
	u.applied = make(chan struct{})
}

// heldToRead returns the last entry that this member has stored and has not applied, and that a read of path may depend on, or 0. Each
// entry counts for a read without a path (nil), and for one below /zookeeper: the quotas there change with other nodes.
func (u *unapplied) heldToRead(path []byte) uint64 {
	applied := u.appliedIndex.Load()
	if u.storedIndex.Load() <= applied {
		return 0
	}
	held := uint64(math.MaxUint64)
	if len(path) > 0 && !bytes.HasPrefix(path, []byte(systemPath)) {
		held = max(u.lastWrite(path), u.lastUnnamed.Load())
	}
	held = min(held, u.storedIndex.Load()) // entries that the log had above that were another leader's, and are no more
	if held <= applied {
		return 0
	}
	return held
}

// systemPath is the node of ZooKeeper's own nodes.
const systemPath = "/zookeeper"

// indexToAwait returns the index of the stored entry for which a read of path should wait, or 0 if there is none. It
// never blocks.
func (u *unapplied) indexToAwait(path []byte) uint64 {
	if u.storedIndex.Load() <= u.appliedIndex.Load() {
		return 0 // as mostly; a multiRead has thousands of paths
	}
	index := u.lastWrite(path)
	if index <= max(u.appliedIndex.Load(), u.skipThrough.Load()) || u.usualTime.Load() > int64(u.longestWait) {
		return 0
	}
	return index
}

// lastWrite returns the last stored entry that names path, or names the prefix of a sequential node, which path may be.
func (u *unapplied) lastWrite(path []byte) (index uint64) {
	index = u.slot(path).Load()
	for _, digits := range jute.SequenceLengths { // a sequential create names the prefix
		if prefix := sequentialPrefix(path, digits); prefix != nil {
			index = max(index, u.slot(prefix).Load())
		}
	}
	return index
}

// sequentialPrefix returns the path without the number of a sequential node, or nil if no number of so many digits ends it.
func sequentialPrefix(path []byte, digits int) []byte {
	n := len(path) - digits
	if n < 1 {
		return nil
	}
	if _, ok := jute.ParseSequence(path[n:]); !ok {
		return nil
	}
	return path[:n]
}

// await waits until the log is applied up to index, but not longer than a read may wait.
func (u *unapplied) await(ctx context.Context, index uint64) {
	defer u.numWaiting.Add(-1)
	if u.numWaiting.Add(1) > maxWaitingReads {
		return
	}
	tooLate := u.clock.After(u.longestWait)
	for {
		u.mu.Lock()
		applied := u.applied
		u.mu.Unlock()
		if u.appliedIndex.Load() >= index {
			return
		}
		select {
		case <-applied:
		case <-ctx.Done():
			return
		case <-tooLate:
			u.skipThrough.Store(max(u.skipThrough.Load(), index))
			return
		}
	}
}
