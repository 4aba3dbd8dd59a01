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

// listedPerLock is the number of sessions or nodes that a listing takes from the state under one hold of the
// lock. Apply waits for that, some tens of microseconds.
const listedPerLock = 1024

// source implements admin.Source: the metrics and lists of all parts of the member.
type source struct{ m *Member }

func (s source) Stats() admin.Stats {
	m := s.m
	st, log, count := m.server.Stats(), m.node.Metrics().Stats(), &m.terms.count
	figures := admin.Stats{
		Role: m.Role(), Up: time.Since(m.incarnation.started), Exposed: m.ports.exposure(), NoMemory: m.cfg.Memory.IsFull(),
		Received: st.Received, Sent: st.Sent, Connections: st.Connections, Outstanding: st.OutstandingRequests,
		Handshakes: st.Handshakes, Rejected: st.RejectedConns, DropChance: st.DropChance, Deficit: st.TokenDeficit, Sessionless: st.EndedSessionless, AuthFailed: st.AuthFailed,
		ClientMemory: st.HeldBytes, MostMemory: m.server.Limits().Budget, OverBudget: st.OverBudget,
		Latency: st.Latency, Reads: st.ReadLatency, Updates: st.UpdateLatency, Responses: st.ResponseSizes,
		BytesIn: st.BytesIn, ReplyBytes: st.ReplyBytes, EventBytes: st.EventBytes,
		Voters: len(m.node.Status().VoterIDs()),
		Writes: log.LogWrites, SlowWrites: log.SlowLogWrites, Snapshots: log.Snapshots, Elections: log.Elections, Stands: log.Candidacies,
		Proposed: count.Proposed.Load(), Committed: count.Committed.Load(), Expired: count.Expired.Load(),
		Proposals: count.TxnSizes.Spread(), Jump: m.clock.Jump(),
	}
	if l := m.terms.current.Load(); l != nil {
		term := l.Stats()
		figures.Learners, figures.Synced, figures.Syncs, figures.Leading = term.Learners, term.SyncedVoters, term.PendingSyncs, term.Uptime
		figures.Apart, figures.Held, figures.SyncedObservers = term.MaxClockGap, term.ReaperHeld, term.SyncedObservers
	}
	tree := m.state
	tree.RLock()
	defer tree.RUnlock()
	figures.Zxid, figures.Nodes, figures.DataSize = tree.Zxid(), tree.NodeCount(), tree.DataSize()
	figures.DataQuota, figures.DataUsed = int64(tree.Term().DataQuota), tree.DataUsed()
	figures.Ephemerals, figures.Sessions = tree.EphemeralCount(), tree.SessionCount()
	figures.Watches, figures.DataWatches = tree.Watches().Count(), tree.Watches().NodeCount()
	figures.WatchedPaths, figures.Watching = tree.Watches().PathCount(), tree.Watches().WatcherCount()
	return figures
}

func (s source) Health() admin.Health {
	n := s.m.node
	health := admin.Health{Role: s.m.Role(), Damage: n.Record().DamageReason(), Disputed: s.m.health.disputed(), Leaving: s.m.removal.unlisted(), Removed: s.m.removal.version(), Joining: n.Joining(), Drained: s.m.server.Draining(), HasLeader: n.Status().LeaderID() != 0, Exposed: s.m.ports.exposure(), NoMemory: s.m.cfg.Memory.IsFull()}
	if err := n.StallError(); err != nil {
		health.Stalled = err.Error()
	}
	return health
}

func (s source) Ensemble() admin.Ensemble {
	e := admin.Ensemble{Self: s.m.cfg.ID, Leader: s.m.node.Status().LeaderID()}
	for _, server := range s.m.lists.inUse() {
		e.Peers = append(e.Peers, admin.Peer{ID: server.ID, Quorum: server.QuorumAddr(), Election: server.ElectionAddr(), Client: server.ClientAddr(), Observer: server.Observer})
	}
	return e
}

func (s source) DiskUsage() (data, log int64, err error) { return s.m.node.DiskUsage() }

// DiskSpace implements admin.Source.
func (s source) DiskSpace() (space admin.DiskSpace, err error) {
	if space.Data, space.Log, err = s.m.node.DiskUsage(); err != nil {
		return admin.DiskSpace{}, err
	}
	space.DataFree, space.LogFree, err = s.m.node.DiskFree()
	return space, err
}

