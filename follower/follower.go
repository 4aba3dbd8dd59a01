// Package follower does what every member does for its clients, whichever member leads. It keeps touches
// until the leader has acknowledged them, the leases of its clients' sessions, and writes until they are
// applied here. It decides nothing about expiry.
//
//   - leadership: the newest TermStart that has been applied, and the stream of its leader's pings.
//   - incarnation: this process in the replicated state, and the ids of its sessions.
//   - outbox: writes, first in a lane for each connection, then numbered. The forwarder sends them
//     to the leader. When the leader or the stream to it changes, it sends again all that is not
//     applied yet.
//   - renewer: reports touches to the leader and renews the leases of the sessions attached here.
//   - pingStream: replies to the leader's pings with the touches that are not acknowledged, and once to a new leader with
//     the times for which this member has not heard its sessions (leaderGaps: without those that do not count; lostReports).
//   - syncs: the syncs that wait until all that was committed is applied here.
//   - unapplied: the paths that entries write which are stored here and not applied yet. Reads wait for them.
//   - divergence: checks a leader's verdict that this member's state is wrong.
//
// # Vouching
//
// A member may reply to a client only while the lease of the client's session is valid. It then
// vouches for the session. A lease is valid until 0.9 of the session's timeout has passed
// since the touch that the leader last acknowledged.
//
// # Time
//
// All time is monotonic and measured here, except for the base of session ids. Leases, and the ages of
// touches, are counted by Config.Monotonic.
//
// # Locks
//
// The tree's lock is taken before any lock of this package. Two locks of this package are never
// held together. State's getters are called under one of them only by code that already holds the
// tree's lock. No code waits while it holds one of these locks.
package follower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/internal/lockwatch"
	"rollcall/internal/monotonic"
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
	"rollcall/znode"
)

var (
	// ErrReplaced is returned by Run when another process of this member has announced itself.
	ErrReplaced = errors.New("follower: another process of this member has taken over")
	// ErrAddedAgain is returned by Run when this member has been removed from the list of servers and added
	// again. Its earlier writes may still be under way, so it needs another boot.
	ErrAddedAgain = errors.New("follower: this member was removed from the ensemble and added again, and must start again")
	// ErrRefused means that the leader no longer counts a session as held by this member.
	ErrRefused = errors.New("follower: session refused by the leader")
	// ErrNotVouched means that a session's lease was not renewed in time.
	ErrNotVouched = errors.New("follower: lease of the session not renewed in time")

	// ErrStalled means that a member replies over a new connection, and not over the one that was used.
	ErrStalled = errors.New("follower: the connection has stalled, and another one works")

	// ErrNoLink means that this member cannot forward its clients' writes to the leader.
	ErrNoLink = errors.New("follower: no link to the leader")

	errNotHeld = errors.New("follower: no connection holds the session")
)

// Defaults of Config.
const (
	// DefaultMaxInFlight is the default of ZooKeeper's globalOutstandingLimit. The table of keys in package
	// config takes it from here.
	DefaultMaxInFlight   = 1000
	defaultInFlightBytes = 16 << 20 // sixteen entries
	defaultQueued        = 16384
	defaultQueuedBytes   = 32 << 20
)

// State is the part of *znode.State that a Follower reads, under its read lock or from within
// apply.
type State interface {
	RLock()
	RUnlock()
	Index() uint64
	Term() znode.Term
	MemberIncarnation(member uint32) (boot, cursor uint64)
	HighestSession(member uint32) jute.SessionID
	StateHashes() []znode.StateHash // called without the lock
}

// Clients closes this member's client connections.
type Clients interface {
	// DropConnection closes the local connection of a session if it is still conn: the client may meanwhile have come
	// back on another one. It never blocks.
	DropConnection(id jute.SessionID, conn uint64, why error)
}

// Raft is what a Follower reads of its member's raft. Its methods may be called by any goroutine, and must not block.
type Raft interface {
	DiskID() uint64   // the id of this member's disk, which names its vote
	Term() uint64     // the current term
	Leader() uint32   // the leader that raft knows, or 0
	IsJoining() bool  // reports whether this member does not take part in proofs yet
	Voters() []uint32 // may include this member
	// LastLead returns the last time of Config.Monotonic at which raft knows that the leader of a term led, or the zero time.
	LastLead(term uint64) time.Time
}

