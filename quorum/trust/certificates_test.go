package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/keystore"
	"rollcall/internal/keystore/authority"
)

func newAuthority(t *testing.T) *authority.Authority {
	t.Helper()
	a, err := authority.New("authority", time.Now(), 365*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// trusted returns the certificate of an authority.
func trusted(t *testing.T, a *authority.Authority) []byte {
	t.Helper()
	text, _, err := a.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// files writes a key store for a host and a trust store with the authority.
func files(t *testing.T, a *authority.Authority, host string, until time.Time) Certificates {
	t.Helper()
	return filesFor(t, a, []string{host}, until)
}

// filesFor does the same for several hosts.
func filesFor(t *testing.T, a *authority.Authority, hosts []string, until time.Time) Certificates {
	t.Helper()
	text, err := a.Issue(hosts, until.Add(-24*time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := Certificates{KeyStore: keystore.Store{Location: filepath.Join(dir, "own.pem")}, TrustStore: keystore.Store{Location: filepath.Join(dir, "trusted.pem")}}
	if err := errors.Join(os.WriteFile(c.KeyStore.Location, text, 0o600), os.WriteFile(c.TrustStore.Location, trusted(t, a), 0o600)); err != nil {
		t.Fatal(err)
	}
	return c
}

var hosts = map[uint32]string{1: "a.example", 2: "b.example", 3: "c.example"}

// certified returns a guard with certificates, and with a secret unless that is "".
func certified(t *testing.T, self uint32, c Certificates, secret string, change func(*Config)) *Guard {
	t.Helper()
	cfg := Config{Settings: Settings{ShowCertificates: true, Certificates: c}, MemberID: self, ConfiguredHosts: hosts}
	if secret != "" {
		cfg.SecretFile = filepath.Join(t.TempDir(), "secret")
		write(t, cfg.SecretFile, secret)
	}
	if change != nil {
		change(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func soon() time.Time { return time.Now().Add(24 * time.Hour) }

// Which certificates are believed, at both ends. Member 2 dials member 1.
func TestCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := newAuthority(t), newAuthority(t)
		one := certified(t, 1, files(t, ours, hosts[1], soon()), "", nil)
		anyHost := func(c *Config) { c.Certificates.AnyHost = true } // such a member also takes any certificate for its own
		tests := []struct {
			name           string
			dialer, dialed *Guard
			say            string // the refusal at the dialed side, or the dialer's error; "": they meet
		}{
			{"right", certified(t, 2, files(t, ours, hosts[2], soon()), "", nil), one, ""},
			{"another authority's dialer", certified(t, 2, files(t, theirs, hosts[2], soon()), "", nil), one, "unknown authority"},
			{"another authority's dialed", certified(t, 2, files(t, ours, hosts[2], soon()), "", nil), certified(t, 1, files(t, theirs, hosts[1], soon()), "", nil), "unknown authority"},
			{"the dialer's is another member's", certified(t, 2, files(t, ours, hosts[3], soon()), "", anyHost), one, "it says that it is member 2, but its certificate is not that member's"},
			{"the dialed's is another member's", certified(t, 2, files(t, ours, hosts[2], soon()), "", nil), certified(t, 1, files(t, ours, hosts[3], soon()), "", anyHost), "a.example"},
			{
				"both of them, and hosts are not checked", certified(t, 2, files(t, ours, hosts[3], soon()), "", anyHost),
				certified(t, 1, files(t, ours, hosts[3], soon()), "", anyHost), "",
			},
			{"another authority's, and hosts are not checked", certified(t, 2, files(t, theirs, hosts[2], soon()), "", nil), certified(t, 1, files(t, ours, hosts[1], soon()), "", anyHost), "unknown authority"},
			{"secret against certificate", newGuard(t, 2, false, old), one, "members prove themselves here by certificates"},
		}
		for _, tt := range tests {
			out, in := meet(tt.dialer, tt.dialed)
			err := errors.Join(out.err, in.err)
			if in.err == nil && out.err == nil {
				err = in.conn.(*Conn).MaySpeakAs(2)
			}
			if tt.say == "" && err != nil || tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say)) {
				t.Errorf("%s: dialer %v, dialed %v, together %v; want %q", tt.name, out.err, in.err, err, tt.say)
			}
			if err == nil {
				speak(t, out.conn, in.conn)
			}
		}

		// while they run, a year passes
		late := certified(t, 2, files(t, ours, hosts[2], time.Now().Add(time.Hour)), "", nil)
		time.Sleep(2 * time.Hour)
		if out, in := meet(late, one); in.err == nil || !strings.Contains(in.err.Error(), "expired") {
			t.Errorf("an expired certificate: %v, %v", out.err, in.err)
		}
		a, b := net.Pipe()
		in := accepts(one, b)
		c := tls.Client(a, &tls.Config{NextProtos: []string{certificateProtocol}, InsecureSkipVerify: true})
		_ = a.SetDeadline(time.Now().Add(limit))
		if c.Handshake() == nil {
			_, _ = c.Read(make([]byte, 1))
		}
		wantRejection(t, (<-in).err, BadHandshake, "certificate")
	})
}

// A member with both goes with certificates if the other side has them, else with the secret.
func TestBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		guards := func(self uint32) map[string]*Guard {
			c := files(t, a, hosts[self], soon())
			return map[string]*Guard{
				"secret": newGuard(t, self, false, old), "both": certified(t, self, c, old, nil), "certificates": certified(t, self, c, "", nil),
				"prepared": certified(t, self, c, old, func(cfg *Config) { cfg.ShowCertificates, cfg.AcceptPlain = false, true }),
			}
		}
		tests := []struct{ dialer, dialed, want string }{
			{"both", "both", certificateProtocol},
			{"both", "certificates", certificateProtocol},
			{"certificates", "both", certificateProtocol},
			{"certificates", "prepared", certificateProtocol},
			{"both", "secret", secretProtocol},
			{"secret", "both", secretProtocol},
			{"prepared", "both", secretProtocol},
			{"secret", "certificates", ""},
			{"certificates", "secret", ""},
		}
		for _, tt := range tests {
			out, in := meet(guards(2)[tt.dialer], guards(1)[tt.dialed])
			if (tt.want != "") != (out.err == nil && in.err == nil) {
				t.Errorf("%s dials %s: %v, %v", tt.dialer, tt.dialed, out.err, in.err)
				continue
			}
			if tt.want == "" {
				continue
			}
			if got := in.conn.(*Conn).Conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != tt.want || in.conn.(*Conn).MaySpeakAs(2) != nil {
				t.Errorf("%s dials %s by %s, want %s", tt.dialer, tt.dialed, got, tt.want)
			}
		}
		// ZooKeeper's first step: certificates are there, and nobody shows them yet
		plain := certified(t, 2, files(t, a, hosts[2], soon()), "", func(cfg *Config) { cfg.ShowCertificates, cfg.AcceptPlain = false, true })
		x, _ := net.Pipe()
		if c, err := plain.SecureDialed(x, Dialed{Member: 1}); c != x || err != nil || !plain.AcceptsPlain() {
			t.Errorf("a member that is prepared dials %v, %v", c, err)
		}
	})
}

