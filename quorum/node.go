// Package quorum runs raft for one member of the ensemble. Entries go into the log, come out
// committed and in order on every member, and one member at a time leads. The caller defines their contents.
//
//   - Node: one member's raft. Open opens its data, which package disk keeps; Run runs it.
//   - StateMachine: provided by the caller.
//   - Seed: fills the directories of the member that begins a new ensemble with a state.
//   - Recover: rewrites a member's data after a majority has lost its data for good.
//
// # Changes to raft
//
// hashicorp/raft 1.7.3 is used unmodified, through wrappers that avoid its known problems:
//
//   - package wire: elections, commits, pipelines, snapshots;
//   - package disk: stores, and disks that write while raft continues;
//   - bootstrap.joinOrFound: selects the member that may found an ensemble. raft's servers are disks, so none ever forgets a
//     vote.
//
// # Failing
//
// A member is crash-only. If a store or the state machine fails, Run returns the reason, and the
// process must exit: a member never continues without its own disk.
package quorum

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/lockwatch"
	"rollcall/internal/monotonic"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
	"rollcall/quorum/readlease"
	"rollcall/quorum/wire"
)

const (
	// singleMemberElection is the election timeout of a member that runs alone: it can neither delay another
	// member nor hear from one.
	singleMemberElection = 20 * time.Millisecond
	// commitTimeout is the time, up to twice as long, after which raft reports a commit to followers if no further
	// entry follows. A commit notice does that at once, if there is a pipeline.
	commitTimeout = 50 * time.Millisecond
	// snapshotInterval is the interval, within a factor of two, at which raft checks whether to take a snapshot.
	snapshotInterval = 10 * time.Second
	// maxCachedEntries limits the log's last entries in memory, however short they are; see maxCachedBytes.
	maxCachedEntries = 64
	// maxUnreadLeadershipChanges limits the unread changes in LeadershipChanges. Each takes an election, so a
	// reader that is this late has stopped. raft waits for it then.
	maxUnreadLeadershipChanges = 1024
	// stopTimeout limits the time that raft takes to stop: a goroutine that hangs in a disk never ends.
	stopTimeout = 10 * time.Second
	// emptyTimeout limits the time in which the state machine fails what it has not applied. It does not wait for anything then.
	emptyTimeout = 20 * time.Millisecond
)

// Node is one member's raft. Unless its comment says otherwise, a method may be called at any time after Open, by
// any goroutine.
type Node struct {
	cfg             Config
	logger          *slog.Logger
	electionTimeout time.Duration

	disk      *disk.Data
	past      *history.Keeper // nil: this member has no directories
	fsm       *fsm
	transport *wire.Transport
	metrics   *Metrics

	status            *Status
	record            *Record
	serverList        *serverList
	hellos            *hellos
	reachability      *Reachability
	contact           *Contact
	transfer          *Transfer
	failureDetector   *failureDetector
	silenceWatch      *silenceWatch
	leaderCauses      *wire.LeaderCauses
	snapshotter       *Snapshotter
	proposer          *proposer
	failure           *memberFailure
	started           atomic.Bool
	raftStarted       chan struct{}
	leadershipChanges chan bool

	runEnded chan struct{} // closed when Run is over
}

// Open checks the configuration, locks the directory, checks its owner and opens the stores. It starts nothing.
// The caller must call Run, or else Close.
func Open(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.SnapshotEvery = cmp.Or(cfg.SnapshotEvery, DefaultSnapshotEvery)
	cfg.SnapshotBytes = cmp.Or(cfg.SnapshotBytes, DefaultSnapshotBytes)
	cfg.TrailingBytes = cmp.Or(cfg.TrailingBytes, DefaultTrailingBytes)
	if cfg.ConfigurationChanged == nil {
		cfg.ConfigurationChanged = func() {}
	}
	if cfg.EntryStored == nil {
		cfg.EntryStored = func(uint64, []byte) {}
	}
	if cfg.LeaderDied == nil {
		cfg.LeaderDied = func(uint32) {}
	}
	if cfg.AddressBook == nil {
		cfg.AddressBook = wire.NewAddressBook(cfg.MemberID, cfg.Peers)
	}
	if cfg.Monotonic == nil {
		cfg.Monotonic = monotonic.System{}
	}
	logger := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("component", "quorum")
	n := &Node{
		cfg:               cfg,
		logger:            logger,
		status:            &Status{addressBook: cfg.AddressBook, configuredPeers: cfg.Peers},
		serverList:        newServerList(&cfg),
		failure:           newMemberFailure(logger, cfg.SendHello != nil),
		electionTimeout:   cfg.HeartbeatTimeout,
		raftStarted:       make(chan struct{}),
		leadershipChanges: make(chan bool, maxUnreadLeadershipChanges),
		runEnded:          make(chan struct{}),
	}
	n.proposer = newProposer(n.status, n.electionTimeout, n.failure.endMember)
	if err := n.openData(); err != nil {
		return nil, disk.WithAdvice(err, cfg.SendHello != nil)
	}
	return n, nil
}

