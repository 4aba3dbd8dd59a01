// Package quorum runs raft for one member of the ensemble: entries go into the log, come
// out committed and in order on every member, and one member at a time leads. What is in
// the entries is the caller's business.
//
//   - Node: one member's raft, its folder and its stores. Open checks and locks, Run runs.
//   - Machine: the state machine, which the caller provides.
//   - Hello, Listener, Stream: the preface in front of every connection between members,
//     on both of their ports, and raft's connections behind it.
//   - Recover: the way out when a majority is lost for good.
//
// # What is done to raft
//
// hashicorp/raft 1.7.3 is used as it is, through wrappers that keep it from known trouble:
// see transport (elections, commits, pipelines, snapshots), guard (stores) and Node.decide
// (which member may start an ensemble, and which must catch up first).
//
// # Failing
//
// A member is crash-only. Whatever a store or the state machine cannot do ends Run with
// the reason, and the process is to exit: nothing carries on beside its own disk.
package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
)

const (
	// minElection is the shortest election timeout: below it, a garbage collection or a
	// slow disk passes for a dead leader.
	minElection = 150 * time.Millisecond
	// aloneElection is the election timeout of a member that is the only one: there is nobody
	// whom it might hear, or pass for dead to.
	aloneElection = 20 * time.Millisecond
	// commitTimeout is how long raft waits, up to twice, before it tells followers of a commit
	// that no further entry follows; a commit notice does so at once, if there is a pipeline.
	commitTimeout = 50 * time.Millisecond
	// snapshotInterval is how often, within a factor of two, raft looks whether to take one.
	snapshotInterval = 10 * time.Second
	// maxLeadership changes of leadership may wait to be read from Leadership. Each takes
	// an election, so a reader that is so far behind has stopped; raft waits for it then.
	maxLeadership = 1024
	// stopTimeout bounds the end of raft: a goroutine that hangs in a disk never ends.
	stopTimeout = 10 * time.Second
)

// Config is what a Node is opened with. Fields without a default are required.
type Config struct {
	Self  uint32 // this member's id
	Peers []Peer // all voting members, this one included

	Dir    string // data folder
	LogDir string // folder of the log; default: Dir
	Stores Stores // in place of the folders, for tests; default: on disk
	// LogKind is what the log is kept in; default: as the folder is, or DefaultLogKind.
	LogKind LogKind

	Stream  raft.StreamLayer // raft's connections; Addr is this member's address in Peers
	Machine Machine

	// Ask asks another member's Hello. Used while starting without data.
	Ask func(ctx context.Context, peer Peer) (*proto.HelloReply, error)
	// NewEnsemble allows a majority of members without data to begin a new ensemble.
	// Otherwise all members must be there and have none.
	NewEnsemble bool

	Tick time.Duration // ZooKeeper's tickTime; election timeout is a quarter, at least 150 ms
	// StallLimit is how long a store or the state machine may take for one operation before
	// this member gives up leading; default DefaultStallLimit. See Node.Stalled.
	StallLimit time.Duration

	SnapshotEvery uint64 // log entries between snapshots; default DefaultSnapshotEvery
	SnapshotBytes int64  // bytes of log between snapshots; default DefaultSnapshotBytes
	TrailingBytes int64  // bytes of log kept behind a snapshot; default DefaultTrailingBytes

	Logger *slog.Logger // default: discard
}

// Node is one member's raft. Its methods may be called at any time after Open, by any
// goroutine, except as said.
type Node struct {
	cfg      Config
	logger   *slog.Logger
	election time.Duration

	folders []*folder
	closer  io.Closer // of the stores; nil if they are the caller's
	stores  Stores    // bare
	log     *logStore // guarded, as raft sees them
	stable  *stableStore
	snaps   *snapshotStore
	fsm     *fsm
	trans   *transport
	ops     operations
	figures figures

	raft       atomic.Pointer[raft.Raft]
	snapshot   atomic.Bool  // a snapshot has been stored, now or before
	snapshotAt atomic.Int64 // log.bytes when the last one was
	joining    atomic.Bool
	recovery   atomic.Uint64          // see Recovery
	damage     atomic.Pointer[string] // see SetDamage; nil: none
	started    atomic.Bool
	ready      chan struct{}
	leadership chan bool
	futures    sync.WaitGroup

	failing sync.Once
	failed  chan struct{}
	failure error
	stopped chan struct{} // nothing more will happen
	closing sync.Once

	mu       sync.Mutex
	proposed map[*Proposed]bool // under way
	refused  time.Time          // since when raft has refused every entry for a hand-over; zero: it has not
	ending   bool               // Run is ending: no further entries
}

