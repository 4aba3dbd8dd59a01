package disk

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

const testStallLimit = 3 * time.Second

var errHeld = errors.New("input/output error")

// heldStore is a log and a stable store. Each write of entries blocks until the test releases it, and fails if the test
// says so. heldStore records the writes in order.
type heldStore struct {
	*raft.InmemStore
	goOn chan error

	mu    sync.Mutex
	wrote []string
}

func (h *heldStore) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrote = append(h.wrote, fmt.Sprintf(format, args...))
}

// written returns the writes since the last call.
func (h *heldStore) written() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.wrote
	h.wrote = nil
	return w
}

func (h *heldStore) StoreLogs(logs []*raft.Log) error {
	if err := <-h.goOn; err != nil {
		return err
	}
	h.note("%d to %d", logs[0].Index, logs[len(logs)-1].Index)
	return h.InmemStore.StoreLogs(logs)
}

func (h *heldStore) DeleteRange(first, last uint64) error {
	h.note("delete %d to %d", first, last)
	return h.InmemStore.DeleteRange(first, last)
}

func (h *heldStore) Set(k, v []byte) error {
	h.note("%s", k)
	return h.InmemStore.Set(k, v)
}

func (h *heldStore) SetUint64(k []byte, v uint64) error {
	h.note("%s", k)
	return h.InmemStore.SetUint64(k, v)
}

// queued is the data of a member whose raft runs, unless the test says otherwise, with a held store.
type queued struct {
	*Data
	t     *testing.T
	store *heldStore
	runs  bool
	fails []error
}

func newQueued(t *testing.T) *queued {
	t.Helper()
	store := &heldStore{InmemStore: raft.NewInmemStore(), goOn: make(chan error)}
	q := &queued{t: t, store: store, runs: true}
	var err error
	q.Data, err = Open(Config{
		Stores:      Stores{Log: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore()},
		RaftRunning: func() bool { return q.runs },
		EndMember:   func(err error) { q.fails = append(q.fails, err) }, StallLimit: testStallLimit,
	})
	if err != nil {
		t.Fatal(err)
	}
	store.written() // the id of the disk
	return q
}

// entries returns entries of a term, each with data.
func entries(first, last uint64, data []byte) (logs []*raft.Log) {
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Data: data})
	}
	return logs
}

// append stores the entries from first to last.
func (q *queued) append(first, last uint64) {
	q.t.Helper()
	if err := q.Log().StoreLogs(entries(first, last, []byte("x"))); err != nil {
		q.t.Error(err)
	}
}

// releaseWrite releases one write of entries, and waits until its effects are complete.
func (q *queued) releaseWrite(err error) {
	q.store.goOn <- err
	synctest.Wait()
}

// begin calls do in another goroutine. The channel gets true when do returns, or false if the goroutine ends before.
func begin(do func()) <-chan bool {
	ended := make(chan bool, 1)
	go func() {
		returned := false
		defer func() { ended <- returned }()
		do()
		returned = true
	}()
	synctest.Wait()
	return ended
}

// isOver reports whether do has ended, and fails the test if it has not ended as it should.
func isOver(t *testing.T, ended <-chan bool, returns bool) bool {
	t.Helper()
	select {
	case returned := <-ended:
		if returned != returns {
			t.Errorf("returned: %t, want %t", returned, returns)
		}
		return true
	default:
		return false
	}
}

// wrote fails the test unless exactly this has been written since the last call.
func (q *queued) wrote(want ...string) {
	q.t.Helper()
	if got := q.store.written(); !slices.Equal(got, want) {
		q.t.Errorf("written: %q, want %q", got, want)
	}
}

