package disk

import "sync"

// StartReads has the progress of reading the data before raft runs: a snapshot, and then the log after it.
type StartReads struct {
	SnapshotBytes, SnapshotSize int64  // of the snapshot opened last; SnapshotSize is 0 if there is none
	Entries, AllEntries         uint64 // of the log; AllEntries is 0 until the first one has been read
}

// startReadCounter counts the reads of the data before raft runs. It is safe for concurrent use.
type startReadCounter struct {
	mu            sync.Mutex
	reads         StartReads
	snapshotIndex uint64 // of the snapshot opened last
}

func (c *startReadCounter) current() StartReads {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// beginSnapshot starts the count for a snapshot. raft opens an older one if a newer one is damaged.
func (c *startReadCounter) beginSnapshot(index uint64, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads, c.snapshotIndex = StartReads{SnapshotSize: size}, index
}

func (c *startReadCounter) addSnapshotBytes(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads.SnapshotBytes += int64(n)
}

// addEntry counts an entry. indexRange returns the first and the last index of the log.
func (c *startReadCounter) addEntry(indexRange func() (first, last uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads.AllEntries == 0 {
		first, last := indexRange()
		first = max(first, c.snapshotIndex+1)
		c.reads.AllEntries = last + 1 - min(first, last)
	}
	c.reads.Entries = min(c.reads.Entries+1, c.reads.AllEntries) // raft also reads the last entry by itself
}
