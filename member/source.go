package member

import (
	"cmp"
	"iter"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"rollcall/config"
	"rollcall/operator/admin"
	"rollcall/operator/clients"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// listedPerLock is the number of sessions or nodes that a listing reads under one hold of the tree's lock, some tens of
// microseconds.
const listedPerLock = 1024

// source implements admin.Source: the metrics and lists of all parts of the member.
type source struct{ m *Member }

func (s source) Stats() admin.Stats {
	m := s.m
	st, log, count := m.server.Stats(), m.node.Metrics().Stats(), &m.terms.counters
	figures := admin.Stats{
		Role: m.Role(), Uptime: time.Since(m.incarnation.startTime), InsecurePorts: m.ports.insecurity(),
		NoMemory: m.cfg.Memory.IsFull(), SilentVoters: s.silentVoters(),
		PacketsReceived: st.Received, PacketsSent: st.Sent, Connections: st.Connections,
		OutstandingRequests: st.OutstandingRequests,
		Handshakes:          st.Handshakes, RejectedConnections: st.RejectedConns, DropProbability: st.DropChance,
		TokenDeficit: st.TokenDeficit, ClosedSessionless: st.EndedSessionless, AuthFailed: st.AuthFailed,
		ClientMemory: st.HeldBytes, ClientMemoryLimit: m.server.Limits().Budget, ClosedOverBudget: st.OverBudget,
		Latency: st.Latency, Reads: st.ReadLatency, Updates: st.UpdateLatency, Responses: st.ResponseSizes,
		BytesReceived: st.BytesIn, ReplyBytes: st.ReplyBytes, EventBytes: st.EventBytes,
		Voters:    len(m.node.Status().VoterIDs()),
		LogWrites: log.LogWrites, SlowLogWrites: log.SlowLogWrites, Snapshots: log.Snapshots, Elections: log.Elections,
		Candidacies:          log.Candidacies,
		ProposedTransactions: count.Proposed.Load(), CommittedTransactions: count.Committed.Load(),
		ExpiredSessions: count.Expired.Load(),
		Proposals:       count.TxnSizes.Spread(), ClockJump: m.wallClock.Jump(),
	}
	if l := m.terms.currentLeader.Load(); l != nil {
		term := l.Stats()
		figures.Learners, figures.SyncedFollowers, figures.SyncsAwaitingProof, figures.LeaderUptime = term.Learners,
			term.SyncedVoters, term.SyncsAwaitingProof, term.Uptime
		figures.ClockDifference, figures.ReaperPaused, figures.SyncedObservers = term.MaxClockGap, term.ReaperPaused,
			term.SyncedObservers
	}
	state := m.state
	state.RLock()
	defer state.RUnlock()
	tree, watches := state.TreeView(), state.Watches()
	figures.Zxid, figures.Nodes, figures.DataSize = state.Zxid(), tree.NodeCount(), tree.DataSize()
	figures.MostCreated, figures.LongNames = state.MostCreated().Created, state.Term().LongNames
	figures.DataQuota, figures.DataUsed = int64(state.Term().DataQuota), state.DataUsed()
	figures.Ephemerals, figures.Sessions = tree.EphemeralCount(), state.SessionCount()
	figures.Watches, figures.DataWatches = watches.WatchCount(), watches.DataWatchCount()
	figures.WatchedPaths, figures.WatchingConnections = watches.DataPathCount(), watches.DataWatcherCount()
	return figures
}

// Health takes no lock that is watched while one of them is held without end.
func (s source) Health() admin.Health {
	if err := s.m.health.lockWatch.Err(); err != nil {
		return admin.Health{Stalled: err.Error()}
	}
	n := s.m.node
	health := admin.Health{
		Role: s.m.Role(), Damage: n.Record().DamageReason(), Divergence: s.m.health.disputeReason(),
		CutOff:         s.m.health.cutOffWatch.reason(),
		LeavingVersion: s.m.removalWatch.unlistedVersion(), RemovedVersion: s.m.removalWatch.removedVersion(),
		OtherAddress: s.m.helloClient.otherAddress.reason(), WaitingFor: n.Status().WaitingFor(), Progress: n.Progress(),
		ReadsData: n.Status().IsReadingData(), Joining: s.m.isCatchingUp(), Drained: s.m.server.Draining(), HasLeader: n.Status().LeaderID() != 0,
		InsecurePorts: s.m.ports.insecurity(), NoMemory: s.m.cfg.Memory.IsFull(),
	}
	health.Stalled = s.m.health.stallReason()
	return health
}

func (s source) Ensemble() admin.Ensemble {
	e := admin.Ensemble{Self: s.m.cfg.ID, Leader: s.m.node.Status().LeaderID()}
	for _, server := range s.m.serverLists.currentList() {
		e.Peers = append(e.Peers, admin.Peer{
			ID: server.ID, QuorumAddress: server.QuorumAddr(),
			ElectionAddress: server.ElectionAddr(), ClientAddress: server.ClientAddr(), IsObserver: server.Observer,
		})
	}
	return e
}

func (s source) DiskUsage() (data, log int64, err error) { return s.m.node.Disk().Usage() }

// DiskSpace implements admin.Source.
func (s source) DiskSpace() (space admin.DiskSpace, err error) {
	if space.Data, space.Log, err = s.m.node.Disk().Usage(); err != nil {
		return admin.DiskSpace{}, err
	}
	past := s.m.node.Disk().Past().Stats()
	space.History, space.HistoryOldest = past.Bytes, past.Oldest
	space.DataFree, space.LogFree, err = s.m.node.Disk().Free()
	return space, err
}

func (s source) ResetStats() {
	s.m.server.ResetStats()
	s.m.node.Metrics().Reset()
	s.m.terms.counters.Reset()
}

func (s source) ResetConnections() { s.m.server.Listing().ResetTraffic() }

func (s source) Connections() iter.Seq[clients.Connection] { return s.m.server.Listing().Connections() }

func (s source) Watches() iter.Seq2[jute.SessionID, []string] { return s.m.server.Listing().Watches() }

// Sessions holds the tree's lock for one part of the sessions at a time.
func (s source) Sessions() iter.Seq2[jute.SessionID, time.Duration] {
	return func(yield func(jute.SessionID, time.Duration) bool) {
		part := make([]sessiontracker.TrackedSession, 0, listedPerLock)
		for first, more := jute.SessionID(0), true; more; {
			part = s.appendSessions(part[:0], first)
			for _, one := range part {
				if !yield(one.ID, one.Timeout) {
					return
				}
				first = one.ID + 1
			}
			more = len(part) == listedPerLock
		}
	}
}

func (s source) appendSessions(part []sessiontracker.TrackedSession,
	first jute.SessionID,
) []sessiontracker.TrackedSession {
	tree := s.m.state
	tree.RLock()
	defer tree.RUnlock()
	for one := range tree.Sessions(first) {
		if part = append(part, sessionSeed(one)); len(part) == listedPerLock {
			break
		}
	}
	return part
}

// Expiries reads the session table of the term that this member leads.
func (s source) Expiries() (iter.Seq2[jute.SessionID, time.Time], bool) {
	s.m.state.RLock()
	table := s.m.terms.sessionTable
	s.m.state.RUnlock()
	if table == nil {
		return nil, false
	}
	begun := s.m.wallClock.Now().Add(-table.TableTime(s.m.cfg.Monotonic.Now()))
	return func(yield func(jute.SessionID, time.Time) bool) {
		for e := range table.Expiries() {
			if !yield(e.ID, begun.Add(e.At)) {
				return
			}
		}
	}, true
}

// HasPublicAncestors implements admin.Source.
func (s source) HasPublicAncestors(path string) bool {
	tree := s.m.state
	tree.RLock()
	defer tree.RUnlock()
	return tree.TreeView().HasPublicAncestors(path)
}

// Ephemerals holds the tree's lock for one part of the nodes at a time.
func (s source) Ephemerals() iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		part := make([]ownedPath, 0, listedPerLock)
		for from, more := (ownedPath{}), true; more; {
			part = s.appendEphemerals(part[:0], from)
			for _, e := range part {
				if !yield(e.owner, e.path) {
					return
				}
				from = ownedPath{e.owner, e.path + "\x00"} // the next possible path
			}
			more = len(part) == listedPerLock
		}
	}
}