// Entries are there for raft before they are on the disk, and none counts as durable before. They are written in order, several at
// once, at most maxWriteEntries.
func TestQueueBesides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const batch, end = maxWriteEntries, maxWriteEntries + 3
		q := newQueued(t)
		looks := func(when string, durable uint64) {
			t.Helper()
			first, err1 := q.Log().FirstIndex()
			last, err2 := q.Log().LastIndex()
			if first != 1 || last != end || errors.Join(err1, err2) != nil {
				t.Errorf("%s: the log is from %d to %d: %v", when, first, last, errors.Join(err1, err2))
			}
			for i := uint64(1); i <= end; i++ {
				if l := new(raft.Log); q.Log().GetLog(i, l) != nil || l.Index != i || string(l.Data) != "x" {
					t.Errorf("%s: entry %d is %+v", when, i, l)
				}
				if got, want := q.Durability().LimitToDurable(i), min(i, durable); got != want {
					t.Errorf("%s: up to %d, %d is durable, want %d", when, i, got, want)
				}
			}
			if err := q.Log().GetLog(end+1, new(raft.Log)); err != raft.ErrLogNotFound { //nolint:errorlint // raft compares it so
				t.Errorf("%s: entry %d: %v", when, end+1, err)
			}
		}
		q.append(1, 1)
		synctest.Wait()
		q.append(2, end-1)
		q.append(end, end)
		waits := begin(func() {
			if !q.Durability().AwaitDurable(batch + 1) {
				t.Error("the second write is not durable")
			}
		})
		looks("before the first write", 0)
		q.releaseWrite(nil)
		looks("after it", 1)
		q.releaseWrite(nil)
		looks("after the next", batch+1)
		if !isOver(t, waits, true) {
			t.Error("the second write is durable, and somebody still waits for it")
		}
		ends := begin(q.AwaitQueuedWrites)
		if isOver(t, ends, true) {
			t.Error("finished while a write is under way")
		}
		q.releaseWrite(nil)
		looks("in the end", math.MaxUint64)
		if !isOver(t, ends, true) {
			t.Error("not finished")
		}
		q.wrote("1 to 1", fmt.Sprintf("2 to %d", batch+1), fmt.Sprintf("%d to %d", batch+2, end))
		if entries, bytes, _ := q.AppendTotals(); entries != end || bytes != end*(1+entryOverhead) ||
			len(q.operations.underWay) != 0 || q.logQueue.queuedBytes != 0 {
			t.Errorf("%d entries, %d bytes; %v under way, %d bytes queued", entries, bytes, q.operations.underWay, q.logQueue.queuedBytes)
		}
	})
}

// Entries are written together up to maxWriteBytes bytes. A longer one is written alone.
func TestQueueWritesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueued(t)
		q.append(1, 1)
		synctest.Wait() // it is being written, and the others come meanwhile
		for i, size := range []int{maxWriteBytes / 2, maxWriteBytes / 4, maxWriteBytes / 2, maxWriteBytes + 1, maxWriteBytes / 2, 1} {
			l := &raft.Log{Index: uint64(i + 2), Data: make([]byte, size)}
			if err := q.Log().StoreLogs([]*raft.Log{l}); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			q.releaseWrite(nil)
		}
		q.AwaitQueuedWrites()
		q.wrote("1 to 1", "2 to 3", "4 to 4", "5 to 5", "6 to 7")
	})
}

