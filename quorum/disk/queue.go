package disk

import (
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// maxQueued is how many bytes of entries wait for a leader's disk at most, so that a slow disk does
// not fill the memory: the longest entry while it is written, and another one. Above it raft waits,
// as it does for the disk.
const maxQueued = 2 * MaxEntry

// maxWrite is how many bytes of queued entries are written together at most, unless one entry is longer.
// raft-wal copies them into one buffer, which it keeps as long as the segment. A sync costs as much as
// writing a few hundred kilobytes, so a longer write gains little.
const maxWrite = 2 << 20

// logQueue is the log for raft. While raft leads, an entry is in the queue as soon as StoreLogs
// returns, and is written in the background. So raft sends it to the followers meanwhile. All other
// writes wait for the disk, after everything that is queued.
//
// raft counts the leader's own copy when StoreLogs returns, so its commit index may be ahead of this
// disk. Nothing may show such a commit: see Durable and Await. A crash loses the queue, or all but
// its beginning.
type logQueue struct {
	*logStore
	leads func() bool // reports whether raft leads, and the caller is its main goroutine; nil: it never leads

	mu      sync.Mutex
	changed sync.Cond    // entries have become durable, or write has ended
	queued  []*raft.Log  // entries that are not known to be durable, without gaps; they include those being written
	calls   []queuedCall // the calls of StoreLogs that have entries in queued, in order
	size    int64        // bytes of queued
	writing bool         // write runs
	failed  bool         // a write has failed, and nothing more is written
}

// queuedCall is a call of StoreLogs whose entries are queued.
type queuedCall struct {
	last uint64 // index of its last entry
	op   uint64 // its number in operations
}

func newLogQueue(s *logStore, leads func() bool) *logQueue {
	q := &logQueue{logStore: s, leads: leads}
	q.changed.L = &q.mu
	return q
}

// StoreLog implements raft.LogStore, as the next methods do.
func (q *logQueue) StoreLog(l *raft.Log) error { return q.StoreLogs([]*raft.Log{l}) }

func (q *logQueue) StoreLogs(logs []*raft.Log) error {
	if !q.mayQueue(logs) {
		q.settle()
		return q.logStore.StoreLogs(logs)
	}
	if err := q.checkSizes(logs); err != nil {
		return err
	}
	q.add(logs)
	return nil
}

// mayQueue reports whether entries may be stored after StoreLogs has returned. Those of a follower
// may not, because its answer says that they are stored. Nor may a configuration: as soon as raft
// takes it for committed, it steps down or begins the next change without asking anyone. Nor may the first entry of a term, a
// no-op: a commit of earlier entries is shown if they are on this disk, and it counts only behind an entry of this term.
func (q *logQueue) mayQueue(logs []*raft.Log) bool {
	for _, l := range logs {
		if l.Type == raft.LogConfiguration || l.Type == raft.LogNoop {
			return false
		}
	}
	return q.leads != nil && q.leads()
}

// add queues entries. It waits while there is no room.
func (q *logQueue) add(logs []*raft.Log) {
	call := queuedCall{logs[len(logs)-1].Index, q.ops.begin("writing the log")} // from now on it may stall
	size := logBytes(logs)
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.failed && len(q.queued) > 0 && q.size+size > maxQueued {
		q.changed.Wait()
	}
	if q.failed {
		q.ops.finish(call.op)
		runtime.Goexit() // see guard
	}
	q.queued = append(q.queued, logs...)
	q.calls = append(q.calls, call)
	q.size += size
	if !q.writing {
		q.writing = true
		go q.write()
	}
}

// write writes what is queued. It ends when the queue is empty, or when the disk has failed.
func (q *logQueue) write() {
	stored := false
	defer func() {
		if !stored {
			q.fail()
		}
	}()
	for batch := q.next(); batch != nil; batch = q.next() {
		if q.logStore.StoreLogs(batch) != nil {
			return
		}
		q.done(batch)
	}
	stored = true
}

// next returns the entries to write next. It returns nil if there are none, and write must end then.
func (q *logQueue) next() []*raft.Log {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queued) == 0 {
		q.writing = false
		q.changed.Broadcast()
		return nil
	}
	most := min(len(q.queued), MaxAppend)
	n, size := 1, entryBytes(q.queued[0])
	for n < most && size+entryBytes(q.queued[n]) <= maxWrite {
		size += entryBytes(q.queued[n])
		n++
	}
	return slices.Clone(q.queued[:n])
}

// done removes entries that have been written.
func (q *logQueue) done(batch []*raft.Log) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued = slices.Delete(q.queued, 0, len(batch))
	q.size -= logBytes(batch)
	last := batch[len(batch)-1].Index
	for len(q.calls) > 0 && q.calls[0].last <= last {
		q.ops.finish(q.calls[0].op)
		q.calls = slices.Delete(q.calls, 0, 1)
	}
	q.changed.Broadcast()
}

// fail ends all waiting. The entries stay queued, so none of them ever counts as durable.
func (q *logQueue) fail() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed, q.writing = true, false
	for _, c := range q.calls {
		q.ops.finish(c.op)
	}
	q.changed.Broadcast()
}

// settle waits until everything that is queued is durable. If the disk fails before, the goroutine
// that called settle ends, as in guard.
func (q *logQueue) settle() {
	if !q.Await(q.lastQueued()) {
		runtime.Goexit()
	}
}

// lastQueued returns the index of the last entry in the queue, or 0 if the queue is empty.
func (q *logQueue) lastQueued() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.queued); n > 0 {
		return q.queued[n-1].Index
	}
	return 0
}

// Await implements Data.Await.
func (q *logQueue) Await(index uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.failed && q.durable() < index {
		q.changed.Wait()
	}
	return q.durable() >= index
}

// Durable implements Data.Durable.
func (q *logQueue) Durable(index uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(index, q.durable())
}

// durable returns the index up to which all entries of the log are durable. There is no limit if
// nothing is queued. The caller holds mu.
func (q *logQueue) durable() uint64 {
	if len(q.queued) == 0 {
		return math.MaxUint64
	}
	return q.queued[0].Index - 1
}

// finish waits until write has ended. Nobody may call StoreLogs any more.
func (q *logQueue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.changed.Wait()
	}
}

// DeleteRange implements raft.LogStore, as the next methods do.
func (q *logQueue) DeleteRange(first, last uint64) error {
	q.settle()
	return q.logStore.DeleteRange(first, last)
}

func (q *logQueue) FirstIndex() (uint64, error) {
	queued := q.firstQueued() // asked first: an entry that leaves the queue meanwhile is in the store
	first, err := q.logStore.FirstIndex()
	if err == nil && first == 0 {
		return queued, nil
	}
	return first, err
}

// firstQueued returns the index of the first entry in the queue, or 0 if the queue is empty.
func (q *logQueue) firstQueued() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queued) > 0 {
		return q.queued[0].Index
	}
	return 0
}

func (q *logQueue) LastIndex() (uint64, error) {
	if last := q.lastQueued(); last > 0 {
		return last, nil
	}
	return q.logStore.LastIndex()
}

func (q *logQueue) GetLog(index uint64, l *raft.Log) error {
	if e := q.find(index); e != nil {
		*l = *e
		return nil
	}
	return q.logStore.GetLog(index, l)
}

// find returns an entry in the queue, or nil if it is not there.
func (q *logQueue) find(index uint64) *raft.Log {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queued) == 0 || index < q.queued[0].Index || index > q.queued[len(q.queued)-1].Index {
		return nil
	}
	return q.queued[index-q.queued[0].Index]
}