// What a member with certificates does not start with.
func TestCertificatesAtTheStart(t *testing.T) {
	a := newAuthority(t)
	right := files(t, a, hosts[1], soon())
	noTrust, noKey := right, right
	noTrust.TrustStore.Location, noKey.KeyStore.Location = "", ""
	tests := []struct {
		name string
		c    Certificates
		now  func() time.Time
		say  string
	}{
		{"no key", noKey, nil, "sslQuorum=true needs ssl.quorum.keyStore.location; set it"},
		{"no authority", noTrust, nil, "sslQuorum=true needs ssl.quorum.trustStore.location; set it"},
		{"expired", files(t, a, hosts[1], time.Now().Add(-time.Minute)), nil, "has expired"},
		{"a clock that is years ahead", right, func() time.Time { return time.Now().AddDate(5, 0, 0) }, "this machine's clock says"},
		{"of member 2", files(t, a, hosts[2], soon()), nil, ": the certificate is for b.example, but this member is server.1, whose host is a.example, so the other members would reject it; use the file of server.1, or a certificate for a.example, or set ssl.quorum.hostnameVerification=false on all members"},
		{"of an address", files(t, a, "10.0.0.1", soon()), nil, "the certificate is for 10.0.0.1, but"},
		{"of many", filesFor(t, a, strings.Split("abcdefghij", ""), soon()), nil, "for a, b, c, d, e, f, g, h and 2 more, but"},
		{"a clock that is years behind", right, func() time.Time { return time.Now().AddDate(-5, 0, 0) }, "is not valid yet"},
	}
	for _, tt := range tests {
		cfg := Config{Settings: Settings{ShowCertificates: true, Certificates: tt.c}, MemberID: 1, ConfiguredHosts: hosts, Now: tt.now}
		g, err := New(cfg)
		if g != nil || err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.say)
		}
		if faults := cfg.Check(); tt.c.KeyStore.Location != "" && tt.c.TrustStore.Location != "" && (len(faults) == 0 || faults[0].IsWarning || err == nil || faults[0].Error() != err.Error()) {
			t.Errorf("%s: Check returns %v, want %v", tt.name, faults, err)
		}
	}
	if got := certificateNames(&x509.Certificate{}); got != "no host (its subjectAltName has none)" {
		t.Errorf("a certificate without names is for %s", got)
	}
	// nobody sees the certificate of a member that is alone, and one for several hosts may be shared
	shared := filesFor(t, a, []string{hosts[1], hosts[2]}, soon())
	for _, cfg := range []Config{
		{Settings: Settings{ShowCertificates: true, Certificates: files(t, a, hosts[2], soon())}, MemberID: 1, ConfiguredHosts: map[uint32]string{1: hosts[1]}},
		{Settings: Settings{ShowCertificates: true, Certificates: files(t, a, hosts[2], soon())}, MemberID: 1},
		{Settings: Settings{ShowCertificates: true, Certificates: shared}, MemberID: 1, ConfiguredHosts: hosts},
		{Settings: Settings{ShowCertificates: true, Certificates: shared}, MemberID: 2, ConfiguredHosts: hosts},
	} {
		if _, err := New(cfg); err != nil {
			t.Errorf("member %d of %v: %v", cfg.MemberID, cfg.ConfiguredHosts, err)
		}
	}
	// with portUnification the files may be there before a member shows its certificate
	g, err := New(Config{Settings: Settings{AcceptPlain: true, Certificates: noTrust}, MemberID: 1, ConfiguredHosts: hosts})
	if want := "ssl.quorum.keyStore.location with portUnification=true needs ssl.quorum.trustStore.location; set it"; g != nil || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("prepared without an authority: %v, want %q", err, want)
	}
	// with a secret, no clock matters
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, old)
	if _, err := New(Config{Settings: Settings{SecretFile: path}, MemberID: 1, Now: func() time.Time { return time.Unix(0, 0) }}); err != nil {
		t.Error(err)
	}
}