// ErrNotRunning is what Propose answers before raft runs and after it stopped.
var ErrNotRunning = errors.New("quorum: raft does not run")

// Open checks the configuration, locks the folder, checks whose it is and opens the
// stores. It starts nothing. A Node that is not Run must be closed.
func Open(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.SnapshotEvery = cmp.Or(cfg.SnapshotEvery, DefaultSnapshotEvery)
	cfg.SnapshotBytes = cmp.Or(cfg.SnapshotBytes, DefaultSnapshotBytes)
	cfg.TrailingBytes = cmp.Or(cfg.TrailingBytes, DefaultTrailingBytes)
	cfg.StallLimit = cmp.Or(cfg.StallLimit, DefaultStallLimit)
	n := &Node{
		ops:        operations{limit: cfg.StallLimit},
		cfg:        cfg,
		logger:     cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("component", "quorum"),
		election:   max(cfg.Tick/4, minElection),
		ready:      make(chan struct{}),
		leadership: make(chan bool, maxLeadership),
		failed:     make(chan struct{}),
		stopped:    make(chan struct{}),
		proposed:   make(map[*Proposed]bool),
	}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (cfg *Config) check() error {
	if err := checkPeers(cfg.Self, cfg.Peers); err != nil {
		return err
	}
	onDisk := cfg.Stores == Stores{}
	switch {
	case cfg.Stream == nil || cfg.Machine == nil:
		return errors.New("quorum: Stream and Machine are required")
	case cfg.Ask == nil && len(cfg.Peers) > 1:
		return errors.New("quorum: Ask is required")
	case cfg.Tick <= 0:
		return fmt.Errorf("quorum: tick %v is not positive", cfg.Tick)
	case onDisk == (cfg.Dir == ""):
		return errors.New("quorum: either Dir or Stores is required")
	case !onDisk && (cfg.Stores.Log == nil || cfg.Stores.Stable == nil || cfg.Stores.Snapshots == nil):
		return errors.New("quorum: Stores must be complete")
	case cfg.LogKind != "" && !cfg.LogKind.Known():
		return fmt.Errorf("quorum: log store %q is neither %s nor %s", cfg.LogKind, LogBolt, LogWAL)
	case cfg.SnapshotBytes < 0 || cfg.TrailingBytes < 0 || cfg.StallLimit < 0:
		return errors.New("quorum: SnapshotBytes, TrailingBytes and StallLimit must not be negative")
	}
	for _, p := range cfg.Peers {
		if p.ID == cfg.Self && cfg.Stream.Addr().String() != p.Addr {
			return fmt.Errorf("quorum: the stream's address %q is not this member's, %q: raft tells candidates apart by it",
				cfg.Stream.Addr(), p.Addr)
		}
	}
	return nil
}

func (n *Node) open() error {
	n.stores = n.cfg.Stores
	hl := newRaftLog(n.logger)
	dir := ""
	if n.cfg.Dir != "" {
		id := identity{Member: n.cfg.Self, Servers: canonical(n.cfg.Peers), Store: n.cfg.LogKind}
		var err error
		if n.folders, n.stores, n.closer, err = openFolders(n.cfg.Dir, n.cfg.LogDir, id, hl); err != nil {
			return err
		}
		dir = n.cfg.Dir
	}
	data, err := hasData(n.stores)
	if err != nil {
		return err
	}
	if err := mend(n.stores); err != nil {
		return err
	}
	running := func() bool { return n.trans != nil && n.trans.running.Load() }
	g := guard{fail: n.fatal, running: running, ops: &n.ops}
	_, whole := n.stores.Log.(*walFiles)
	n.log = &logStore{LogStore: n.stores.Log, guard: g, figures: &n.figures, whole: whole}
	n.log.data.Store(data)
	n.stable = &stableStore{StableStore: n.stores.Stable, guard: g}
	n.snaps = &snapshotStore{SnapshotStore: n.stores.Snapshots, guard: g, stored: n.snapshotStored}
	if dir != "" {
		n.snaps.dir = snapshotPath(dir)
	}
	n.fsm = &fsm{
		machine: n.cfg.Machine, fail: n.fatal, running: running, ops: &n.ops, figures: &n.figures,
		commits: func() { n.trans.pipes.committed() }, // entries are applied only while raft runs
	}
	joining, err := n.stable.GetUint64(keyJoining)
	if err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	n.joining.Store(joining != 0)
	recovery, err := readRecovery(n.stable, n.cfg.Peers)
	n.recovery.Store(recovery)
	return errors.Join(err, n.readDamage())
}

func (n *Node) snapshotStored() {
	n.snapshot.Store(true)
	n.snapshotAt.Store(n.log.bytes.Load())
}

// Close releases the stores and the folder of a Node that is not running. Run calls it.
func (n *Node) Close() error {
	var err error
	n.closing.Do(func() {
		if n.closer != nil {
			err = n.closer.Close()
		}
		for _, f := range n.folders {
			err = errors.Join(err, f.close())
		}
	})
	return err
}

// Run starts this member, waiting for others where it must, and runs raft until ctx ends:
// then it hands leadership over, once, and stops, returning nil. Any other end is an
// error, and the process is to exit; ErrRestart means that it should be started again at
// once. Run may be called once.
func (n *Node) Run(ctx context.Context) error {
	if n.started.Swap(true) {
		return errors.New("quorum: Run was called before")
	}
	err := n.run(ctx)
	if !errors.Is(err, errNotEnded) { // else raft still uses the stores
		err = errors.Join(err, n.Close())
		close(n.leadership)
	}
	close(n.stopped)
	n.forsake()
	return err
}

func (n *Node) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.trans = n.newTransport()
	n.trans.start()
	how, err := n.begin(ctx)
	if err != nil {
		closed := n.trans.Close()
		if errors.Is(err, ctx.Err()) {
			return closed // asked to stop while waiting
		}
		return errors.Join(err, closed)
	}
	r, err := n.startRaft()
	if err != nil {
		return err
	}
	n.logger.Info("raft runs", "joining", how == startJoining, "last", r.LastIndex(), "term", r.CurrentTerm())
	close(n.ready)

	var loops sync.WaitGroup
	loops.Go(func() { n.meterLoop(ctx, r) })
	if how == startJoining {
		loops.Go(func() { n.joinLoop(ctx, r) })
	}
	if n.Recovery() != 0 {
		loops.Go(func() { n.admitLoop(ctx, r) })
	}
	select {
	case <-ctx.Done():
		n.endGracefully()
	case <-n.failed:
	}
	cancel()
	loops.Wait()
	return errors.Join(n.failureNow(), n.stopRaft(r))
}

