package disk

import (
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// maxQueuedBytes limits the entries that wait for a leader's disk, so that a slow disk does not fill the memory:
// the longest entry while it is written, and another one. Above it raft waits, as it does for the disk.
const maxQueuedBytes = 2 * MaxEntryBytes

// maxWriteBytes limits a write of several entries. The log copies them into one buffer. A sync costs as much as writing a few hundred kilobytes, so a longer write gains little.
const maxWriteBytes = 2 << 20

// logQueue is the log for raft. While raft leads, StoreLogs only queues an entry, which is then written in the
// background while raft sends it to the followers. All other writes wait for the disk, after everything that is
// queued.
//
// raft counts the leader's own copy when StoreLogs returns, so its commit index may be ahead of this disk. Such a
// commit must never be shown: see LimitToDurable and AwaitDurable. A crash loses the queue, or all but its
// beginning.
type logQueue struct {
	*logStore
	raftLeads func() bool // reports whether raft leads, and the caller is its main goroutine; nil: it never leads
	onWritten func()      // Config.QueuedWritten; called without mu

	mu            sync.Mutex
	changed       sync.Cond    // entries have become durable, or writeLoop has ended
	queuedEntries []*raft.Log  // without gaps, and with the entries that are being written
	queuedCalls   []queuedCall // the calls of StoreLogs with entries in queuedEntries, in order
	queuedBytes   int64        // of queuedEntries
	writing       bool         // writeLoop runs
	failed        bool         // a write has failed, and nothing more is written
}

// queuedCall is a call of StoreLogs whose entries are queued.
type queuedCall struct {
	lastIndex   uint64 // index of its last entry
	operationID uint64 // its number in operations
}

func newLogQueue(s *logStore, leads func() bool, onWritten func()) *logQueue {
	if onWritten == nil {
		onWritten = func() {}
	}
	q := &logQueue{logStore: s, raftLeads: leads, onWritten: onWritten}
	q.changed.L = &q.mu
	return q
}

// StoreLog implements raft.LogStore, as the next methods do.
func (q *logQueue) StoreLog(l *raft.Log) error { return q.StoreLogs([]*raft.Log{l}) }

func (q *logQueue) StoreLogs(logs []*raft.Log) error {
	if !q.mayQueue(logs) {
		q.drainOrExit()
		return q.logStore.StoreLogs(logs)
	}
	if err := q.checkSizes(logs); err != nil {
		return err
	}
	q.awaitRoomAndEnqueue(logs)
	return nil
}

// mayQueue reports whether entries may be stored after StoreLogs has returned. A follower's may not, because its
// reply confirms that they are stored. Nor may a configuration: once raft considers it committed, raft steps down
// or begins the next change. Nor may the first entry of a term, a no-op: it makes the commit of earlier entries
// count, and that is shown if those entries are on this disk.
func (q *logQueue) mayQueue(logs []*raft.Log) bool {
	for _, l := range logs {
		if l.Type == raft.LogConfiguration || l.Type == raft.LogNoop {
			return false
		}
	}
	return q.raftLeads != nil && q.raftLeads()
}

// awaitRoomAndEnqueue waits until there is space, and queues the entries.
func (q *logQueue) awaitRoomAndEnqueue(logs []*raft.Log) {
	call := queuedCall{logs[len(logs)-1].Index, q.operations.begin("writing the log")} // from now on it may stall
	size := approxEntriesBytes(logs)
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.failed && len(q.queuedEntries) > 0 && q.queuedBytes+size > maxQueuedBytes {
		q.changed.Wait()
	}
	if q.failed {
		q.operations.finish(call.operationID)
		runtime.Goexit() // see storeGuard
	}
	q.queuedEntries = append(q.queuedEntries, logs...)
	q.queuedCalls = append(q.queuedCalls, call)
	q.queuedBytes += size
	if !q.writing {
		q.writing = true
		go q.writeLoop()
	}
}

// writeLoop writes the queue. It ends when the queue is empty, or when the disk has failed.
func (q *logQueue) writeLoop() {
	stored := false
	defer func() {
		if !stored {
			q.stopAfterFailure()
		}
	}()
	for batch := q.nextBatchOrStop(); batch != nil; batch = q.nextBatchOrStop() {
		if q.logStore.StoreLogs(batch) != nil {
			return
		}
		q.removeWritten(batch)
		q.onWritten()
	}
	stored = true
}

// nextBatchOrStop returns the entries to write next. If there are none, it returns nil, and writeLoop must end.
func (q *logQueue) nextBatchOrStop() []*raft.Log {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queuedEntries) == 0 {
		q.writing = false
		q.changed.Broadcast()
		return nil
	}
	most := min(len(q.queuedEntries), MaxAppendEntries)
	n, size := 1, approxEntryBytes(q.queuedEntries[0])
	for n < most && size+approxEntryBytes(q.queuedEntries[n]) <= maxWriteBytes {
		size += approxEntryBytes(q.queuedEntries[n])
		n++
	}
	return slices.Clone(q.queuedEntries[:n])
}

