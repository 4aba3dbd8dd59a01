package member

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/roster"
	"rollcall/znode"
)

// directory is the server list that others have told of, or that an earlier process of this member knew: the state
// has none while this member starts, and an old one while it is behind. It is safe for concurrent use.
type directory struct {
	mu    sync.Mutex
	heard *znode.Roster // the one of the newest version; nil: none
	// gone has the last known lines of servers that have left the list of an ensemble. It only grows, and ids are at
	// most 255; see Member.departing.
	gone   map[uint32]roster.Server
	goneOf wire.EnsembleID

	spreading sync.Mutex // one spread at a time
	spread    []Server   // what the last one told; spreading guards it
}

// learn takes a list that another member has, unless it is older than the one that is known of that ensemble. It
// reports whether it did.
func (d *directory) learn(r *znode.Roster) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.heard != nil && d.heard.Ensemble == r.Ensemble && r.Version <= d.heard.Version {
		return false
	}
	d.heard = r
	return true
}

// left records servers that have left the list of an ensemble. It reports whether one of them was not known in this way.
func (d *directory) left(ensemble wire.EnsembleID, servers roster.List) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone == nil || d.goneOf != ensemble {
		d.gone, d.goneOf = make(map[uint32]roster.Server), ensemble
	}
	for _, s := range servers {
		changed = changed || d.gone[s.ID] != s
		d.gone[s.ID] = s
	}
	return changed
}

// former returns the servers that have left the list of an ensemble, by id.
func (d *directory) former(ensemble wire.EnsembleID) roster.List {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.goneOf != ensemble {
		return nil
	}
	return slices.SortedFunc(maps.Values(d.gone), func(a, b roster.Server) int { return cmp.Compare(a.ID, b.ID) })
}

// newest returns the newest list that others have told of, or nil.
func (d *directory) newest() *znode.Roster {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard
}

