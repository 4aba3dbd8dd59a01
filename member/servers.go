package member

import (
	"context"
	"fmt"
	"slices"
	"sync"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// knownLists has the server list that another member has sent, or that an earlier process of this member stored: the state
// has none while this member starts, and an old one while it is behind. It is safe for concurrent use.
type knownLists struct {
	mu       sync.Mutex
	received *znode.Roster // the list with the newest version; nil: none

	spreading sync.Mutex // one spread at a time
	spread    []Server   // the servers that the last spread passed on; spreading guards it
}

// learn takes a received list, unless it is older than the one that is known of that ensemble. It reports whether it did.
func (k *knownLists) learn(r *znode.Roster) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.received != nil && k.received.Ensemble == r.Ensemble && r.Version <= k.received.Version {
		return false
	}
	k.received = r
	return true
}

// newest returns the newest received list, or nil.
func (k *knownLists) newest() *znode.Roster {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.received
}

// list returns the newest list that this member knows: that of the state, one that another member has sent, or one that an
// earlier process stored. It returns nil if this member knows none of its ensemble. The list must not be changed.
func (m *Member) list() *znode.Roster {
	own, received := m.roster.Load(), m.known.newest()
	if received == nil || !m.ours(received) || own != nil && own.Version >= received.Version {
		return own
	}
	return received
}

// ours reports whether a list may be this ensemble's, as far as this member knows its ensemble.
func (m *Member) ours(r *znode.Roster) bool {
	own := m.ports.book.Ensemble()
	return own == wire.EnsembleID{} || own == r.Ensemble
}

// newest returns the servers of list and its version, or 0 if there is none.
func (m *Member) newest() (version int64, servers []Server) {
	r := m.list()
	if r == nil {
		return 0, nil
	}
	return r.Version, serversOf(r.Servers)
}

// setList takes the list of the state. Only the goroutine that applies calls it.
func (m *Member) setList(r *znode.Roster) { m.roster.Store(r) }

// reach returns where a member is reached. It looks in the newest list, then in raft's configuration, which may have voters that
// no list has any more, and then in this member's own server lines.
func (m *Member) reach(id uint32) (Server, bool) {
	_, newest := m.newest()
	if i := slices.IndexFunc(newest, func(s Server) bool { return s.ID == id }); i >= 0 {
		return newest[i], true
	}
	p, known := m.ports.book.Find(id)
	return Server{ID: p.ID, Grpc: p.Grpc, Raft: p.Addr, Observer: p.Observer}, known
}

func serversOf(servers serverlist.List) []Server {
	all := make([]Server, 0, len(servers))
	for _, s := range servers {
		all = append(all, serverOf(s))
	}
	return all
}

func serverOf(s serverlist.Server) Server {
	return Server{ID: s.ID, Grpc: s.QuorumAddr(), Raft: s.ElectionAddr(), Observer: s.Observer}
}

// wanted implements quorum.Config.Wanted. A list of another ensemble is from before a recovery of the data.
func (m *Member) wanted() ([]wire.Peer, bool) {
	r := m.roster.Load()
	if r == nil || !m.ours(r) {
		return nil, false
	}
	return raftPeers(serversOf(r.Servers)), true
}

// learn takes the server list that another member of this ensemble has sent, if it is newer.
func (m *Member) learn(reply *proto.HelloReply) {
	if reply.GetRoster() == nil {
		return
	}
	if err := m.learnList(reply.GetRoster()); err != nil {
		m.log.Warn("another member's server list cannot be read", "peer", reply.GetMember(), "err", err)
	}
}

// learnList takes a server list if it may be this ensemble's and is newer than what is known.
func (m *Member) learnList(message *proto.Roster) error {
	r, err := znode.RosterOf(message)
	if err != nil {
		return err
	}
	if version, _ := m.newest(); m.ours(&r) && r.Version > version && m.known.learn(&r) {
		m.spread()
		m.relist()
	}
	return nil
}