// begin decides how to start and writes down what that takes.
func (n *Node) begin(ctx context.Context) (start, error) {
	how, err := n.decide(ctx)
	if err != nil {
		return how, err
	}
	switch how {
	case startBootstrap:
		err = n.bootstrap()
		n.logger.Info("a new ensemble begins", "members", len(n.cfg.Peers))
	case startJoining:
		err = n.setJoining(true)
		n.logger.Info("this member joins; it takes part in elections once it has caught up")
	}
	return how, err
}

func (n *Node) newTransport() *transport {
	timeout := rpcTimeout(n.election)
	c := newConns(n.cfg.Stream)
	t := &transport{
		inner: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: c, MaxPool: maxPool, MaxRPCsInFlight: maxInFlight, Timeout: timeout,
			Logger: newRaftLog(n.logger),
		}),
		conns: c,
		spool: func() (spool, error) { return &memorySpool{}, nil },
		raft:  n.raft.Load,
		fail:  n.fatal,
		stand: func() error {
			if n.joining.Load() {
				return errJoining
			}
			return n.silent()
		},
		joins: n.joining.Load, stalled: n.silent,
		votes: func() bool { return !n.joining.Load() || len(n.cfg.Peers) == 2 },
		taken: func(term uint64) { n.fsm.term.Store(max(n.fsm.term.Load(), term)) },
	}
	if n.cfg.Dir != "" {
		t.spool = func() (spool, error) { return newFileSpool(n.cfg.Dir) }
	}
	return t
}