func (n *Node) openData() (err error) {
	running := func() bool { return n.transport != nil && n.transport.RaftRunning() } // not while the data are opened
	retirement := disk.Retirement{}
	if n.cfg.DataDir != "" {
		n.past = history.NewKeeper(n.cfg.ownDirectories(), n.cfg.History, n.logger)
		retirement = n.past.Retirement()
	}
	n.disk, err = disk.Open(disk.Config{
		MemberID: n.cfg.MemberID, ServerList: wire.CanonicalLines(n.cfg.Peers),
		DataDir: n.cfg.DataDir, LogDir: n.cfg.LogDir, SegmentBytes: n.cfg.SegmentBytes,
		Retirement: retirement, Stores: n.cfg.Stores,
		StallLimit: n.cfg.StallLimit, SlowSync: n.cfg.SlowSync, RaftRunning: running, EndMember: n.failure.endMember,
		QueuedWritten: func() { n.transport.NotifyDurable(n.proposer.membersAwaitingCommit()) },
		Stages:        n.cfg.Stages, Logger: n.logger, RaftLogger: newRaftLogger(n.logger, nil),
	})
	if err != nil {
		return err
	}
	n.metrics = &Metrics{diskData: n.disk, stages: n.cfg.Stages}
	n.fsm = &fsm{
		stateMachine: n.cfg.StateMachine, endMember: n.failure.endMember, raftRunning: running,
		disk: appliedDisk{n.disk}, metrics: n.metrics,
		onCommit: func(index uint64) { n.transport.NotifyCommitted(index, n.proposer.membersAwaitingCommit()) },
		onConfiguration: func() {
			n.transport.CloseObsoleteConns()
			n.cfg.ConfigurationChanged()
		},
	}
	n.status.disk, n.status.fsm = n.disk, n.fsm
	n.snapshotter = &Snapshotter{
		status: n.status, fsm: n.fsm, disk: n.disk, storesAreFiles: n.cfg.DataDir != "",
		failure: n.failure, runEnded: n.runEnded,
	}
	n.record = &Record{disk: n.disk, addressBook: n.cfg.AddressBook}
	if err := n.repairAndLoadState(); err != nil {
		return errors.Join(err, n.disk.Close())
	}
	n.fsm.roster = readlease.New(ReadLeases{n}.rosterConfig()) // after this member's disk is known
	n.fsm.awaitReleased = n.fsm.roster.AwaitReleased
	n.transfer = &Transfer{
		status: n.status, serverList: n.serverList, electionTimeout: n.electionTimeout,
		runEnded: n.runEnded,
	}
	n.leaderCauses = wire.NewLeaderCauses(n.cfg.MemberID)
	n.silenceWatch = &silenceWatch{
		heartbeat: n.cfg.HeartbeatTimeout, clock: n.cfg.Monotonic, status: n.status,
		tolerance: newPauseTolerance(n.cfg.HeartbeatTimeout), logger: n.logger,
	}
	n.failureDetector = &failureDetector{
		status: n.status, leaderCauses: n.leaderCauses, serverList: n.serverList, electionTimeout: n.electionTimeout, mayStand: n.mayStand,
		mayAcceptLeadership: n.transfer.mayAcceptLeadership,
		awaitBacklog:        n.silenceWatch.awaitBacklog, leaderDied: n.cfg.LeaderDied, logger: n.logger, connectionLosses: make(chan connectionLoss, 1),
		shorterCandidate: make(chan struct{}, 1),
	}
	n.contact = &Contact{
		status: n.status, acknowledged: new(wire.Acknowledged), leadTimes: new(wire.LeadTimes), electionTimeout: n.electionTimeout,
		refused: map[raft.ServerID]time.Time{},
	}
	n.transport = n.newTransport() // Run starts and closes it
	n.transfer.transport, n.failureDetector.transport, n.silenceWatch.transport = n.transport, n.transport, n.transport
	n.contact.transport = n.transport
	n.hellos = newHellos(&n.cfg, n.disk.HasData, n.logger)
	n.reachability = &Reachability{
		status: n.status, transport: n.transport, serverList: n.serverList, hellos: n.hellos,
		contact: n.contact, electionTimeout: n.electionTimeout, logger: n.logger,
	}
	return nil
}

