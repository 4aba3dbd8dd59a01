package member

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// serverLists has the server lists that this member knows: the list of the state, and one that another member
// has sent or an earlier process of this member has stored. While this member starts, the state has no list or
// an old one. It is safe for concurrent use.
type serverLists struct {
	memberID          uint32
	configuredServers []Server
	configuredText    []byte // the configured list; nil: standalone
	clientPort        int    // where this member listens for clients; 0: nowhere
	addressBook       *wire.AddressBook
	onMoved           func(member uint32) // called when another process may have the member's id
	log               *slog.Logger

	appliedList      atomic.Pointer[znode.ServerList] // the list of the state; nil: none
	listChanged      chan struct{}                    // one place
	addressesUpdated chan struct{}                    // listChangeLoop has spread another list of the state; one place

	mu           sync.Mutex
	receivedList *znode.ServerList // the list with the newest version; nil: none

	addressMu sync.Mutex        // one update of the address book at a time
	lastList  *znode.ServerList // of the last update; nil: none; addressMu guards it
}

// newServerLists returns the lists of a member that has only its configuration. moved closes the connection to
// a member.
func newServerLists(cfg *Config, book *wire.AddressBook, moved func(member uint32), log *slog.Logger) *serverLists {
	return &serverLists{
		memberID: cfg.ID, configuredServers: cfg.Servers, configuredText: cfg.EnsembleText, addressBook: book, onMoved: moved,
		log: log, clientPort: listenerPort(cfg.ClientListener),
		listChanged: make(chan struct{}, 1), addressesUpdated: make(chan struct{}, 1),
	}
}

// newestList returns the newest list of this ensemble, or nil. Do not change it.
func (l *serverLists) newestList() *znode.ServerList {
	own, received := l.appliedList.Load(), l.loadReceived()
	if received == nil || !l.mayBeOurs(received) || own != nil && own.Version >= received.Version {
		return own
	}
	return received
}

func (l *serverLists) loadReceived() *znode.ServerList {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.receivedList
}

// mayBeOurs reports whether a list may be this ensemble's, as far as this member knows its ensemble.
func (l *serverLists) mayBeOurs(r *znode.ServerList) bool {
	own := l.addressBook.EnsembleID()
	return own == wire.EnsembleID{} || own == r.EnsembleID
}

// newestServers returns the servers of the newest list and its version, or 0 if there is none.
func (l *serverLists) newestServers() (version int64, servers []Server) {
	r := l.newestList()
	if r == nil {
		return 0, nil
	}
	return r.Version, serversFromList(r.Servers)
}

// addressesOf returns the addresses of a member from the newest list or, if it is not there, from raft's configuration,
// which may have voters that are in no list any more, or from this member's own server lines.
func (l *serverLists) addressesOf(id uint32) (Server, bool) {
	_, servers := l.newestServers()
	if i := slices.IndexFunc(servers, func(s Server) bool { return s.ID == id }); i >= 0 {
		return servers[i], true
	}
	p, known := l.addressBook.FindPeer(id)
	return Server{ID: p.ID, GrpcAddr: p.GRPCAddr, RaftAddr: p.Addr, Observer: p.Observer}, known
}

// currentList returns the list of the state, or the configured one while the state has none. It is empty for a
// standalone server.
func (l *serverLists) currentList() serverlist.List {
	list, _ := serverlist.ParseList(l.currentText())
	return list
}

func (l *serverLists) currentText() string {
	if r := l.appliedList.Load(); r != nil {
		return r.ConfigText()
	}
	return string(l.configuredText)
}

// followWantedPeers implements quorum.Config.WantedServers. It updates the address book before it returns a list, so a later
// Hello is not answered from an address of a list before. It may wait for another update.
func (l *serverLists) followWantedPeers() ([]wire.Peer, bool) {
	peers, listed := l.wantedPeers()
	if listed {
		l.updateAddressBook()
	}
	return peers, listed
}

// wantedPeers returns the voters and observers of the state's list. It ignores a list of another ensemble, from before a
// recovery of the data.
func (l *serverLists) wantedPeers() ([]wire.Peer, bool) {
	r := l.appliedList.Load()
	if r == nil || !l.mayBeOurs(r) {
		return nil, false
	}
	return raftPeers(serversFromList(r.Servers)), true
}

// listAfter returns the list of the state after a change, or nil if the change cannot be made or there is no list.
func (l *serverLists) listAfter(change serverlist.Change) serverlist.List {
	r := l.appliedList.Load()
	if r == nil {
		return nil
	}
	next, err := r.Servers.Apply(change)
	if err != nil || r.Servers.CheckAddressCycles(next) != nil {
		return nil
	}
	return next
}

// learnFromHello accepts the server list in another member's reply, if it is newer.
func (l *serverLists) learnFromHello(reply *proto.HelloReply) {
	if reply.GetServerList() == nil {
		return
	}
	if err := l.acceptIfNewer(reply.GetServerList()); err != nil {
		l.log.Warn("another member's server list cannot be read", "peer", reply.GetMember(), "err", err)
	}
}

// acceptIfNewer accepts a server list if it may be this ensemble's and is newer than the known ones.
func (l *serverLists) acceptIfNewer(message *proto.ServerList) error {
	r, err := znode.ServerListFromProto(message)
	if err != nil {
		return err
	}
	if version, _ := l.newestServers(); l.mayBeOurs(&r) && r.Version > version && l.storeIfNewer(&r) {
		l.updateAddressBook()
		l.wakeListLoop()
	}
	return nil
}

