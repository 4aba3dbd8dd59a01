// Package leader leads. There is one Leader for each term that this member leads. It is made when
// the term's TermStart has been applied, and thrown away at the end of the term. A Leader
//
//   - gathers the writes that members forward (receiver, intake) into entries of the log (batch.go),
//   - pings every member each half tick, enters the touches in their replies into the table,
//     and acknowledges them (pinger, link), while members come and go (membership),
//   - compares the members' states, and sends verdicts to those that differ (comparison),
//   - takes over for how long sessions and lost members were silent before its term, and passes that on (lostMembers),
//   - proves that it still leads before it acknowledges touches or replies to a sync (proofs),
//   - hands over if it cannot lead and another member may be able to (health),
//   - closes the sessions whose clients no member has heard from (expiry, expiryReporter), at a pace that
//     leaves room for others, and removes the nodes that ended sessions have left (removals),
//   - sets the fields of operators' changes that only it knows (stamp.go),
//   - removes containers and nodes with a time to live that are due (reaper), by a clock that
//     has not jumped and that most members share (Clock, clocks).
//
// The decisions made here take effect only through the log, and the log ignores entries of a term
// that is over. So a Leader that does not know yet that it was deposed does no harm.
//
// # Shared data and locks
//
// The table is the caller's. It is built when TermStart is applied and updated as entries are
// applied. The clients of this member and this package touch sessions in it. No lock of this
// package is held while something waits. expiry.mu is taken before the table's locks; every other
// lock is held alone.
package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"rollcall/internal/lockwatch"
	"rollcall/internal/monotonic"
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/quorum/readlease"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// Log takes entries, in order.
type Log interface {
	// Propose hands over an entry. At most maxUnderWay are under way at a time. It may block while the log is busy, but
	// not until the entry is committed. One goroutine calls it. from are the members whose clients wait for the
	// entry. They should be notified of its commit first, or all members if from is nil.
	Propose(data []byte, from []uint32) Future

	// SettledIndex returns the last index that is on this member's disk or, if it is higher, on those of a majority. No
	// member has applied or acknowledged anything above it. It may be ahead of what this member has counted as committed, and so may be what a follower has acknowledged.
	SettledIndex() uint64

	// GrantRead gives a member with a disk a lease for reads in a term: for lease from before it asked, and once it has applied the log up to
	// index. lease is 0 if it gets none. This leader has proved since the member asked that it leads in the term. disk is 0 for this member.
	GrantRead(term uint64, member uint32, disk uint64, request LeaseRequest) (lease time.Duration, index uint64)
	// ReturnRead ends the lease of a member that has given it back, unless it was granted for a later request than last.
	ReturnRead(term uint64, member uint32, disk uint64, last LeaseRequest)
}

// LeaseRequest is a member's request for a lease for reads: a process's requests have numbers, from 1 on.
type LeaseRequest = readlease.Request

// Future is an entry that is under way.
type Future interface {
	Done() <-chan struct{} // closed when the entry has been applied here, or cannot be any more
	Error() error          // nil if it has been applied; valid once Done is closed
}

// Link reaches one member. proto.FollowerClient implements it.
type Link interface {
	// Pings opens a stream that lives until ctx ends.
	Pings(ctx context.Context, opts ...grpc.CallOption) (proto.Follower_PingsClient, error)
}

// Raft is what a Leader reads of its member's raft. Its methods may be called by any goroutine, and must not block, because a lock
// is held.
type Raft interface {
	DiskID() uint64 // the id of this member's disk, which names its vote
	Term() uint64   // the current term
	// Members returns the servers of raft's latest configuration, committed or not, this member included. A majority of the
	// voters among them proves that we lead. The caller does not change the result.
	Members() []Member
}