// What others count on is written after the queue, and waited for.
func TestQueueIsFirst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     func(q *queued) error
		writes bool // entries
		wrote  string
	}{
		{"entries before raft runs", func(q *queued) error {
			q.runs = false
			return q.Log().StoreLogs(entries(3, 4, nil))
		}, true, "3 to 4"},
		{"one entry before raft runs", func(q *queued) error {
			q.runs = false
			return q.Log().StoreLog(entries(3, 3, nil)[0])
		}, true, "3 to 3"},
		{"a configuration", func(q *queued) error {
			logs := entries(3, 4, nil)
			logs[1].Type = raft.LogConfiguration
			return q.Log().StoreLogs(logs)
		}, true, "3 to 4"},
		{"the first entry of a term", func(q *queued) error {
			logs := entries(3, 3, nil)
			logs[0].Type = raft.LogNoop
			return q.Log().StoreLogs(logs)
		}, true, "3 to 3"},
		{"a term", func(q *queued) error { return q.Stable().SetTerm(9) }, false, string(keyTerm)},
		{"a vote", func(q *queued) error { return setVote(q.Stable(), 9, "2.m2:1") }, false, string(keyVote)},
		{"a deletion", func(q *queued) error { return q.Log().DeleteRange(1, 1) }, false, "delete 1 to 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueued(t)
				q.append(1, 2)
				ends := begin(func() {
					if err := tt.do(q); err != nil {
						t.Error(err)
					}
				})
				q.wrote()
				if isOver(t, ends, true) {
					t.Fatal("it did not wait for the queue")
				}
				q.releaseWrite(nil)
				if tt.writes {
					q.wrote("1 to 2")
					if isOver(t, ends, true) {
						t.Fatal("it did not wait for its own entries")
					}
					q.releaseWrite(nil)
					q.wrote(tt.wrote)
				} else {
					q.wrote("1 to 2", tt.wrote)
				}
				if !isOver(t, ends, true) {
					t.Error("it still waits")
				}
				if got := q.Durability().LimitToDurable(9); got != 9 {
					t.Errorf("durable up to %d", got)
				}
			})
		})
	}
}

// If a write fails, the member ends before any caller that waits for the write continues. Nothing is written after it,
// and its entries never count as durable.
func TestQueueFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueued(t)
		q.append(1, 1)
		synctest.Wait()
		q.append(2, 2)
		awaits := begin(func() {
			if q.Durability().AwaitDurable(1) || len(q.fails) != 1 {
				t.Errorf("an entry that was not stored is durable, or it was said too early: %v", q.fails)
			}
		})
		term := begin(func() { _ = q.Stable().SetTerm(9) })
		q.releaseWrite(errHeld)
		if !isOver(t, awaits, true) || !isOver(t, term, false) {
			t.Error("somebody still waits for the disk")
		}
		if !isOver(t, begin(func() { q.append(3, 3) }), false) || !isOver(t, begin(q.AwaitQueuedWrites), true) {
			t.Error("something waits for a disk that has failed")
		}
		q.wrote()
		if len(q.fails) != 1 || !errors.Is(q.fails[0], errHeld) || q.Durability().LimitToDurable(3) != 0 ||
			q.StallError() != nil || len(q.operations.underWay) != 0 {
			t.Errorf("failed: %v; durable up to %d; %v under way", q.fails, q.Durability().LimitToDurable(3), q.operations.underWay)
		}
	})
}

// A queue that is full makes raft wait. A call that is longer than the queue goes into an empty one.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueued(t)
		long := make([]byte, MaxEntryBytes-entryOverhead-QueuedCallOverhead)
		add := func(first, last uint64) <-chan bool {
			return begin(func() {
				if err := q.Log().StoreLogs(entries(first, last, long)); err != nil {
					t.Error(err)
				}
			})
		}
		if !isOver(t, add(1, 3), true) {
			t.Error("no room in an empty queue")
		}
		fourth := add(4, 4)
		if isOver(t, fourth, true) {
			t.Error("room in a queue that is full")
		}
		for range 3 { // each of them is written alone
			q.releaseWrite(nil)
		}
		if !isOver(t, fourth, true) || !isOver(t, add(5, 5), true) {
			t.Error("no room for two entries")
		}
		sixth := add(6, 6)
		if isOver(t, sixth, true) {
			t.Error("room for a third one")
		}
		q.releaseWrite(errHeld)
		if !isOver(t, sixth, false) {
			t.Error("raft waits for room on a disk that has failed")
		}
		if len(q.operations.underWay) != 0 {
			t.Errorf("under way: %v", q.operations.underWay)
		}
	})
}

