package admission

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"

	"rollcall/internal/lockwatch"
)

// maxInterrupted is the number of turns that may be interrupted at the same time. Each of them keeps the memory of its
// unfinished work. A turn gives way only to one that costs at most half of what it still has to do, so turns whose
// cost was known at the beginning reach this number only if the first one is hundreds of times as long as the last.
const maxInterrupted = 8

// FairTurn lets one piece of long work run at a time. The work that is next is that of least weight: its cost, times
// the turns that its address has or waits for. Work therefore waits for cheaper work and for work of addresses that
// want less, but not for ever: the weight is counted from the work that has ended so far (weighted fair queueing,
// self-clocked). Work that runs gives way between its steps (Turn.GiveWay).
//
// Make one with NewFairTurn. It is safe for concurrent use.
type FairTurn struct {
	mu          sync.Mutex
	running     *Turn
	waiting     turnHeap
	interrupted []*Turn        // the latest is last, and has least to do
	byAddress   map[string]int // turns that run, wait or are interrupted
	clock       int64          // the greatest tag of a turn that has ended
	numTaken    int64          // turns since the beginning
}

// Turn is a turn that runs, waits or is interrupted. The lock of its FairTurn guards it.
type Turn struct {
	of      *FairTurn
	address string
	cost    int64
	tag     int64 // the least is next
	number  int64 // among equal tags, the least is next
	index   int   // in FairTurn.waiting
	left    int64 // of the cost, while it is interrupted
	granted chan struct{}
}

// NewFairTurn returns a turn that nobody has.
func NewFairTurn() *FairTurn { return &FairTurn{byAddress: map[string]int{}} }

// Take waits for a turn for work of an address that costs so many steps. It returns the error of ctx if that ends
// first. The caller must call End.
func (f *FairTurn) Take(ctx context.Context, address string, cost int) (*Turn, error) {
	t := f.enqueue(address, int64(max(cost, 1)))
	if err := t.await(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

func (f *FairTurn) enqueue(address string, cost int64) *Turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.numTaken++
	f.byAddress[address]++
	t := &Turn{
		of: f, address: address, cost: cost, number: f.numTaken, granted: make(chan struct{}, 1),
		tag: f.clock + cost*int64(f.byAddress[address]),
	}
	heap.Push(&f.waiting, t)
	f.startNext()
	return t
}

// await waits until t runs. If ctx ends first, t has ended.
func (t *Turn) await(ctx context.Context) error {
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		t.End()
		return context.Cause(ctx)
	}
}

// GiveWay lets other work run first, if it should, and waits until the rest of this work may run. left is the cost of the
// rest. If ctx has ended or ends first, GiveWay returns its error, and the turn has ended.
func (t *Turn) GiveWay(ctx context.Context, left int) error {
	if ctx.Err() != nil {
		t.End()
		return context.Cause(ctx)
	}
	if !t.tryInterrupt(int64(left)) {
		return nil
	}
	return t.await(ctx)
}

// tryInterrupt interrupts t if it runs and other work should run first.
func (t *Turn) tryInterrupt(left int64) bool {
	f := t.of
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != t {
		return false
	}
	t.left = left
	if len(f.interrupted) >= maxInterrupted || !f.mayBeginBefore(t) {
		return false
	}
	f.interrupted = append(f.interrupted, t)
	f.running = nil
	f.startNext()
	return true
}

// mayBeginBefore reports whether the first of the waiting turns runs before the rest of t, which has begun. The caller
// holds the lock.
func (f *FairTurn) mayBeginBefore(t *Turn) bool {
	return len(f.waiting) > 0 && f.waiting[0].tag < t.tag && 2*f.waiting[0].cost <= t.left
}

// End ends the turn. It never blocks, and does nothing if the turn has ended.
func (t *Turn) End() {
	f := t.of
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.running == t:
		f.running = nil
		f.clock = max(f.clock, t.tag)
	case t.index >= 0 && t.index < len(f.waiting) && f.waiting[t.index] == t:
		heap.Remove(&f.waiting, t.index)
	default:
		at := slices.Index(f.interrupted, t)
		if at < 0 {
			return
		}
		f.interrupted = slices.Delete(f.interrupted, at, at+1)
	}
	if f.byAddress[t.address]--; f.byAddress[t.address] == 0 {
		delete(f.byAddress, t.address)
	}
	f.startNext()
}

// startNext lets the next turn run, unless one does. The caller holds the lock.
func (f *FairTurn) startNext() {
	last := len(f.interrupted) - 1
	switch {
	case f.running != nil:
		return
	case last >= 0 && !f.mayBeginBefore(f.interrupted[last]):
		f.running = f.interrupted[last]
		f.interrupted = f.interrupted[:last]
	case len(f.waiting) > 0:
		f.running = heap.Pop(&f.waiting).(*Turn)
	default:
		return
	}
	f.running.granted <- struct{}{}
}

// IsTaken reports whether a turn runs.
func (f *FairTurn) IsTaken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running != nil
}

// turnHeap is a heap.Interface. The first one is next.
type turnHeap []*Turn

func (h turnHeap) Len() int { return len(h) }

func (h turnHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].tag, h[j].tag), cmp.Compare(h[i].number, h[j].number)) < 0
}

func (h turnHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *turnHeap) Push(t any) {
	t.(*Turn).index = len(*h)
	*h = append(*h, t.(*Turn))
}

// Pop implements heap.Interface.
func (h *turnHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}

// Locks returns the lock of the turn.
func (f *FairTurn) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: "admission.FairTurn.mu", Locker: &f.mu}}
}
