package wire

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"slices"
	"sync"

	"rollcall/quorum/disk"
)

// EnsembleID identifies an ensemble. Members of different ensembles refuse each other's connections, even
// if their server lists are the same. The zero value means that it is not known yet.
type EnsembleID [hashSize]byte

// AddressBook is the address book of a member: which members there are, where raft reaches them, and which
// ensemble they form. raft's connections are made by it, and all are answered by it. It is safe for
// concurrent use.
type AddressBook struct {
	selfPeer   Peer
	runID      uint64 // drawn by this process
	seedPeers  []Peer // the configured server list
	configHash EnsembleID

	mu              sync.Mutex
	diskID          disk.ID // of this member; 0: its data directory is not open yet
	ensembleID      EnsembleID
	listedPeers     []Peer
	raftPeers       func() []Peer // raft's configuration; takes no lock of this package
	peersChanged    func(all []Peer)
	ensembleChanged func()
}

// NewAddressBook returns the book of member self, which so far knows what is configured. seeds includes self.
func NewAddressBook(self uint32, seeds []Peer) *AddressBook {
	b := &AddressBook{seedPeers: SortedByID(seeds), configHash: EnsembleID(ConfigHash(seeds)), raftPeers: func() []Peer { return nil }, peersChanged: func([]Peer) {}, ensembleChanged: func() {}}
	var start [8]byte
	_, _ = rand.Read(start[:]) // never fails: crypto/rand ends the program instead
	b.runID = binary.BigEndian.Uint64(start[:]) | 1
	for _, p := range seeds {
		if p.ID == self {
			b.selfPeer = p
		}
	}
	return b
}

// Self returns this member as it is configured, with its disk if that is known.
func (b *AddressBook) Self() Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	self := b.selfPeer
	self.DiskID = b.diskID
	return self
}

// RunID returns a number that this process has drawn at random. It is not 0.
func (b *AddressBook) RunID() uint64 { return b.runID }

// SetDiskID sets the disk of this member. Before that, this member says no hello, and answers none.
func (b *AddressBook) SetDiskID(id disk.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.diskID = id
}

// SetServerList replaces the ensemble's server list. Those who are neither in it nor in raft's configuration stay
// known only if they are configured.
func (b *AddressBook) SetServerList(listed []Peer) {
	b.mu.Lock()
	b.listedPeers = SortedByID(listed)
	changed := b.peersChanged
	b.mu.Unlock()
	changed(b.AllPeers())
}

// SetRaftPeers sets the function that returns raft's present configuration.
func (b *AddressBook) SetRaftPeers(configured func() []Peer) {
	b.mu.Lock()
	b.raftPeers = configured
	changed := b.peersChanged
	b.mu.Unlock()
	changed(b.AllPeers())
}

// onChange sets the function that is called with everybody who is known when that changes.
func (b *AddressBook) onChange(changed func(all []Peer)) {
	b.mu.Lock()
	b.peersChanged = changed
	b.mu.Unlock()
	changed(b.AllPeers())
}

// AllPeers returns everybody who is known, in order of id. A member may be there with several addresses, those in
// the server list first.
func (b *AddressBook) AllPeers() []Peer {
	b.mu.Lock()
	listed, configured := b.listedPeers, b.raftPeers
	b.mu.Unlock()
	all := slices.Concat(listed, configured(), b.seedPeers)
	seen := make(map[Peer]bool, len(all))
	all = slices.DeleteFunc(all, func(p Peer) bool {
		key := Peer{ID: p.ID, Addr: p.Addr}
		again := seen[key]
		seen[key] = true
		return again
	})
	slices.SortStableFunc(all, func(a, b Peer) int { return int(a.ID) - int(b.ID) })
	return all
}

// FindPeer returns a member at the first address that All has.
func (b *AddressBook) FindPeer(id uint32) (Peer, bool) {
	all := b.AllPeers()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.ID == id })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

// OnePerMember returns everybody who is known once, at the first address that All has.
func (b *AddressBook) OnePerMember() []Peer {
	return slices.CompactFunc(b.AllPeers(), func(a, b Peer) bool { return a.ID == b.ID })
}

// IsKnown reports whether a member is in the server list, in raft's configuration, or configured.
func (b *AddressBook) IsKnown(id uint32) bool {
	_, known := b.FindPeer(id)
	return known
}

// HostsOf returns the hosts of a member, or nil if it is not known. They are those in the server list and in raft's
// configuration, of which either may be newer while there is no leader. The configured one counts, too, as long as
// the list does not have the member.
func (b *AddressBook) HostsOf(id uint32) []string {
	b.mu.Lock()
	listed, configured := b.listedPeers, b.raftPeers
	b.mu.Unlock()
	other := func(p Peer) bool { return p.ID != id }
	known := slices.DeleteFunc(slices.Clone(listed), other)
	if len(known) == 0 {
		known = slices.DeleteFunc(slices.Clone(b.seedPeers), other)
	}
	return hostsOf(slices.Concat(known, slices.DeleteFunc(slices.Clone(configured()), other)))
}

// EnsembleID returns the ensemble that this member belongs to, or zero if that is not known yet.
func (b *AddressBook) EnsembleID() EnsembleID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ensembleID
}

// SetEnsembleID sets it. Connections that are open stay open, unless what OnEnsemble has set closes them.
func (b *AddressBook) SetEnsembleID(id EnsembleID) {
	b.mu.Lock()
	b.ensembleID = id
	entered := b.ensembleChanged
	b.mu.Unlock()
	entered()
}

// OnEnsembleSet sets the function that is called when the ensemble has been set: connections that were made before have named none.
func (b *AddressBook) OnEnsembleSet(entered func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ensembleChanged = entered
}

// ConfigHash returns the hash of the configured server list.
func (b *AddressBook) ConfigHash() EnsembleID { return b.configHash }

// hostsOf returns the hosts in the addresses of peers.
func hostsOf(peers []Peer) []string {
	all := make([]string, 0, len(peers))
	for _, p := range peers {
		if host, _, err := net.SplitHostPort(p.Addr); err == nil {
			all = append(all, host)
		}
	}
	return all
}