// An entry stalls from when it was queued, not from when its write began.
func TestQueueStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueued(t)
		q.append(1, 1)
		time.Sleep(2 * time.Second)
		q.append(2, 2)
		time.Sleep(testStallLimit - 2*time.Second - time.Nanosecond)
		if err := q.StallError(); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := q.StallError(); !errors.Is(err, errStalled) {
			t.Errorf("stalled: %v", err)
		}
		q.releaseWrite(nil)
		if err := q.StallError(); err != nil {
			t.Errorf("the first one is written: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := q.StallError(); !errors.Is(err, errStalled) {
			t.Errorf("the second one was queued %v ago: %v", testStallLimit, err)
		}
		q.releaseWrite(nil)
		if err := q.StallError(); err != nil {
			t.Errorf("everything is written: %v", err)
		}
	})
}

// What a majority has on its disks is settled, and raft may show it, although this member's disk has not written it. It is not
// durable: this member acknowledges nothing of it by its own disk.
func TestSettledWithoutTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueued(t)
		q.append(1, 3)
		settled := begin(func() {
			if !q.Durability().AwaitSettled(2) {
				t.Error("2 is not settled")
			}
		})
		q.Durability().NoteCommitted(1)
		synctest.Wait()
		if isOver(t, settled, true) {
			t.Error("2 is settled, but only 1 is committed")
		}
		q.Durability().NoteCommitted(2)
		synctest.Wait()
		if !isOver(t, settled, true) {
			t.Error("2 is committed, and not settled")
		}
		q.Durability().NoteCommitted(1) // known already
		if got, durable := q.Durability().LimitToSettled(3), q.Durability().LimitToDurable(3); got != 2 || durable != 0 {
			t.Errorf("settled up to %d, durable up to %d; want 2 and 0", got, durable)
		}
		q.releaseWrite(nil)
		if got, durable := q.Durability().LimitToSettled(3), q.Durability().LimitToDurable(3); got != 3 || durable != 3 {
			t.Errorf("settled up to %d, durable up to %d after the write; want 3 and 3", got, durable)
		}
	})
}

// A disk that is away is no stall while a majority has the entries. It is one if raft has to wait for the disk.
func TestStallOfSettledEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueued(t)
		q.append(1, 2)
		time.Sleep(testStallLimit - 1)
		q.append(3, 3)
		q.Durability().NoteCommitted(2)
		time.Sleep(testStallLimit - 1)
		if err := q.StallError(); err != nil {
			t.Errorf("a stall, although the oldest entry that is not settled is new: %v", err)
		}
		if d := q.Durability().Delay(); d.Write != 2*(testStallLimit-1) || d.Bytes != 3*(1+entryOverhead)+2*QueuedCallOverhead {
			t.Errorf("the delay is %+v", d)
		}
		time.Sleep(time.Nanosecond)
		if q.StallError() == nil {
			t.Error("no stall, although an entry is not settled for long")
		}
		q.Durability().NoteCommitted(3)
		if err := q.StallError(); err != nil {
			t.Errorf("a stall, although all is settled: %v", err)
		}
		term := begin(func() { _ = q.Stable().SetTerm(9) })
		time.Sleep(testStallLimit)
		if q.StallError() == nil {
			t.Error("no stall, although raft waits for the disk to store a term")
		}
		for range 2 {
			q.releaseWrite(nil)
		}
		if d := q.Durability().Delay(); !isOver(t, term, true) || q.StallError() != nil || d != (QueueDelay{}) {
			t.Errorf("the disk is back, and the delay is %+v, with the error %v", d, q.StallError())
		}
	})
}

// The beginning of the log goes without waiting for the end to be written.
func TestBeginningGoesBesideTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueued(t)
		q.append(1, 2)
		q.releaseWrite(nil)
		q.append(3, 3)
		if done := begin(func() { _ = q.Log().DeleteRange(1, 1) }); !isOver(t, done, true) {
			t.Error("it waits")
		}
		end := begin(func() { _ = q.Log().DeleteRange(2, 3) })
		if isOver(t, end, true) {
			t.Error("the end goes before it is written")
		}
		q.releaseWrite(nil)
		if !isOver(t, end, true) {
			t.Error("the end does not go")
		}
		q.wrote("1 to 2", "delete 1 to 1", "3 to 3", "delete 2 to 3")
	})
}
