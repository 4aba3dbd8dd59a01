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
	// AccountStep is by how many bytes a stream's holdings must change before they are counted
	// again. A stream that holds less takes no more memory than an idle one's buffers do, and most
	// requests then write to nothing that streams share.
	AccountStep = 16 << 10
	// BudgetLook is how often the budget is checked while it is spent or a stream waits for it.
	BudgetLook = 10 * time.Millisecond
	// BudgetPatience is how long a stream may wait for room. After that, streams whose clients have
	// taken nothing for as long are dropped to make room.
	BudgetPatience = 500 * time.Millisecond
	// keptShare is the part of the budget, as one in so many, that all owners may keep for their clients. The rest is for bytes that
	// come and go, which would wait for ever if the others filled the budget.
	keptShare = 2
	// budgetReport is the least time between two log lines about dropped streams.
	budgetReport = 10 * time.Second
)

// Budget bounds the bytes that all streams of a server hold together: bytes that their clients have
// not taken, frames that wait or are being read, and what the owners keep for their clients. Bytes that can wait do so while the budget has
// no room for them: see room. Bytes that cannot wait may exceed the budget; then the streams that
// hold most are dropped. A Budget is safe for concurrent use, and no method blocks.
type Budget struct {
	most int64
	all  func() []*Stream
	log  *slog.Logger
	used atomic.Int64
	kept atomic.Int64 // the part of used that the owners keep: see Stream.Keep

	mu       sync.Mutex
	waiting  []place // see places
	keeping  bool    // manage runs
	keepers  sync.WaitGroup
	closed   int       // streams dropped since the last report
	reported time.Time // when the last report was logged
}

// NewBudget returns a budget of most bytes, for the streams that all returns.
func NewBudget(most int64, all func() []*Stream, log *slog.Logger) *Budget {
	return &Budget{most: most, all: all, log: log}
}

// Used returns how many bytes the streams hold.
func (b *Budget) Used() int64 { return b.used.Load() }

// Unreported returns how many streams have been dropped since the last log line about them.
func (b *Budget) Unreported() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Rest waits until the budget's goroutine has ended. All streams must have ended before the call.
func (b *Budget) Rest() { b.keepers.Wait() }

// place is where a stream waits for room.
type place struct {
	s     *Stream
	n     int64 // bytes that it waits for
	since time.Time
}

// keep counts n bytes among those of Add as kept.
func (b *Budget) keep(n int64) { b.kept.Add(n) }

// exceeded reports whether streams must be dropped.
func (b *Budget) exceeded() bool { return b.used.Load() > b.most || b.kept.Load() > b.most/keptShare }

// Add counts n more bytes, or fewer if n is negative. Streams count what they hold themselves.
func (b *Budget) Add(n int64) {
	if b.used.Add(n); n > 0 && b.exceeded() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.startKeeper()
	}
}

// room reports whether a stream that holds so many bytes may have n more. It may if the free part
// of the budget has room for both. Streams that hold much therefore stop long before those that
// hold little, and streams that want as much as they can get share evenly. An eighth of the budget
// is kept free for bytes that cannot wait.
func (b *Budget) room(held, n int64) bool { return b.lacks(held, n) <= 0 }

// lacks returns how many more bytes must be free before room reports true. A request for more than
// a quarter of the budget counts as a quarter, so it is always served when no other stream holds
// bytes.
func (b *Budget) lacks(held, n int64) int64 {
	return b.used.Load() + held + min(n, b.most/4) - b.most/8*7
}

// wait makes manage call s.grant once there is room for n bytes. It returns at once.
func (b *Budget) wait(s *Stream, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.waiting, func(p place) bool { return p.s == s }) {
		b.waiting = append(b.waiting, place{s, n, time.Now()})
	}
	b.startKeeper()
}

// startKeeper starts manage unless it runs. The caller holds mu.
func (b *Budget) startKeeper() {
	if !b.keeping {
		b.keeping = true
		b.keepers.Go(b.manage)
	}
}

// manage drops streams and grants room while it is spent or a stream waits.
func (b *Budget) manage() {
	ticker := time.NewTicker(BudgetLook)
	defer ticker.Stop()
	for b.relieve(time.Now()); !b.done(); b.relieve(time.Now()) {
		<-ticker.C
	}
}

// done reports whether manage may end, and if so notes that it has.
func (b *Budget) done() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeping = len(b.waiting) > 0 || b.exceeded()
	return !b.keeping
}

// relieve drops streams if the budget is exceeded, and grants room to waiting streams as far as
// there is any. If the first of the remaining ones has waited for too long, relieve drops the
// streams that hold most and take nothing, to make room for it.
func (b *Budget) relieve(now time.Time) {
	if over := b.kept.Load() - b.most/keptShare; over > 0 {
		b.cutKeepers(over)
	}
	if over := b.used.Load() - b.most; over > 0 {
		b.cut(over, 0, now, false)
	}
	granted, helped := int64(0), false // bytes that were granted, but are not counted yet
	for _, p := range b.places() {
		held := p.s.Account.passing()
		if lacks := granted + b.lacks(held, p.n); lacks > 0 && !helped && now.Sub(p.since) > BudgetPatience {
			b.cut(lacks, held, now, true)
			helped = true
		}
		if granted+b.lacks(held, p.n) <= 0 || !p.s.Life.alive() {
			granted += p.n
			b.leave(p.s)
			p.s.grant()
		}
	}
	b.report(now)
}

// places returns the waiting streams in order: a stream that holds less comes first, and of two
// that hold the same, the one that has waited longer.
func (b *Budget) places() []place {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.waiting, func(x, y place) int { return cmp.Compare(x.s.Account.held.Load(), y.s.Account.held.Load()) })
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
// A stream that takes a little now and then is therefore not able to get streams with little
// dropped.
func (b *Budget) cut(need, above int64, now time.Time, stalled bool) {
	type holder struct {
		s     *Stream
		held  int64
		first bool
	}
	var holders []holder
	share := b.evenShare()
	for _, s := range b.all() {
		held, idle := s.Account.held.Load(), now.Sub(s.Life.begun)-time.Duration(s.Account.took.Load()) > BudgetPatience
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

// cutKeepers drops the streams for whose clients most is kept, until need of those bytes are free.
func (b *Budget) cutKeepers(need int64) {
	holders := b.all()
	slices.SortFunc(holders, func(x, y *Stream) int { return cmp.Compare(y.Account.kept.Load(), x.Account.kept.Load()) })
	for i := 0; i < len(holders) && need > 0; i++ {
		need -= holders[i].Account.kept.Load()
		holders[i].Drop(OverBudget)
		b.count()
	}
}

// evenShare returns how much each counted stream would hold if all held the same.
func (b *Budget) evenShare() int64 {
	n := int64(0)
	for _, s := range b.all() {
		if s.Account.held.Load() > 0 {
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
	b.log.Warn("connections closed: clients left too much unread, sent too much at once or set too many watches", "closed", b.closed, "limit", b.most)
	b.closed, b.reported = 0, now
}