// list returns the newest list that this member knows: that of the state, or one that others have told of, or that an
// earlier process knew. It returns nil if this member knows none of its ensemble. The list must not be changed.
func (m *Member) list() *znode.Roster {
	own, heard := m.roster.Load(), m.known.newest()
	if heard == nil || !m.ours(heard) || own != nil && own.Version >= heard.Version {
		return own
	}
	return heard
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

// departing returns the servers that have left the list, and that raft's configuration still has. A voter that is to go
// votes on until another one can take its place. Members without data must ask it before they join, and nothing but
// its former line says where its gRPC is. While raft has no configuration here, all that this member has heard of count,
// unless a server of the list has their address by now.
func (m *Member) departing() roster.List {
	r := m.list()
	if r == nil {
		return nil
	}
	configured := m.node.Latest()
	return slices.DeleteFunc(m.known.former(r.Ensemble), func(s roster.Server) bool {
		_, listed := r.Servers.Find(s.ID)
		in := slices.ContainsFunc(configured, func(p wire.Peer) bool { return p.ID == s.ID })
		taken := slices.ContainsFunc(r.Servers, func(o roster.Server) bool { return o.ElectionAddr() == s.ElectionAddr() })
		return listed || !in && (taken || len(configured) > 0)
	})
}

// replaced records which servers a new list does not have any more. There may have been no list before.
func (m *Member) replaced(before *znode.Roster, now roster.List) {
	if before != nil {
		m.known.left(before.Ensemble, slices.DeleteFunc(slices.Clone(before.Servers), func(s roster.Server) bool {
			_, stays := now.Find(s.ID)
			return stays
		}))
	}
}

// setList takes the list of the state. Only the goroutine that applies calls it.
func (m *Member) setList(r *znode.Roster) {
	before := cmp.Or(m.last, m.list())
	if before != nil && before.Version < r.Version {
		m.replaced(before, r.Servers)
	}
	m.last = r
	m.roster.Store(r)
}

// reach returns where a member is reached: by the newest list, by the line with which it has left that, or by the
// configuration.
func (m *Member) reach(id uint32) (Server, bool) {
	_, newest := m.newest()
	for _, servers := range [][]Server{newest, serversOf(m.departing()), m.cfg.Servers} {
		if i := slices.IndexFunc(servers, func(s Server) bool { return s.ID == id }); i >= 0 {
			return servers[i], true
		}
	}
	return Server{}, false
}

func serversOf(servers roster.List) []Server {
	all := make([]Server, 0, len(servers))
	for _, s := range servers {
		all = append(all, serverOf(s))
	}
	return all
}

func serverOf(s roster.Server) Server {
	return Server{ID: s.ID, Grpc: s.QuorumAddr(), Raft: s.ElectionAddr(), Observer: s.Observer}
}

// alone reports whether this member is a standalone server, which no other ever joins.
func (m *Member) alone() bool { return m.cfg.EnsembleText == nil && len(m.cfg.Servers) == 1 }

// self returns this member as it is configured: it listens there, wherever the others look for it.
func (m *Member) self() Server {
	i := slices.IndexFunc(m.cfg.Servers, func(s Server) bool { return s.ID == m.cfg.ID })
	return m.cfg.Servers[i] // New has checked it
}

// wanted implements quorum.Config.Wanted.
func (m *Member) wanted() ([]wire.Peer, bool) {
	r := m.roster.Load()
	if r == nil {
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

// learnList takes a server list if it may be this ensemble's and is newer than what is known. It takes the lines of
// servers that have left also with the list that this member knows.
func (m *Member) learnList(message *proto.Roster) error {
	r, err := znode.RosterOf(message)
	if err != nil {
		return err
	}
	before := m.list()
	version, _ := m.newest()
	if !m.ours(&r) || r.Version < version {
		return nil
	}
	changed := r.Version > version && m.known.learn(&r)
	if changed {
		m.replaced(before, r.Servers)
	}
	if m.known.left(r.Ensemble, linesOf(message.GetLeaving())) || changed {
		m.spread()
		m.relist()
	}
	return nil
}

// linesOf returns the servers of lines, each read by itself: two that have left may have had the same address. They are
// hints, so one that cannot be read is left out.
func linesOf(lines []string) (servers roster.List) {
	for _, line := range lines {
		if one, err := roster.ParseLines([]string{line}); err == nil {
			servers = append(servers, one...)
		}
	}
	return servers
}

// recall takes the server list that an earlier process of this member has stored. One of another ensemble is ignored.
func (m *Member) recall() error {
	var list proto.Roster
	stored := m.node.List()
	if len(stored) == 0 {
		return nil
	}
	err := protobuf.Unmarshal(stored, &list)
	if err == nil {
		err = m.learnList(&list)
	}
	if err != nil {
		return disk.Explain(fmt.Errorf("member: the stored server list is %w: %w", disk.ErrDamaged, err), !m.alone())
	}
	return nil
}

// spread tells the packages below which servers the newest list has. The connection to a server that has come, or is
// elsewhere now, is closed: the process that had its id before may still run and answer. The connection to one that
// has gone is kept, and so is its address, because that one may vote until raft's configuration follows.
func (m *Member) spread() {
	m.known.spreading.Lock()
	defer m.known.spreading.Unlock()
	last := m.known.spread
	if last == nil {
		last = m.cfg.Servers
	}
	_, m.known.spread = m.newest()
	m.ports.book.List(raftPeers(slices.Concat(m.known.spread, serversOf(m.departing()))))
	for _, s := range m.known.spread {
		same := func(o Server) bool { return o.ID == s.ID && o.Grpc == s.Grpc }
		if s.ID != m.cfg.ID && !slices.ContainsFunc(last, same) {
			m.peers.moved(s.ID)
		}
	}
}

// sameAsRaft reports whether raft's configuration has the servers of a list, in the same roles and at the same
// addresses. This member's address may differ: it may have been a standalone server. A difference is logged.
func (m *Member) sameAsRaft(list roster.List) bool {
	have, want := m.node.Configuration(), raftPeers(serversOf(list))
	for i := range have {
		if own, in := list.Find(m.cfg.ID); in && have[i].ID == m.cfg.ID {
			have[i].Addr = own.ElectionAddr()
		}
	}
	if slices.Equal(have, want) {
		return true
	}
	m.log.Warn("the ensemble gets no list of servers from this member: its server lines are not the members that there are; correct them, and restart it",
		"configured", wire.Canonical(want), "members", wire.Canonical(have))
	return false
}

// rosterMessage returns the newest server list that this member knows for other members, or nil. hearsay reports
// whether it is not the list of the state.
func (m *Member) rosterMessage() (list *proto.Roster, hearsay bool) {
	r := m.list()
	if r == nil {
		return nil, false
	}
	return m.listMessage(r), r != m.roster.Load()
}

// listMessage returns a list for other members and for the next process, with the servers that are leaving it.
func (m *Member) listMessage(r *znode.Roster) *proto.Roster {
	message := r.Message()
	message.Leaving = m.departing().Lines()
	return message
}

// relist makes listLoop look at the lists. It does not block.
func (m *Member) relist() {
	select {
	case m.relisted <- struct{}{}:
	default:
	}
}

// listLoop tells the packages below of each new list of the state, and stores which ensemble this is, and the newest
// list.
func (m *Member) listLoop(ctx context.Context) error {
	told := false
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
			if err := m.node.SetEnsemble(r.Ensemble); err != nil {
				return err
			}
			told = m.compareList(r, told)
		}
		if r := m.list(); r != nil && m.inEnsemble() {
			newest := m.listMessage(r) // also without another list, because servers that were leaving may have left
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
	_, known := m.node.Ensemble()
	return known
}

// store stores a list for the next process.
func (m *Member) store(newest *proto.Roster) error {
	list, err := protobuf.Marshal(newest)
	if err != nil {
		return fmt.Errorf("member: store the server list: %w", err)
	}
	return m.node.StoreList(list)
}

// compareList logs once that the configured server lines are not the ensemble's list, and returns whether they
// differ.
func (m *Member) compareList(r *znode.Roster, told bool) bool {
	configured, err := roster.ParseList(string(m.cfg.EnsembleText))
	if err != nil {
		return told
	}
	differs := !slices.Equal(r.Servers.Lines(), configured.Lines())
	switch {
	case differs && !told:
		m.log.Warn("the server lines in the configuration are not the ensemble's list; the list counts", "version", fmt.Sprintf("%#x", r.Version),
			"list", r.Servers.Lines(), "configured", configured.Lines())
	case !differs && told:
		m.log.Info("the server lines in the configuration are the ensemble's list again", "version", fmt.Sprintf("%#x", r.Version))
	}
	return differs
}

// ServerLines returns servers as a data folder names those for which it was made.
func ServerLines(servers []Server) []string { return wire.Canonical(raftPeers(servers)) }
