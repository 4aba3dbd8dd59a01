package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/internal/keystore"
)

// With certificates, each end shows one whose authority the other end trusts. The dialer checks that the certificate
// is for the host of the member that it dials. The dialed side learns from the hello which member speaks, and checks
// the certificate for that member's host (Conn.MaySpeakAs). No name is looked up.
const certificateProtocol = "rollcall-certificate-1"

// Certificates configures the certificates that members show and trust.
type Certificates struct {
	KeyStore, TrustStore keystore.Store
	CheckRevocation      bool   // certificates are checked against the lists in RevocationFile
	RevocationFile       string // file with lists of revoked certificates
	AskResponders        bool   // certificates are checked by OCSP
	AnyHost              bool   // a certificate need not be for the host of the member that shows it
}

// keyOptions returns the options of the keystore. The keystore calls changed, which may be nil, after it has
// reloaded changed files.
func (cfg Config) keyOptions(changed func()) keystore.Options {
	c := cfg.Certificates
	return keystore.Options{
		Prefix: "ssl.quorum", Key: c.KeyStore, Trust: c.TrustStore, CheckCRLs: c.CheckRevocation,
		CRLFile: c.RevocationFile, CheckOCSP: c.AskResponders, Log: cfg.Logger, Now: cfg.Now, CheckOwnCertificate: cfg.checkOwnCertificate,
		OnChange: changed,
	}
}

// checkOwnCertificate returns an error if the other members would reject a certificate as this member's. A member
// that runs alone shows its certificate to no other member.
func (cfg Config) checkOwnCertificate(own *x509.Certificate) error {
	host, known := cfg.ConfiguredHosts[cfg.MemberID]
	if cfg.Certificates.AnyHost || !known || len(cfg.ConfiguredHosts) == 1 || own.VerifyHostname(host) == nil {
		return nil
	}
	return fmt.Errorf("the certificate is for %s, but this member is server.%d, whose host is %s, so the other members "+
		"would reject it; use the file of server.%d, or a certificate for %s, or set "+
		"ssl.quorum.hostnameVerification=false on all members",
		certificateNames(own), cfg.MemberID, host, cfg.MemberID, host)
}

// maxNames limits the names of a certificate in an error.
const maxNames = 8

// certificateNames returns the names and addresses of a certificate, separated by commas.
func certificateNames(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	switch more := len(names) - maxNames; {
	case len(names) == 0:
		return "no host (its subjectAltName has none)"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// dialerTLSConfig returns the TLS configuration for a connection to a member. It offers every proof that this member
// has, and the other side chooses.
func (g *Guard) dialerTLSConfig(to Dialed, hasTicket bool) *tls.Config {
	c := baseTLSConfig()
	c.InsecureSkipVerify = true // VerifyConnection stands for it
	if g.showCertificate {
		c.NextProtos = append(c.NextProtos, certificateProtocol)
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return g.keys.Certificate(),
				nil
		}
	}
	if hasTicket {
		c.NextProtos = append(c.NextProtos, kerberosProtocol)
	}
	if g.secrets != nil {
		c.NextProtos = append(c.NextProtos, secretProtocol)
	}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		switch {
		case state.NegotiatedProtocol == certificateProtocol && g.showCertificate:
			return g.verifyCertificate(shownCertificate{state.PeerCertificates, x509.ExtKeyUsageServerAuth, to.NamedHost}, to.Member)
		case state.NegotiatedProtocol == secretProtocol && g.secrets != nil, state.NegotiatedProtocol == kerberosProtocol && hasTicket:
			return nil // the proof follows
		}
		return errors.New("the other end speaks TLS for another purpose")
	}
	return c
}

// selectDialedTLSConfig returns the TLS configuration for an accepted connection. It prefers certificates, and then
// Kerberos, if both sides have them.
func (g *Guard) selectDialedTLSConfig(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	switch {
	case g.keys != nil && slices.Contains(hello.SupportedProtos, certificateProtocol):
		return g.certificateTLS, nil
	case g.kerberos != nil && slices.Contains(hello.SupportedProtos, kerberosProtocol):
		return g.kerberos.tls, nil
	case g.secrets != nil && slices.Contains(hello.SupportedProtos, secretProtocol):
		return g.secretTLS, nil
	}
	return nil, fmt.Errorf("the dialer offers %q, members prove themselves here by %s", hello.SupportedProtos,
		g.ProofMethods())
}

// certificateTLSConfig returns the TLS configuration of the dialed side for certificates.
func (g *Guard) certificateTLSConfig() *tls.Config {
	c := baseTLSConfig()
	c.NextProtos = []string{certificateProtocol}
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.keys.Certificate(), nil }
	c.ClientAuth = tls.RequireAnyClientCert // VerifyConnection checks it
	c.VerifyConnection = func(state tls.ConnectionState) error {
		return g.keys.Verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth)
	}
	return c
}

// verifyCertificate checks a certificate that member has shown.
func (g *Guard) verifyCertificate(s shownCertificate, member uint32) error {
	switch {
	case g.anyHost:
		return g.keys.Verify(s.certificateChain, s.usage)
	case s.host != "":
		return g.keys.Verify(s.certificateChain, s.usage, s.host)
	}
	hosts := g.hostsOf(member)
	if len(hosts) == 0 {
		return fmt.Errorf("member %d is not in the server list", member)
	}
	return g.keys.Verify(s.certificateChain, s.usage, hosts...)
}