// repairAndLoadState reads this member's stored state, and checks it against the configuration.
func (n *Node) repairAndLoadState() error {
	if err := n.disk.RepairLog(n.cfg.StateMachine.Verify); err != nil {
		return err
	}
	if err := errors.Join(n.checkSnapshotConfiguration(), n.record.loadStored(n.cfg.runsAlone())); err != nil {
		return err
	}
	n.cfg.AddressBook.SetDiskID(n.disk.ID()) // last: from now on this member may send Hellos
	return nil
}

// Close releases the stores and the directory of a Node that is not running. Run calls it.
func (n *Node) Close() error { return n.disk.Close() }

// StallError returns an error if an operation of a store or of the state machine has taken longer than
// Config.StallLimit, or nil. With an error, this member must not lead or serve: its raft sends nothing as a leader
// and is no candidate, so that another member takes over.
func (n *Node) StallError() error { return n.disk.StallError() }

func (n *Node) newTransport() *wire.Transport {
	return wire.New(wire.Config{
		StreamLayer: n.cfg.StreamLayer, ElectionTimeout: n.electionTimeout, Stages: n.cfg.Stages, Logger: n.logger,
		Raft: n.status.raft.Load, EndMember: n.failure.endMember,
		Durability: n.disk.Durability(), Elections: elections{n}, Snapshots: receivedSnapshots{n},
		Releases: n.fsm.roster, AwaitingCommit: n.proposer.membersAwaitingCommit,
		ConfigurationCommitted: n.status.configurationCommitted, StoredEntry: n.storedEntry,
		LocalServer:  n.status.selfPeer(),
		LeaderCauses: n.leaderCauses, Acknowledged: n.contact.acknowledged, LeadTimes: n.contact.leadTimes,
	})
}

// storedEntry returns an entry of this member's log, or nil if the log does not have it.
func (n *Node) storedEntry(index uint64) *raft.Log {
	entry := new(raft.Log)
	if n.disk.Log().GetLog(index, entry) != nil {
		return nil
	}
	return entry
}

// mayStand returns nil if this member may be a candidate, or the reason.
func (n *Node) mayStand() error {
	if !n.status.isVoter() {
		return errNotVoter
	}
	return n.mayLead()
}

// mayLead returns nil if this member may lead and send messages as a leader, or the reason.
func (n *Node) mayLead() error {
	if n.record.DamageReason() != "" {
		return errDamagedState
	}
	return n.StallError()
}

var errNotVoter = errors.New("quorum: this member has no vote, and takes part in no election")

// Status returns the state of raft.
func (n *Node) Status() *Status { return n.status }

// Record returns the stored information about the ensemble.
func (n *Node) Record() *Record { return n.record }

// Reachability returns the reachability of the other members.
func (n *Node) Reachability() *Reachability { return n.reachability }

// Transfer returns the leadership transfer.
func (n *Node) Transfer() *Transfer { return n.transfer }

// Snapshots returns the snapshotter.
func (n *Node) Snapshots() *Snapshotter { return n.snapshotter }

// Metrics returns the metrics of this node.
func (n *Node) Metrics() *Metrics { return n.metrics }

// Disk returns the state of this member's disk.
func (n *Node) Disk() DiskState {
	return DiskState{n.disk, Past{n.past, n.disk, n.fsm, n.cfg.ownDirectories()}}
}

