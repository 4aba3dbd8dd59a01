// Package quorum runs raft for one member of the ensemble: entries go into the log, come
// out committed and in order on every member, and one member at a time leads. What is in
// the entries is the caller's business.
//
//   - Node: one member's raft. Open opens its data, which package disk keeps; Run runs it.
//   - Machine: the state machine, which the caller provides.
//   - Recover: the way out when a majority is lost for good.
//
// # What is done to raft
//
// hashicorp/raft 1.7.3 is used as it is, through wrappers that keep it from known trouble:
// see package wire (elections, commits, pipelines, snapshots), package disk (stores) and
// Node.decide (which member may start an ensemble, and which must catch up first).
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
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
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
	// cachedEntries of the log's end stay in memory for followers that keep up. An entry
	// may hold 1 MiB.
	cachedEntries = 64
	// maxLeadership changes of leadership may wait to be read from Leadership. Each takes
	// an election, so a reader that is so far behind has stopped; raft waits for it then.
	maxLeadership = 1024
	// stopTimeout bounds the end of raft: a goroutine that hangs in a disk never ends.
	stopTimeout = 10 * time.Second
)

// Config is what a Node is opened with. Fields without a default are required.
type Config struct {
	Self  uint32      // this member's id
	Peers []wire.Peer // all voting members, this one included

	Dir    string      // data folder
	LogDir string      // folder of the log; default: Dir
	Stores disk.Stores // in place of the folders, for tests; default: on disk
	// LogKind is what the log is kept in; default: as the folder is, or disk.DefaultLogKind.
	LogKind disk.LogKind

	Stream  raft.StreamLayer // raft's connections; Addr is this member's address in Peers
	Machine Machine

	// Ask asks another member's Hello. Used while starting without data.
	Ask func(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error)
	// NewEnsemble allows a majority of members without data to begin a new ensemble.
	// Otherwise all members must be there and have none.
	NewEnsemble bool

	Tick time.Duration // ZooKeeper's tickTime; election timeout is a quarter, at least 150 ms
	// StallLimit is how long a store or the state machine may take for one operation before
	// this member gives up leading; default disk.DefaultStallLimit. See Node.Stalled.
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

	disk    *disk.Data
	fsm     *fsm
	trans   *wire.Transport
	figures figures

	raft       atomic.Pointer[raft.Raft]
	joining    atomic.Bool
	recovery   atomic.Uint64          // see Recovery
	damage     atomic.Pointer[string] // see SetDamage; nil: none
	started    atomic.Bool
	handing    atomic.Int32 // calls of HandOver under way
	ready      chan struct{}
	leadership chan bool
	futures    sync.WaitGroup

	failing sync.Once
	failed  chan struct{}
	failure error
	stopped chan struct{} // nothing more will happen

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
	cfg.StallLimit = cmp.Or(cfg.StallLimit, disk.DefaultStallLimit)
	n := &Node{
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
		return nil, disk.Explain(err, len(cfg.Peers) > 1)
	}
	return n, nil
}