// Config configures a Leader. A field without a default is required.
type Config struct {
	Self        uint32 // this member's id
	Raft        Raft
	Term, Nonce uint64        // of our TermStart, which has been applied
	EntryFormat func() uint32 // the highest format of entries that all members know; takes no lock that apply holds
	Tick        time.Duration // ZooKeeper's tickTime; a ping goes out every Tick/2
	SyncLimit   int           // ticks after which the streams of a silent member are closed
	// PartingTime is the time for which a member that has left raft's configuration is still pinged. It must be
	// longer than such a member serves its clients, by the time of two pings.
	PartingTime time.Duration
	WallClock   *Clock // the member's wall clock, for the stamps on entries and for the reaper
	// Monotonic measures everything else, above all the sessions' timeouts. The session table must have been made
	// at a time of it. Default: monotonic.System.
	Monotonic monotonic.Clock
	Log       Log
	Sessions  *sessiontracker.GlobalTable
	// LinkTo returns a link to a member of raft's configuration. The address may have changed since the last call. Links
	// with different routes, from 0 to Routes-1, have connections of their own.
	LinkTo func(id uint32, route int) (Link, error)
	Routes int // to each other member; all carry the same pings; default 1
	// ReachableServers returns the ids of the servers that were reached at their addresses in the list after a
	// change of it. The voters among them count as able to vote. It does not wait, and takes no lock that apply
	// holds.
	ReachableServers func(change *proto.Txn) []uint32
	AppliedIndex     func() uint64 // the log index that Sessions stands for; takes no lock that apply holds
	// Boots has the random numbers of the members' processes that the state had at the term's start. Default: none are known.
	Boots    map[uint32]uint64
	Ensemble Ensemble // default: none, and this leader never hands over on its own
	// CloseConnection closes the connection of the member's Link. The next use opens another. It may keep a connection that
	// is the only one of a member. It must not block. Default: nothing.
	CloseConnection func(id uint32, route int)
	Counters        *Counters        // default: new ones for this term
	Stages          *stages.Recorder // records the times of entries; default: nothing is recorded
	Logger          *slog.Logger     // default: discard
	Nodes           Nodes
	Reaping         Reaping
}

// Leader is one term of leading. It serves the calls of other members in that term.
type Leader struct {
	cfg       Config
	counters  *Counters
	termBegun time.Time

	tenure         *tenure
	membership     *membership
	receiver       *receiver
	intake         *intake
	pinger         *pinger
	proofs         *proofs
	lost           *lostMembers
	clocks         *clocks
	health         *health
	expiry         *expiry
	expiryReporter *expiryReporter
	removals       *removals
	reaper         *reaper

	syncsAwaitingProof atomic.Int64 // Sync calls that wait for their proof
}

