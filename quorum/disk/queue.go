package disk

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxQueuedBytes limits the entries that wait for this member's disk, so that a slow disk does not fill the memory:
// the longest entry while it is written, and another one. Above it raft waits, as it does for the disk.
const maxQueuedBytes = 2 * MaxEntryBytes

// QueuedCallOverhead is the memory, in bytes, that a write of entries takes while it waits, beside its entries.
const QueuedCallOverhead = 512

// maxWriteBytes limits a write of several entries. The log copies them into one buffer. A sync costs as much as writing a few hundred kilobytes, so a longer write gains little.
const maxWriteBytes = 2 << 20

// maxWriteEntries limits the entries of such a write. They take one sync, so a disk that was away catches up soon.
const maxWriteEntries = 256

// logQueue is the log for raft. StoreLogs only queues an entry, which is then written in the background: a leader sends
// it to the followers meanwhile, and a follower takes the next request. All other writes wait for the disk, after
// everything that is queued.
//
// So raft's log is longer than the one on this disk, and a crash loses the queue, or all but its beginning. That must
// not show. Let D be the last durable index:
//
//   - A follower acknowledges entries up to D only (package wire).
//   - A commit counts here once its entries are settled: they are on this disk, or known to be on the disks of a majority
//     (AwaitSettled). raft alone would also count copies that are queued.
//   - The queue is empty before raft stores a term or a vote, and before it deletes the end of the log. In a later term
//     this member thus has on its disk what it held in the earlier one.
type logQueue struct {
	*logStore
	onWritten func() // Config.QueuedWritten; called without mu

	mu            sync.Mutex
	changed       sync.Cond    // entries have become durable or committed, or writeLoop has ended
	queuedEntries []*raft.Log  // without gaps, and with the entries that are being written
	queuedCalls   []queuedCall // the calls of StoreLogs with entries in queuedEntries, in order
	settledCalls  int          // how many of queuedCalls are settled: the first ones
	queuedBytes   int64        // of both
	committed     uint64       // see NoteCommitted
	writeBegun    time.Time    // of the first entries of the queue; set while it is not empty
	writing       bool         // writeLoop runs
	failed        bool         // a write has failed, and nothing more is written
	stopping      bool         // see Durability.EndWaits
}

// queuedCall is a call of StoreLogs whose entries are queued.
type queuedCall struct {
	lastIndex   uint64 // index of its last entry
	bytes       int64
	operationID uint64 // its number in operations, where it is until its entries are settled
}