func (s source) ResetStats() {
	s.m.server.ResetStats()
	s.m.node.Metrics().Reset()
	s.m.terms.count.Reset()
}

func (s source) ResetConnections() { s.m.server.Listing().ResetTraffic() }

func (s source) Connections() iter.Seq[clients.Connection] { return s.m.server.Listing().Connections() }

func (s source) Watches() iter.Seq2[jute.SessionID, []string] { return s.m.server.Listing().Watches() }

// Sessions holds the tree's lock for one part of the sessions at a time.
func (s source) Sessions() iter.Seq2[jute.SessionID, time.Duration] {
	return func(yield func(jute.SessionID, time.Duration) bool) {
		part := make([]sessiontracker.TrackedSession, 0, listedPerLock)
		for first, more := jute.SessionID(0), true; more; {
			part = s.sessions(part[:0], first)
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

func (s source) sessions(part []sessiontracker.TrackedSession, first jute.SessionID) []sessiontracker.TrackedSession {
	tree := s.m.state
	tree.RLock()
	defer tree.RUnlock()
	for one := range tree.Sessions(first) {
		if part = append(part, seed(one)); len(part) == listedPerLock {
			break
		}
	}
	return part
}

// Expiries reads the session table of the term that this member leads.
func (s source) Expiries() (iter.Seq2[jute.SessionID, time.Time], bool) {
	s.m.state.RLock()
	table := s.m.terms.table
	s.m.state.RUnlock()
	if table == nil {
		return nil, false
	}
	begun := s.m.clock.Now().Add(-table.TableTime(s.m.cfg.Monotonic.Now()))
	return func(yield func(jute.SessionID, time.Time) bool) {
		for e := range table.Expiries() {
			if !yield(e.ID, begun.Add(e.At)) {
				return
			}
		}
	}, true
}

// Public implements admin.Source.
func (s source) Public(path string) bool {
	tree := s.m.state
	tree.RLock()
	defer tree.RUnlock()
	return tree.TreeView().IsPublic(path)
}

// Ephemerals holds the tree's lock for one part of the nodes at a time.
func (s source) Ephemerals() iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		part := make([]ephemeral, 0, listedPerLock)
		for from, more := (ephemeral{}), true; more; {
			part = s.ephemerals(part[:0], from)
			for _, e := range part {
				if !yield(e.owner, e.path) {
					return
				}
				from = ephemeral{e.owner, e.path + "\x00"} // the next possible path
			}
			more = len(part) == listedPerLock
		}
	}
}

type ephemeral struct {
	owner jute.SessionID
	path  string
}

func (s source) ephemerals(part []ephemeral, from ephemeral) []ephemeral {
	tree := s.m.state
	tree.RLock()
	defer tree.RUnlock()
	for owner, path := range tree.TreeView().EphemeralsFrom(from.owner, from.path) {
		if part = append(part, ephemeral{owner, path}); len(part) == listedPerLock {
			break
		}
	}
	return part
}

func (s source) Settings(data, log int64) (lines []admin.Line, members string) {
	m := s.m
	self, text := m.cfg.self(), m.lists.inUseText()
	shown := m.cfg.Settings
	shown.Dir, shown.LogDir = absolute(m.cfg.Dir), absolute(cmp.Or(m.cfg.LogDir, m.cfg.Dir))
	shown.MinTimeout, shown.MaxTimeout = m.server.Timeouts()
	shown.Limits = m.server.Limits()
	lines = config.Conf(shown, config.Running{
		ClientPort: listened(m.cfg.Clients), SecurePort: listened(m.cfg.Secure), DataSize: data, LogSize: log, ID: m.cfg.ID,
		ElectionPort: portOf(self.Raft), QuorumPort: portOf(self.Grpc), Ensemble: text, Observer: m.observes(),
	})
	return lines, text
}

// listened returns the port of a listener, or -1 if there is none, as ZooKeeper shows it.
func listened(l net.Listener) int {
	if l == nil {
		return -1
	}
	return portOf(l.Addr().String())
}

// absolute returns dir as an absolute path, if that can be found out. It leaves "" as it is.
func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		return abs
	}
	return dir
}

// portOf returns the port of an address, or 0 if it has none.
func portOf(addr string) int {
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