// recall takes the server list that an earlier process of this member has stored. One of another ensemble is ignored.
func (m *Member) recall() error {
	var list proto.Roster
	stored := m.node.Record().List()
	if len(stored) == 0 {
		return nil
	}
	err := protobuf.Unmarshal(stored, &list)
	if err == nil {
		err = m.learnList(&list)
	}
	if err != nil {
		return disk.Explain(fmt.Errorf("member: the stored server list is %w: %w", disk.ErrDamaged, err), !m.cfg.alone())
	}
	return nil
}

// spread passes the servers in the newest list to the packages below. It closes the connection to a server that has come or
// moved, because the process that had its id before may still run and reply. It keeps the connection to a server that has gone,
// because that one may vote until raft's configuration follows.
func (m *Member) spread() {
	m.known.spreading.Lock()
	defer m.known.spreading.Unlock()
	last := m.known.spread
	if last == nil {
		last = m.cfg.Servers
	}
	_, m.known.spread = m.newest()
	m.ports.book.List(raftPeers(m.known.spread))
	for _, s := range m.known.spread {
		same := func(o Server) bool { return o.ID == s.ID && o.Grpc == s.Grpc }
		if s.ID != m.cfg.ID && !slices.ContainsFunc(last, same) {
			m.peers.moved(s.ID)
		}
	}
}

// rosterMessage returns the newest server list that this member knows for other members, or nil. hearsay reports
// whether it is not the list of the state.
func (m *Member) rosterMessage() (list *proto.Roster, hearsay bool) {
	r := m.list()
	if r == nil {
		return nil, false
	}
	return r.Message(), r != m.roster.Load()
}

// relist wakes listLoop. It does not block.
func (m *Member) relist() {
	select {
	case m.relisted <- struct{}{}:
	default:
	}
}

// listLoop passes each new list of the state to the packages below, and stores the newest list.
func (m *Member) listLoop(ctx context.Context) error {
	differs := false
	var stored *proto.Roster
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.relisted:
		}
		if r := m.roster.Load(); r != nil {
			m.spread()
			m.node.WantedChanged()
			select {
			case m.looked <- struct{}{}:
			default:
			}
			differs = m.compareList(r, differs)
		}
		if r := m.list(); r != nil && m.inEnsemble() {
			newest := r.Message()
			if protobuf.Equal(newest, stored) {
				continue
			}
			if err := m.store(newest); err != nil {
				return err
			}
			stored = newest
		}
	}
}

// inEnsemble reports whether this member knows its ensemble. Until then, a list that it has heard of may be another
// one's, and is not stored.
func (m *Member) inEnsemble() bool {
	_, known := m.node.Record().Ensemble()
	return known
}

// store stores a list for the next process.
func (m *Member) store(newest *proto.Roster) error {
	list, err := protobuf.Marshal(newest)
	if err != nil {
		return fmt.Errorf("member: store the server list: %w", err)
	}
	return m.node.Record().StoreList(list)
}

// compareList reports whether the configured server lines differ from the ensemble's list, and logs it if they did not before.
// differed is the result of the last call.
func (m *Member) compareList(r *znode.Roster, differed bool) bool {
	configured, err := serverlist.ParseList(string(m.cfg.EnsembleText))
	if err != nil {
		return differed
	}
	differs := !slices.Equal(r.Servers.Lines(), configured.Lines())
	switch {
	case differs && !differed:
		m.log.Warn("the server lines in the configuration are not the ensemble's list; the list counts", "version", fmt.Sprintf("%#x", r.Version),
			"list", r.Servers.Lines(), "configured", configured.Lines())
	case !differs && differed:
		m.log.Info("the server lines in the configuration are the ensemble's list again", "version", fmt.Sprintf("%#x", r.Version))
	}
	return differs
}

// ServerLines returns servers as a data directory names those for which it was made.
func ServerLines(servers []Server) []string { return wire.Canonical(raftPeers(servers)) }
