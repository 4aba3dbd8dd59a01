package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"rollcall/jute"
)

// authority signs the certificates of one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(pkix.Name{CommonName: "authority"}, nil)
	return a
}

// sign makes a certificate, by its own key if by is nil.
func (a *authority) sign(subject pkix.Name, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true,
	}
	parent, signer := tmpl, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) issue(subject pkix.Name) tls.Certificate {
	a.t.Helper()
	cert, key := a.sign(subject, a)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// newTLSWorld serves TLS on loopback. certs are the certificates that the next connection shows.
func newTLSWorld(t *testing.T, certs *[]tls.Certificate, a *authority, change func(*Config)) *world {
	t.Helper()
	w := newWorld(t, false, change)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{a.issue(pkix.Name{CommonName: "server"})},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: a.pool(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.srv.Serve(ctx, l) }()
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