func (n *Node) startRaft() (*raft.Raft, error) {
	conf := n.raftConfig()
	cache, err := raft.NewLogCache(cachedEntries, n.log)
	if err != nil {
		return nil, err
	}
	newest, err := n.newestSnapshot() // before raft runs, which may receive another at once
	if err != nil {
		return nil, errors.Join(err, n.trans.Close())
	}
	r, err := n.newRaft(conf, cache)
	if err != nil {
		return nil, errors.Join(err, n.trans.Close())
	}
	n.raft.Store(r)
	n.figures.watch(r)
	if err := n.checkStarted(r, newest); err != nil {
		return nil, errors.Join(err, n.stopRaft(r))
	}
	return r, nil
}

func (n *Node) raftConfig() *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = n.self().serverID()
	election := n.election
	if len(n.cfg.Peers) == 1 {
		election = aloneElection
	}
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = election, election, election
	conf.CommitTimeout = commitTimeout
	conf.MaxAppendEntries = maxAppend
	conf.SnapshotInterval = snapshotInterval
	conf.SnapshotThreshold = n.cfg.SnapshotEvery
	// For a start; meterLoop soon knows better.
	_, conf.TrailingLogs = newMeter(n.cfg.SnapshotEvery, n.cfg.SnapshotBytes, n.cfg.TrailingBytes).look(0, 0, 0, meterInterval)
	conf.ShutdownOnRemove = false
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = n.leadership
	conf.Logger = newRaftLog(n.logger)
	return conf
}

func (n *Node) self() Peer {
	for _, p := range n.cfg.Peers {
		if p.ID == n.cfg.Self {
			return p
		}
	}
	panic("quorum: checked by Open")
}

// fatal ends the member: Run returns err. Only the first counts.
func (n *Node) fatal(err error) {
	n.failing.Do(func() {
		n.logger.Error("this member stops", "err", err)
		n.failure = err
		close(n.failed)
	})
}

func (n *Node) failureNow() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

// endGracefully takes no more entries, hands leadership over and lets those under way
// end.
func (n *Node) endGracefully() {
	n.mu.Lock()
	n.ending = true
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.election)
	defer cancel()
	if err := n.HandOver(ctx); err != nil {
		n.logger.Info("leadership was not handed over", "err", err)
	}
	done := make(chan struct{})
	go func() {
		n.futures.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// stopRaft ends raft. It does not wait for ever: a goroutine that hangs in a disk or in
// the state machine ends with the process.
func (n *Node) stopRaft(r *raft.Raft) error {
	n.fsm.hurry.Store(true)
	future := r.Shutdown()
	done := make(chan error, 1)
	go func() {
		closed := n.trans.Close() // first, so that requests under way do not hold raft up
		done <- errors.Join(future.Error(), closed)
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errNotEnded
	}
}

// Ready is closed when raft runs.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Leadership tells every gain (true) and loss (false) of leadership, in order; none is
// lost. Read it always: raft waits if 1,024 changes are unread. It is closed when Run
// returns, unless raft hangs in a disk.
func (n *Node) Leadership() <-chan bool { return n.leadership }

// HasData reports whether this member has a snapshot, or any log entry beyond the
// bootstrap entry.
func (n *Node) HasData() bool { return n.log.data.Load() || n.snapshot.Load() }

// Joining reports whether this member lost its data, or is new among members that have
// some, and has not caught up yet; or has, and is no voter yet. It takes part in no election
// then, and must answer no proof round. Only if there are two members it votes for the
// other, which nobody else could elect. A member with data is joining also until raft runs
// and knows better.
func (n *Node) Joining() bool {
	if n.joining.Load() || !n.HasData() {
		return n.joining.Load()
	}
	r := n.raft.Load()
	return r == nil || !n.votes(r)
}

// Term is raft's current term; 0 before raft runs.
func (n *Node) Term() uint64 { return n.ask(0, (*raft.Raft).CurrentTerm) }

// CommitIndex is the last index that raft knows to be committed; 0 before raft runs.
func (n *Node) CommitIndex() uint64 { return n.ask(0, (*raft.Raft).CommitIndex) }

// LastIndex is the last index of log or snapshot; 0 before raft runs.
func (n *Node) LastIndex() uint64 { return n.ask(0, (*raft.Raft).LastIndex) }

// AppliedIndex is the last index that Machine.Apply has applied in this process; 0 if
// none, even after a snapshot.
func (n *Node) AppliedIndex() uint64 { return n.fsm.index.Load() }

func (n *Node) ask(none uint64, f func(*raft.Raft) uint64) uint64 {
	if r := n.raft.Load(); r != nil {
		return f(r)
	}
	return none
}

// Leading reports whether raft believes to lead. It may be out of date; see Leadership.
func (n *Node) Leading() bool {
	r := n.raft.Load()
	return r != nil && r.State() == raft.Leader
}

// LeaderID is the member that raft believes to lead; 0 if none.
func (n *Node) LeaderID() uint32 {
	r := n.raft.Load()
	if r == nil {
		return 0
	}
	_, id := r.LeaderWithID()
	return memberID(id)
}

// Proposed is an entry under way.
type Proposed struct {
	done  chan struct{}
	err   error
	index uint64
}

// Done is closed when the outcome is known.
func (p *Proposed) Done() <-chan struct{} { return p.done }

// Error waits for the outcome. nil: the entry is committed and applied here. Otherwise it
// is unknown whether it will be.
func (p *Proposed) Error() error {
	<-p.done
	return p.err
}

// Index is the entry's index; only after Error has returned nil.
func (p *Proposed) Index() uint64 { return p.index }

// Propose appends data to the log if this member leads. Entries are appended in the order
// of the calls if they come from one goroutine. It blocks while raft's main loop is busy,
// which is while the disk is. data must not be changed afterwards.
func (n *Node) Propose(data []byte) *Proposed {
	p := &Proposed{done: make(chan struct{})}
	r := n.raft.Load()
	if err := n.enter(r, p, data); err != nil {
		p.err = err
		close(p.done)
		return p
	}
	inner := r.Apply(data, 0)
	go n.settle(p, inner)
	return p
}

// settle waits for what raft says of an entry. If it says nothing until Run ends, that is
// the outcome, and this goroutine ends with the process: see forsake.
func (n *Node) settle(p *Proposed, inner raft.ApplyFuture) {
	err := inner.Error()
	if err == nil {
		err, _ = inner.Response().(error)
	}
	if !n.leave(p) {
		return
	}
	n.settled(err)
	if p.err = err; err == nil {
		p.index = inner.Index()
	}
	close(p.done)
	n.futures.Done()
}

// leave takes an entry off those under way, and reports whether it was one.
func (n *Node) leave(p *Proposed) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proposed[p] {
		return false
	}
	delete(n.proposed, p)
	return true
}

