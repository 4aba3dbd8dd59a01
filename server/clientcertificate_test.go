package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// zone is a name service for tests.
type zone struct {
	names     map[string][]string // by address
	addresses map[string][]netip.Addr
	isSilent  bool
}

func (z *zone) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	if z.isSilent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if names := z.names[addr]; names != nil {
		return names, nil
	}
	return nil, errors.New("no such address")
}

func (z *zone) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return z.addresses[host], nil
}

// A certificate is for the address of its client, or, if DNS counts, for a name that the address has and that has the address.
func TestCertificateOfHost(t *testing.T) {
	one := netip.MustParseAddr("192.0.2.1")
	dns := &zone{
		names:     map[string][]string{"192.0.2.1": {"other.example.", "a.example."}, "192.0.2.9": {"a.example."}},
		addresses: map[string][]netip.Addr{"a.example": {netip.MustParseAddr("2001:db8::1"), one}},
	}
	for _, tt := range []struct {
		name, addr, cert, err string
		reverse               bool
	}{
		{"its address", "192.0.2.1:5", "192.0.2.1", "", false},
		{"its address, mapped", "[::ffff:192.0.2.1]:5", "192.0.2.1", "", false},
		{"another address", "192.0.2.2:5", "192.0.2.1", "192.0.2.2", false},
		{"its name, and DNS does not count", "192.0.2.1:5", "a.example", "192.0.2.1", false},
		{"its name", "192.0.2.1:5", "a.example", "", true},
		{"a name that has other addresses", "192.0.2.9:5", "a.example", "DNS names 192.0.2.9 a.example, but that name has other addresses", true},
		{"another name", "192.0.2.1:5", "b.example", "a.example", true},
		{"no name", "192.0.2.3:5", "a.example", "its name is not known: no such address", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cert := &x509.Certificate{DNSNames: []string{tt.cert}}
			if ip := net.ParseIP(tt.cert); ip != nil {
				cert = &x509.Certificate{IPAddresses: []net.IP{ip}}
			}
			c := newCertificateChecker(CertificateChecks{Host: true, ReverseDNS: tt.reverse, Names: dns})
			at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.addr))
			err := c.check(t.Context(), &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}, at)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
	c := newCertificateChecker(CertificateChecks{Host: true})
	if err := c.check(t.Context(), &tls.ConnectionState{}, nil); err != nil {
		t.Errorf("a client without a certificate: %v", err)
	}
}

// A name service that is silent holds up a client for lookupTimeout, and no more clients than maxLookups.
func TestSilentNameService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCertificateChecker(CertificateChecks{Host: true, ReverseDNS: true, Names: &zone{isSilent: true}})
		state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: []string{"a.example"}}}}
		at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
		began := time.Now()
		failed := make(chan error, maxLookups)
		for range maxLookups {
			go func() { failed <- c.check(t.Context(), state, at) }()
		}
		synctest.Wait()
		if err := c.check(t.Context(), state, at); !errors.Is(err, errTooManyLookups) {
			t.Errorf("one more: %v", err)
		}
		for range maxLookups {
			if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != lookupTimeout {
			t.Errorf("took %v", took)
		}
	})
}

// A client whose certificate is rejected after the handshake gets no session, and one without a certificate does. While a check waits,
// others connect.
func TestChecksAfterTheHandshake(t *testing.T) {
	a := newAuthority(t)
	release := make(chan struct{})
	w := newWorld(t, true, func(c *Config) {
		c.TLS = TLS{Config: a.tlsConfig(), Unified: true, Detection: patience}
		c.TLS.Checks.Revocation = func(context.Context, *tls.ConnectionState) error {
			<-release
			return errors.New("revoked")
		}
	})
	addr := addrOf(w)
	dial := func(certs ...tls.Certificate) net.Conn {
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: a.pool(), Certificates: certs})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	held := dial(a.issue(pkix.Name{CommonName: "app"}))
	defer held.Close()
	for range 8 { // more than there are processors for handshakes
		waiting := dial(a.issue(pkix.Name{CommonName: "app"}))
		defer waiting.Close()
	}
	waitFor(t, func() bool { return underWay(w) == 0 }) // a check keeps no place of a handshake
	w.dial = func() net.Conn { return dial() }
	w.connect()
	close(release)
	if n, err := held.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes for a client with a revoked certificate", n)
	}
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["tls_failed"] == 9 })
}
