package quorum

import (
	"sync"

	"github.com/hashicorp/raft"

	"rollcall/internal/fifo"
)

// maxCachedBytes limits the log's last entries in memory. A leader sends them to its followers from there. 4 MiB
// are enough for a follower that keeps up: an entry of small writes has at most 1 MiB, and one at a time is under way, or some more on
// links with a delay. The leader reads older entries from the log's files, which are
// mostly in the page cache.
const maxCachedBytes = 4 << 20

// logCache is the log with its last entries in memory. It replaces raft.LogCache, which has no limit in bytes.
// Several goroutines read it. raft's main goroutine stores entries and deletes the end of the log, and its
// snapshot goroutine deletes the beginning.
type logCache struct {
	raft.LogStore
	entryStored func(index uint64, data []byte) // see Config.EntryStored

	mu                 sync.RWMutex
	cachedEntries      fifo.Queue[*raft.Log] // the last entries, without gaps
	cachedBytes        int                   // bytes of data and extensions in cachedEntries
	configurationIndex uint64                // see lastConfigurationIndex
	changedSinceOpen   bool                  // the log has changed since it was opened, so raft has started
}

// IsMonotonic implements raft.MonotonicLogStore. It returns the log's own value, or false if the log has none.
func (c *logCache) IsMonotonic() bool {
	store, ok := c.LogStore.(raft.MonotonicLogStore)
	return ok && store.IsMonotonic()
}

// GetLog implements raft.LogStore, as the next methods do.
func (c *logCache) GetLog(index uint64, l *raft.Log) error {
	if e := c.findCached(index); e != nil {
		*l = *e
		return nil
	}
	err := c.LogStore.GetLog(index, l)
	if err == nil && l.Type == raft.LogConfiguration {
		c.noteConfigurationAtStart(index)
	}
	return err
}

// noteConfigurationAtStart records a configuration entry that raft reads while it starts: it reads all entries after
// its snapshot then. Later reads may be of entries that another leader has replaced in the meantime.
func (c *logCache) noteConfigurationAtStart(index uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changedSinceOpen {
		c.configurationIndex = max(c.configurationIndex, index)
	}
}

// lastConfigurationIndex returns the index of the log's last configuration entry, or 0 if it is not known: it may
// be in a snapshot, or it was the one before a deleted configuration.
func (c *logCache) lastConfigurationIndex() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.configurationIndex
}

// findCached returns an entry in memory, or nil.
func (c *logCache) findCached(index uint64) *raft.Log {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.cachedEntries.Len() == 0 {
		return nil
	}
	first := (*c.cachedEntries.At(0)).Index
	if index < first || index-first >= uint64(c.cachedEntries.Len()) {
		return nil
	}
	return *c.cachedEntries.At(int(index - first))
}

func (c *logCache) StoreLog(l *raft.Log) error { return c.StoreLogs([]*raft.Log{l}) }

func (c *logCache) StoreLogs(logs []*raft.Log) error {
	end, err := c.LastIndex()
	if err != nil {
		return err
	}
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			c.entryStored(l.Index, l.Data)
		}
	}
	if err := c.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changedSinceOpen = true
	for _, l := range logs {
		if l.Index != end+1 { // the log has a new beginning, after an installed snapshot
			c.dropOldest(c.cachedEntries.Len())
			c.configurationIndex = 0
		}
		end = l.Index
		if l.Type == raft.LogConfiguration {
			c.configurationIndex = l.Index
		}
		c.cachedEntries.Push(l)
		c.cachedBytes += entryBytes(l)
	}
	for c.cachedEntries.Len() > maxCachedEntries || c.cachedBytes > maxCachedBytes {
		c.dropOldest(1)
	}
	return nil
}

// dropOldest removes the first n entries. The caller holds mu.
func (c *logCache) dropOldest(n int) {
	for range n {
		c.cachedBytes -= entryBytes(c.cachedEntries.Pop())
	}
}

func entryBytes(l *raft.Log) int { return len(l.Data) + len(l.Extensions) }

// DeleteRange deletes entries of the log. It drops all entries in memory, as raft.LogCache does. A configuration
// at the end of the log is gone then. One at the beginning is in a snapshot.
func (c *logCache) DeleteRange(first, last uint64) error {
	end, err := c.LastIndex()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.dropOldest(c.cachedEntries.Len())
	c.changedSinceOpen = true
	if last >= end && c.configurationIndex >= first {
		c.configurationIndex = 0
	}
	c.mu.Unlock()
	return c.LogStore.DeleteRange(first, last)
}
