package trust

import (
	"crypto/x509"
	"errors"
	"maps"
)

// shown is the certificate that the other end of a connection has shown.
type shown struct {
	chain []*x509.Certificate // nil: it has shown none
	usage x509.ExtKeyUsage    // what it must be meant for
	host  string              // what it must be for; "": one of the hosts of the member
}

// stands returns nil if what the other end of c has proved as member counts now.
func (g *Guard) stands(c *Conn, member uint32) error {
	switch {
	case c.shown.chain != nil:
		return g.verify(c.shown, member)
	case !g.secrets.has(c.secret):
		return errors.New("its secret was removed from the file")
	}
	return nil
}

// keep records a connection on which member was proved, so that it is closed when that no longer
// counts. It returns an error if it does not count any more. The connection is recorded before that is
// checked: if the files change meanwhile, either this check or closeDisproved sees it.
func (g *Guard) keep(c *Conn, member uint32) error {
	g.mu.Lock()
	g.open[c] = member
	g.mu.Unlock()
	err := g.stands(c, member)
	if err != nil {
		g.forget(c)
	}
	return err
}

func (g *Guard) forget(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
}

// closeDisproved closes the connections that would be refused if they were opened now. Certificates
// are checked without the lock, each in a fraction of a millisecond.
func (g *Guard) closeDisproved() {
	g.mu.Lock()
	open := maps.Clone(g.open)
	g.mu.Unlock()
	type end struct {
		connections int
		err         error
	}
	ended := map[uint32]end{}
	for c, member := range open {
		if err := g.stands(c, member); err != nil {
			g.forget(c)
			_ = c.raw.Close() // its user sees the error, and closes c
			ended[member] = end{ended[member].connections + 1, err}
		}
	}
	for member, e := range ended {
		g.log.Info("connections of a member closed: what it has proved on them no longer counts", "peer", member, "connections", e.connections, "err", e.err)
	}
}
