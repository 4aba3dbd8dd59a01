// Package serverlist has the servers of an ensemble: a server's line, the list of them, and changes of the
// list.
//
// Applying the log follows these rules. A list that one version accepts, every version must accept.
package serverlist

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Server is one server of an ensemble, as in its server.N line.
type Server struct {
	ID           uint32 // 1 to 255
	Host         string // name or address, IPv6 without brackets
	QuorumPort   int    // between members
	ElectionPort int    // the log's port
	Observer     bool
	ClientHost   string // "" without a client part
	ClientPort   int    // 0 without a client part
}

// String returns ZooKeeper's canonical form, with the role and, if there is one, the client part.
func (s Server) String() string {
	role := "participant"
	if s.Observer {
		role = "observer"
	}
	text := fmt.Sprintf("server.%d=%s:%d:%s", s.ID, s.QuorumAddr(), s.ElectionPort, role)
	if s.ClientPort != 0 {
		text += ";" + s.ClientAddr()
	}
	return text
}

// QuorumAddr returns the host:port on which the other members reach this one.
func (s Server) QuorumAddr() string { return joinHostPort(s.Host, s.QuorumPort) }

// ElectionAddr returns the host:port on which raft replicates the log to this member.
func (s Server) ElectionAddr() string { return joinHostPort(s.Host, s.ElectionPort) }

// ClientAddr returns the host:port of the line's client part, or "" if it has none.
func (s Server) ClientAddr() string {
	if s.ClientPort == 0 {
		return ""
	}
	return joinHostPort(s.ClientHost, s.ClientPort)
}

func joinHostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// MaxID is the highest number of a server: a session id has one byte for it.
const MaxID = 255

// AllHosts is the host of a client part that has only a port.
const AllHosts = "0.0.0.0"

const (
	maxHostLength = 253 // longest DNS name
	maxPort       = 65535
)

// OwnLimit is the error of a number or an address that ZooKeeper takes.
type OwnLimit struct{ text string }

func (e *OwnLimit) Error() string { return e.text }

// ParseID returns the number of a server. Its error is the range, "1 to most", and an *OwnLimit for a greater number.
func ParseID(text string, most uint32) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	switch inRange := fmt.Sprintf("1 to %d", most); {
	case err != nil || id < 1:
		return 0, errors.New(inRange)
	case id > uint64(most):
		return 0, &OwnLimit{inRange}
	}
	return uint32(id), nil
}

var (
	errSyntax       = errors.New("must be host:quorumPort:electionPort[:participant|:observer][;[clientHost:]clientPort]")
	errMultiAddress = errors.New("a server has one address, by which the others know it; write a name that moves with the network in place of several addresses")
)

// ParseServer parses text, the value of server.N.
func ParseServer(id uint32, text string) (Server, error) {
	if strings.Contains(text, "|") {
		return Server{}, errMultiAddress
	}
	s := Server{ID: id}
	peer, client, hasClient := strings.Cut(text, ";")
	host, rest, ok := cutHost(peer)
	if !ok {
		return Server{}, errSyntax
	}
	fields := strings.Split(rest, ":")
	if len(fields) != 2 && len(fields) != 3 {
		return Server{}, errSyntax
	}
	var err error
	if s.Host, err = ParseHost(host); err != nil {
		return Server{}, err
	}
	if s.QuorumPort, err = parsePort(fields[0]); err != nil {
		return Server{}, err
	}
	if s.ElectionPort, err = parsePort(fields[1]); err != nil {
		return Server{}, err
	}
	if s.QuorumPort == s.ElectionPort {
		return Server{}, errors.New("quorumPort and electionPort must differ")
	}
	if len(fields) == 3 {
		s.Observer = strings.EqualFold(fields[2], "observer")
		if !s.Observer && !strings.EqualFold(fields[2], "participant") {
			return Server{}, fmt.Errorf("role %.80q: must be participant or observer", fields[2])
		}
	}
	if hasClient {
		if s.ClientHost, s.ClientPort, err = parseClient(client); err != nil {
			return Server{}, err
		}
	}
	return s, nil
}

// parseClient parses the part of a server line after the semicolon. Without a host, it returns AllHosts.
func parseClient(text string) (host string, port int, err error) {
	host, rest, ok := cutHost(text)
	if !ok { // no colon: a port alone
		port, err = parsePort(text)
		return AllHosts, port, err
	}
	if host, err = ParseHost(host); err != nil {
		return "", 0, err
	}
	port, err = parsePort(rest)
	return host, port, err
}

// cutHost splits text at the colon after the host, which may be in brackets.
func cutHost(text string) (host, rest string, ok bool) {
	if strings.HasPrefix(text, "[") {
		host, rest, ok = strings.Cut(text, "]:")
		return host + "]", rest, ok
	}
	return strings.Cut(text, ":")
}

// ParseHost checks a name or an address, and returns it without brackets. Only IPv6 may have brackets.
func ParseHost(text string) (string, error) {
	inner, bracket := strings.CutPrefix(text, "[")
	if bracket {
		inner, bracket = strings.CutSuffix(inner, "]")
	}
	if addr, err := netip.ParseAddr(inner); err == nil && addr.Zone() == "" && (addr.Is6() || inner == text) {
		return addr.String(), nil
	}
	if bracket || text == "" || len(text) > maxHostLength || strings.ContainsFunc(text, isNotHostChar) {
		return "", fmt.Errorf("host %.80q: must be %s", text, HostSyntax)
	}
	return text, nil
}

// HostSyntax describes a valid host.
const HostSyntax = "a name, an IPv4 address or an IPv6 address in brackets"

const hostChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

func isNotHostChar(r rune) bool { return !strings.ContainsRune(hostChars, r) }

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port < 1 {
		return 0, fmt.Errorf("port %.80q: must be 1 to %d", text, maxPort)
	}
	return int(port), nil
}

// CheckAddresses returns an error if two servers have one address, or if other servers cannot connect to an
// address. raft identifies members by their addresses, so two of them may not share one on loopback either.
// The addresses for clients may repeat if they are loopback or wildcards.
func CheckAddresses(servers []Server) error {
	taken := make(map[string]uint32)
	for _, s := range servers {
		addrs := []string{s.QuorumAddr(), s.ElectionAddr()}
		if s.ClientPort != 0 && !isWildcardOrLoopback(s.ClientHost) {
			addrs = append(addrs, s.ClientAddr())
		}
		for _, addr := range addrs {
			if other, ok := taken[normalizeAddr(addr)]; ok {
				return fmt.Errorf("%v: server.%d has the address %s too; give each member ports of its own", s, other,
					normalizeAddr(addr))
			}
			taken[normalizeAddr(addr)] = s.ID
		}
		if addr, err := netip.ParseAddr(s.Host); err == nil && addr.Unmap().IsUnspecified() {
			return &OwnLimit{fmt.Sprintf("%v: no member can be reached at %s; write the address that the others use "+
				"(quorumListenOnAllIPs=true listens on all)", s, s.Host)}
		}
	}
	return nil
}

// normalizeAddr returns an address in a form in which equal addresses are equal strings.
func normalizeAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(host, ".")), port)
}

// isWildcardOrLoopback reports whether host is a wildcard or a loopback address.
func isWildcardOrLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && (addr.Unmap().IsUnspecified() || addr.IsLoopback()) || strings.EqualFold(host, "localhost")
}
