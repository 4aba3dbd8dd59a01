package wire

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// maxMember is the highest member id. ZooKeeper's ids fit in the top byte of a session id.
const maxMember = 255

// Peer is one member.
type Peer struct {
	ID       uint32 // 1 to 255
	Addr     string // host:port at which others reach its raft; no two peers share one
	Observer bool   // it does not vote
}

// ServerID returns the member's id as raft writes it.
func (p Peer) ServerID() raft.ServerID { return raft.ServerID(strconv.FormatUint(uint64(p.ID), 10)) }

// MemberID is the inverse of ServerID. It returns 0 if id is not a member's.
func MemberID(id raft.ServerID) uint32 {
	n, err := strconv.ParseUint(string(id), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// CheckPeers returns an error for a list that raft could misread. raft tells candidates apart only
// by their addresses, so two members with one address would share their votes.
func CheckPeers(self uint32, peers []Peer) error {
	ids, addrs := map[uint32]bool{}, map[string]uint32{}
	for _, p := range peers {
		if p.ID < 1 || p.ID > maxMember {
			return fmt.Errorf("quorum: member id %d is not between 1 and %d", p.ID, maxMember)
		}
		if ids[p.ID] {
			return fmt.Errorf("quorum: member %d is listed twice", p.ID)
		}
		ids[p.ID] = true
		norm, err := checkAddr(p.Addr)
		if err != nil {
			return fmt.Errorf("quorum: address %q of member %d: %w", p.Addr, p.ID, err)
		}
		if other, ok := addrs[norm]; ok {
			return fmt.Errorf("quorum: members %d and %d share the address %q", other, p.ID, p.Addr)
		}
		addrs[norm] = p.ID
	}
	switch {
	case !ids[self]:
		return fmt.Errorf("quorum: this member, %d, is not in the server list", self)
	case len(Voters(peers)) == 0:
		return errors.New("quorum: the server list has only observers: nobody could vote")
	}
	return nil
}

// checkAddr returns addr in a form in which equal addresses are equal strings.
func checkAddr(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	if host == "" {
		return "", errors.New("no host: others could not reach it")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip = ip.Unmap(); ip.IsUnspecified() {
			return "", errors.New("a wildcard is no address that others can reach")
		}
		host = ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")) + ":" + port, nil
}

// Sorted returns peers by id, the order in which every member writes them.
func Sorted(peers []Peer) []Peer {
	return slices.SortedFunc(slices.Values(peers), func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
}

// Canonical returns the server list as every member writes it: one line for each member, by id.
func Canonical(peers []Peer) []string {
	lines := make([]string, 0, len(peers))
	for _, p := range Sorted(peers) {
		line := fmt.Sprintf("server.%d=%s", p.ID, p.Addr)
		if p.Observer {
			line += ":observer"
		}
		lines = append(lines, line)
	}
	return lines
}

// ConfigHash returns the SHA-256 of the canonical server list. It is the same on every member,
// whatever the order of its own list.
func ConfigHash(peers []Peer) []byte {
	hash := HashOf(Canonical(peers))
	return hash[:]
}

// HashOf returns the hash of a server list that is in its canonical form.
func HashOf(canonical []string) EnsembleID {
	return sha256.Sum256([]byte(strings.Join(canonical, "\n")))
}

// Configuration returns peers as raft's bootstrap entry holds them, byte for byte the same on every
// member.
func Configuration(peers []Peer) raft.Configuration {
	var c raft.Configuration
	for _, p := range Sorted(peers) {
		s := raft.Server{ID: p.ServerID(), Address: raft.ServerAddress(p.Addr)}
		if p.Observer {
			s.Suffrage = raft.Nonvoter
		}
		c.Servers = append(c.Servers, s)
	}
	return c
}

// Peers is the inverse of Configuration. Servers whose id is no member's are left out.
func Peers(c raft.Configuration) []Peer {
	peers := make([]Peer, 0, len(c.Servers))
	for _, s := range c.Servers {
		if id := MemberID(s.ID); id != 0 {
			peers = append(peers, Peer{ID: id, Addr: string(s.Address), Observer: s.Suffrage != raft.Voter})
		}
	}
	return Sorted(peers)
}

// Voters returns the ids of the peers that vote, in their order.
func Voters(peers []Peer) []uint32 {
	ids := make([]uint32, 0, len(peers))
	for _, p := range peers {
		if !p.Observer {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
