package disk

import "time"

// Durability says how far raft's log is on the disks of the ensemble. Any goroutine may call its methods.
type Durability struct{ queue *logQueue }

// LimitToDurable returns index, or the last durable index of the log if that is lower. This member's disk has nothing above
// it.
func (d Durability) LimitToDurable(index uint64) uint64 { return d.queue.LimitToDurable(index) }

// AwaitDurable waits until all entries up to index are durable, and reports whether they are. They are not if the
// disk has failed, which ends the member.
func (d Durability) AwaitDurable(index uint64) bool { return d.queue.AwaitDurable(index) }

// NoteCommitted records that the entries of raft's log up to index are on the disks of a majority, and committed. That
// stays true, whatever becomes of this member's own copies: every later leader has them.
func (d Durability) NoteCommitted(index uint64) { d.queue.NoteCommitted(index) }

// LimitToSettled returns index, or the last settled index if that is lower: the entries up to it are on this disk, or
// NoteCommitted has recorded them. raft's commit index must pass through it before it is shown, because raft counts
// copies that are only queued.
func (d Durability) LimitToSettled(index uint64) uint64 { return d.queue.LimitToSettled(index) }

// AwaitSettled waits until all entries up to index are settled, and reports whether they are. They may not be if the disk
// has failed, which ends the member, or after EndWaits.
func (d Durability) AwaitSettled(index uint64) bool { return d.queue.AwaitSettled(index) }

// EndWaits makes AwaitSettled return at once from now on, because the member stops.
func (d Durability) EndWaits() { d.queue.endWaits() }

// Delay returns the present delay of this member's disk.
func (d Durability) Delay() QueueDelay { return d.queue.delay() }

// QueueDelay says how far the disk is behind raft's log.
type QueueDelay struct {
	Write time.Duration // for so long the disk has not finished its present write; 0: all entries are durable
	Bytes int64         // of memory, of all entries that are not durable
}

// MaxQueueDelayBytes is the memory of entries that wait for a disk that hangs from which a member gives its clients and
// leadership to others. As much again fits before raft has to wait for the disk.
const MaxQueueDelayBytes = maxQueuedBytes / 2
