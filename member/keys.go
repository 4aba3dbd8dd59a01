package member

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/config"
	"rollcall/internal/keystore"
	"rollcall/quorum/trust"
	"rollcall/server"
)

// serverKeys are the keys of this member as a TLS server. A field is nil if there is no TLS for these clients.
type serverKeys struct{ clients, operators *keystore.Keys }

// clientKeyOptions returns the options of the keys for clients over TLS.
func clientKeyOptions(t config.ClientTLS) keystore.Options {
	return keystore.Options{
		Prefix: "ssl", Key: t.Key, Trust: t.Trust, CheckCRLs: t.CRL, CRLFile: t.CRLs, CheckOCSP: t.OCSP,
		ReloadOnDemandOnly: !t.CertReload,
	}
}

// operatorKeyOptions returns the options of the keys for operators over HTTPS: the members' keys, as in ZooKeeper.
func operatorKeyOptions(c trust.Certificates) keystore.Options {
	return keystore.Options{
		Prefix: "ssl.quorum", Key: c.KeyStore, Trust: c.TrustStore, CheckCRLs: c.CheckRevocation,
		CRLFile: c.RevocationFile,
	}
}

func openServerKeys(cfg *Config, log *slog.Logger) (keys serverKeys, err error) {
	open := func(o keystore.Options) (*keystore.Keys, error) {
		o.Log, o.Now = log, cfg.Now
		return keystore.Open(o)
	}
	if cfg.SecureListener != nil || cfg.ClientTLS.UnifiedPort {
		if keys.clients, err = open(clientKeyOptions(cfg.ClientTLS)); err != nil {
			return serverKeys{}, err
		}
	}
	if cfg.HTTP.ForceHTTPS || cfg.HTTP.UnifyPorts {
		if keys.operators, err = open(operatorKeyOptions(cfg.Trust.Certificates)); err != nil {
			return serverKeys{}, err
		}
	}
	return keys, nil
}

// operatorTLS returns the TLS settings for operators, or nil. It requests a certificate if there is a trust
// store to verify it.
func (k serverKeys) operatorTLS(cfg *Config) *tls.Config {
	if k.operators == nil {
		return nil
	}
	terms := keystore.ServerTerms{Auth: keystore.NoCertificate}
	switch {
	case cfg.HTTP.NeedClientAuth:
		terms.Auth = keystore.NeedCertificate
	case cfg.Trust.Certificates.TrustStore.Location != "":
		terms.Auth = keystore.WantCertificate
	}
	return k.operators.ServerConfig(terms)
}

func (k serverKeys) clientTLS(t config.ClientTLS) server.TLS {
	s := server.TLS{
		Unified: t.UnifiedPort, Detection: t.DetectTimeout, Handshakes: t.MaxHandshakes,
		Checks: server.CertificateChecks{Host: t.VerifyHost, ReverseDNS: t.ReverseDNS},
	}
	if k.clients != nil {
		s.Config = k.clients.ServerConfig(t.Terms)
		if t.OCSP {
			s.Checks.Revocation = func(ctx context.Context, state *tls.ConnectionState) error {
				return k.clients.CheckByOCSP(ctx, state.PeerCertificates, x509.ExtKeyUsageClientAuth, state.OCSPResponse)
			}
		}
	}
	return s
}

// watchFiles reloads keys when their files change, and warns before a certificate expires.
func (k serverKeys) watchFiles(ctx context.Context) error {
	var g errgroup.Group
	for _, keys := range []*keystore.Keys{k.clients, k.operators} {
		if keys != nil {
			g.Go(func() error { keys.Watch(ctx); return nil })
		}
	}
	return g.Wait()
}

func (k serverKeys) reloadFiles() {
	for _, keys := range []*keystore.Keys{k.clients, k.operators} {
		if keys != nil {
			keys.ReloadAndLog()
		}
	}
}

// secondsToExpiry returns the seconds until each certificate expires, keyed by audience. members is the expiry of the
// certificate for members, or zero.
func (k serverKeys) secondsToExpiry(now, members time.Time) map[string]int64 {
	left := map[string]int64{}
	note := func(audience string, expiry time.Time) { left[audience] = int64(expiry.Sub(now).Seconds()) }
	if !members.IsZero() {
		note("members", members)
	}
	if k.clients != nil && k.clients.Certificate() != nil {
		note("clients", k.clients.Certificate().Leaf.NotAfter)
	}
	if k.operators != nil && k.operators.Certificate() != nil {
		note("operators", k.operators.Certificate().Leaf.NotAfter)
	}
	return left
}