// Peers reaches other members. Its methods may be called by any goroutine.
type Peers interface {
	// Leader returns the Leader service of a member, which may be this one.
	Leader(ctx context.Context, id uint32) (proto.LeaderClient, error)
	// Probe waits for a reply of a member, for at most a tick, over the connection on which its Leader service is called. It
	// returns ErrStalled if the member replies over another connection and not over that one. Then Leader uses the
	// other one from now on. A connection without a reply for a tick is closed, with every call on it.
	Probe(ctx context.Context, id uint32) error
	// StateHashes returns a member's own StateHashes, or the error of ctx.
	StateHashes(ctx context.Context, id uint32) (*proto.StateHashes, error)
}

// Config configures a Follower. A field without a default is required.
type Config struct {
	Self uint32        // this member's id, 1 to 255
	Boot uint64        // random, drawn by this process; not 0
	Tick time.Duration // ZooKeeper's tickTime
	// SyncLimit is the number of ticks without a link to the leader after which this member closes
	// its clients' connections.
	SyncLimit int
	State     State
	Clients   Clients

	Raft      Raft
	Peers     Peers
	WallClock func() time.Time // base of session ids, also reported to the leader
	Monotonic monotonic.Clock  // default: monotonic.System
	Stages    *stages.Recorder // records when writes are sent; default: nothing is recorded
	// ReadsByLease makes this member ask the leader for leases for reads, with its syncs.
	ReadsByLease bool

	// The next two are for a leader's verdict that this member's state is wrong. They must not block.

	// OnDamage is called, perhaps repeatedly, when a majority has another state.
	OnDamage func(why string)
	// OnDivergence is called at least once in two ticks for as long as the leader has another state, and it is
	// unknown which one is right.
	OnDivergence func(why string)

	MaxInFlight      int // writes sent and not applied here; default 1,000
	MaxInFlightBytes int // of the same writes; default 16 MiB; a single write may be larger
	MaxQueued        int // writes not sent, at which Submit begins to wait; default 16,384
	MaxQueuedBytes   int // of the same writes; default 32 MiB

	Logger *slog.Logger // default: discard
}

// Follower implements the member for package server, znode.Hooks, and the Pings of proto.FollowerServer. Make one
// with New. It is safe for concurrent use.
type Follower struct {
	cfg          Config
	sessionTable atomic.Pointer[sessiontracker.GlobalTable] // nil while this member does not lead

	leases      *leases
	leadership  *leadership
	incarnation *incarnation
	outbox      *outbox
	forwarder   *forwarder
	renewer     *renewer
	syncs       *syncs
	unapplied   *unapplied
	divergence  *divergence

	leaving   chan struct{} // closed once this member stops
	leaveOnce sync.Once     // closes leaving
}

var (
	_ znode.Hooks = (*Follower)(nil)
	_ State       = (*znode.State)(nil)
)

// New returns a Follower whose boot is not announced yet.
func New(cfg Config) (*Follower, error) {
	switch {
	case cfg.Self < 1 || cfg.Self > 255:
		return nil, fmt.Errorf("follower: member id %d is not between 1 and 255", cfg.Self)
	case cfg.Boot == 0:
		return nil, errors.New("follower: Boot is 0")
	case cfg.Tick <= 0:
		return nil, fmt.Errorf("follower: tick %v is not positive", cfg.Tick)
	case cfg.SyncLimit <= 0:
		return nil, fmt.Errorf("follower: SyncLimit is %d ticks, but must be positive", cfg.SyncLimit)
	case cfg.MaxInFlight < 0 || cfg.MaxInFlightBytes < 0 || cfg.MaxQueued < 0 || cfg.MaxQueuedBytes < 0:
		return nil, errors.New("follower: a limit is negative")
	case cfg.State == nil || cfg.Clients == nil || cfg.Raft == nil || cfg.Peers == nil || cfg.WallClock == nil ||
		cfg.OnDamage == nil || cfg.OnDivergence == nil:
		return nil, errors.New("follower: every field of Config without a default is required")
	}
	cfg.MaxInFlight = cmp.Or(cfg.MaxInFlight, DefaultMaxInFlight)
	cfg.MaxInFlightBytes = cmp.Or(cfg.MaxInFlightBytes, defaultInFlightBytes)
	cfg.MaxQueued = cmp.Or(cfg.MaxQueued, defaultQueued)
	cfg.MaxQueuedBytes = cmp.Or(cfg.MaxQueuedBytes, defaultQueuedBytes)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Monotonic == nil {
		cfg.Monotonic = monotonic.System{}
	}
	f := &Follower{cfg: cfg, leases: newLeases(cfg.Monotonic), outbox: newOutbox(cfg), leaving: make(chan struct{})}
	log := cfg.Logger.With("component", "follower")
	f.leadership = newLeadership(&f.cfg)
	f.incarnation = newIncarnation(&f.cfg, log)
	f.forwarder = newForwarder(&f.cfg, log, f.outbox, f.incarnation, f.leadership)
	f.renewer = newRenewer(&f.cfg, log, f.leases, f.leadership)
	f.unapplied = newUnapplied(cfg.Monotonic, cfg.Tick)
	f.syncs = newSyncs(&f.cfg, f.leadership, f.unapplied)
	f.divergence = newDivergence(&f.cfg, log)
	return f, nil
}

