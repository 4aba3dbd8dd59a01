package member

import (
	"context"

	"rollcall/config"
	"rollcall/keystore"
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
	if m.keys != nil {
		m.keys.Watch(ctx)
	}
	return nil
}

// Reload makes the running member read its files again: the secrets that members share, and keys and
// certificates. The log says what has changed, and why a file cannot be used; the former keys stay in use then.
func (m *Member) Reload() {
	m.ports.guard.Reload()
	if m.keys != nil {
		m.keys.ReloadAndLog()
	}
}
