package member

// What operators are told of connections between members that are not protected.
const (
	notAuthenticated = "members are not authenticated"
	plainAccepted    = "plain members are still accepted"

	adviceOnExposure = "members are not authenticated: whoever reaches the ports for members can read and change everything; set ensembleSecretFile or sslQuorum, see docs/security.md"
)

// exposure returns what is wrong with the protection of the members' ports, or "". Ports that only
// this machine reaches need protection, too: every user of the machine may connect.
func (m *Member) exposure() string {
	switch {
	case m.alone():
		return ""
	case m.ports.guard != nil && m.ports.guard.Unifies():
		return plainAccepted
	case m.ports.guard != nil:
		return ""
	}
	return notAuthenticated
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
