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

// Book is the address book of a member: which members there are, where raft reaches them, and which
// ensemble they form. raft's connections are made by it, and all are answered by it. It is safe for
// concurrent use.
type Book struct {
	self  Peer
	start uint64 // drawn by this process
	seeds []Peer // the configured server list
	hash  EnsembleID

	mu         sync.Mutex
	disk       disk.ID // of this member; 0: its data directory is not open yet
	ensemble   EnsembleID
	listed     []Peer
	configured func() []Peer // raft's configuration; takes no lock of this package
	changed    func(all []Peer)
	entered    func()
}

// NewBook returns the book of member self, which so far knows what is configured. seeds includes self.
func NewBook(self uint32, seeds []Peer) *Book {
	b := &Book{seeds: Sorted(seeds), hash: EnsembleID(ConfigHash(seeds)), configured: func() []Peer { return nil }, changed: func([]Peer) {}, entered: func() {}}
	var start [8]byte
	_, _ = rand.Read(start[:]) // never fails: crypto/rand ends the program instead
	b.start = binary.BigEndian.Uint64(start[:]) | 1
	for _, p := range seeds {
		if p.ID == self {
			b.self = p
		}
	}
	return b
}

// Self returns this member as it is configured, with its disk if that is known.
func (b *Book) Self() Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	self := b.self
	self.Disk = b.disk
	return self
}

// Start returns a number that this process has drawn at random. It is not 0.
func (b *Book) Start() uint64 { return b.start }

// SetDisk sets the disk of this member. Before that, this member says no hello, and answers none.
func (b *Book) SetDisk(id disk.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disk = id
}

// List replaces the ensemble's server list. Those who are neither in it nor in raft's configuration stay
// known only if they are configured.
func (b *Book) List(listed []Peer) {
	b.mu.Lock()
	b.listed = Sorted(listed)
	changed := b.changed
	b.mu.Unlock()
	changed(b.All())
}

// Follow sets the function that returns raft's present configuration.
func (b *Book) Follow(configured func() []Peer) {
	b.mu.Lock()
	b.configured = configured
	changed := b.changed
	b.mu.Unlock()
	changed(b.All())
}

// onChange sets the function that is called with everybody who is known when that changes.
func (b *Book) onChange(changed func(all []Peer)) {
	b.mu.Lock()
	b.changed = changed
	b.mu.Unlock()
	changed(b.All())
}

// All returns everybody who is known, in order of id. A member may be there with several addresses, those in
// the server list first.
func (b *Book) All() []Peer {
	b.mu.Lock()
	listed, configured := b.listed, b.configured
	b.mu.Unlock()
	all := slices.Concat(listed, configured(), b.seeds)
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

// Find returns a member at the first address that All has.
func (b *Book) Find(id uint32) (Peer, bool) {
	all := b.All()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.ID == id })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

// Once returns everybody who is known once, at the first address that All has.
func (b *Book) Once() []Peer {
	return slices.CompactFunc(b.All(), func(a, b Peer) bool { return a.ID == b.ID })
}

// Known reports whether a member is in the server list, in raft's configuration, or configured.
func (b *Book) Known(id uint32) bool {
	_, known := b.Find(id)
	return known
}

// Hosts returns the hosts of a member, or nil if it is not known. They are those in the server list and in raft's
// configuration, of which either may be newer while there is no leader. The configured one counts, too, as long as
// the list does not have the member.
func (b *Book) Hosts(id uint32) []string {
	b.mu.Lock()
	listed, configured := b.listed, b.configured
	b.mu.Unlock()
	other := func(p Peer) bool { return p.ID != id }
	known := slices.DeleteFunc(slices.Clone(listed), other)
	if len(known) == 0 {
		known = slices.DeleteFunc(slices.Clone(b.seeds), other)
	}
	return hosts(slices.Concat(known, slices.DeleteFunc(slices.Clone(configured()), other)))
}

// Ensemble returns the ensemble that this member belongs to, or zero if that is not known yet.
func (b *Book) Ensemble() EnsembleID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ensemble
}

// SetEnsemble sets it. Connections that are open stay open, unless what OnEnsemble has set closes them.
func (b *Book) SetEnsemble(id EnsembleID) {
	b.mu.Lock()
	b.ensemble = id
	entered := b.entered
	b.mu.Unlock()
	entered()
}

// OnEnsemble sets the function that is called when the ensemble has been set: connections that were made before have named none.
func (b *Book) OnEnsemble(entered func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entered = entered
}

// Hash returns the hash of the configured server list.
func (b *Book) Hash() EnsembleID { return b.hash }

// hosts returns the hosts in the addresses of peers.
func hosts(peers []Peer) []string {
	all := make([]string, 0, len(peers))
	for _, p := range peers {
		if host, _, err := net.SplitHostPort(p.Addr); err == nil {
			all = append(all, host)
		}
	}
	return all
}
