package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
)

// meet makes a connection between a client and a server, and returns the state of the client's side, or what the
// client learned. It reads, because with TLS 1.3 a client learns by reading that it is refused.
func meet(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = tls.Server(c, server).Write([]byte{1})
			_ = c.Close()
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	return c.ConnectionState(), err
}

// A server asks for a certificate as Terms say, and believes those of its trust store that are not revoked. A
// client that resumes a session is held against the keys that there are now.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	a, stranger := newAuthority(t, "authority"), newAuthority(t, "stranger")
	caPEM, strangerPEM := pemOf("CERTIFICATE", a.cert.Raw), pemOf("CERTIFICATE", stranger.cert.Raw)
	cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{"server"}})
	own := write(t, dir, "own.pem", cert, key)
	trust := write(t, dir, "ca.pem", caPEM)
	pair := func(by *authority) tls.Certificate {
		c, k := by.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "client"}})
		p, err := tls.X509KeyPair(c, k)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	config := func(certs ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: roots, ServerName: "server", Certificates: certs, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	}
	k, err := Open(Options{Key: Store{Location: own}, Trust: Store{Location: trust}})
	if err != nil {
		t.Fatal(err)
	}
	good, bad := config(pair(a)), config(pair(stranger))
	bad.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // although the server does not ask for this authority's
		return &bad.Certificates[0], nil
	}
	for _, tt := range []struct {
		auth   ClientAuth
		client *tls.Config
		ok     bool
	}{
		{NeedCertificate, good, true},
		{NeedCertificate, config(), false},
		{NeedCertificate, bad, false},
		{WantCertificate, good, true},
		{WantCertificate, config(), true},
		{WantCertificate, bad, false},
		{NoCertificate, config(), true},
	} {
		if _, err := meet(t, k.ServerConfig(ServerTerms{Auth: tt.auth}), tt.client); (err == nil) != tt.ok {
			t.Errorf("auth %d, %d certificates: %v", tt.auth, len(tt.client.Certificates), err)
		}
	}

	server, resuming := k.ServerConfig(ServerTerms{}), config(pair(a))
	for _, resumes := range []bool{false, true} {
		if state, err := meet(t, server, resuming); err != nil || state.DidResume != resumes {
			t.Fatalf("resumes %t, %v; want %t", state.DidResume, err, resumes)
		}
	}
	cert, key = a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "renewed"}, DNSNames: []string{"server"}})
	write(t, dir, "own.pem", cert, key)
	if _, err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	if state, err := meet(t, server, config(pair(a))); err != nil || state.PeerCertificates[0].Subject.CommonName != "renewed" {
		t.Errorf("after the server's certificate was renewed: %v, %v", state.PeerCertificates, err)
	}
	write(t, dir, "ca.pem", strangerPEM)
	if _, err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	if state, err := meet(t, server, resuming); err == nil {
		t.Errorf("a client whose authority is not trusted any more is served; it resumed: %t", state.DidResume)
	}
}

// A revoked certificate is refused.
func TestServerRevokes(t *testing.T) {
	pair, err := tls.LoadX509KeyPair("testdata/member.pem", "testdata/member.pem")
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"nobody-revoked.pem": true, "revoked.pem": false} {
		k, err := Open(Options{Key: Store{Location: "testdata/member.pem"}, Trust: Store{Location: "testdata/authority.pem"}, CheckCRLs: true, CRLFile: "testdata/" + name})
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(file(t, "authority.pem"))
		_, err = meet(t, k.ServerConfig(ServerTerms{}), &tls.Config{RootCAs: roots, ServerName: "member.example", Certificates: []tls.Certificate{pair}})
		if (err == nil) != ok || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The versions and suites of a configuration are those of Java's names.
func TestParse(t *testing.T) {
	for list, want := range map[string][2]uint16{
		"TLSv1.2": {tls.VersionTLS12, tls.VersionTLS12}, "tlsv1.3": {tls.VersionTLS13, tls.VersionTLS13},
		"TLSv1.3, TLSv1.2": {tls.VersionTLS12, tls.VersionTLS13}, "TLS": {tls.VersionTLS12, tls.VersionTLS13},
		"": {}, "SSLv3": {}, "TLSv1.2,TLSv1.1": {},
	} {
		least, most, ok := ParseProtocols(list)
		if got := [2]uint16{least, most}; got != want || ok != (want[0] > 0) {
			t.Errorf("%q: %v, %t", list, got, ok)
		}
	}
	got, err := ParseCiphers("TLS_AES_128_GCM_SHA256, tls_ecdhe_rsa_with_aes_128_gcm_sha256")
	if err != nil || !slices.Equal(got, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseCiphers("TLS_NULL"); err == nil {
		t.Error("TLS_NULL is a suite")
	}
}
