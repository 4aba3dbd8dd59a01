package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"
	"time"

	"rollcall/internal/keystore/authority"
	"rollcall/zk/jute"
)

// signer signs the certificates of one test.
type signer struct {
	*authority.Authority
	t *testing.T
}

func newAuthority(t *testing.T) signer {
	t.Helper()
	a, err := authority.New("authority", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return signer{a, t}
}

// issue returns a certificate that is good for this machine, and its key.
func (a signer) issue(subject pkix.Name) tls.Certificate {
	a.t.Helper()
	cert, key, err := a.IssueFromTemplate(&x509.Certificate{
		Subject: subject, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a signer) pool() *x509.CertPool {
	a.t.Helper()
	cert, _, err := a.PEMFiles()
	if err != nil {
		a.t.Fatal(err)
	}
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(cert)
	return p
}

// newTLSWorld serves TLS on loopback. certs are the certificates that the next connection shows.
func newTLSWorld(t *testing.T, certs *[]tls.Certificate, a signer, change func(*Config)) *world {
	t.Helper()
	w := newWorld(t, false, func(c *Config) {
		c.TLS.Config = &tls.Config{
			Certificates: []tls.Certificate{a.issue(pkix.Name{CommonName: "server"})},
			ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: a.pool(),
		}
		if change != nil {
			change(c)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.srv.ServeTLS(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	w.dial = func() net.Conn {
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: a.pool(), Certificates: *certs})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return w
}

// The identity of a client with a verified certificate is the certificate's subject, as Java writes
// it. The configured subject is super. An auth entry in an ACL stands for that identity.
func TestCertificateIsIdentity(t *testing.T) {
	a := newAuthority(t)
	var certs []tls.Certificate
	w := newTLSWorld(t, &certs, a, func(c *Config) { c.SuperSubject = "CN=root,O=Ops" })
	ann := pkix.Name{CommonName: "ann", OrganizationalUnit: []string{"Roll, call"}, Organization: []string{"Ex"}, Country: []string{"CH"}}
	const annName = `CN=ann,OU=Roll\, call,O=Ex,C=CH`

	certs = []tls.Certificate{a.issue(ann)}
	c := w.connect()
	c.must(jute.OpCreate, jute.CreateRequest{Path: []byte("/mine"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}})
	var got jute.GetACLResponse
	d := jute.NewDecoder(c.must(jute.OpGetACL, jute.GetACLRequest{Path: []byte("/mine")}))
	got.Decode(&d)
	if len(got.ACL) != 1 || string(got.ACL[0].ID.Scheme) != "x509" || string(got.ACL[0].ID.ID) != annName {
		t.Errorf("ACL %q, want x509 %s", got.ACL, annName)
	}
	c.must(jute.OpAuth, auth("x509", "ignored"))
	if body := c.must(jute.OpWhoAmI); !bytes.Contains(body, []byte(annName)) || bytes.Contains(body, []byte("super")) {
		t.Errorf("whoAmI: %q", body)
	}

	for _, tt := range []struct {
		name  string
		certs []tls.Certificate
		code  jute.Code
	}{
		{"nobody", nil, jute.NoAuth},
		{"another", []tls.Certificate{a.issue(pkix.Name{CommonName: "bob"})}, jute.NoAuth},
		{"the same again", []tls.Certificate{a.issue(ann)}, jute.OK},
		{"super", []tls.Certificate{a.issue(pkix.Name{CommonName: "root", Organization: []string{"Ops"}})}, jute.OK},
	} {
		certs = tt.certs
		if h, _ := w.connect().call(jute.OpGetData, getData("/mine", false)); h.Err != tt.code {
			t.Errorf("%s: %v, want %v", tt.name, h.Err, tt.code)
		}
	}
}

// A client with a certificate of an unknown authority and a client without TLS get nothing.
func TestStrangeCertificate(t *testing.T) {
	a := newAuthority(t)
	certs := []tls.Certificate{newAuthority(t).issue(pkix.Name{CommonName: "ann"})}
	w := newTLSWorld(t, &certs, a, nil)
	c := w.open()
	_, _ = c.Write(frameOf(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16)})) // fails if the server has closed the connection already
	if frame, err := c.read(); err == nil {
		t.Errorf("got % x", frame)
	}
	waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
}
