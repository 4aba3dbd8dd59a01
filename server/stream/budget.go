package stream

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/lockwatch"
)

const (
	// MinAccountChange is the change of a stream's bytes from which on they are counted again. A stream that
	// holds less takes no more memory than an idle one's buffers, and most requests then write to nothing
	// that streams share.
	MinAccountChange = 16 << 10
	// BudgetCheckInterval is the time between two checks of the budget while it is exceeded or a stream
	// waits.
	BudgetCheckInterval = 10 * time.Millisecond
	// MaxBudgetWait is the time that a stream waits for room. After it, streams whose clients have taken
	// nothing for as long are dropped to make room.
	MaxBudgetWait = 500 * time.Millisecond
	// ownerShareDivisor divides the budget into the part that all owners may keep for their clients. The rest
	// is for bytes that come and go; they would wait for ever if the owners' filled the budget.
	ownerShareDivisor = 2
	// budgetReportInterval is the least time between two log lines about dropped streams.
	budgetReportInterval = 10 * time.Second
)

// Budget bounds the bytes that all streams of a server hold together: output that their clients have not
// taken, frames that wait or are being read, and the owners' bytes. Bytes that can wait do so while the
// budget has no room for them: see hasRoom. Bytes that cannot wait may exceed the budget; then the streams
// that hold most are dropped. A Budget is safe for concurrent use, and no method blocks.
type Budget struct {
	limit      int64
	allStreams func() []*Stream
	log        *slog.Logger
	usedBytes  atomic.Int64
	ownerBytes atomic.Int64 // the part of usedBytes that the owners keep

	mu              sync.Mutex
	waiters         []budgetWaiter // see sortedWaiters
	managerRuns     bool
	managers        sync.WaitGroup
	unreportedDrops int // since lastReport
	lastReport      time.Time
}

// NewBudget returns a budget of most bytes for the streams that all returns.
func NewBudget(most int64, all func() []*Stream, log *slog.Logger) *Budget {
	return &Budget{limit: most, allStreams: all, log: log}
}

// UsedBytes returns the bytes that the streams hold.
func (b *Budget) UsedBytes() int64 { return b.usedBytes.Load() }

// UnreportedDrops returns the number of streams dropped since the last log line about them.
func (b *Budget) UnreportedDrops() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unreportedDrops
}

// AwaitManager waits until the budget's goroutine has ended. All streams must have ended before the call.
func (b *Budget) AwaitManager() { b.managers.Wait() }

// budgetWaiter is a stream that waits for room.
type budgetWaiter struct {
	s           *Stream
	wantedBytes int64
	since       time.Time
}

// addOwnerBytes counts n bytes of AddBytes as the owner's.
func (b *Budget) addOwnerBytes(n int64) { b.ownerBytes.Add(n) }

// isExceeded reports whether streams must be dropped.
func (b *Budget) isExceeded() bool {
	return b.usedBytes.Load() > b.limit || b.ownerBytes.Load() > b.limit/ownerShareDivisor
}

// AddBytes counts n more bytes, or fewer if n is negative. Streams count their own bytes.
func (b *Budget) AddBytes(n int64) {
	if b.usedBytes.Add(n); n > 0 && b.isExceeded() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.startManager()
	}
}

// hasRoom reports whether a stream that holds so many bytes may have n more: the free part of the budget must
// have room for both. Streams that hold much therefore stop long before those that hold little, and streams
// that want as much as they can get share evenly. An eighth of the budget is kept free for bytes that cannot
// wait.
func (b *Budget) hasRoom(held, n int64) bool { return b.missingBytes(held, n) <= 0 }

// missingBytes returns the number of bytes that must be freed before hasRoom reports true. A request for more
// than a quarter of the budget counts as a quarter, so it is always served when no other stream holds bytes.
func (b *Budget) missingBytes(held, n int64) int64 {
	return b.usedBytes.Load() + held + min(n, b.limit/4) - b.limit/8*7
}

// addWaiter makes manage call s.grantClaim once there is room for n bytes. It returns at once.
func (b *Budget) addWaiter(s *Stream, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.waiters, func(p budgetWaiter) bool { return p.s == s }) {
		b.waiters = append(b.waiters, budgetWaiter{s, n, time.Now()})
	}
	b.startManager()
}

// startManager starts manage unless it runs. The caller holds mu.
func (b *Budget) startManager() {
	if !b.managerRuns {
		b.managerRuns = true
		b.managers.Go(b.manage)
	}
}

// manage drops streams and grants room while the budget is exceeded or a stream waits.
func (b *Budget) manage() {
	ticker := time.NewTicker(BudgetCheckInterval)
	defer ticker.Stop()
	for b.dropAndGrant(time.Now()); !b.stopIfIdle(); b.dropAndGrant(time.Now()) {
		<-ticker.C
	}
}

