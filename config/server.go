package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Server is one member, as in its server.N line.
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
func (s Server) QuorumAddr() string { return join(s.Host, s.QuorumPort) }

// ElectionAddr returns the host:port on which raft replicates the log to this member.
func (s Server) ElectionAddr() string { return join(s.Host, s.ElectionPort) }

// ClientAddr returns the host:port of the line's client part, or "" if it has none.
func (s Server) ClientAddr() string {
	if s.ClientPort == 0 {
		return ""
	}
	return join(s.ClientHost, s.ClientPort)
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

const (
	maxServerID = 255 // a session id has one byte for it
	allHosts    = "0.0.0.0"
	maxHost     = 253 // longest DNS name
)

// serverLine takes the line of one member, and adds it to the list.
func serverLine() kind {
	return kind{
		allowed: "`host:quorumPort:electionPort[:participant][;[clientHost:]clientPort]`",
		parse: func(d *draft, s setting) error {
			id, err := parseID(strings.TrimPrefix(s.key, "server."), maxServerID)
			if err != nil {
				return fmt.Errorf("the number after server. must be %w", err)
			}
			server, err := parseServer(id, s.value)
			if err != nil {
				return err
			}
			for _, other := range d.Servers {
				if other.ID == id {
					return fmt.Errorf("server %d is named twice; remove one of the two", id)
				}
			}
			d.Servers = append(d.Servers, server)
			return nil
		},
	}
}

// parseID returns the number of a member. Its error is the range, "1 to most".
func parseID(text string, most uint32) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id < 1 || id > uint64(most) {
		return 0, fmt.Errorf("1 to %d", most)
	}
	return uint32(id), nil
}

var (
	errShape = errors.New("allowed is host:quorumPort:electionPort[:participant|:observer][;[clientHost:]clientPort]")
	errMulti = errors.New("several addresses per server are not served; write one")
)

// parseServer returns the server that text, the value of server.N, describes.
func parseServer(id uint32, text string) (Server, error) {
	if strings.Contains(text, "|") {
		return Server{}, errMulti
	}
	s := Server{ID: id}
	peer, client, hasClient := strings.Cut(text, ";")
	host, rest, ok := cutHost(peer)
	if !ok {
		return Server{}, errShape
	}
	fields := strings.Split(rest, ":")
	if len(fields) != 2 && len(fields) != 3 {
		return Server{}, errShape
	}
	var err error
	if s.Host, err = parseHost(host); err != nil {
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
			return Server{}, fmt.Errorf("role %s: allowed is participant or observer", Brief(fields[2]))
		}
	}
	if hasClient {
		if s.ClientHost, s.ClientPort, err = parseClient(client); err != nil {
			return Server{}, err
		}
	}
	return s, nil
}

// parseClient reads the part of a server line after the semicolon. Without a host, it returns allHosts.
func parseClient(text string) (host string, port int, err error) {
	host, rest, ok := cutHost(text)
	if !ok { // no colon: a port alone
		port, err = parsePort(text)
		return allHosts, port, err
	}
	if host, err = parseHost(host); err != nil {
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

// parseHost checks a name or an address, and returns it without brackets. Only IPv6 may have brackets.
func parseHost(text string) (string, error) {
	inner, bracket := strings.CutPrefix(text, "[")
	if bracket {
		inner, bracket = strings.CutSuffix(inner, "]")
	}
	if addr, err := netip.ParseAddr(inner); err == nil && addr.Zone() == "" && (addr.Is6() || inner == text) {
		return addr.String(), nil
	}
	if bracket || text == "" || len(text) > maxHost || strings.ContainsFunc(text, notHost) {
		return "", fmt.Errorf("host %q: allowed is %s", Brief(text), hostAllowed)
	}
	return text, nil
}

// hostAllowed is what a host may be, in words.
const hostAllowed = "a name, an IPv4 address or an IPv6 address in brackets"

const hostChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

func notHost(r rune) bool { return !strings.ContainsRune(hostChars, r) }

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port < 1 {
		return 0, fmt.Errorf("port %q: allowed is 1 to %d", Brief(text), maxPort)
	}
	return int(port), nil
}

// checkAddresses returns an error if two servers have one address, or if the others cannot connect to
// an address. raft tells members apart by their addresses, so two members may not share one on loopback
// either. Where clients connect, loopback and wildcards may repeat.
func checkAddresses(servers []Server) error {
	taken := make(map[string]uint32)
	for _, s := range servers {
		addrs := []string{s.QuorumAddr(), s.ElectionAddr()}
		if s.ClientPort != 0 && !local(s.ClientHost) {
			addrs = append(addrs, s.ClientAddr())
		}
		for _, addr := range addrs {
			addr = strings.ToLower(addr)
			if other, ok := taken[addr]; ok {
				return fmt.Errorf("%v: server.%d has the address %s too; give each member ports of its own", s, other, addr)
			}
			taken[addr] = s.ID
		}
		if addr, err := netip.ParseAddr(s.Host); err == nil && addr.IsUnspecified() {
			return fmt.Errorf("%v: no member can be reached at %s; write the address that the others use (quorumListenOnAllIPs=true listens on all)", s, s.Host)
		}
	}
	return nil
}

// local reports whether host is a wildcard or a loopback address.
func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && (addr.IsUnspecified() || addr.IsLoopback()) || strings.EqualFold(host, "localhost")
}
