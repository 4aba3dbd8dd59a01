package trust

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"

	"rollcall/zk/kerberos"
)

// shownCertificate is the certificate of the other end, with the conditions that it must meet.
type shownCertificate struct {
	certificateChain []*x509.Certificate // nil: none was shown
	usage            x509.ExtKeyUsage    // required usage
	host             string              // required host; "": one of the member's hosts
}

// checkStillProved returns an error if the proof of member on c is no longer valid.
func (g *Guard) checkStillProved(c *Conn, member uint32) error {
	switch {
	case c.newcomer && len(g.hostsOf(member)) > 0:
		return fmt.Errorf("member %d has a known host now, and its certificate was not checked for that", member)
	case c.newcomer:
		return g.keys.Verify(c.shownCertificate.certificateChain, c.shownCertificate.usage)
	case c.shownCertificate.certificateChain != nil:
		return g.verifyCertificate(c.shownCertificate, member)
	case c.provedDialer != kerberos.Principal{}:
		return g.kerberos.checkDialer(c.provedDialer, member)
	case c.byTicket: // checkStillMember checks the host that was dialed
	case !g.secrets.contains(c.provedSecret):
		return errors.New("its secret was removed from the file")
	}
	return nil
}

// checkStillMember returns an error if the other end has proved its host, and that is no member's any more. A secret
// proves no host, and whoever has it can connect again.
//
// It is for open connections only: a new one of a member that has left is rejected unless that member is configured here.
// So a configured member that was removed can still learn that from the others.
func (g *Guard) checkStillMember(c *Conn, member uint32) error {
	switch {
	case c.provedSecret != "":
		return nil
	case g.hasLeft(member):
		return fmt.Errorf("member %d has left the ensemble", member)
	case c.dialedPrincipal != kerberos.Principal{}:
		return g.kerberos.checkDialed(c.dialedPrincipal, member)
	}
	return nil
}

// trackProved records a connection on which member was proved, so that it is closed when the proof becomes
// invalid. It returns an error if the proof is already invalid. The connection is recorded before that check: if
// the files change meanwhile, either this check or closeDisproved sees it.
func (g *Guard) trackProved(c *Conn, member uint32) error {
	g.mu.Lock()
	g.provedConns[c] = member
	g.mu.Unlock()
	err := g.checkStillProved(c, member)
	if err != nil {
		g.untrack(c)
	}
	return err
}

func (g *Guard) untrack(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.provedConns, c)
}

// closeDisproved closes those of the selected connections whose proof is no longer valid, or whose member has left. It checks certificates without the lock;
// each check takes a fraction of a millisecond.
func (g *Guard) closeDisproved(isSelected func(*Conn) bool) {
	g.mu.Lock()
	open := maps.Clone(g.provedConns)
	g.mu.Unlock()
	type end struct {
		connections int
		err         error
	}
	ended := map[uint32]end{}
	for c, member := range open {
		if !isSelected(c) {
			continue
		}
		err := g.checkStillProved(c, member)
		if err == nil && !c.newcomer {
			err = g.checkStillMember(c, member)
		}
		if err != nil {
			g.untrack(c)
			_ = c.rawConn.Close() // its user sees the error, and closes c
			ended[member] = end{ended[member].connections + 1, err}
		}
	}
	for member, e := range ended {
		g.logger.Info("connections of a member closed: what it has proved on them no longer counts", "peer", member,
			"connections", e.connections, "err", e.err)
	}
}