// stopIfIdle reports whether manage may end, and if so notes that it has.
func (b *Budget) stopIfIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.managerRuns = len(b.waiters) > 0 || b.isExceeded()
	return !b.managerRuns
}

// dropAndGrant drops streams if the budget is exceeded, and grants room to waiting streams while there is
// any. If the first of the remaining ones has waited for too long, it drops the streams that hold most and
// take nothing.
func (b *Budget) dropAndGrant(now time.Time) {
	if over := b.ownerBytes.Load() - b.limit/ownerShareDivisor; over > 0 {
		b.dropByOwnerBytes(over)
	}
	if over := b.usedBytes.Load() - b.limit; over > 0 {
		b.dropLargestStreams(over, 0, now, false)
	}
	granted, helped := int64(0), false // granted bytes that are not counted yet
	for _, p := range b.sortedWaiters() {
		held := p.s.Account.transientBytes()
		if lacks := granted + b.missingBytes(held, p.wantedBytes); lacks > 0 && !helped && now.Sub(p.since) > MaxBudgetWait {
			b.dropLargestStreams(lacks, held, now, true)
			helped = true
		}
		if granted+b.missingBytes(held, p.wantedBytes) <= 0 || !p.s.Life.isAlive() {
			granted += p.wantedBytes
			b.removeWaiter(p.s)
			p.s.grantClaim()
		}
	}
	b.logDrops(now)
}

// sortedWaiters returns the waiting streams: the one that holds least comes first, and of two that hold the
// same, the one that has waited longer.
func (b *Budget) sortedWaiters() []budgetWaiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.waiters, func(x, y budgetWaiter) int {
		return cmp.Compare(x.s.Account.heldBytes.Load(), y.s.Account.heldBytes.Load())
	})
	return slices.Clone(b.waiters)
}

func (b *Budget) removeWaiter(s *Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiters = slices.DeleteFunc(b.waiters, func(p budgetWaiter) bool { return p.s == s })
}

// dropLargestStreams drops streams that hold more than above bytes until need bytes are free. Two groups are dropped
// one after the other, the stream that holds most first:
//
//   - streams that hold more than an even share and have taken nothing for MaxBudgetWait;
//   - the others, but if stalled is set only those that have taken nothing for so long.
//
// A stream that takes a little now and then therefore cannot get streams with little dropped.
func (b *Budget) dropLargestStreams(need, above int64, now time.Time, stalled bool) {
	type holder struct {
		s     *Stream
		held  int64
		first bool
	}
	var holders []holder
	share := b.evenShare()
	for _, s := range b.allStreams() {
		held, idle := s.Account.heldBytes.Load(),
			now.Sub(s.Life.startedAt)-time.Duration(s.Account.lastProgress.Load()) > MaxBudgetWait
		if held > above && (idle || !stalled) {
			holders = append(holders, holder{s, held, idle && held > share})
		}
	}
	slices.SortFunc(holders, func(x, y holder) int {
		if x.first != y.first {
			if x.first {
				return -1
			}
			return 1
		}
		return cmp.Compare(y.held, x.held)
	})
	for i := 0; i < len(holders) && need > 0; i++ {
		holders[i].s.Drop(OverBudget)
		need -= holders[i].held
		b.countDrop()
	}
}

// dropByOwnerBytes drops the streams with most owner bytes, until need of those are free.
func (b *Budget) dropByOwnerBytes(need int64) {
	holders := b.allStreams()
	slices.SortFunc(holders, func(x, y *Stream) int {
		return cmp.Compare(y.Account.countedOwnerBytes.Load(), x.Account.countedOwnerBytes.Load())
	})
	for i := 0; i < len(holders) && need > 0; i++ {
		need -= holders[i].Account.countedOwnerBytes.Load()
		holders[i].Drop(OverBudget)
		b.countDrop()
	}
}

// evenShare returns the bytes of each counted stream if all held the same.
func (b *Budget) evenShare() int64 {
	n := int64(0)
	for _, s := range b.allStreams() {
		if s.Account.heldBytes.Load() > 0 {
			n++
		}
	}
	return b.usedBytes.Load() / max(n, 1)
}

func (b *Budget) countDrop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unreportedDrops++
}

// logDrops logs the number of dropped streams, at most once per budgetReportInterval.
func (b *Budget) logDrops(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unreportedDrops == 0 || now.Sub(b.lastReport) < budgetReportInterval {
		return
	}
	b.log.Warn("connections closed: clients left too much unread, sent too much at once or set too many watches", "closed",
		b.unreportedDrops, "limit", b.limit)
	b.unreportedDrops, b.lastReport = 0, now
}

// Locks returns the lock of the budget.
func (b *Budget) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: "stream.Budget.mu", Locker: &b.mu}}
}
