package member

import (
	"net"
	"net/netip"
	"strings"
)

// What operators are told of connections between members that are not protected.
const (
	notAuthenticated = "members are not authenticated"
	plainAccepted    = "plain members are still accepted"

	adviceOnExposure = "members are not authenticated: whoever reaches the ports for members can read and change everything; set ensembleSecretFile or sslQuorum, see docs/security.md"
)

// exposure returns what is wrong with the protection of the members' ports, or "". Ports that only
// this machine reaches need none.
func (m *Member) exposure() string {
	self := m.self()
	switch {
	case m.alone():
		return ""
	case m.ports.guard != nil && m.ports.guard.Unifies():
		return plainAccepted
	case m.ports.guard != nil || local(m.cfg.Bind, self.Grpc, self.Raft):
		return ""
	}
	return notAuthenticated
}

// local reports whether only this machine reaches the addresses on which a member listens for others.
func local(bind func(addr string) string, grpc, raft string) bool {
	return onLoopback(bind(grpc)) && onLoopback(bind(raft))
}

// Protection says how connections between members are protected: "secret", "certificates", "secret and
// certificates" or "none", followed by " or plain" if plain ones are accepted, too. A member that is alone
// has "no ports".
func (m *Member) Protection() string {
	guard := m.ports.guard
	switch {
	case m.alone():
		return "no ports"
	case guard == nil:
		return "none"
	case guard.Unifies():
		return guard.Ways() + " or plain"
	}
	return guard.Ways()
}

// warnOfExposure logs what exposure returns, once.
func (m *Member) warnOfExposure() {
	switch m.exposure() {
	case notAuthenticated:
		m.log.Warn(adviceOnExposure)
	case plainAccepted:
		m.log.Warn("plain members are still accepted: whoever reaches the ports for members can read and change everything; set portUnification=false once all members are protected")
	}
}

// onLoopback reports whether only this machine reaches an address.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