func newLogQueue(s *logStore, onWritten func()) *logQueue {
	if onWritten == nil {
		onWritten = func() {}
	}
	q := &logQueue{logStore: s, onWritten: onWritten}
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

// mayQueue reports whether entries may be stored after StoreLogs has returned. A configuration may not: once raft considers
// it committed, raft steps down or begins the next change. Nor may the first entry of a term, a no-op: it makes the commit
// of earlier entries count, and that is shown if those entries are on this disk. Before raft runs, nothing is queued.
func (q *logQueue) mayQueue(logs []*raft.Log) bool {
	for _, l := range logs {
		if l.Type == raft.LogConfiguration || l.Type == raft.LogNoop {
			return false
		}
	}
	return len(logs) > 0 && q.raftRunning()
}

// awaitRoomAndEnqueue waits until there is space, and queues the entries. If they are not settled for long, the disk stalls.
func (q *logQueue) awaitRoomAndEnqueue(logs []*raft.Log) {
	call := queuedCall{
		lastIndex: logs[len(logs)-1].Index, bytes: approxEntriesBytes(logs) + QueuedCallOverhead,
		operationID: q.operations.begin("writing the log"),
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.failed && len(q.queuedEntries) > 0 && q.queuedBytes+call.bytes > maxQueuedBytes {
		q.changed.Wait()
	}
	if q.failed {
		q.operations.finish(call.operationID)
		runtime.Goexit() // see storeGuard
	}
	q.queuedEntries = append(q.queuedEntries, logs...)
	q.queuedCalls = append(q.queuedCalls, call)
	q.queuedBytes += call.bytes
	q.finishSettled()
	if !q.writing {
		q.writing, q.writeBegun = true, time.Now()
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
		if q.storeUntracked(batch) != nil { // the calls are tracked until they are settled
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
	q.writeBegun = time.Now()
	most := min(len(q.queuedEntries), maxWriteEntries)
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
	q.finishSettled()
	last, written := batch[len(batch)-1].Index, 0
	for written < len(q.queuedCalls) && q.queuedCalls[written].lastIndex <= last {
		q.queuedBytes -= q.queuedCalls[written].bytes
		written++
	}
	q.queuedCalls, q.settledCalls = slices.Delete(q.queuedCalls, 0, written), q.settledCalls-written
	q.changed.Broadcast()
}

// finishSettled ends the operations of the queued calls whose entries are settled. The caller holds mu.
func (q *logQueue) finishSettled() {
	for settled := q.settledIndex(); q.settledCalls < len(q.queuedCalls) && q.queuedCalls[q.settledCalls].lastIndex <= settled; q.settledCalls++ {
		q.operations.finish(q.queuedCalls[q.settledCalls].operationID)
	}
}

// stopAfterFailure ends all waiting. The entries stay queued, so they never count as durable.
func (q *logQueue) stopAfterFailure() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed, q.writing = true, false
	for _, c := range q.queuedCalls[q.settledCalls:] {
		q.operations.finish(c.operationID)
	}
	q.changed.Broadcast()
}

// drainOrExit waits until everything that is queued is durable. If the disk fails first, it ends the calling goroutine,
// as storeGuard does.
func (q *logQueue) drainOrExit() {
	last := q.lastQueued()
	if last == 0 {
		return
	}
	defer q.operations.finish(q.operations.begin("writing the log"))
	if !q.AwaitDurable(last) {
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

// AwaitDurable implements Durability.AwaitDurable.
func (q *logQueue) AwaitDurable(index uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.failed && q.durableIndex() < index {
		q.changed.Wait()
	}
	return q.durableIndex() >= index
}

// LimitToDurable implements Durability.LimitToDurable.
func (q *logQueue) LimitToDurable(index uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(index, q.durableIndex())
}

// NoteCommitted implements Durability.NoteCommitted.
func (q *logQueue) NoteCommitted(index uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if index <= q.committed {
		return
	}
	q.committed = index
	if len(q.queuedEntries) > 0 {
		q.finishSettled()
		q.changed.Broadcast()
	}
}

// AwaitSettled implements Durability.AwaitSettled.
func (q *logQueue) AwaitSettled(index uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.failed && !q.stopping && q.settledIndex() < index {
		q.changed.Wait()
	}
	return q.settledIndex() >= index
}

// endWaits implements Durability.EndWaits.
func (q *logQueue) endWaits() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopping = true
	q.changed.Broadcast()
}

// LimitToSettled implements Durability.LimitToSettled.
func (q *logQueue) LimitToSettled(index uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(index, q.settledIndex())
}

// settledIndex returns the last index that is on this disk, or known to be on those of a majority. The caller holds mu.
func (q *logQueue) settledIndex() uint64 { return max(q.durableIndex(), q.committed) }

// delay implements Durability.Delay.
func (q *logQueue) delay() QueueDelay {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queuedCalls) == 0 {
		return QueueDelay{}
	}
	return QueueDelay{time.Since(q.writeBegun), q.queuedBytes}
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

// DeleteRange implements raft.LogStore, as the next methods do. raft's main goroutine deletes the end of the log, and waits.
// The snapshot goroutine deletes the beginning: nothing waits for that, and nothing of it is queued (see fsmSnapshot in
// package quorum).
func (q *logQueue) DeleteRange(first, last uint64) error {
	if end, err := q.LastIndex(); err == nil && last < end && q.LimitToDurable(last) == last {
		return q.deleteUntracked(first, last)
	}
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
