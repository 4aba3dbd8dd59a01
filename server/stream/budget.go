package stream

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// AccountStep is by how many bytes what a stream holds must change before it is counted again.
	// A stream below it costs no more than an idle one's buffers, and most requests touch nothing
	// that streams share.
	AccountStep = 16 << 10
	// BudgetLook is how often the budget is looked at while it is spent or a stream waits for it.
	BudgetLook = 10 * time.Millisecond
	// BudgetPatience is how long a stream may wait for room before one that takes nothing loses its
	// own, and for how long that one must have taken nothing.
	BudgetPatience = 500 * time.Millisecond
	// budgetReport is the least time between two lines of log about dropped streams.
	budgetReport = 10 * time.Second
)

// Budget bounds what all streams of a server hold together: bytes that their clients have not taken,
// and those of frames that wait or are being read. What can wait does, while the budget has no room
// for it: see room. What cannot wait may overrun the budget: then the streams that hold most are
// dropped. Safe for concurrent use; nothing blocks.
type Budget struct {
	most int64
	all  func() []*Stream
	log  *slog.Logger
	used atomic.Int64

	mu       sync.Mutex
	waiting  []place // see places
	keeping  bool    // keep runs
	keepers  sync.WaitGroup
	closed   int       // streams dropped since the last report
	reported time.Time // when that was logged
}

// NewBudget returns a budget of so many bytes for the streams that all returns.
func NewBudget(most int64, all func() []*Stream, log *slog.Logger) *Budget {
	return &Budget{most: most, all: all, log: log}
}

// Used returns how many bytes the streams hold.
func (b *Budget) Used() int64 { return b.used.Load() }

// Unreported returns how many streams have been dropped since the log last said how many.
func (b *Budget) Unreported() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Rest waits until the budget's goroutine has ended. All streams have ended.
func (b *Budget) Rest() { b.keepers.Wait() }

// place is where a stream waits for room.
type place struct {
	s     *Stream
	n     int64 // bytes that it waits for
	since time.Time
}

// Add counts n bytes more; n is negative for less. Streams count their own.
func (b *Budget) Add(n int64) {
	if b.used.Add(n) > b.most && n > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.startKeeper()
	}
}

// room reports whether a stream that holds so many bytes may have n more: both must fit into what is
// free. So streams that hold much stop long before those that hold little, and many that want all they
// can get share evenly. An eighth is left for what cannot wait.
func (b *Budget) room(held, n int64) bool { return b.lacks(held, n) <= 0 }

// lacks returns how many more bytes must be free before room reports true. A request for more than a
// quarter of the budget counts as a quarter: alone, it is always served.
func (b *Budget) lacks(held, n int64) int64 {
	return b.used.Load() + held + min(n, b.most/4) - b.most/8*7
}

// wait makes keep call s.grant once there is room for n bytes. It returns at once.
func (b *Budget) wait(s *Stream, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.waiting, func(p place) bool { return p.s == s }) {
		b.waiting = append(b.waiting, place{s, n, time.Now()})
	}
	b.startKeeper()
}

// startKeeper starts keep unless it runs. The caller holds mu.
func (b *Budget) startKeeper() {
	if !b.keeping {
		b.keeping = true
		b.keepers.Go(b.keep)
	}
}

// keep looks after the budget for as long as it is spent or a stream waits.
func (b *Budget) keep() {
	ticker := time.NewTicker(BudgetLook)
	defer ticker.Stop()
	for b.relieve(time.Now()); !b.done(); b.relieve(time.Now()) {
		<-ticker.C
	}
}

// done reports whether keep may end, and notes that it does.
func (b *Budget) done() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeping = len(b.waiting) > 0 || b.used.Load() > b.most
	return !b.keeping
}

// relieve drops streams if the budget is overrun, and lets those go on that there is room for. If the
// first of the others has waited for too long, the streams that hold most and take nothing make room
// for it.
func (b *Budget) relieve(now time.Time) {
	if over := b.used.Load() - b.most; over > 0 {
		b.cut(over, 0, now, false)
	}
	granted, helped := int64(0), false // bytes that those let on have not been counted with yet
	for _, p := range b.places() {
		held := p.s.account.held.Load()
		if lacks := granted + b.lacks(held, p.n); lacks > 0 && !helped && now.Sub(p.since) > BudgetPatience {
			b.cut(lacks, held, now, true)
			helped = true
		}
		if granted+b.lacks(held, p.n) <= 0 || !p.s.alive() {
			granted += p.n
			b.leave(p.s)
			p.s.grant()
		}
	}
	b.report(now)
}

// places returns the waiting streams: those that hold least first, and of two that hold the same the
// one that has waited longer.
func (b *Budget) places() []place {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.waiting, func(x, y place) int { return cmp.Compare(x.s.account.held.Load(), y.s.account.held.Load()) })
	return slices.Clone(b.waiting)
}

func (b *Budget) leave(s *Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(p place) bool { return p.s == s })
}

// cut drops streams that hold more than above bytes until need bytes are free. Two groups are dropped
// one after the other, and in each the stream that holds most comes first:
//
//   - streams that hold more than an even share and have taken nothing for BudgetPatience;
//   - the others, but if stalled is set only those that have taken nothing for so long.
//
// So one that takes a little now and then does not have those with little dropped.
func (b *Budget) cut(need, above int64, now time.Time, stalled bool) {
	type holder struct {
		s     *Stream
		held  int64
		first bool
	}
	var holders []holder
	share := b.evenShare()
	for _, s := range b.all() {
		held, idle := s.account.held.Load(), now.Sub(s.begun)-time.Duration(s.account.took.Load()) > BudgetPatience
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
		b.count()
	}
}

// evenShare returns how much each counted stream would hold if all held the same.
func (b *Budget) evenShare() int64 {
	n := int64(0)
	for _, s := range b.all() {
		if s.account.held.Load() > 0 {
			n++
		}
	}
	return b.used.Load() / max(n, 1)
}

func (b *Budget) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
}

// report logs how many streams were dropped, at most once per budgetReport.
func (b *Budget) report(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed == 0 || now.Sub(b.reported) < budgetReport {
		return
	}
	b.log.Warn("connections closed: clients left too much unread or sent too much at once", "closed", b.closed, "limit", b.most)
	b.closed, b.reported = 0, now
}
