package member

import "log/slog"

// What is wrong with the protection of the ports for members.
const (
	notAuthenticated = "members are not authenticated"
	plainAccepted    = "plain members are still accepted"

	adviceOnExposure = "members are not authenticated: whoever reaches the ports for members can read and change everything; set ensembleSecretFile or sslQuorum, see docs/security.md"
)

// exposure returns what is wrong with the protection of the ports, or "". Ports that only
// this machine reaches need protection, too: every user of the machine may connect.
func (p *ports) exposure() string {
	switch {
	case p.grpc == nil:
		return ""
	case p.guard != nil && p.guard.AcceptsPlain():
		return plainAccepted
	case p.guard != nil:
		return ""
	}
	return notAuthenticated
}

func (p *ports) protection() string {
	switch {
	case p.grpc == nil:
		return "no ports"
	case p.guard == nil:
		return "none"
	case p.guard.AcceptsPlain():
		return p.guard.ProofMethods() + " or plain"
	}
	return p.guard.ProofMethods()
}

// Protection describes how connections between members are protected: "secret", "certificates", "secret and
// certificates" or "none", followed by " or plain" if plain ones are accepted, too. A member that is alone
// has "no ports".
func (m *Member) Protection() string { return m.ports.protection() }

func (p *ports) warnOfExposure(log *slog.Logger) {
	switch p.exposure() {
	case notAuthenticated:
		log.Warn(adviceOnExposure)
	case plainAccepted:
		log.Warn("plain members are still accepted: whoever reaches the ports for members can read and change everything; set portUnification=false once all members are protected")
	}
}