func (cfg *Config) check() error {
	if err := wire.CheckPeers(cfg.Self, cfg.Peers); err != nil {
		return err
	}
	onDisk := cfg.Stores == disk.Stores{}
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
		return fmt.Errorf("quorum: log store %q is neither %s nor %s", cfg.LogKind, disk.LogBolt, disk.LogWAL)
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

func (n *Node) open() (err error) {
	running := func() bool { return n.trans != nil && n.trans.Running() }
	n.disk, err = disk.Open(disk.Config{
		Member: n.cfg.Self, Servers: wire.Canonical(n.cfg.Peers),
		Dir: n.cfg.Dir, LogDir: n.cfg.LogDir, LogKind: n.cfg.LogKind, Stores: n.cfg.Stores,
		StallLimit: n.cfg.StallLimit, Running: running, Fail: n.fatal,
		Logger: n.logger, RaftLog: newRaftLog(n.logger),
	})
	if err != nil {
		return err
	}
	n.fsm = &fsm{
		machine: n.cfg.Machine, fail: n.fatal, running: running, timed: n.disk.Timed, refused: n.disk.Refused, figures: &n.figures,
		commits: func() { n.trans.Committed() }, // entries are applied only while raft runs
	}
	if err := n.read(); err != nil {
		return errors.Join(err, n.disk.Close())
	}
	return nil
}

// read reads what the data say of this member, and checks that they fit it.
func (n *Node) read() error {
	joining, err := n.disk.Stable().GetUint64(keyJoining)
	if err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	n.joining.Store(joining != 0)
	recovery, err := readRecovery(n.disk.Stable(), n.cfg.Peers)
	if err != nil {
		return err
	}
	n.recovery.Store(recovery)
	if err := n.disk.Mend(n.cfg.Machine.Verify, recovery != 0); err != nil {
		return err
	}
	return errors.Join(n.checkSnapshot(), n.readDamage())
}

// checkSnapshot compares the configuration in the newest snapshot with the server list. With
// the configuration of others, or with none, raft would start and never elect a leader.
func (n *Node) checkSnapshot() error {
	list, err := n.disk.Snapshots().List()
	if err != nil || len(list) == 0 {
		return err
	}
	if err := n.checkSnapshotServers(list[0].Configuration.Servers); err != nil {
		return fmt.Errorf("quorum: snapshot %s: %w", list[0].ID, err)
	}
	return nil
}

// checkSnapshotServers compares the servers in a snapshot with the server list.
func (n *Node) checkSnapshotServers(servers []raft.Server) error {
	if len(servers) == 0 {
		return fmt.Errorf("it is %w: it has no configuration", disk.ErrDamaged)
	}
	return checkServers(servers, n.cfg.Peers, n.Recovery() != 0)
}

// Close releases the stores and the folder of a Node that is not running. Run calls it.
func (n *Node) Close() error { return n.disk.Close() }

// Stalled returns why this member must not lead for the moment, nor serve: an operation of a
// store or of the state machine has taken longer than Config.StallLimit. nil: none has. Its
// raft says nothing as a leader then and does not stand for election, so that another
// member takes over.
func (n *Node) Stalled() error { return n.disk.Stalled() }

// Run starts this member, waiting for others where it must, and runs raft until ctx ends:
// then it hands leadership over, once, and stops, returning nil. Any other end is an
// error, and the process is to exit; wire.ErrRestart means that it should be started again at
// once. Run may be called once.
func (n *Node) Run(ctx context.Context) error {
	if n.started.Swap(true) {
		return errors.New("quorum: Run was called before")
	}
	err := disk.Explain(n.run(ctx), len(n.cfg.Peers) > 1)
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
	n.trans.Start()
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

func (n *Node) newTransport() *wire.Transport {
	return wire.New(wire.Config{
		Stream: n.cfg.Stream, Election: n.election, Logger: n.logger, RaftLog: newRaftLog(n.logger),
		Raft: n.raft.Load, Fail: n.fatal, Spool: n.disk.NewSpool, Inspect: n.inspect,
		Refused: func(req *raft.InstallSnapshotRequest, err error) {
			n.logger.Error("a received snapshot is refused; this member's state is unchanged", "from", string(req.ID), "index", req.LastLogIndex, "why", err)
		},
		Installed: func(term uint64) { n.fsm.term.Store(max(n.fsm.term.Load(), term)) },
		Votes:     func() bool { return !n.joining.Load() || len(n.cfg.Peers) == 2 },
		Joins:     n.joining.Load,
		Stand: func() error {
			if n.joining.Load() {
				return errJoining
			}
			return n.silent()
		},
		Stalled: n.silent, Leads: n.leadsOn,
	})
}

// errJoining is why a joining member is no candidate.
var errJoining = errors.New("quorum: this member is joining and takes part in no election")

// inspect reads all of a snapshot that was received, and compares it with what the request says
// of it. raft would put whatever came in the place of this member's log and state, and end the
// process if that cannot be read.
func (n *Node) inspect(s io.Reader, req *raft.InstallSnapshotRequest) error {
	if err := n.checkSnapshotServers(raft.DecodeConfiguration(req.Configuration).Servers); err != nil {
		return err
	}
	if req.LastLogTerm > req.Term || req.ConfigurationIndex > req.LastLogIndex {
		return fmt.Errorf("%w: it ends in term %d, and is of term %d; its configuration is of index %d, and it goes to %d",
			disk.ErrDamaged, req.LastLogTerm, req.Term, req.ConfigurationIndex, req.LastLogIndex)
	}
	c, err := n.cfg.Machine.Verify(s)
	if err != nil {
		return err
	}
	return c.Check(req.LastLogIndex, req.LastLogTerm, n.Recovery() != 0)
}

func (n *Node) startRaft() (*raft.Raft, error) {
	conf := n.raftConfig()
	cache, err := raft.NewLogCache(cachedEntries, n.disk.Log())
	if err != nil {
		return nil, err
	}
	newest, err := n.disk.Newest() // before raft runs, which may receive another at once
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
	if why := n.disk.Unused(); why != nil {
		n.logger.Error("the newest snapshot cannot be used; the log, with an older snapshot if there is one, has everything", "why", why)
	}
	return r, nil
}

func (n *Node) raftConfig() *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = n.self().ServerID()
	election := n.election
	if len(n.cfg.Peers) == 1 {
		election = aloneElection
	}
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = election, election, election
	conf.CommitTimeout = commitTimeout
	conf.MaxAppendEntries = disk.MaxAppend
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

func (n *Node) self() wire.Peer {
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
		err := disk.Explain(err, len(n.cfg.Peers) > 1)
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
func (n *Node) HasData() bool { return n.disk.HasData() }

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

// Reached returns the other members that vote and have answered this member's raft as a
// leader within d, by id; none before raft runs.
func (n *Node) Reached(d time.Duration) []uint32 {
	r := n.raft.Load()
	if r == nil {
		return nil
	}
	voting := voters(r)
	return slices.DeleteFunc(n.trans.Reached(d), func(id uint32) bool {
		return id == n.cfg.Self || !slices.ContainsFunc(voting, func(v raft.ServerID) bool { return wire.MemberID(v) == id })
	})
}

// Term is raft's current term; 0 before raft runs.
func (n *Node) Term() uint64 { return n.ask(0, (*raft.Raft).CurrentTerm) }

// CommitIndex is the last index that raft knows to be committed; 0 before raft runs.
func (n *Node) CommitIndex() uint64 { return n.ask(0, (*raft.Raft).CommitIndex) }

// LastIndex is the last index of log or snapshot; 0 before raft runs.
func (n *Node) LastIndex() uint64 { return n.ask(0, (*raft.Raft).LastIndex) }

// LastTerm is the term of the entry at LastIndex; 0 before raft runs.
func (n *Node) LastTerm() uint64 {
	return n.ask(0, func(r *raft.Raft) uint64 {
		term, _ := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64) // raft writes a number
		return term
	})
}

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

// leadsOn reports whether raft leads in term and nobody is handing leadership over.
func (n *Node) leadsOn(term uint64) bool {
	r := n.raft.Load()
	return r != nil && n.handing.Load() == 0 && r.State() == raft.Leader && r.CurrentTerm() == term
}

// LeaderID is the member that raft believes to lead; 0 if none.
func (n *Node) LeaderID() uint32 {
	r := n.raft.Load()
	if r == nil {
		return 0
	}
	_, id := r.LeaderWithID()
	return wire.MemberID(id)
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
	if err := disk.CheckSize(&raft.Log{Data: data}); err != nil {
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
	return n.handOver(ctx, (*raft.Raft).LeadershipTransfer)
}

// HandOverTo is HandOver to the member named, which fails if that lags too far behind.
func (n *Node) HandOverTo(ctx context.Context, id uint32) error {
	for _, p := range n.cfg.Peers {
		if p.ID == id {
			return n.handOver(ctx, func(r *raft.Raft) raft.Future {
				return r.LeadershipTransferToServer(p.ServerID(), raft.ServerAddress(p.Addr))
			})
		}
	}
	return fmt.Errorf("quorum: hand over: %d is not a member", id)
}

func (n *Node) handOver(ctx context.Context, transfer func(*raft.Raft) raft.Future) error {
	r := n.raft.Load()
	if r == nil || r.State() != raft.Leader || len(voters(r)) == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*n.election) // raft gives up by then
	defer cancel()
	n.handing.Add(1) // raft may wait for a request that is held
	defer n.handing.Add(-1)
	transfer(r) // its outcome is not to be waited for: raft forgets it if it stops first
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
