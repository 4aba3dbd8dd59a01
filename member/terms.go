package member

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/serverlist"
	"rollcall/leader"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// terms runs a leader.Leader for each term in which raft leads. A term starts when a TermStart with our nonce
// is applied. At that moment, under the tree's lock, its session table is built. Apply updates the table from
// the next entry on.
type terms struct {
	m   *Member
	log *slog.Logger

	transferTargets *transferTargets
	proposedLists   proposedLists
	selfJoin        *selfJoin
	joinRequests    *joinRequests

	// sessionTable is the session table of the present term, or nil while this member does not lead. The tree's
	// lock guards it.
	sessionTable *sessiontracker.GlobalTable

	// sessions in the table that the entry being applied has closed; guarded by the tree's lock
	closedSessions []jute.SessionID

	counters      leader.Counters
	termsLed      atomic.Uint64                 // terms
	currentLeader atomic.Pointer[leader.Leader] // the leader that gRPC calls go to

	mu           sync.Mutex
	termNonce    uint64            // of our proposed TermStart or of the present term; 0: none
	startApplied chan appliedStart // gets the start when that TermStart is applied; one place
	cancelTerm   func()            // ends the present term
}

// appliedStart is an applied TermStart of ours, with the session table that apply updates from then on.
type appliedStart struct {
	znode.Term
	why          znode.LeaderCause
	sessionTable *sessiontracker.GlobalTable
	boots        map[uint32]uint64 // of the members' present processes, by id
}

func newTerms(m *Member) *terms {
	return &terms{
		m: m, log: m.log.With("component", "terms"), transferTargets: newTransferTargets(m),
		proposedLists: make(proposedLists, 1), selfJoin: newSelfJoin(m),
		joinRequests: newJoinRequests(m),
	}
}

// leadershipLoop leads while raft does, until ctx ends.
func (t *terms) leadershipLoop(ctx context.Context) error {
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case leads, ok := <-t.m.node.LeadershipChanges():
			if !ok {
				return nil // raft has ended, and the member ends with it
			}
			if stop != nil {
				stop() // raft may report two gains in a row, and terms must not overlap
				stop = nil
			}
			if leads {
				stop = t.startLeading(ctx)
			}
		}
	}
}