type ownedPath struct {
	owner jute.SessionID
	path  string
}

func (s source) appendEphemerals(part []ownedPath, from ownedPath) []ownedPath {
	tree := s.m.state
	tree.RLock()
	defer tree.RUnlock()
	for owner, path := range tree.TreeView().EphemeralsFrom(from.owner, from.path) {
		if part = append(part, ownedPath{owner, path}); len(part) == listedPerLock {
			break
		}
	}
	return part
}

func (s source) Settings(data, log int64) (lines []admin.ConfLine, members string) {
	m := s.m
	self, text := m.cfg.ownServer(), m.serverLists.currentText()
	shown := m.cfg.Settings
	shown.Dir, shown.LogDir = absolutePath(m.cfg.Dir), absolutePath(cmp.Or(m.cfg.LogDir, m.cfg.Dir))
	shown.MinTimeout, shown.MaxTimeout = m.server.Timeouts()
	shown.Limits = m.server.Limits()
	lines = config.ConfLines(shown, config.RuntimeValues{
		ClientPort: listenerPort(m.cfg.ClientListener), SecurePort: listenerPort(m.cfg.SecureListener), DataSize: data,
		LogSize: log, MemberID: m.cfg.ID,
		ElectionPort: addressPort(self.RaftAddr), QuorumPort: addressPort(self.GrpcAddr), Ensemble: text,
		Observer: m.isObserver(),
	})
	return lines, text
}

// listenerPort returns the port of a listener, or -1 for nil, as ZooKeeper does.
func listenerPort(l net.Listener) int {
	if l == nil {
		return -1
	}
	return addressPort(l.Addr().String())
}

// absolutePath returns dir as an absolute path, if it can be determined. It does not change "".
func absolutePath(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		return abs
	}
	return dir
}

// addressPort returns the port of an address, or 0 if it has none.
func addressPort(addr string) int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}
