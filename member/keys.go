package member

import (
	"context"
	"crypto/tls"

	"golang.org/x/sync/errgroup"

	"rollcall/config"
	"rollcall/internal/keystore"
	"rollcall/quorum/trust"
	"rollcall/server"
)

// clientKeys says which files have the keys for clients over TLS.
func clientKeys(t config.ClientTLS) keystore.Options {
	return keystore.Options{Prefix: "ssl", Key: t.Key, Trust: t.Trust, CRL: t.CRL, CRLs: t.CRLs, Fixed: !t.CertReload}
}

// openKeys reads the keys for clients, if any connect over TLS.
func (m *Member) openKeys() (*keystore.Keys, error) {
	if m.cfg.Secure == nil && !m.cfg.ClientTLS.Unified {
		return nil, nil
	}
	o := clientKeys(m.cfg.ClientTLS)
	o.Log, o.Now = m.log, m.cfg.Now
	return keystore.Open(o)
}

// operatorOptions says which files have the keys for operators over HTTPS: those of members, as in ZooKeeper.
func operatorOptions(c trust.Certificates) keystore.Options {
	return keystore.Options{Prefix: "ssl.quorum", Key: c.Key, Trust: c.Trust, CRL: c.CRL, CRLs: c.CRLs}
}

// openOperatorKeys reads the keys for operators, if they are served over HTTPS.
func (m *Member) openOperatorKeys() (*keystore.Keys, error) {
	if !m.cfg.HTTP.ForceHTTPS && !m.cfg.HTTP.UnifyPorts {
		return nil, nil
	}
	o := operatorOptions(m.cfg.Trust.Certificates)
	o.Log, o.Now = m.log, m.cfg.Now
	return keystore.Open(o)
}

// operatorTLS says how operators are served over HTTPS, or nil. A certificate is asked for if one can be believed.
func (m *Member) operatorTLS() *tls.Config {
	if m.operatorKeys == nil {
		return nil
	}
	terms := keystore.Terms{Auth: keystore.NoClient}
	switch {
	case m.cfg.HTTP.NeedClientAuth:
		terms.Auth = keystore.Need
	case m.cfg.Trust.Certificates.Trust.Location != "":
		terms.Auth = keystore.Want
	}
	return m.operatorKeys.Server(terms)
}

// tls says how clients connect over TLS.
func (m *Member) tls() server.TLS {
	t := m.cfg.ClientTLS
	s := server.TLS{Unified: t.Unified, Detection: t.Detection, Handshakes: t.Handshakes}
	if m.keys != nil {
		s.Config = m.keys.Server(m.clientTerms())
	}
	return s
}

// clientTerms says what clients over TLS must do.
func (m *Member) clientTerms() keystore.Terms { return m.cfg.ClientTLS.Terms }

// watchKeys reads keys again when their files change, and warns before the certificate expires.
func (m *Member) watchKeys(ctx context.Context) error {
	var g errgroup.Group
	for _, keys := range []*keystore.Keys{m.keys, m.operatorKeys} {
		if keys != nil {
			g.Go(func() error { keys.Watch(ctx); return nil })
		}
	}
	return g.Wait()
}

// Reload makes the running member read its files again: the secrets that members share, and keys and
// certificates. The log says what has changed, and why a file cannot be used; the former keys stay in use then.
func (m *Member) Reload() {
	m.ports.guard.Reload()
	for _, keys := range []*keystore.Keys{m.keys, m.operatorKeys} {
		if keys != nil {
			keys.ReloadAndLog()
		}
	}
}