func (q *logQueue) removeWritten(batch []*raft.Log) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queuedEntries = slices.Delete(q.queuedEntries, 0, len(batch))
	q.queuedBytes -= approxEntriesBytes(batch)
	last := batch[len(batch)-1].Index
	for len(q.queuedCalls) > 0 && q.queuedCalls[0].lastIndex <= last {
		q.operations.finish(q.queuedCalls[0].operationID)
		q.queuedCalls = slices.Delete(q.queuedCalls, 0, 1)
	}
	q.changed.Broadcast()
}

// stopAfterFailure ends all waiting. The entries stay queued, so they never count as durable.
func (q *logQueue) stopAfterFailure() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed, q.writing = true, false
	for _, c := range q.queuedCalls {
		q.operations.finish(c.operationID)
	}
	q.changed.Broadcast()
}

// drainOrExit waits until everything that is queued is durable. If the disk fails first, it ends the calling goroutine,
// as storeGuard does.
func (q *logQueue) drainOrExit() {
	if !q.AwaitDurable(q.lastQueued()) {
		runtime.Goexit()
	}
}

// lastQueued returns the index of the last entry in the queue, or 0 if the queue is empty.
func (q *logQueue) lastQueued() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.queuedEntries); n > 0 {
		return q.queuedEntries[n-1].Index
	}
	return 0
}

// AwaitDurable implements Data.AwaitDurable.
func (q *logQueue) AwaitDurable(index uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.failed && q.durableIndex() < index {
		q.changed.Wait()
	}
	return q.durableIndex() >= index
}

// LimitToDurable implements Data.LimitToDurable.
func (q *logQueue) LimitToDurable(index uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(index, q.durableIndex())
}

// durableIndex returns the last durable index of the log. There is no limit if nothing is queued. The caller holds
// mu.
func (q *logQueue) durableIndex() uint64 {
	if len(q.queuedEntries) == 0 {
		return math.MaxUint64
	}
	return q.queuedEntries[0].Index - 1
}

// awaitWriteLoop waits until writeLoop has ended. StoreLogs must not be called any more.
func (q *logQueue) awaitWriteLoop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.changed.Wait()
	}
}

// DeleteRange implements raft.LogStore, as the next methods do.
func (q *logQueue) DeleteRange(first, last uint64) error {
	q.drainOrExit()
	return q.logStore.DeleteRange(first, last)
}

func (q *logQueue) FirstIndex() (uint64, error) {
	queued := q.firstQueued() // read first: an entry that leaves the queue meanwhile is in the store
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
	if len(q.queuedEntries) > 0 {
		return q.queuedEntries[0].Index
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
	if e := q.findQueued(index); e != nil {
		*l = *e
		return nil
	}
	return q.logStore.GetLog(index, l)
}

// findQueued returns an entry in the queue, or nil.
func (q *logQueue) findQueued(index uint64) *raft.Log {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queuedEntries) == 0 || index < q.queuedEntries[0].Index ||
		index > q.queuedEntries[len(q.queuedEntries)-1].Index {
		return nil
	}
	return q.queuedEntries[index-q.queuedEntries[0].Index]
}