// forsake ends the entries that raft, which has stopped, has said nothing of: it forgets
// those that it was about to apply.
func (n *Node) forsake() {
	n.mu.Lock()
	n.ending = true
	left := n.proposed
	n.proposed = nil
	n.mu.Unlock()
	for p := range left {
		p.err = ErrNotRunning
		close(p.done)
		n.futures.Done()
	}
}

// enter counts an entry as under way, or says why it cannot be. What a log would not take
// must not reach raft: every member would end.
func (n *Node) enter(r *raft.Raft, p *Proposed, data []byte) error {
	if err := checkSize(&raft.Log{Data: data}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r == nil || n.ending {
		return ErrNotRunning
	}
	n.proposed[p] = true
	n.futures.Add(1)
	return nil
}

// settled watches for a leader that refuses every entry because of a hand-over that will
// never end. raft forgets to end it if leadership was lost meanwhile, and the leader that
// it becomes again takes nothing for ever.
func (n *Node) settled(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
		n.refused = time.Time{}
	case n.refused.IsZero():
		n.refused = time.Now()
	case time.Since(n.refused) > 2*n.election:
		n.fatal(fmt.Errorf("quorum: this leader takes no entries since %v: %w", time.Since(n.refused).Round(time.Millisecond), err))
	}
}

// handOverPoll is how often HandOver looks whether leadership has gone.
const handOverPoll = 5 * time.Millisecond

// HandOver gives leadership to the member that is furthest, and waits until this one has
// lost it or ctx ends. It tries once. nil if this member does not lead, or nobody else could.
func (n *Node) HandOver(ctx context.Context) error {
	r := n.raft.Load()
	if r == nil || r.State() != raft.Leader || len(voters(r)) == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*n.election) // raft gives up by then
	defer cancel()
	r.LeadershipTransfer() // its outcome is not to be waited for: raft forgets it if it stops first
	ticker := time.NewTicker(handOverPoll)
	defer ticker.Stop()
	for r.State() == raft.Leader {
		select {
		case <-ticker.C:
		case <-n.stopped:
			return ErrNotRunning
		case <-ctx.Done():
			return fmt.Errorf("quorum: hand over: %w", ctx.Err())
		}
	}
	return nil
}