// DiskState is the state of a member's disk.
type DiskState struct {
	data *disk.Data
	past Past
}

// Past returns what the member keeps of the past.
func (d DiskState) Past() Past { return d.past }

// Usage returns the bytes of this member's files: the log's, and all others. Both are 0 if the stores are not
// files. It reads the directories, which hold only a few files.
func (d DiskState) Usage() (data, log int64, err error) { return d.data.UsedSpace() }

// Free returns the bytes that can still be written to the disk of the data and to the disk of the log. Both
// are 0 if the stores are not files. It hangs as long as the disk does.
func (d DiskState) Free() (data, log int64, err error) { return d.data.FreeSpace() }

// Delay returns the delay of the disk behind the log. It does not stop this member from leading or serving.
func (d DiskState) Delay() disk.QueueDelay { return d.data.Durability().Delay() }

// WantedServersChanged reports a new result of Config.WantedServers to the node. It does not block.
func (n *Node) WantedServersChanged() { n.serverList.notifyChanged() }

// FollowsServerList reports whether the committed configuration, as far as this member knows, matches the server
// list. Servers to add, to promote or to move only count if they are in present.
func (n *Node) FollowsServerList(present []uint32) bool {
	return n.status.configurationCommitted() &&
		configurationFollows(n.status.ConfiguredMembers(), n.serverList.wantedServers(), present)
}

// LogReportedRival logs another process with this member's number that member from, the leader, has reported: once, as
// long as rival does not change. rival is "" if there is none.
func (n *Node) LogReportedRival(from uint32, rival string) { n.hellos.logReportedRival(from, rival) }

// Ready returns a channel that is closed when raft runs.
func (n *Node) Ready() <-chan struct{} { return n.raftStarted }

// LeadershipChanges returns a channel with every gain (true) and loss (false) of leadership, in order and without
// omissions. The caller must keep reading it: raft waits if 1,024 changes are unread. It is closed when Run
// returns, unless raft hangs in a disk.
func (n *Node) LeadershipChanges() <-chan bool { return n.leadershipChanges }

// LeaderCauses returns what knows why this member leads.
func (n *Node) LeaderCauses() *wire.LeaderCauses { return n.leaderCauses }

// HasData reports whether this member has a snapshot or a log entry.
func (n *Node) HasData() bool { return n.disk.HasData() }

// IsOnlyBeginning reports whether this member has data, but no transaction of the state.
func (n *Node) IsOnlyBeginning() bool { return n.HasData() && !n.disk.HasTransaction() }

func (n *Node) DiskID() disk.ID { return n.disk.ID() }

// IsJoining reports whether this member is joining an ensemble. There are three cases:
//
//   - It began without data, and has not yet caught up with its leader in this term.
//   - Its disk is not in raft's configuration.
//   - It has data, and raft does not run yet.
//
// A joining member has no vote, and must not reply to a proof round. An observer that has caught up is not
// joining, and neither is a member that waits for its vote.
func (n *Node) IsJoining() bool {
	if n.record.copying.Load() {
		return !n.status.hasCaughtUp()
	}
	return n.HasData() && !n.status.isConfigured()
}

// Locks returns the locks of the log's parts.
func (n *Node) Locks() []lockwatch.Lock {
	all := slices.Concat(n.transport.Locks(), n.disk.Locks(), []lockwatch.Lock{
		{Name: "quorum.proposer.mu", Locker: &n.proposer.mu},
		{Name: "quorum.hellos.mu", Locker: &n.hellos.mu},
		{Name: "quorum.recentPeers.mu", Locker: &n.reachability.recentPeers.mu},
		{Name: "quorum.Contact.mu", Locker: &n.contact.mu},
		{Name: "quorum.silenceWatch.mu", Locker: &n.silenceWatch.mu},
		{Name: "readlease.Roster.mu", Locker: n.fsm.roster.Lock()},
		{Name: "quorum.pauseTolerance.mu", Locker: &n.silenceWatch.tolerance.mu},
	})
	if n.status.raft.Load() != nil { // stored after the cache
		all = append(all, lockwatch.Lock{Name: "quorum.logCache.mu", Locker: lockwatch.Reading(&n.status.logCache.mu)})
	}
	return all
}