// A server that is not known yet is dialed at a host that an operator has named. Its certificate must be for that
// host, and be of the authority. The host of a known member does not count then.
func TestDialedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := newAuthority(t), newAuthority(t)
		one := certified(t, 1, files(t, ours, hosts[1], soon()), "", nil)
		const stranger, host = 7, "g.example"
		of := func(a *authority.Authority, self uint32, host string) *Guard {
			return certified(t, self, files(t, a, host, soon()), "", func(c *Config) { c.Certificates.AnyHost = true }) // takes any certificate for its own
		}
		for _, tt := range []struct {
			name   string
			dialed *Guard
			to     uint32
			host   string
			say    string // the dialer's error; "": they meet
		}{
			{"for the host", of(ours, stranger, host), stranger, host, ""},
			{"for another host", of(ours, stranger, "h.example"), stranger, host, "g.example"},
			{"of another authority", of(theirs, stranger, host), stranger, host, "unknown authority"},
			{"no host was named", of(ours, stranger, host), stranger, "", "member 7 is not in the server list"},
			{"a known member at another host", of(ours, 2, host), 2, host, ""},
			{"a known member at its host, not at that which was named", of(ours, 2, hosts[2]), 2, host, "g.example"},
		} {
			a, b := net.Pipe()
			in := accepts(tt.dialed, b)
			_ = a.SetDeadline(time.Now().Add(limit))
			conn, err := one.SecureDialed(a, Dialed{Member: tt.to, NamedHost: tt.host})
			if tt.say == "" && err != nil || tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say)) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.say)
			}
			if err != nil {
				_ = a.Close()
			}
			if <-in; err == nil {
				_ = conn.Close()
			}
		}
	})
}

// With AskResponders, either end rejects a certificate about which no responder says that it is not revoked.
func TestRespondersAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		asks := func(c *Config) { c.Certificates.AskResponders = true }
		guard := func(self uint32, change func(*Config)) *Guard {
			return certified(t, self, files(t, a, hosts[self], soon()), "", change)
		}
		const say = "names no responder (authorityInfoAccess)"
		if out, in := meet(guard(2, nil), guard(1, asks)); in.err == nil || !strings.Contains(in.err.Error(), say) {
			t.Errorf("the dialed side asks: %v, %v", out.err, in.err)
		}
		if out, in := meet(guard(2, asks), guard(1, nil)); out.err == nil || !strings.Contains(out.err.Error(), say) {
			t.Errorf("the dialer asks: %v, %v", out.err, in.err)
		}
	})
}
