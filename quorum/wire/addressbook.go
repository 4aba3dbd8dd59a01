package wire

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"slices"
	"sync"

	"rollcall/quorum/disk"
)

// EnsembleID identifies an ensemble. Members of different ensembles reject each other's connections, even if
// their server lists are the same. The zero value means unknown.
type EnsembleID [hashSize]byte

// AddressBook has the known members with the addresses of their raft ports, and this member's ensemble. Both
// sides of every connection between members use it. It is safe for concurrent use.
type AddressBook struct {
	selfPeer   Peer
	runID      uint64 // drawn at random by this process
	seedPeers  []Peer // configured
	configHash EnsembleID

	mu              sync.Mutex
	diskID          disk.ID // 0 until the data directory is open
	ensembleID      EnsembleID
	listedPeers     []Peer
	raftPeers       func() []Peer // returns raft's configuration; takes no lock of this package
	peersChanged    func(all []Peer)
	ensembleChanged func()
}

// NewAddressBook returns an address book that knows the configured members only. seeds includes self.
func NewAddressBook(self uint32, seeds []Peer) *AddressBook {
	b := &AddressBook{
		seedPeers: SortedByID(seeds), configHash: EnsembleID(ConfigHash(seeds)),
		raftPeers: func() []Peer { return nil }, peersChanged: func([]Peer) {}, ensembleChanged: func() {},
	}
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

// Self returns this member as configured, with its disk if that is known.
func (b *AddressBook) Self() Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	self := b.selfPeer
	self.DiskID = b.diskID
	return self
}

// RunID returns the random number of this process, which is not 0.
func (b *AddressBook) RunID() uint64 { return b.runID }

// SetDiskID sets this member's disk. Until then, this member neither sends hellos nor replies to them.
func (b *AddressBook) SetDiskID(id disk.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.diskID = id
}

// SetServerList replaces the ensemble's server list. Configured members and those in raft's configuration
// stay known.
func (b *AddressBook) SetServerList(listed []Peer) {
	b.mu.Lock()
	b.listedPeers = SortedByID(listed)
	changed := b.peersChanged
	b.mu.Unlock()
	changed(b.AllPeers())
}

// SetRaftPeersFunc sets the function that returns raft's current configuration.
func (b *AddressBook) SetRaftPeersFunc(configured func() []Peer) {
	b.mu.Lock()
	b.raftPeers = configured
	changed := b.peersChanged
	b.mu.Unlock()
	changed(b.AllPeers())
}

// onChange sets the function that is called with all known members when they change.
func (b *AddressBook) onChange(changed func(all []Peer)) {
	b.mu.Lock()
	b.peersChanged = changed
	b.mu.Unlock()
	changed(b.AllPeers())
}

// AllPeers returns the known members in order of id. A member may have several addresses, those of the server
// list first.
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

// FindPeer returns a member at its first address in AllPeers.
func (b *AddressBook) FindPeer(id uint32) (Peer, bool) {
	all := b.AllPeers()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.ID == id })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

// OnePerMember returns each known member once, at its first address in AllPeers.
func (b *AddressBook) OnePerMember() []Peer {
	return slices.CompactFunc(b.AllPeers(), func(a, b Peer) bool { return a.ID == b.ID })
}

// MemberIDs returns the id of each known member, in order.
func (b *AddressBook) MemberIDs() []uint32 {
	all := b.OnePerMember()
	ids := make([]uint32, len(all))
	for i, p := range all {
		ids[i] = p.ID
	}
	return ids
}

// IsKnown reports whether a member is in the server list, in raft's configuration, or configured.
func (b *AddressBook) IsKnown(id uint32) bool {
	_, known := b.FindPeer(id)
	return known
}

// HostsOf returns the hosts of a member, or nil if it is unknown. They come from the server list and from
// raft's configuration, because either may be newer while there is no leader. If the list lacks the member,
// its configured host counts too.
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

// HasLeft reports whether a member has left the ensemble: there is a server list, and neither that nor raft's configuration
// has the member.
func (b *AddressBook) HasLeft(id uint32) bool {
	b.mu.Lock()
	listed, configured := b.listedPeers, b.raftPeers
	b.mu.Unlock()
	isMember := func(p Peer) bool { return p.ID == id }
	return len(listed) > 0 && !slices.ContainsFunc(listed, isMember) && !slices.ContainsFunc(configured(), isMember)
}

// EnsembleID returns the ensemble of this member, or zero if it is not known yet.
func (b *AddressBook) EnsembleID() EnsembleID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ensembleID
}

// SetEnsembleID sets the ensemble and calls the function of OnEnsembleSet. Open connections stay open unless
// that closes them.
func (b *AddressBook) SetEnsembleID(id EnsembleID) {
	b.mu.Lock()
	b.ensembleID = id
	entered := b.ensembleChanged
	b.mu.Unlock()
	entered()
}

// OnEnsembleSet sets the function that is called after SetEnsembleID. The hellos of earlier connections named
// no ensemble.
func (b *AddressBook) OnEnsembleSet(entered func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ensembleChanged = entered
}

// ConfigHash returns the hash of the configured server list.
func (b *AddressBook) ConfigHash() EnsembleID { return b.configHash }

func hostsOf(peers []Peer) []string {
	all := make([]string, 0, len(peers))
	for _, p := range peers {
		if host, _, err := net.SplitHostPort(p.Addr); err == nil {
			all = append(all, host)
		}
	}
	return all
}
