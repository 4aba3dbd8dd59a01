package served

import (
	"cmp"
	"math"
	"sort"
	"sync"
	"time"
	"unsafe"

	"rollcall/internal/fifo"
	"rollcall/znode"
)

const (
	// maxFeedBytes limits the memory of the latest changes: some 25,000, which an ensemble makes in a second or two under its highest
	// load. A reader that is slower by more than that is dropped.
	maxFeedBytes = 8 << 20
	// readPart is the number of changes that a stream reads from the feed under one hold of its lock: some microseconds.
	readPart = 256
)

// position is a place in the order of changes: after a change of a transaction.
type position struct {
	zxid   int64
	number uint32 // of the change, as in znode.Change.TxnPart; allChanges: after all of the transaction
}

const allChanges = math.MaxUint32

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.zxid, q.zxid), cmp.Compare(p.number, q.number))
}

func positionOf(c *znode.Change) position { return position{c.Zxid, c.TxnPart} }

// feed keeps the latest changes of a state, while it has users. Its lock is taken under the lock of the state, and never before it.
type feed struct {
	state *znode.State

	mu       sync.Mutex
	users    int
	attached bool                 // it observes the state
	since    position             // all later changes are kept
	kept     fifo.Queue[feedItem] // in the order of the log
	bytes    int                  // of kept; see maxFeedBytes
	detach   *time.Timer          // nil: there was no user yet
}

// feedItem is a change of the entry with an index.
type feedItem struct {
	index  uint64
	change znode.Change
}

// itemBytes is the memory of an item without its texts. Its End, which few have, is counted as well.
const itemBytes = int(unsafe.Sizeof(feedItem{}) + unsafe.Sizeof(znode.SessionEnd{}))

func (i *feedItem) bytes() int { return itemBytes + len(i.change.Path) + len(i.change.Address) }

// join adds a user, and returns the place of the state. From there on, the feed has all changes.
func (f *feed) join() position {
	f.state.Lock()
	defer f.state.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users++; !f.attached {
		f.attached = true
		f.restartLocked()
		znode.ObserveChanges(f.state, f)
	}
	return position{f.state.Zxid(), allChanges}
}

// leave removes a user. After keepTime without one, the feed keeps nothing, and the state reports nothing.
func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	if f.detach != nil {
		f.detach.Stop()
	}
	f.detach = time.AfterFunc(keepTime, f.detachIfUnused)
}

func (f *feed) detachIfUnused() {
	f.state.Lock()
	defer f.state.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == 0 && f.attached {
		f.attached = false
		znode.ObserveChanges(f.state, nil)
		f.restartLocked()
	}
}

// restartLocked drops all changes. The caller holds both locks.
func (f *feed) restartLocked() {
	f.since, f.kept, f.bytes = position{f.state.Zxid(), allChanges}, fifo.Queue[feedItem]{}, 0
}

// ObserveChange implements znode.ChangeObserver. It drops the oldest changes above the bound.
func (f *feed) ObserveChange(c *znode.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	added := feedItem{f.state.Index(), *c}
	f.kept.Push(added)
	for f.bytes += added.bytes(); f.bytes > maxFeedBytes; {
		oldest := f.kept.Pop()
		f.bytes -= oldest.bytes()
		f.since = positionOf(&oldest.change)
	}
}

// StateReplaced implements znode.ChangeObserver: changes are missing, so no earlier place has all later ones.
func (f *feed) StateReplaced() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restartLocked()
}

// begins returns the place after which the feed has all changes.
func (f *feed) begins() position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.since
}

// read appends to into at most readPart changes after a place, of entries up to the one with index last. It reports whether the feed
// has all changes after that place.
func (f *feed) read(into []znode.Change, p position, last uint64) ([]znode.Change, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.compare(f.since) < 0 {
		return into, false
	}
	n := f.kept.Len()
	first := sort.Search(n, func(i int) bool { return positionOf(&f.kept.At(i).change).compare(p) > 0 })
	for i := first; i < min(n, first+readPart) && f.kept.At(i).index <= last; i++ {
		into = append(into, f.kept.At(i).change)
	}
	return into, true
}