// startLeading starts leading and returns the function that stops it and waits for its end.
func (t *terms) startLeading(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.leadLoop(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// leadLoop runs terms until ctx ends or raft no longer leads. It runs more than one only if a proposal was
// rejected although raft still leads.
func (t *terms) leadLoop(ctx context.Context) {
	logged := false
	for ctx.Err() == nil && t.m.node.Status().IsLeader() {
		if t.m.hangError() == nil && t.m.node.Record().DamageReason() == "" {
			switch err := t.runTerm(ctx); {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, errNotFounded) && logged:
			case errors.Is(err, errNotFounded):
				logged = true
				t.log.Info("clients are not served yet: more voters of the server lines must vote first", "lines",
					ServerLines(t.m.cfg.Servers))
			default:
				t.log.Warn("term ended", "err", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(t.m.cfg.Tick / 20): // avoids a busy loop while raft rejects proposals
		}
	}
}

// runTerm starts a term with a TermStart and leads until its end.
func (t *terms) runTerm(ctx context.Context) error {
	if t.lacksFoundingMajority() {
		return errNotFounded
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nonce := randomUint64()
	opened := make(chan appliedStart, 1)
	t.mu.Lock()
	t.termNonce, t.startApplied, t.cancelTerm = nonce, opened, cancel
	t.mu.Unlock()
	defer t.resetTerm()

	format := t.entryFormat()
	list, err := t.firstServerList()
	if err != nil {
		return err
	}
	entry, err := t.termStartEntry(format, nonce, list, t.m.node.LeaderCauses().Cause(t.m.node.Status().Term()))
	if err != nil {
		return err
	}
	if err := t.m.node.Propose(entry, nil).Error(); err != nil {
		return fmt.Errorf("open a term: %w", err)
	}
	var o appliedStart
	select {
	case <-ctx.Done():
		return nil
	case o = <-opened:
	}
	l, err := leader.New(t.leaderConfig(o))
	if err != nil {
		return err
	}
	t.currentLeader.Store(l)
	t.termsLed.Add(1)
	t.m.node.LeaderCauses().NoteLed(o.Term.Term)
	t.m.eventQueue.enqueueOrDrop(Event{Kind: EventLeader, Term: o.Term.Term, Member: t.m.cfg.ID, Cause: o.why})
	return l.Run(ctx)
}

// termStartEntry returns the entry that starts a term. list is for a state without one; see firstServerList. why is
// what ended the leader before.
func (t *terms) termStartEntry(format uint32, nonce uint64, list *proto.ServerList, why *proto.LeaderCause) ([]byte, error) {
	body, err := protobuf.Marshal(&proto.TermStart{
		Leader: t.m.cfg.ID, Nonce: nonce,
		SkipAcl: t.m.cfg.Rules.SkipACL, TtlNodes: t.m.cfg.Rules.TTLNodes, EnforceQuota: t.m.cfg.Rules.EnforceQuota,
		X509: t.m.cfg.Rules.X509,
		Sasl: t.m.cfg.Rules.SASL, DataQuota: t.m.cfg.Rules.DataQuota, Reconfig: t.m.cfg.Rules.Reconfig,
		LongNames: t.m.cfg.Rules.LongNames, AnySaslUser: t.m.cfg.Rules.AnySASLUser,
		ReadLeaseMs: t.m.cfg.Rules.ReadLeaseMs, ServerList: list, Cause: why,
	})
	if err != nil {
		return nil, err
	}
	return protobuf.Marshal(&proto.Entry{
		Format: format, Nonce: nonce, TimeMs: t.m.wallClock.Now().UnixMilli(),
		Txns: []*proto.Txn{{Op: int32(jute.OpTermStart), Body: body}},
	})
}

// errNotFounded is the error of a leader that may not start a term yet: an ensemble serves no clients before
// most voters of its list vote. So no acknowledged write is on one disk alone, and of two founders only one serves.
var errNotFounded = errors.New("the ensemble begins, and serves once more of its voters vote")

// lacksFoundingMajority reports whether the applied state has no list of this ensemble, and too few voters of the server
// lines vote yet.
func (t *terms) lacksFoundingMajority() bool {
	_, listed := t.m.serverLists.wantedPeers()
	return !listed && !t.m.node.Status().HasFoundingMajority(raftPeers(t.m.cfg.Servers), t.wasFoundedByAll())
}

// wasFoundedByAll reports whether the ensemble began without a state, and this member does not run with --new-ensemble. A state
// that was imported, restored or recovered has had a transaction.
func (t *terms) wasFoundedByAll() bool {
	t.m.state.RLock()
	defer t.m.state.RUnlock()
	return t.m.state.Zxid() == 0 && !t.m.cfg.NewEnsemble
}

// firstServerList returns the configured server list if the state has none of this ensemble, because the
// ensemble is new or the data were recovered. Otherwise it returns nil.
func (t *terms) firstServerList() (*proto.ServerList, error) {
	if _, listed := t.m.serverLists.wantedPeers(); listed || t.m.cfg.EnsembleText == nil {
		return nil, nil
	}
	list, err := serverlist.ParseList(string(t.m.cfg.EnsembleText))
	if err != nil {
		return nil, fmt.Errorf("the configured list of servers: %w", err)
	}
	ensemble, _ := t.m.node.Record().EnsembleID()
	return znode.ServerList{EnsembleID: ensemble, Servers: list}.ToProto(), nil
}

// entryFormat returns the format of the next entry: the highest that all announced members know.
func (t *terms) entryFormat() uint32 {
	return min(cmp.Or(t.m.applyProgress.minFormat.Load(), znode.FormatLevel), znode.FormatLevel)
}

func (t *terms) leaderConfig(o appliedStart) leader.Config {
	return leader.Config{
		Self: t.m.cfg.ID, Raft: leaderRaft{followerRaft{t.m}}, Term: o.Term.Term, Nonce: o.Nonce, EntryFormat: t.entryFormat,
		Tick: t.m.cfg.Tick, SyncLimit: t.m.cfg.SyncLimit, PartingTime: RemovedGracePeriod + t.m.cfg.Tick,
		WallClock: t.m.wallClock, Monotonic: t.m.cfg.Monotonic, Log: t.m.cfg.WrapLog(raftLog{t.m.node, t.readLease()}),
		Sessions: o.sessionTable, Counters: &t.counters,
		Ensemble: t.m.terms.transferTargets, CloseConnection: func(id uint32, route int) { t.m.peerConns.replaceConn(peerRoute{id, route}) },
		LinkTo: t.linkTo, Routes: peerRoutes,
		ReachableServers: t.reachableAfterChange, AppliedIndex: t.m.applyProgress.lastIndex.Load,
		Boots: o.boots,
		Nodes: reapableNodes{t.m.state}, Reaping: t.m.cfg.Reaping, Stages: t.m.viewer.slow.recorder, Logger: t.m.log,
	}
}

// readLease returns the longest lease for reads that this member grants while it leads; 0: none.
func (t *terms) readLease() time.Duration {
	return time.Duration(t.m.cfg.Rules.ReadLeaseMs) * time.Millisecond
}

func (t *terms) linkTo(id uint32, route int) (leader.Link, error) {
	return t.m.peerConns.routeFollower(peerRoute{id, route})
}

// abandonTerm ends the present term without waiting for it, because it may hang in the log. It does not end a
// later term that starts meanwhile.
func (t *terms) abandonTerm() {
	current := t.currentLeader.Load()
	t.mu.Lock()
	retired := t.cancelTerm
	t.mu.Unlock()
	if retired != nil {
		retired()
	}
	t.currentLeader.CompareAndSwap(current, nil)
}

// resetTerm ends the state of a term. The table is not updated any more.
func (t *terms) resetTerm() {
	t.mu.Lock()
	t.termNonce, t.startApplied, t.cancelTerm = 0, nil, nil
	t.mu.Unlock()
	t.currentLeader.Store(nil)
	t.m.state.Lock()
	defer t.m.state.Unlock()
	t.sessionTable = nil
	t.m.follower.SetSessionTable(nil)
}

// termStarted is called for every TermStart, under the tree's lock. That of this member creates the table. Any other ends this
// member's term.
func (t *terms) termStarted(start znode.Term, why znode.LeaderCause) {
	t.mu.Lock()
	nonce, opened, retired := t.termNonce, t.startApplied, t.cancelTerm
	t.mu.Unlock()
	if nonce == 0 || start.Nonce != nonce {
		if t.sessionTable != nil && retired != nil {
			retired()
		}
		t.sessionTable = nil
		t.m.follower.SetSessionTable(nil)
		return
	}
	t.sessionTable = sessiontracker.NewGlobalTable(t.m.cfg.Monotonic.Now(), t.m.cfg.Tick, sessionSeeds(t.m.state))
	t.m.follower.SetSessionTable(t.sessionTable)
	opened <- appliedStart{start, why, t.sessionTable, t.boots()}
}

// boots returns the random numbers of the members' present processes, as the state has them. The tree's lock must be held.
func (t *terms) boots() map[uint32]uint64 {
	all := make(map[uint32]uint64)
	for id := uint32(1); id <= serverlist.MaxID; id++ {
		if boot, _ := t.m.state.MemberIncarnation(id); boot != 0 {
			all[id] = boot
		}
	}
	return all
}

// removeClosedSessions removes all sessions that an entry has closed from the table, at its end: removing them together
// is cheaper.
func (t *terms) removeClosedSessions() {
	if t.sessionTable != nil {
		t.sessionTable.RemoveSessions(t.closedSessions)
	}
	t.closedSessions = t.closedSessions[:0]
}

// sessionSeeds yields the live sessions for a new table.
func sessionSeeds(state *znode.State) iter.Seq[sessiontracker.TrackedSession] {
	return func(yield func(sessiontracker.TrackedSession) bool) {
		for s := range state.Sessions(0) {
			if !yield(sessionSeed(s)) {
				return
			}
		}
	}
}

func sessionSeed(s znode.Session) sessiontracker.TrackedSession {
	return sessiontracker.TrackedSession{
		ID: s.ID, Timeout: s.Timeout, OwnerMember: s.Owner.Member,
		OwnerIndex: s.OwnerIndex,
	}
}

// reapableNodes implements leader.Nodes.
type reapableNodes struct{ state *znode.State }

func (n reapableNodes) DueReapCandidates(now, neverUsedMs int64, after znode.ReapCandidate,
	limit int,
) []znode.ReapCandidate {
	n.state.RLock()
	defer n.state.RUnlock()
	return n.state.DueReapCandidates(now, neverUsedMs, after, limit)
}

func (n reapableNodes) HasUnswept() bool {
	n.state.RLock()
	defer n.state.RUnlock()
	return n.state.HasUnswept()
}

// raftLog implements leader.Log.
type raftLog struct {
	node      *quorum.Node
	readLease time.Duration // 0: none is granted
}

func (l raftLog) Propose(data []byte, from []uint32) leader.Future { return l.node.Propose(data, from) }

func (l raftLog) SettledIndex() uint64 { return l.node.Status().SettledIndex() }

func (l raftLog) GrantRead(term uint64, member uint32, of uint64, request leader.LeaseRequest) (lease time.Duration, index uint64) {
	index, ok := quorum.ReadLeasesOf(l.node).Grant(term, member, disk.ID(of), request, l.readLease)
	if !ok {
		return 0, 0
	}
	return l.readLease, index
}

func (l raftLog) ReturnRead(term uint64, member uint32, of uint64, last leader.LeaseRequest) {
	quorum.ReadLeasesOf(l.node).Return(term, member, disk.ID(of), last)
}

// Forward passes a member's stream to the present term's leader, or rejects it.
func (t *terms) Forward(stream proto.Leader_ForwardServer) error {
	if l := t.currentLeader.Load(); l != nil {
		return l.Forward(stream)
	}
	return errNotLeading
}

// Sync returns an index that the leader of the present term has proved; see proto.LeaderServer.
func (t *terms) Sync(ctx context.Context, r *proto.SyncRequest) (*proto.SyncReply, error) {
	if l := t.currentLeader.Load(); l != nil {
		return l.Sync(ctx, r, uint64(callerInfo(ctx).disk))
	}
	return nil, errNotLeading
}

// configurationChanged implements quorum.Config.ConfigurationChanged.
func (t *terms) configurationChanged() {
	t.m.serverLists.wakeListLoop()
	if l := t.currentLeader.Load(); l != nil {
		l.RereadMembers()
	}
}

// HandOver transfers leadership to another member; see proto.LeaderServer.
func (t *terms) HandOver(ctx context.Context, r *proto.HandOverRequest) (*proto.HandOverReply, error) {
	if t.currentLeader.Load() == nil {
		return nil, errNotLeading
	}
	if err := t.m.node.Transfer().ToMember(ctx, r.GetTarget()); err != nil {
		return nil, status.Error(codes.Aborted, err.Error())
	}
	return &proto.HandOverReply{}, nil
}

// localLeader implements proto.LeaderClient for this member's own leader, without a network.
type localLeader struct{ *terms }

// Forward opens a stream to the leader of the present term.
func (o localLeader) Forward(ctx context.Context, _ ...grpc.CallOption) (proto.Leader_ForwardClient, error) {
	if l := o.currentLeader.Load(); l != nil {
		return l.OpenOwnStream(ctx), nil
	}
	return nil, errNotLeading
}

// Sync implements proto.LeaderClient.
func (o localLeader) Sync(ctx context.Context, r *proto.SyncRequest, _ ...grpc.CallOption) (*proto.SyncReply, error) {
	return o.terms.Sync(ctx, r)
}

// HandOver implements proto.LeaderClient.
func (o localLeader) HandOver(ctx context.Context, r *proto.HandOverRequest,
	_ ...grpc.CallOption,
) (*proto.HandOverReply, error) {
	return o.terms.HandOver(ctx, r)
}

var errNotLeading = status.Error(codes.FailedPrecondition, "this member does not lead")

// randomUint64 returns a random number, unique for each run, term and connection.
func randomUint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return binary.LittleEndian.Uint64(b[:])
}

// raftMembers returns the members in raft's configuration, each with the disk whose proofs count.
func raftMembers(node *quorum.Node) []leader.Member {
	servers := node.Status().ConfiguredMembers()
	members := make([]leader.Member, 0, len(servers))
	for _, s := range servers {
		members = append(members, leader.Member{ID: s.ID, Disk: uint64(s.DiskID), Voter: !s.Observer})
	}
	return members
}

// raftVoters returns the voters in raft's configuration.
func raftVoters(node *quorum.Node) (ids []uint32) {
	for _, server := range raftMembers(node) {
		if server.Voter {
			ids = append(ids, server.ID)
		}
	}
	return ids
}

// leaderClient implements follower.Config.LeaderClient.
func (t *terms) leaderClient(_ context.Context, id uint32) (proto.LeaderClient, error) {
	if id == t.m.cfg.ID {
		return localLeader{t}, nil
	}
	return t.m.peerConns.leaderClient(id)
}
