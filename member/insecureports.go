package member

import (
	"log/slog"
	"net"
	"net/netip"
)

// The insecurities of the ports for members.
const (
	notAuthenticated   = "members are not authenticated"
	plainStillAccepted = "plain members are still accepted"

	insecurePortAdvice = "members are not authenticated: whoever reaches the ports for members can read and change " +
		"everything; set ensembleSecretFile or sslQuorum, see docs/security.md"
)

// insecurity returns the insecurity of the ports for members, or "". Ports that only this machine reaches need
// protection, too, because every user of the machine may connect.
func (p *ports) insecurity() string {
	switch {
	case p.grpcListener == nil:
		return ""
	case p.trustGuard != nil && p.trustGuard.AcceptsPlain():
		return plainStillAccepted
	case p.trustGuard != nil:
		return ""
	}
	return notAuthenticated
}

// areLocal reports whether only this machine reaches the ports for members.
func (p *ports) areLocal() bool {
	return p.grpcListener != nil && isLoopbackAddr(p.grpcListener.Addr()) && isLoopbackAddr(p.raftStream.Listener.Addr())
}

func isLoopbackAddr(a net.Addr) bool {
	addr, err := netip.ParseAddrPort(a.String())
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

func (p *ports) protection() string {
	switch {
	case p.grpcListener == nil:
		return "no ports"
	case p.trustGuard == nil:
		return "none"
	case p.trustGuard.AcceptsPlain():
		return p.trustGuard.ProofMethods() + " or plain"
	}
	return p.trustGuard.ProofMethods()
}

// Protection describes the protection of connections between members: "secret", "certificates", "secret and
// certificates" or "none", followed by " or plain" if plain ones are accepted, too. For a standalone server it
// is "no ports".
func (m *Member) Protection() string { return m.ports.protection() }

// warnInsecurePorts logs once, at the start, that other machines reach ports without protection. About ports that only this
// machine reaches, Health and the status say it.
func (p *ports) warnInsecurePorts(log *slog.Logger) {
	if p.areLocal() {
		return
	}
	switch p.insecurity() {
	case notAuthenticated:
		log.Warn(insecurePortAdvice)
	case plainStillAccepted:
		log.Warn("plain members are still accepted: whoever reaches the ports for members can read and change everything; " +
			"set portUnification=false once all members are protected")
	}
}
