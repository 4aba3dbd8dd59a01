package quorum

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// countingLog is a log that counts the entries read from it, and fails to store any if the test says so.
type countingLog struct {
	*raft.InmemStore
	reads int
	fails error
}

func (c *countingLog) IsMonotonic() bool { return true }

func (c *countingLog) GetLog(index uint64, l *raft.Log) error {
	c.reads++
	return c.InmemStore.GetLog(index, l)
}

func (c *countingLog) StoreLogs(logs []*raft.Log) error {
	if c.fails != nil {
		return c.fails
	}
	return c.InmemStore.StoreLogs(logs)
}

// The last entries of the log are read from memory: as many as maxCachedEntries, or fewer if they have more than
// maxCachedBytes of data. All others are read from the store, and every entry is the one that was stored last.
func TestLogCache(t *testing.T) {
	store := &countingLog{InmemStore: raft.NewInmemStore()}
	c := &logCache{LogStore: store, entryStored: func(uint64, []byte) {}}
	last := uint64(0)
	add := func(n, size int, term uint64) {
		var logs []*raft.Log
		for range n {
			last++
			logs = append(logs, &raft.Log{Index: last, Term: term, Data: bytes.Repeat([]byte{byte(last)}, size)})
		}
		if err := c.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(when string, first, term uint64, want int) {
		t.Helper()
		store.reads = 0
		for i := first; i <= last; i++ {
			l := new(raft.Log)
			if err := c.GetLog(i, l); err != nil || l.Index != i || l.Term != term ||
				slices.ContainsFunc(l.Data, func(b byte) bool { return b != byte(i) }) {
				t.Errorf("%s: entry %d is number %d of term %d: %v", when, i, l.Index, l.Term, err)
			}
		}
		if got := int(last-first) + 1 - store.reads; got != want {
			t.Errorf("%s: %d entries in memory, want %d", when, got, want)
		}
		if err := c.GetLog(last+1, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("%s: the entry after the last: %v", when, err)
		}
	}
	if !c.IsMonotonic() {
		t.Error("not monotonic, as the store is")
	}
	holds("empty", 1, 1, 0)
	add(3, 10, 1)
	holds("a few", 1, 1, 3)
	add(2*maxCachedEntries, 10, 1)
	holds("many", 1, 1, maxCachedEntries)
	add(3, maxCachedBytes/4, 1)
	holds("long ones", 1, 1, maxCachedEntries)
	add(2, maxCachedBytes/4, 1)
	holds("more of them", 1, 1, 4)
	add(1, maxCachedBytes+1, 1)
	holds("one that is too long", 1, 1, 0)
	add(5, 10, 1)
	holds("a few again", 1, 1, 5)
	last++
	if err := c.StoreLog(&raft.Log{Index: last, Term: 1, Extensions: make([]byte, maxCachedBytes+1)}); err != nil {
		t.Fatal(err)
	}
	holds("one with long extensions", 1, 1, 0)
	add(5, 10, 1)
	holds("a few at last", 1, 1, 5)

	store.fails = errors.New("disk full")
	if err := c.StoreLogs([]*raft.Log{{Index: last + 1}}); !errors.Is(err, store.fails) {
		t.Errorf("stored on a full disk: %v", err)
	}
	store.fails = nil
	holds("after a failed write", 1, 1, 5)

	if err := c.DeleteRange(last-1, last); err != nil {
		t.Fatal(err)
	}
	last -= 2
	holds("the end is deleted", 1, 1, 0)
	first := last + 1
	add(2, 10, 2)
	holds("another end", first, 2, 2)
	if err := c.DeleteRange(1, last); err != nil {
		t.Fatal(err)
	}
	last += 100
	first = last + 1
	add(2, 10, 3)
	holds("after a snapshot", first, 3, 2)
	last += 100
	first = last + 1
	add(1, 10, 3)
	holds("after a gap", first, 3, 1)
	if c.cachedBytes != 10 {
		t.Errorf("%d bytes, want 10", c.cachedBytes)
	}
}

// Entries are stored, deleted at the beginning and read at the same time, as raft does with its log.
func TestLogCacheInUse(t *testing.T) {
	c := &logCache{LogStore: raft.NewInmemStore(), entryStored: func(uint64, []byte) {}}
	const entries = 20 * maxCachedEntries
	var stored atomic.Uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(1); i <= entries; i++ {
			if err := c.StoreLog(&raft.Log{Index: i, Data: []byte{byte(i)}}); err != nil {
				t.Error(err)
			}
			stored.Store(i)
		}
	})
	wg.Go(func() {
		for stored.Load() < entries {
			if last := stored.Load(); last > maxCachedEntries {
				if err := c.DeleteRange(1, last-maxCachedEntries); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for i := stored.Load(); i < entries; i = stored.Load() {
				l := new(raft.Log)
				if err := c.GetLog(i, l); err == nil && (l.Index != i || l.Data[0] != byte(i)) {
					t.Errorf("entry %d is %+v", i, l)
				}
			}
		})
	}
	wg.Wait()
}

// slowRead is a log whose reads wait.
type slowRead struct {
	*raft.InmemStore
	reads, ends chan struct{}
}

func (s *slowRead) GetLog(index uint64, l *raft.Log) error {
	err := s.InmemStore.GetLog(index, l)
	s.reads <- struct{}{}
	<-s.ends
	return err
}

// The last change of the configuration is always one in the log. Neither a read of an entry that is being replaced nor a
// snapshot that replaces the log restores an old one: raft would reject every later change.
func TestLastChange(t *testing.T) {
	store := &slowRead{InmemStore: raft.NewInmemStore(), reads: make(chan struct{}), ends: make(chan struct{})}
	c := &logCache{LogStore: store, entryStored: func(uint64, []byte) {}}
	put := func(index uint64, kind raft.LogType) {
		t.Helper()
		if err := c.StoreLog(&raft.Log{Index: index, Type: kind}); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(when string, want uint64) {
		t.Helper()
		if got := c.lastConfigurationIndex(); got != want {
			t.Errorf("%s: the last change is at %d, want %d", when, got, want)
		}
	}
	put(1, raft.LogConfiguration)
	for i := uint64(2); i <= maxCachedEntries+5; i++ {
		put(i, raft.LogCommand)
	}
	holds("many entries later", 1)

	read := make(chan error)
	go func() { read <- c.GetLog(1, new(raft.Log)) }()
	<-store.reads
	if err := c.DeleteRange(1, maxCachedEntries+5); err != nil {
		t.Fatal(err)
	}
	close(store.ends)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	holds("after a late read of a deleted entry", 0)

	put(1, raft.LogConfiguration)
	put(2, raft.LogConfiguration)
	holds("stored", 2)
	put(100, raft.LogCommand)
	holds("after a snapshot", 0)

	started := &logCache{LogStore: store.InmemStore, entryStored: func(uint64, []byte) {}}
	if err := started.GetLog(2, new(raft.Log)); err != nil {
		t.Fatal(err)
	}
	holds = func(when string, want uint64) {
		t.Helper()
		if got := started.lastConfigurationIndex(); got != want {
			t.Errorf("%s: the last change is at %d, want %d", when, got, want)
		}
	}
	holds("read at the start", 2)
	if err := started.StoreLog(&raft.Log{Index: 200}); err != nil {
		t.Fatal(err)
	}
	holds("after a snapshot, with nothing in memory", 0)
}