// New returns a Leader that is ready to Run. Its handlers may be called at once.
func New(cfg Config) (*Leader, error) {
	switch {
	case cfg.Tick <= 0:
		return nil, fmt.Errorf("leader: tick %v is not positive", cfg.Tick)
	case cfg.SyncLimit <= 0:
		return nil, fmt.Errorf("leader: sync limit of %d ticks is not positive", cfg.SyncLimit)
	case cfg.PartingTime <= 0:
		return nil, fmt.Errorf("leader: the time %v for members that leave is not positive", cfg.PartingTime)
	case cfg.Raft == nil || cfg.EntryFormat == nil || cfg.WallClock == nil || cfg.Log == nil || cfg.Sessions == nil ||
		cfg.AppliedIndex == nil ||
		cfg.Nodes == nil || cfg.LinkTo == nil || cfg.ReachableServers == nil:
		return nil, errors.New("leader: every field of Config without a default is required")
	case cfg.Reaping.Interval < 0 || cfg.Reaping.PerMinute < 0 || cfg.Reaping.NeverUsed < 0:
		return nil, errors.New("leader: a limit of the reaper is negative")
	}
	cfg.Routes = max(cfg.Routes, 1)
	cfg.Reaping.Interval = cmp.Or(cfg.Reaping.Interval, DefaultReapInterval)
	cfg.Reaping.PerMinute = cmp.Or(cfg.Reaping.PerMinute, DefaultReapPerMinute)
	if cfg.Monotonic == nil {
		cfg.Monotonic = monotonic.System{}
	}
	log := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("component", "leader", "term", cfg.Term)
	l := &Leader{cfg: cfg, counters: cmp.Or(cfg.Counters, new(Counters)), termBegun: cfg.Monotonic.Now()}
	l.counters.TxnSizes.Reset() // this term's
	l.tenure = &tenure{term: cfg.Term, nonce: cfg.Nonce, over: make(chan struct{})}
	l.membership = &membership{cfg: &l.cfg}
	l.membership.renewLinks(l.termBegun)
	l.intake = newIntake(&l.counters.TxnSizes, cfg.Stages)
	l.receiver = &receiver{tenure: l.tenure, membership: l.membership, intake: l.intake}
	l.proofs = newProofs()
	l.lost = newLostMembers(&l.cfg, &l.counters.lostOrder, l.termBegun)
	l.clocks = newClocks(&l.cfg, log, l.membership)
	l.pinger = &pinger{
		cfg: &l.cfg, log: log, termBegun: l.termBegun, membership: l.membership, proofs: l.proofs, lost: l.lost,
		compared: newComparison(&l.cfg),
		clocks:   l.clocks, intake: l.intake, membersChanged: make(chan struct{}, 1), replyArrived: make(chan struct{}, 1),
	}
	l.health = &health{
		cfg: &l.cfg, log: log, membership: l.membership, proofs: l.proofs, provedAt: l.termBegun,
		decisions: make(chan transferDecision),
	}
	l.expiry = &expiry{sessions: cfg.Sessions}
	l.expiryReporter = &expiryReporter{log: log, clock: cfg.Monotonic, sessions: cfg.Sessions, counters: l.counters}
	l.removals = &removals{cfg: &l.cfg, expiry: l.expiry}
	l.reaper = &reaper{cfg: &l.cfg, log: log, clocks: l.clocks, intake: l.intake}
	return l, nil
}

// Run leads until ctx ends, when it returns nil, or until leading becomes impossible. It starts
// every goroutine of the term, and all have ended when it returns. Streams that members opened end
// at once, even if Run still waits for a call to Propose.
func (l *Leader) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() {
		close(l.tenure.over) // first: goroutines that wait at the intake read it when they wake
		l.intake.close()
	})
	g.Go(func() error { return l.batchLoop(ctx) }) // the only caller of Log.Propose
	g.Go(func() error { return l.expireLoop(ctx) })
	g.Go(func() error { return l.reaper.reapLoop(ctx) })
	g.Go(func() error { return l.health.handOverLoop(ctx) })
	g.Go(func() error { return l.pinger.memberLoop(ctx) })
	err := g.Wait()
	<-l.tenure.over
	l.expiryReporter.reportApplied()
	return err
}

// RecordExpired records that an expiry has been applied, to log it together with the others of its entry. Apply calls
// it; it does not block.
func (l *Leader) RecordExpired(id jute.SessionID) { l.expiryReporter.recordApplied(id) }

// RereadMembers makes the leader read raft's configuration again. It does not block.
func (l *Leader) RereadMembers() { signal(l.pinger.membersChanged) }

// signal wakes the receiver of a channel with one place. Signals that it has not taken yet count as one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Locks returns the locks of the leader and of its links.
func (l *Leader) Locks() []lockwatch.Lock {
	all := []lockwatch.Lock{
		{Name: "leader.intake.mu", Locker: &l.intake.mu},
		{Name: "leader.expiry.mu", Locker: &l.expiry.mu},
		{Name: "leader.proofs.mu", Locker: &l.proofs.mu},
		{Name: "leader.lostMembers.mu", Locker: &l.lost.mu},
		{Name: "leader.comparison.mu", Locker: &l.pinger.compared.mu},
		{Name: "leader.clocks.mu", Locker: &l.clocks.mu},
		{Name: "leader.expiryReporter.mu", Locker: &l.expiryReporter.mu},
	}
	for _, m := range l.membership.presentLinks() {
		all = append(all, lockwatch.Lock{Name: "leader.link.mu", Locker: &m.mu})
	}
	return append(all, l.cfg.Sessions.Locks()...)
}
