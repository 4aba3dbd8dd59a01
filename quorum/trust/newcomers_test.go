package trust

import (
	"errors"
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

// New rejects what would let strangers in, as the check of the configuration does.
func TestNewcomersNeedAProof(t *testing.T) {
	c := files(t, newAuthority(t), hosts[1], soon())
	c.AnyHost = true
	_, err := New(Config{Settings: Settings{ShowCertificates: true, Certificates: c}, MemberID: 1, ConfiguredHosts: hosts, AdmitNewcomers: true})
	if err == nil || !strings.Contains(err.Error(), "ssl.quorum.hostnameVerification=false") {
		t.Errorf("New: %v", err)
	}
}
