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
// unfinished work. Long work gives way to other long work only if that costs at most half of what it still has to do, so
// turns whose cost was known at the beginning reach this number only if the first one is hundreds of times as long as the
// last.
const maxInterrupted = 8

// FairTurn lets one piece of work run at a time. The weight of work is its cost, times the turns that its address has or
// waits for. Work of little weight is short, and goes before all other work, so it does not wait for each of many
// addresses that have long work. Of two pieces of short work, and of two of long work, that of less weight is next. The
// weight is counted from the work of its kind that has ended so far (weighted fair queueing, self-clocked). Long work
// gives way between its steps (Turn.GiveWay), and short work does not.
//
// Nothing waits for ever. Once short work of maxShort in cost has run since the last step of long work, such a step is
// next: less than 2*maxShort lies between two of them. And the tag of work that waits stays while later ones grow.
//
// Make one with NewFairTurn. It is safe for concurrent use.
type FairTurn struct {
	maxShort int64 // the greatest weight of short work

	mu            sync.Mutex
	running       *Turn
	short, long   waitingTurns
	interrupted   []*Turn        // of long work; the latest is last, and has least to do
	byAddress     map[string]int // turns that run, wait or are interrupted
	costSinceLong int64          // of the short work that has begun since the last step of long work
	numTaken      int64          // turns since the beginning
}

// waitingTurns are the waiting turns of short work, or those of long work.
type waitingTurns struct {
	turnHeap
	clock int64 // the greatest tag of such a turn that has ended
}

// Turn is a turn that runs, waits or is interrupted. The lock of its FairTurn guards it.
type Turn struct {
	of      *FairTurn
	kind    *waitingTurns // &of.short or &of.long
	address string
	cost    int64
	tag     int64 // the least of its kind is next
	number  int64 // among equal tags, the least is next
	index   int   // in kind
	left    int64 // of the cost, while it is interrupted
	granted chan struct{}
}

// NewFairTurn returns a turn that nobody has. Work whose weight is at most maxShort is short.
func NewFairTurn(maxShort int) *FairTurn {
	return &FairTurn{maxShort: int64(maxShort), byAddress: map[string]int{}}
}

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
	weight := cost * int64(f.byAddress[address])
	kind := &f.long
	if weight <= f.maxShort {
		kind = &f.short
	}
	t := &Turn{
		of: f, kind: kind, address: address, cost: cost, tag: kind.clock + weight, number: f.numTaken,
		granted: make(chan struct{}, 1),
	}
	heap.Push(kind, t)
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

// tryInterrupt interrupts t if it is long work that runs and other work should run first.
func (t *Turn) tryInterrupt(left int64) bool {
	f := t.of
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != t || t.kind == &f.short {
		return false
	}
	t.left = left
	f.interrupted = append(f.interrupted, t)
	if f.running = f.takeNext(); f.running == t {
		return false
	}
	f.running.granted <- struct{}{}
	return true
}

// End ends the turn. It never blocks, and does nothing if the turn has ended.
func (t *Turn) End() {
	f := t.of
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.running == t:
		f.running = nil
		t.kind.clock = max(t.kind.clock, t.tag)
	case t.index < t.kind.Len() && t.kind.turnHeap[t.index] == t:
		heap.Remove(t.kind, t.index)
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
	if f.running != nil {
		return
	}
	if f.running = f.takeNext(); f.running != nil {
		f.running.granted <- struct{}{}
	}
}

// takeNext takes the turn that is next from those that wait or are interrupted. It returns nil if there is none. The
// caller holds the lock.
func (f *FairTurn) takeNext() *Turn {
	hasLong := f.long.Len() > 0 || len(f.interrupted) > 0
	if f.short.Len() > 0 && (!hasLong || f.costSinceLong < f.maxShort) {
		t := heap.Pop(&f.short).(*Turn)
		f.costSinceLong += t.cost
		return t
	}
	f.costSinceLong = 0
	if last := len(f.interrupted) - 1; last >= 0 && !f.mayBeginBefore(f.interrupted[last]) {
		t := f.interrupted[last]
		f.interrupted = f.interrupted[:last]
		return t
	}
	if f.long.Len() > 0 {
		return heap.Pop(&f.long).(*Turn)
	}
	return nil
}

// mayBeginBefore reports whether the first of the waiting turns of long work begins before the rest of t, the latest of
// the interrupted ones. Then at most maxInterrupted turns of long work have begun, and so no more are interrupted when
// short work runs. The caller holds the lock.
func (f *FairTurn) mayBeginBefore(t *Turn) bool {
	if f.long.Len() == 0 || len(f.interrupted) >= maxInterrupted {
		return false
	}
	first := f.long.turnHeap[0]
	return first.tag < t.tag && 2*first.cost <= t.left
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