// Run keeps the link to the current leader until ctx ends. It returns ErrReplaced if another
// process of this member takes over. Its goroutines have ended when it returns.
func (f *Follower) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		f.forwarder.run, f.renewer.ackLoop, f.renewer.closeConnsLoop, f.syncs.requestLoop, f.syncs.completeLoop,
		f.divergence.checkLoop, f.incarnation.waitForEnd,
	} {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}

// EndPings ends the streams of pings without an error, which shows the leader that this member stops and is not
// out of reach. EndPings may be called more than once, and never blocks.
func (f *Follower) EndPings() { f.leaveOnce.Do(func() { close(f.leaving) }) }

// SilentMembers returns the members from which the leader has heard nothing for least or longer, by id, as its last ping says. It returns
// none while no ping comes. The leader knows it from its own pings. It takes no lock that apply holds for long.
func (f *Follower) SilentMembers(least time.Duration) []SilentMember {
	return f.leadership.silentMembers(least, maxReportTicks*f.cfg.Tick)
}

// SetSessionTable sets the session table of the term that this member leads. It is nil when the member does
// not lead.
func (f *Follower) SetSessionTable(table *sessiontracker.GlobalTable) { f.sessionTable.Store(table) }

// AwaitNewSessionID returns an id for a new session, different from all that this member ever returned. It
// waits until this process is announced, and fails only if ctx ends first.
func (f *Follower) AwaitNewSessionID(ctx context.Context) (jute.SessionID, error) {
	return f.incarnation.awaitNewSessionID(ctx)
}

// TryNewSessionID is like AwaitNewSessionID, but never blocks. It returns false until this process is announced.
func (f *Follower) TryNewSessionID() (id jute.SessionID, ok bool) {
	return f.incarnation.tryNewSessionID()
}

// Touch renews a session held by a local connection that was granted timeout. It never blocks. It
// is called for every request of every client.
func (f *Follower) Touch(id jute.SessionID, timeout time.Duration) {
	now := f.cfg.Monotonic.Now()
	f.renewer.touches.Touch(id, timeout, now)
	if table := f.sessionTable.Load(); table != nil { // this member leads: its own touches count without a ping
		table.Touch(id, now, timeout)
	}
}

// IsVouched reports, without waiting, whether the lease of id is valid.
func (f *Follower) IsVouched(id jute.SessionID) bool {
	return f.leases.isValid(id, f.cfg.Monotonic.Now())
}

// Vouch sends all unacknowledged touches to the leader at once and waits until the lease of id is
// valid. It renews nothing itself: a reply to a client is no sign of that client. There is one exception.
// If a handshake waited so long for a leader that the lease it granted has expired, applying it counts as
// a touch, here and at the leader.
//
// Vouch fails with ErrRefused, with ErrNotVouched after half a tick, or when ctx ends or no
// connection holds id. The caller must then close the connection.
func (f *Follower) Vouch(ctx context.Context, id jute.SessionID) error {
	return f.renewer.vouch(ctx, id)
}

// Submit hands over a transaction, which belongs to the Follower from then on: it fills in Member,
// Boot and Seq. The transactions of one connection, which must call Submit one at a time, reach the
// log in the order of the calls, once each.
//
// w gets the result under the tree's lock. There are two cases in which it gets none. A snapshot replaces the
// state before, and then all connections are cut. Or txn creates or attaches a session, and its connection is
// detached before.
//
// Submit waits while this member's limit is reached, unless the connection has nothing unapplied and txn is
// small. It fails only if ctx ends or an identity is not valid UTF-8.
func (f *Follower) Submit(ctx context.Context, txn *proto.Txn, w znode.Waiter) error {
	if jute.Op(txn.Op) == jute.OpCloseSession {
		f.leases.markClosing(jute.SessionID(txn.Session), txn.Conn)
	}
	return f.outbox.submit(ctx, txn, w)
}

