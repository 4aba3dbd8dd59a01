package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// ClientAuth is whether a server requests a certificate from its clients.
type ClientAuth int

// The values are ZooKeeper's. The zero value is the strictest, and the default.
const (
	NeedCertificate ClientAuth = iota // a client without a trusted certificate is rejected
	WantCertificate                   // a client may have none; if it shows one, it must be trusted
	NoCertificate                     // no certificate is requested
)

var clientAuthNames = map[string]ClientAuth{"need": NeedCertificate, "want": WantCertificate, "none": NoCertificate}

// ParseClientAuth returns the ClientAuth of a word, in any case of letters, and whether there is one.
func ParseClientAuth(word string) (ClientAuth, bool) {
	a, ok := clientAuthNames[strings.ToLower(word)]
	return a, ok
}

// ServerTerms are a server's requirements for a connection, besides keys.
type ServerTerms struct {
	Auth     ClientAuth
	Min, Max uint16   // versions of TLS; 0: 1.2 and the newest
	Ciphers  []uint16 // for TLS 1.2; nil: Go's
}

// tlsVersions are the versions by their names in Java.
var tlsVersions = map[string]uint16{"tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13}

// JavaTLSVersion returns the name in Java of a version of TLS.
func JavaTLSVersion(version uint16) string {
	for name, v := range tlsVersions {
		if v == version {
			return "TLSv" + strings.TrimPrefix(name, "tlsv")
		}
	}
	return tls.VersionName(version)
}

// ParseProtocols returns the lowest and the highest version of a comma-separated list of TLSv1.2 and TLSv1.3,
// in any case of letters. TLS alone stands for both.
func ParseProtocols(list string) (least, most uint16, ok bool) {
	if strings.EqualFold(strings.TrimSpace(list), "TLS") {
		return tls.VersionTLS12, tls.VersionTLS13, true
	}
	for name := range strings.SplitSeq(list, ",") {
		v, known := tlsVersions[strings.ToLower(strings.TrimSpace(name))]
		if !known {
			return 0, 0, false
		}
		if least == 0 || v < least {
			least = v
		}
		most = max(most, v)
	}
	return least, most, true
}

// ParseCiphers returns the cipher suites of a comma-separated list. The suites of TLS 1.3 may be in it and
// change nothing, because Go always allows all of them. The error names the first suite that is not
// supported.
func ParseCiphers(list string) (ids []uint16, err error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		suite := suiteOf(name)
		if suite == nil {
			return nil, fmt.Errorf("the cipher suite %q is not supported; it must be one of %s", name,
				strings.Join(suiteNames(), ", "))
		}
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			ids = append(ids, suite.ID)
		}
	}
	return ids, nil
}

func suiteOf(name string) *tls.CipherSuite {
	for _, s := range tls.CipherSuites() {
		if strings.EqualFold(s.Name, name) {
			return s
		}
	}
	return nil
}

func suiteNames() (names []string) {
	for _, s := range tls.CipherSuites() {
		names = append(names, s.Name)
	}
	return names
}

var tlsClientAuths = map[ClientAuth]tls.ClientAuthType{
	NeedCertificate: tls.RequireAndVerifyClientCert,
	WantCertificate: tls.VerifyClientCertIfGiven, NoCertificate: tls.NoClientCert,
}

// ServerConfig returns a configuration for a server, in which each handshake uses the current keys. There
// must be a key store, and a trust store unless t.Auth is NoCertificate.
func (k *Keys) ServerConfig(t ServerTerms) *tls.Config {
	var last atomic.Pointer[cachedConfig]
	config := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m := k.current.Load()
		s := last.Load()
		if s == nil || s.material != m {
			s = &cachedConfig{m, k.newServerConfig(m, t)}
			last.Store(s)
		}
		return s.config, nil
	}
	return &tls.Config{MinVersion: max(t.Min, tls.VersionTLS12), MaxVersion: t.Max, GetConfigForClient: config}
}

// cachedConfig is a server's configuration with the keys that it was made from.
type cachedConfig struct {
	material *material
	config   *tls.Config
}

func (k *Keys) newServerConfig(m *material, t ServerTerms) *tls.Config {
	c := &tls.Config{
		Certificates: []tls.Certificate{*m.certificate},
		MinVersion:   max(t.Min, tls.VersionTLS12), MaxVersion: t.Max, CipherSuites: t.Ciphers,
		ClientAuth: tlsClientAuths[t.Auth], ClientCAs: m.roots, Time: k.options.Now,
	}
	if t.Auth != NoCertificate {
		// crypto/tls has verified the chain, but not against lists. A resumed session has not been verified
		// with the current keys.
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 || !cs.DidResume && m.crls == nil {
				return nil
			}
			return k.Verify(cs.PeerCertificates, x509.ExtKeyUsageClientAuth)
		}
	}
	return c
}
