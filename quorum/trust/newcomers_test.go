package trust

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// With Config.AdmitNewcomers, a process with a certificate of the authority for whatever host may say Hello as a member without a
// known host, and nothing else. Its connection ends at once when that member gets a host. A known member needs a certificate for its host.
func TestNewcomersMaySayHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := newAuthority(t), newAuthority(t)
		known := map[uint32]string{1: hosts[1], 2: hosts[2]}
		admitting := func(c *Config) {
			c.AdmitNewcomers, c.PartingTime = true, time.Hour
			c.CurrentHosts = func(member uint32) []string {
				if host := known[member]; host != "" {
					return []string{host}
				}
				return nil
			}
		}
		one := certified(t, 1, files(t, ours, hosts[1], soon()), "", admitting)
		go func() { _ = one.Run(t.Context()) }()
		strict := certified(t, 1, files(t, ours, hosts[1], soon()), "", func(c *Config) {
			admitting(c)
			c.AdmitNewcomers = false
		})
		outside := func(c *Config) { c.ConfiguredHosts = map[uint32]string{1: hosts[1]} }
		newcomer := certified(t, 3, files(t, ours, "x.example", soon()), "", outside)
		var dialer net.Conn // the other end of the last accepted connection
		accept := func(dialed *Guard) *Conn {
			t.Helper()
			out, in := meet(newcomer, dialed)
			if out.err != nil || in.err != nil {
				t.Fatal(out.err, in.err)
			}
			dialer = out.conn
			return in.conn.(*Conn)
		}
		if err := accept(strict).MaySayHelloAs(3); err == nil || !strings.Contains(err.Error(), "member 3 is not in the server list") {
			t.Errorf("without AdmitNewcomers: %v", err)
		}
		if err := accept(one).MaySpeakAs(3); err == nil || !strings.Contains(err.Error(), "member 3 is not in the server list") {
			t.Errorf("a newcomer speaks: %v", err)
		}
		if err := accept(one).MaySayHelloAs(2); err == nil || !strings.Contains(err.Error(), "certificate is valid for x.example, not b.example") {
			t.Errorf("a newcomer is a known member: %v", err)
		}
		if c := accept(one); c.MaySayHelloAs(3) != nil || !IsOfNewcomer(c) || c.MaySayHelloAs(4) == nil {
			t.Errorf("a newcomer says Hello: %v, is a newcomer: %t", c.MaySayHelloAs(3), IsOfNewcomer(c))
		} else {
			known[3] = hosts[3]
			one.MembersChanged()
			if _, err := dialer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("the connection of a newcomer that has a host: %v, want its end", err)
			}
			delete(known, 3)
		}
		if out, in := meet(certified(t, 3, files(t, theirs, "x.example", soon()), "", outside), one); in.err == nil {
			t.Errorf("a certificate of another authority: %v, %v", out.err, in.err)
		}
	})
}

// A newcomer may join at the hosts of its certificate, if that is a client's and a server's and holds at this time.
func TestNewcomersMayJoinAtTheirHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		one := certified(t, 1, files(t, ours, hosts[1], soon()), old, func(c *Config) { c.AdmitNewcomers = true })
		outside := func(c *Config) { c.ConfiguredHosts = map[uint32]string{1: hosts[1]} }
		accept := func(newcomer *Guard) *Conn {
			t.Helper()
			out, in := meet(newcomer, one)
			if out.err != nil || in.err != nil || in.conn.(*Conn).MaySayHelloAs(4) != nil {
				t.Fatal(out.err, in.err)
			}
			return in.conn.(*Conn)
		}
		clients := files(t, ours, "d.example", soon())
		cert, key, err := ours.IssueFromTemplate(&x509.Certificate{
			DNSNames: []string{"d.example"}, NotBefore: time.Now(), NotAfter: soon(), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(t, clients.KeyStore.Location, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))+
			string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})))
		own := accept(certified(t, 4, files(t, ours, "d.example", time.Now().Add(time.Hour)), "", outside))
		wild := accept(certified(t, 4, files(t, ours, "*.members", soon()), "", outside))
		check := func(c *Conn, host, want string) {
			t.Helper()
			if err := c.MayJoinAt(host); (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("it may join at %s: %v, want %q", host, err, want)
			}
		}
		check(own, "d.example", "")
		check(own, "e.example", "certificate is valid for d.example, not e.example")
		check(wild, "a.members", "")
		check(wild, "members", "certificate is valid for *.members, not members")
		check(accept(certified(t, 4, clients, "", outside)), "d.example", "incompatible key usage")
		time.Sleep(2 * time.Hour)
		check(own, "d.example", "certificate has expired")
		out, in := meet(newGuard(t, 4, false, old), one)
		if out.err != nil || in.err != nil || AsCertified(in.conn) != nil || AsCertified(own) != own {
			t.Errorf("one with a secret: %v, %v; it has shown a certificate: %t", out.err, in.err, AsCertified(in.conn) != nil)
		}
	})
}

// New rejects what would let strangers in, as the check of the configuration does.
func TestNewcomersNeedAProof(t *testing.T) {
	c := files(t, newAuthority(t), hosts[1], soon())
	c.AnyHost = true
	_, err := New(Config{Settings: Settings{ShowCertificates: true, Certificates: c}, MemberID: 1, ConfiguredHosts: hosts, AdmitNewcomers: true})
	if err == nil || !strings.Contains(err.Error(), "ssl.quorum.hostnameVerification=false") {
		t.Errorf("New: %v", err)
	}
}