// TrySubmit is like Submit, but never blocks. It returns false, and has not taken txn, if Submit might
// block or fail.
func (f *Follower) TrySubmit(txn *proto.Txn, w znode.Waiter) bool {
	if jute.Op(txn.Op) == jute.OpCloseSession {
		f.leases.markClosing(jute.SessionID(txn.Session), txn.Conn)
	}
	return f.outbox.trySubmit(txn, w)
}

// WithdrawUnsent drops the transactions of a connection that have not been sent to a leader yet, and does not
// call their waiters. It reports whether it dropped all that were not applied. It never blocks.
func (f *Follower) WithdrawUnsent(conn uint64) bool { return f.outbox.withdrawUnsent(conn) }

// Sync passes code OK to w once everything committed before the call has been applied here. It does so under the
// tree's read lock, and in no order with the connection's own writes. Sync never blocks; while there is no leader,
// w waits. Detach forgets the connection's syncs, except those that are just being completed.
func (f *Follower) Sync(conn uint64, session jute.SessionID, w znode.Waiter) {
	f.syncs.addSync(conn, session, w)
}

// IndexToRead returns the entry that this member must have applied before a read of path, so that it is not stale: the last one that it holds
// and that the read may depend on. It returns 0 if the member has applied that. Each entry counts for a read without a path (nil). ok is false
// if the member has no lease for reads, and must ask the leader. It never blocks.
func (f *Follower) IndexToRead(path []byte) (index uint64, ok bool) { return f.syncs.heldToRead(path) }

// SyncRead calls w once this member has applied the log up to index, which IndexToRead has returned. Detach forgets w, as those of Sync.
func (f *Follower) SyncRead(conn uint64, index uint64, w znode.Waiter) {
	f.syncs.addHeld(conn, index, w)
}

// ReturnReadLease drops this member's lease for reads, takes no other, and tells the leader, so that writes do not wait for a member that
// stops. It blocks until the leader has replied, or ctx ends.
func ReturnReadLease(ctx context.Context, f *Follower) { f.syncs.returnLease(ctx) }

// AwaitSync waits until everything that was committed before the call has been applied here. It fails
// only if ctx ends first.
func (f *Follower) AwaitSync(ctx context.Context) error { return f.syncs.awaitSync(ctx) }

// EntryStored notes which paths an entry writes. raft's main goroutine calls it before this member stores the entry in its log.
// The entry need not be committed, and another one may replace it.
func (f *Follower) EntryStored(index uint64, data []byte) { f.unapplied.entryStored(index, data) }

// IndexToAwait returns the index of an entry that is stored here, not applied, and may write path. A read of path
// should wait for it with AwaitIndex. It returns 0 if there is none, or if the wait would be too long. It never blocks.
func (f *Follower) IndexToAwait(path []byte) (index uint64) { return f.unapplied.indexToAwait(path) }

// AwaitIndex waits until the log is applied here up to index, for a two-hundredth of a tick at most, and while ctx lasts.
func (f *Follower) AwaitIndex(ctx context.Context, index uint64) { f.unapplied.await(ctx, index) }

// StateHashes returns the digests by which this member is compared with the others. It takes no lock.
func (f *Follower) StateHashes() *proto.StateHashes { return stateHashes(f.cfg.State) }

// Detach reports that a connection has ended. Its creates and attaches that have not been applied
// become empty transactions, its syncs are forgotten, and its lease of session id ends. Its writes
// still reach the log.
func (f *Follower) Detach(id jute.SessionID, conn uint64) {
	f.outbox.markConnClosed(conn)
	f.syncs.dropConn(conn)
	f.leases.endIfHeldBy(id, conn)
}

// signal wakes the receiver of a channel with one place. Signals that it has not taken yet count as one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Locks returns the locks of the follower, without those of streams.
func (f *Follower) Locks() []lockwatch.Lock {
	return append([]lockwatch.Lock{
		{Name: "follower.leases.mu", Locker: &f.leases.mu},
		{Name: "follower.leadership.mu", Locker: &f.leadership.mu},
		{Name: "follower.incarnation.mu", Locker: &f.incarnation.mu},
		{Name: "follower.outbox.mu", Locker: &f.outbox.mu},
		{Name: "follower.ackQueue.mu", Locker: &f.renewer.acks.mu},
		{Name: "follower.syncs.mu", Locker: &f.syncs.mu},
		{Name: "follower.unapplied.mu", Locker: &f.unapplied.mu},
	}, f.renewer.touches.Locks()...)
}
