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

	"rollcall/quorum/disk"
)

// maxMemberID is ZooKeeper's: ids fit in the top byte of a session id.
const maxMemberID = 255

// Peer is one member: a line of a server list, or a server in raft's configuration.
type Peer struct {
	ID       uint32  // 1 to 255
	DiskID   disk.ID // of a server in raft's configuration; 0 in a server list
	Addr     string  // host:port of its raft port; unique in a list
	GRPCAddr string  // host:port of its gRPC port, for packages above
	Observer bool    // it does not vote
}

// ServerID returns the server's id in raft, such as "3.00c0ffee00c0ffee". It includes the disk, so it is
// never reused.
func (p Peer) ServerID() raft.ServerID {
	return raft.ServerID(strconv.FormatUint(uint64(p.ID), 10) + "." + p.DiskID.String())
}

// ServerAddress returns the server's address in raft's configuration: its id, "@", its host:port, and, if
// known, "/" and its gRPC address. raft accepts no address twice, and while a new disk replaces an old one,
// both are in the configuration at one host:port. A leader needs the gRPC address of voters that are in no
// list any more.
func (p Peer) ServerAddress() raft.ServerAddress {
	address := string(p.ServerID()) + "@" + p.Addr
	if p.GRPCAddr != "" {
		address += "/" + p.GRPCAddr
	}
	return raft.ServerAddress(address)
}

// parseServerAddress is the inverse of Peer.ServerAddress. It leaves Observer false.
func parseServerAddress(address raft.ServerAddress) (p Peer, ok bool) {
	name, at, _ := strings.Cut(string(address), "@")
	p.Addr, p.GRPCAddr, _ = strings.Cut(at, "/")
	p.ID, p.DiskID, ok = parseServerID(raft.ServerID(name))
	return p, ok
}

// WithoutDisk returns the server-list line of a server in raft's configuration.
func (p Peer) WithoutDisk() Peer {
	p.DiskID = 0
	return p
}

// parseServerID is the inverse of Peer.ServerID. It returns zeros and false for an invalid name.
func parseServerID(name raft.ServerID) (id uint32, of disk.ID, ok bool) {
	member, hex, _ := strings.Cut(string(name), ".")
	n, err := strconv.ParseUint(member, 10, 32)
	if err != nil || n < 1 || n > maxMemberID {
		return 0, 0, false
	}
	d, err := strconv.ParseUint(hex, 16, 64)
	p := Peer{ID: uint32(n), DiskID: disk.ID(d)}
	if err != nil || d == 0 || p.ServerID() != name {
		return 0, 0, false
	}
	return p.ID, p.DiskID, true
}

// MemberID returns the member id in a raft server's id, or 0 if name is invalid.
func MemberID(name raft.ServerID) uint32 {
	id, _, _ := parseServerID(name)
	return id
}

// CheckPeers returns an error for a list that has a duplicate id or address, no voters, or no line for self.
func CheckPeers(self uint32, peers []Peer) error {
	ids, addrs := map[uint32]bool{}, map[string]uint32{}
	for _, p := range peers {
		if p.ID < 1 || p.ID > maxMemberID {
			return fmt.Errorf("quorum: member id %d is not between 1 and %d", p.ID, maxMemberID)
		}
		if ids[p.ID] {
			return fmt.Errorf("quorum: duplicate member %d in the server list", p.ID)
		}
		ids[p.ID] = true
		norm, err := normalizeAddr(p.Addr)
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
	case len(VoterIDs(peers)) == 0:
		return errors.New("quorum: the server list has only observers: nobody could vote")
	}
	return nil
}

// normalizeAddr returns a form of addr in which equal addresses are equal strings.
func normalizeAddr(addr string) (string, error) {
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

// SortedByID returns peers in the order in which every member writes them.
func SortedByID(peers []Peer) []Peer {
	return slices.SortedFunc(slices.Values(peers), func(a, b Peer) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.DiskID, b.DiskID))
	})
}

// CanonicalLines returns the server list as every member writes it: one line per member, by id.
func CanonicalLines(peers []Peer) []string {
	lines := make([]string, 0, len(peers))
	for _, p := range SortedByID(peers) {
		line := fmt.Sprintf("server.%d=%s", p.ID, p.Addr)
		if p.Observer {
			line += ":observer"
		}
		lines = append(lines, line)
	}
	return lines
}

// ConfigHash returns the SHA-256 of the canonical server list. It does not depend on the order of peers.
func ConfigHash(peers []Peer) []byte {
	hash := HashLines(CanonicalLines(peers))
	return hash[:]
}

// HashLines returns the hash of a server list in canonical form.
func HashLines(canonical []string) EnsembleID {
	return sha256.Sum256([]byte(strings.Join(canonical, "\n")))
}

// RaftConfiguration returns raft's configuration of servers, each with its disk.
func RaftConfiguration(peers []Peer) raft.Configuration {
	var c raft.Configuration
	for _, p := range SortedByID(peers) {
		s := raft.Server{ID: p.ServerID(), Address: p.ServerAddress()}
		if p.Observer {
			s.Suffrage = raft.Nonvoter
		}
		c.Servers = append(c.Servers, s)
	}
	return c
}

// PeersIn is the inverse of RaftConfiguration. It omits servers with an invalid address.
func PeersIn(c raft.Configuration) []Peer {
	peers := make([]Peer, 0, len(c.Servers))
	for _, s := range c.Servers {
		if p, ok := parseServerAddress(s.Address); ok {
			p.Observer = s.Suffrage != raft.Voter
			peers = append(peers, p)
		}
	}
	return SortedByID(peers)
}

// VoterIDs returns the ids of the voters, in the order of peers.
func VoterIDs(peers []Peer) []uint32 {
	ids := make([]uint32, 0, len(peers))
	for _, p := range peers {
		if !p.Observer {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