// storeIfNewer stores a received list, unless it is older than the stored one of the same ensemble. It
// reports whether it did.
func (l *serverLists) storeIfNewer(r *znode.ServerList) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.receivedList != nil && l.receivedList.EnsembleID == r.EnsembleID && r.Version <= l.receivedList.Version {
		return false
	}
	l.receivedList = r
	return true
}

// loadStored loads the server list that an earlier process of this member has stored. It ignores one of another
// ensemble.
func (l *serverLists) loadStored(node *quorum.Node) error {
	var list proto.ServerList
	stored := node.Record().StoredServerList()
	if len(stored) == 0 {
		return nil
	}
	err := protobuf.Unmarshal(stored, &list)
	if err == nil {
		err = l.acceptIfNewer(&list)
	}
	if err != nil {
		standalone := l.configuredText == nil && len(l.configuredServers) == 1
		return disk.WithAdvice(fmt.Errorf("member: the stored server list is %w: %w", disk.ErrDamaged, err), !standalone)
	}
	return nil
}

// updateAddressBook passes the servers of the newest list to the address book. It closes the connection to a
// server that was added or has moved, because the process that had its id before may still run and reply. It
// keeps the connection to a removed server, which may vote until raft's configuration follows.
func (l *serverLists) updateAddressBook() {
	l.addressMu.Lock()
	defer l.addressMu.Unlock()
	newest := l.newestList()
	if newest == nil || newest == l.lastList {
		return
	}
	last := l.configuredServers
	if l.lastList != nil {
		last = serversFromList(l.lastList.Servers)
	}
	servers := serversFromList(newest.Servers)
	l.lastList = newest
	l.addressBook.SetServerList(raftPeers(servers))
	for _, s := range servers {
		same := func(o Server) bool { return o.ID == s.ID && o.GrpcAddr == s.GrpcAddr }
		if s.ID != l.memberID && !slices.ContainsFunc(last, same) {
			l.onMoved(s.ID)
		}
	}
}

// rosterMessage returns the newest server list for other members, or nil. hearsay reports whether it is not the
// list of the state.
func (l *serverLists) rosterMessage() (list *proto.ServerList, hearsay bool) {
	r := l.newestList()
	if r == nil {
		return nil, false
	}
	return r.ToProto(), r != l.appliedList.Load()
}

// wakeListLoop makes listChangeLoop check the lists. It does not block.
func (l *serverLists) wakeListLoop() {
	select {
	case l.listChanged <- struct{}{}:
	default:
	}
}

// listChangeLoop spreads each new list of the state, and stores the newest list. It calls membersChanged after each change of
// a list or of raft's configuration.
func (l *serverLists) listChangeLoop(ctx context.Context, node *quorum.Node, membersChanged func() error) error {
	differs := false
	var stored *proto.ServerList
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.listChanged:
		}
		if r := l.appliedList.Load(); r != nil {
			l.updateAddressBook()
			node.WantedServersChanged()
			select {
			case l.addressesUpdated <- struct{}{}:
			default:
			}
			differs = l.compareConfigured(r, differs)
		}
		if err := membersChanged(); err != nil {
			return err
		}
		if r := l.newestList(); r != nil && knowsEnsemble(node) {
			newest := r.ToProto()
			if protobuf.Equal(newest, stored) {
				continue
			}
			if err := storeList(node, newest); err != nil {
				return err
			}
			stored = newest
		}
	}
}

// knowsEnsemble reports whether this member knows its ensemble. Before that, a received list may be another
// ensemble's, and is not stored.
func knowsEnsemble(node *quorum.Node) bool {
	_, known := node.Record().EnsembleID()
	return known
}

// storeList stores a list for the next process.
func storeList(node *quorum.Node, newest *proto.ServerList) error {
	list, err := protobuf.Marshal(newest)
	if err != nil {
		return fmt.Errorf("member: store the server list: %w", err)
	}
	return node.Record().StoreServerList(list)
}

// compareConfigured reports whether the configured server lines differ from the ensemble's list, and logs a
// change. differed is the result of the last call.
func (l *serverLists) compareConfigured(r *znode.ServerList, differed bool) bool {
	configured, err := serverlist.ParseList(string(l.configuredText))
	if err != nil {
		return differed
	}
	differs := !slices.Equal(r.Servers.CanonicalLines(), configured.CanonicalLines())
	switch {
	case differs && !differed:
		l.log.Warn("the server lines in the configuration are not the ensemble's list; the list counts", "version",
			fmt.Sprintf("%#x", r.Version),
			"list", r.Servers.CanonicalLines(), "configured", configured.CanonicalLines())
	case !differs && differed:
		l.log.Info("the server lines in the configuration are the ensemble's list again", "version",
			fmt.Sprintf("%#x", r.Version))
	}
	return differs
}

func serversFromList(servers serverlist.List) []Server {
	all := make([]Server, 0, len(servers))
	for _, s := range servers {
		all = append(all, serverFromLine(s))
	}
	return all
}

func serverFromLine(s serverlist.Server) Server {
	return Server{ID: s.ID, GrpcAddr: s.QuorumAddr(), RaftAddr: s.ElectionAddr(), Observer: s.Observer}
}

// ServerLines returns servers in the format of a data directory's server list.
func ServerLines(servers []Server) []string { return wire.CanonicalLines(raftPeers(servers)) }
