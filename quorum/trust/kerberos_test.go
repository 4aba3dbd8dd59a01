package trust

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/logs/logtest"
	"rollcall/zk/kerberos"
	"rollcall/zk/kerberos/credentials"
	"rollcall/zk/kerberos/kdctest"
)

// realm is an ensemble of three members, m1 to m3, with a KDC. Each has a principal for being dialed and one for dialing.
type realm struct {
	t     *testing.T
	kdc   *kdctest.KDC
	hosts map[uint32]string
	dead  atomic.Bool // the KDC refuses connections
	hangs atomic.Bool // the KDC accepts them, and never replies
	logs  logtest.Buffer
}

func newRealm(t *testing.T) *realm {
	t.Helper()
	r := &realm{t: t, kdc: kdctest.New(t), hosts: map[uint32]string{1: "M1", 2: "m2", 3: "m3"}}
	for _, host := range []string{"m1", "m2", "m3"} {
		r.kdc.Add(t, "zkquorum/"+host)
		r.kdc.Add(t, "learner/"+host)
	}
	return r
}

// settings returns those of a member at a host.
func (r *realm) settings(host string) Kerberos {
	r.t.Helper()
	of := func(name string) KeytabPrincipal {
		return KeytabPrincipal{Keytab: r.kdc.WriteKeytab(r.t, name), Principal: kerberos.Principal{Name: name, Realm: kdctest.Realm}}
	}
	return Kerberos{
		Dialed: of("zkquorum/" + host), Dialing: of("learner/" + host), DialedName: "zkquorum/_HOST", Krb5Conf: kdctest.WriteConf(r.t, "kdc:88"),
	}
}

// dial connects to the KDC.
func (r *realm) dial(ctx context.Context, _ string) (net.Conn, error) {
	if r.dead.Load() {
		return nil, errors.New("the KDC is dead")
	}
	here, there := net.Pipe()
	if r.hangs.Load() {
		go func() { _, _ = io.Copy(io.Discard, there) }()
		return here, nil
	}
	go r.kdc.Serve(there)
	return here, nil
}

// guard returns the guard of a member, without tickets yet. change may change its configuration.
func (r *realm) guard(member uint32, change func(*Config)) *Guard {
	r.t.Helper()
	cfg := Config{MemberID: member, ConfiguredHosts: r.hosts, Logger: slog.New(slog.NewTextHandler(&r.logs, nil))}
	cfg.Kerberos = r.settings(strings.ToLower(r.hosts[member]))
	if change != nil {
		change(&cfg)
	}
	cfg.ticketSource = &credentials.Services{
		ReadKeytab: cfg.Kerberos.Dialing.read, Principal: cfg.Kerberos.Dialing.Principal, Krb5Conf: cfg.Kerberos.Krb5Conf, Dial: r.dial,
	}
	g, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

// ready returns the guard of a member that has its tickets.
func (r *realm) ready(member uint32, change func(*Config)) *Guard {
	r.t.Helper()
	g := r.guard(member, change)
	if err := g.PrepareDials(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return g
}

// run runs a guard until the function that it returns is called, which checks that the guard ends at once.
func (r *realm) run(g *Guard) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	ran := make(chan error)
	go func() { ran <- g.Run(ctx) }()
	return func() {
		cancel()
		began := time.Now()
		if err := <-ran; err != nil || time.Since(began) != 0 {
			r.t.Errorf("Run: %v after %v", err, time.Since(began))
		}
	}
}

// as gives a member the principal for dialing of another host, or of another service.
func (r *realm) as(name string) func(*Config) {
	return func(cfg *Config) {
		cfg.ConfiguredHosts = map[uint32]string{1: "M1", 2: strings.SplitN(name, "/", 2)[1]}
		cfg.Kerberos.Dialing = KeytabPrincipal{r.kdc.WriteKeytab(r.t, name), kerberos.Principal{Name: name, Realm: kdctest.Realm}}
		cfg.CurrentHosts = func(uint32) []string { return []string{"m1"} }
		cfg.Kerberos.DialedName = "zkquorum/m1"
		cfg.Kerberos.Dialed = KeytabPrincipal{r.kdc.WriteKeytab(r.t, "zkquorum/m1"), kerberos.Principal{Name: "zkquorum/m1", Realm: kdctest.Realm}}
	}
}

// Members prove themselves by tickets, and what they send then arrives. Each is bound to its id.
func TestKerberos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		one, two := r.ready(1, nil), r.ready(2, nil)
		for range 2 { // a ticket serves many connections
			out, in := meet(two, one)
			if out.err != nil || in.err != nil {
				t.Fatal(out.err, in.err)
			}
			dialed := in.conn.(*Conn)
			if err := dialed.MaySpeakAs(2); err != nil {
				t.Error(err)
			}
			wantRejection(t, dialed.MaySpeakAs(3), OtherMember, "member 2 has proved itself, but it says that it is member 3")
			go func() { _, _ = out.conn.Write([]byte("hello")) }()
			got := make([]byte, 5)
			if _, err := io.ReadFull(in.conn, got); err != nil || string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
			if len(one.provedConns) != 1 || len(two.provedConns) != 1 {
				t.Errorf("%d and %d connections are kept", len(one.provedConns), len(two.provedConns))
			}
			_ = out.conn.Close()
			_ = in.conn.Close()
		}
		if got := r.kdc.Requests(); got != 6 {
			t.Errorf("%d requests to the KDC, want 3 of each member", got)
		}
		if one.ProofMethods() != "Kerberos" || !one.UsesTickets() || !maps.Equal(one.TicketSeconds(time.Now()), map[string]int64{"2": 36_000, "3": 36_000}) {
			t.Errorf("%s, tickets end in %v s", one.ProofMethods(), one.TicketSeconds(time.Now()))
		}
	})
}

// A principal that is not that of the member whose id it names is rejected, although the KDC vouches for it.
func TestKerberosStrangers(t *testing.T) {
	for _, tt := range []struct {
		name, principal, text string
		hosts                 map[uint32]string // that member 1 knows
	}{
		{"another host", "learner/m9", "learner/m9@EXAMPLE.COM says it is member 2, whose principal is learner/m2@EXAMPLE.COM", nil},
		{"another member", "learner/m3", "learner/m3@EXAMPLE.COM says it is member 2", nil},
		{"another service of the host", "http/m2", "http/m2@EXAMPLE.COM says it is member 2", nil},
		{"an unknown member", "learner/m2", "member 2 is not in the server list, and learner/m2@EXAMPLE.COM says", map[uint32]string{1: "M1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRealm(t)
				for _, name := range []string{"learner/m9", "http/m2"} {
					r.kdc.Add(t, name)
				}
				one := r.guard(1, func(cfg *Config) {
					if tt.hosts != nil {
						cfg.ConfiguredHosts = tt.hosts
					}
				})
				out, in := meet(r.ready(2, r.as(tt.principal)), one)
				wantRejection(t, in.err, OtherMember, tt.text)
				if !errors.Is(out.err, ErrProofRejected) || len(one.provedConns) != 0 {
					t.Errorf("the dialer: %v; %d connections are kept", out.err, len(one.provedConns))
				}
			})
		})
	}
}

// A user has a ticket for a member, too, but is no member.
func TestKerberosUser(t *testing.T) {
	p := kerberosProof{
		settings: Kerberos{Dialing: KeytabPrincipal{Principal: kerberos.Principal{Name: "learner/m1", Realm: "R"}}},
		hostsOf:  func(uint32) []string { return []string{"m2", "New.example.com"} },
	}
	for name, isMember := range map[string]bool{
		"learner/m2@R": true, "learner/new.example.com@R": true, "learner/M2@R": true, "learner@R": false, "m2@R": false, "learner/@R": false,
		"learner/m2@S": false, "bob@R": false, "learner/m2/x@R": false, "Learner/m2@R": false, "learner/new@R": false,
	} {
		of, err := kerberos.ParsePrincipal(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.checkDialer(of, 2); (err == nil) != isMember {
			t.Errorf("%s is member 2: %t, %v", name, isMember, err)
		}
	}
	p.hostsOf = func(uint32) []string { return []string{""} } // of an address without a host
	if p.checkDialer(kerberos.Principal{Name: "learner", Realm: "R"}, 2) == nil {
		t.Error("a principal without a host is a member")
	}
}

// Members that have a secret alone, and processes that have taken over an address, are no members.
func TestKerberosOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		one, two := r.ready(1, nil), r.ready(2, nil)
		out, in := meet(newGuard(t, 2, false, old), one)
		wantRejection(t, in.err, BadHandshake, `the dialer offers ["rollcall-secret-1"], members prove themselves here by Kerberos`)
		if out.err == nil {
			t.Error("a member with a secret trusts one with Kerberos")
		}
		out, in = meet(two, newGuard(t, 1, false, old))
		wantRejection(t, in.err, BadHandshake, "members prove themselves here by secret")
		if out.err == nil {
			t.Error("a member with Kerberos trusts one with a secret")
		}
		// m3 answers at the address of m1, with its own key.
		out, in = meet(two, r.guard(3, nil))
		wantRejection(t, in.err, BadTicket+Reason(kerberos.WrongService), `the ticket is for "zkquorum/m1"; must be for zkquorum/m3`)
		if out.err == nil || !strings.Contains(out.err.Error(), "Kerberos: the member does not accept this member's proof; see the log there") {
			t.Errorf("the dialer: %v", out.err)
		}
		// With one principal of all members, the ids in the proof still count.
		r.kdc.Add(t, "zkquorum/all")
		shared := func(cfg *Config) {
			cfg.Kerberos.DialedName = "zkquorum/all"
			cfg.Kerberos.Dialed = KeytabPrincipal{r.kdc.WriteKeytab(t, "zkquorum/all"), kerberos.Principal{Name: "zkquorum/all", Realm: kdctest.Realm}}
		}
		if out, in = meet(r.ready(2, shared), r.guard(1, shared)); out.err != nil || in.err != nil {
			t.Error(out.err, in.err)
		}
		_, in = meet(r.ready(2, shared), r.guard(3, shared))
		wantRejection(t, in.err, OtherMember, "the proof is meant for member 1, this is member 3")
	})
}

// While members move from a secret to Kerberos, each of them connects to each other one: by Kerberos if both have it, and otherwise by the
// secret, also if a ticket is missing.
func TestMoveToKerberos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, old)
		withSecret := func(cfg *Config) { cfg.SecretFile = path }
		secretOnly := func(cfg *Config) { cfg.Kerberos, cfg.SecretFile = Kerberos{}, path }
		for name, tt := range map[string]struct {
			dialer, dialed *Guard
			byTicket       bool
		}{
			"secret, both":                  {r.guard(2, secretOnly), r.guard(1, withSecret), false},
			"both, secret":                  {r.ready(2, withSecret), r.guard(1, secretOnly), false},
			"both, both":                    {r.ready(2, withSecret), r.guard(1, withSecret), true},
			"both without a ticket, both":   {r.guard(2, withSecret), r.guard(1, withSecret), false},
			"both, Kerberos":                {r.ready(2, withSecret), r.guard(1, nil), true},
			"Kerberos, both":                {r.ready(2, nil), r.guard(1, withSecret), true},
			"both without a ticket, secret": {r.guard(2, withSecret), r.guard(1, secretOnly), false},
		} {
			out, in := meet(tt.dialer, tt.dialed)
			if out.err != nil || in.err != nil {
				t.Errorf("%s: %v, %v", name, out.err, in.err)
				continue
			}
			for end, conn := range map[string]net.Conn{"dialer": out.conn, "dialed": in.conn} {
				if c := conn.(*Conn); c.byTicket != tt.byTicket || (c.provedSecret == old) == tt.byTicket {
					t.Errorf("%s: the %s has it by a ticket: %t, want %t", name, end, c.byTicket, tt.byTicket)
				}
				_ = conn.Close()
			}
		}
		if got := r.guard(2, withSecret).ProofMethods(); got != "secret and Kerberos" {
			t.Error(got)
		}
	})
}

// kerberosTLS is the dialer's TLS of a process without a ticket.
func kerberosTLS() *tls.Config {
	return &tls.Config{NextProtos: []string{kerberosProtocol}, InsecureSkipVerify: true}
}

// A request that was copied from another connection proves nothing: its sender does not have the key. Neither does a relay with a TLS
// session to each side.
func TestKerberosReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		one, two := r.ready(1, nil), r.ready(2, nil)
		offered, err := two.kerberos.offerFor(Dialed{Member: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, token, err := kerberos.NewPeerRequest(offered.ticket)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c, in, err := tlsTo(t, one, kerberosTLS())
			if err != nil {
				t.Fatal(err)
			}
			conn := &Conn{Conn: c}
			if err := writeToken(conn, token); err != nil {
				t.Fatal(err)
			}
			if _, err := readToken(conn); err != nil {
				t.Fatal(err)
			}
			e, err := conn.newExchange()
			if err != nil {
				t.Fatal(err)
			}
			e.from, e.to = 2, 1
			if _, err := io.ReadFull(c, e.dialedNonce[:]); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(e.encodeDialerMessage(nil)); err != nil {
				t.Fatal(err)
			}
			wantRejection(t, (<-in).err, NoProof, "has sent a ticket of learner/m2@EXAMPLE.COM, and does not have its key")
		}

		out, in := relay(t, two, one, kerberosProtocol)
		wantRejection(t, in.err, NoProof, "does not have its key")
		if out.err == nil {
			t.Error("the dialer trusts the relay")
		}
	})
}

// The dialed side must prove that it has the key, too: a reply to the ticket is not enough.
func TestDialedKerberosProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		one, two := r.guard(1, nil), r.ready(2, nil)
		a, b := net.Pipe()
		out := dials(two, a, 1)
		_ = b.SetDeadline(time.Now().Add(limit))
		conn := &Conn{Conn: tls.Server(b, one.kerberos.tls)}
		token, err := readToken(conn)
		if err != nil {
			t.Fatal(err)
		}
		reply, _, _, err := one.kerberos.acceptor.AcceptPeer(token)
		if err != nil {
			t.Fatal(err)
		}
		var dialed nonce
		if err := writeToken(conn, reply); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(dialed[:])
		_, _ = io.ReadFull(conn, make([]byte, dialerMessageSize))
		_, _ = conn.Write(make([]byte, proofSize))
		if err := (<-out).err; err == nil || !strings.Contains(err.Error(), "zkquorum/m1@EXAMPLE.COM does not prove that it has the key") || len(two.provedConns) != 0 {
			t.Errorf("the dialer: %v", err)
		}
	})
}

// Strangers that send no request, a part of one, or a huge one are rejected, and none takes more time than the handshake has.
func TestKerberosTokens(t *testing.T) {
	for name, tt := range map[string]struct {
		sent  string
		close bool
		why   Reason
		text  string
	}{
		"nothing":           {"", true, NoProof, "no ticket: EOF"},
		"half a length":     {"\x00", true, NoProof, "no ticket: unexpected EOF"},
		"cut short":         {"\xff\xffabc", true, NoProof, "no ticket: EOF"},
		"silence":           {"\xff\xffabc", false, NoProof, "no ticket: "},
		"garbage":           {"\x00\x03abc", false, BadTicket, "no frame of GSSAPI"},
		"an empty token":    {"\x00\x00", false, BadTicket, "the token of 0 bytes"},
		"the longest token": {"\xff\xff" + strings.Repeat("x", kerberos.MaxToken), false, BadTicket, "the token of 65535 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newRealm(t).guard(1, nil)
				c, in, err := tlsTo(t, one, kerberosTLS())
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if _, err := c.Write([]byte(tt.sent)); err != nil {
					t.Fatal(err)
				}
				if tt.close {
					go func() { _ = c.Close() }() // waits for a reader
				}
				wantRejection(t, (<-in).err, tt.why, tt.text)
				if name == "silence" && time.Since(began) != limit {
					t.Errorf("after %v, want %v", time.Since(began), limit)
				}
			})
		})
	}
}

// While a ticket lasts, the death of the KDC changes nothing, also if it hangs. After its end, the error says why, and the KDC's return
// ends it.
func TestKDCDies(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRealm(t)
			one, two := r.guard(1, nil), r.guard(2, nil)
			stop := r.run(two)
			synctest.Wait()
			meets := func() error {
				began := time.Now()
				out, in := meet(two, one)
				if took := time.Since(began); took != 0 {
					t.Errorf("the handshake took %v", took)
				}
				if out.err == nil {
					_, _ = out.conn.Close(), in.conn.Close()
				}
				return out.err
			}
			if err := meets(); err != nil {
				t.Fatal(err)
			}
			// The tickets were replaced after a quarter of their life, and the KDC dies just before it would replace them again.
			time.Sleep(4 * time.Hour)
			r.dead.Store(!hangs)
			r.hangs.Store(hangs)
			time.Sleep(2*time.Hour + 30*time.Minute + 5*time.Hour + 50*time.Minute)
			if err := meets(); err != nil {
				t.Errorf("after more than 8 hours without a KDC: %v", err)
			}
			if !strings.Contains(r.logs.String(), "Kerberos tickets for members cannot be renewed") || !strings.Contains(r.logs.String(), "first_ends=2000-01-01T12:30:") {
				t.Errorf("logged:\n%s", r.logs.String())
			}
			if n := strings.Count(r.logs.String(), "cannot be renewed"); n > int(9*time.Hour/ticketLogInterval) {
				t.Errorf("%d lines about one failure", n)
			}
			time.Sleep(30 * time.Minute)
			before := time.Now()
			if err := meets(); err == nil || !strings.Contains(err.Error(), "the Kerberos ticket for zkquorum/m1@EXAMPLE.COM has expired at 2000-01-01T12:30:") || !strings.Contains(err.Error(), "the KDC at kdc:88: ") {
				t.Errorf("after the end of the ticket, at %v: %v", before.UTC(), err)
			}
			if left := two.TicketSeconds(time.Now()); left["1"] != 0 || len(left) != 2 {
				t.Errorf("%v s are left of tickets that have ended", left)
			}
			r.dead.Store(false)
			r.hangs.Store(false)
			time.Sleep(maxTicketPause + ticketRoundLimit)
			if err := meets(); err != nil {
				t.Errorf("after the return of the KDC: %v", err)
			}
			if !strings.Contains(r.logs.String(), "Kerberos tickets for members were got again") {
				t.Errorf("logged:\n%s", r.logs.String())
			}
			r.hangs.Store(true)
			two.kerberos.tickets.noteRejected(kerberos.Principal{Name: "zkquorum/m1", Realm: kdctest.Realm})
			time.Sleep(time.Minute)
			stop() // also while the KDC hangs
		})
	}
}

// A member that starts without a KDC connects to none, with the reason. It does not flood the KDC, however often it dials.
func TestNoKDCAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		one, two := r.guard(1, nil), r.guard(2, nil)
		if err := two.MayDial(Dialed{Member: 1}); err == nil || !strings.Contains(err.Error(), "no Kerberos ticket for zkquorum/m1@EXAMPLE.COM") {
			t.Errorf("it may dial without a ticket: %v", err)
		}
		for _, g := range []*Guard{nil, newGuard(t, 2, false, old), r.guard(2, func(cfg *Config) {
			cfg.SecretFile = filepath.Join(t.TempDir(), "secret")
			write(t, cfg.SecretFile, old)
		}), r.ready(2, nil)} {
			if err := g.MayDial(Dialed{Member: 1}); err != nil {
				t.Errorf("a member with a secret, or with a ticket: %v", err)
			}
		}
		if out, _ := meet(two, one); out.err == nil || !strings.Contains(out.err.Error(), "no Kerberos ticket for zkquorum/m1@EXAMPLE.COM: it is being got from the KDC") {
			t.Errorf("before the first reply: %v", out.err)
		}
		r.kdc.SetFailure(37)
		before := r.kdc.Requests()
		stop := r.run(two)
		const dials = 3000
		for range dials {
			time.Sleep(100 * time.Millisecond)
			if _, err := two.SecureDialed(nil, Dialed{Member: 1}); err == nil || !strings.Contains(err.Error(), "no Kerberos ticket for zkquorum/m1@EXAMPLE.COM: kerberos: the KDC's clock is at 2000-") {
				t.Fatal(err)
			}
		}
		if got := r.kdc.Requests() - before; got < 5 || got > 12 {
			t.Errorf("%d requests to the KDC in 5 minutes, want those of a pause that doubles", got)
		}
		if two.TicketSeconds(time.Now())["1"] != 0 || !strings.Contains(r.logs.String(), "a Kerberos ticket for a member is missing") {
			t.Errorf("logged:\n%s", r.logs.String())
		}
		stop()
		quiet := r.guard(3, nil) // dials nobody
		stop = r.run(quiet)
		synctest.Wait()
		r.kdc.SetFailure(0)
		time.Sleep(minTicketPause)
		if synctest.Wait(); quiet.TicketSeconds(time.Now())["1"] == 0 {
			t.Errorf("the first pause is longer than %v", minTicketPause)
		}
		stop()
	})
}

// A new member's ticket is got before a connection needs it, and that of one that has left is forgotten.
func TestTicketsFollowMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		hosts := atomic.Pointer[map[uint32]string]{}
		hosts.Store(&map[uint32]string{1: "m1", 2: "m2"})
		two := r.guard(2, func(cfg *Config) {
			cfg.CurrentMembers = func() []uint32 { return Config{ConfiguredHosts: *hosts.Load()}.configuredMembers() }
			cfg.CurrentHosts = func(member uint32) []string { return []string{(*hosts.Load())[member]} }
		})
		stop := r.run(two)
		synctest.Wait()
		held := func(host string) bool {
			_, err := two.kerberos.tickets.ticketFor(kerberos.Principal{Name: "zkquorum/" + host, Realm: kdctest.Realm})
			return err == nil
		}
		if !held("m1") || held("m3") {
			t.Errorf("m1: %t, m3: %t", held("m1"), held("m3"))
		}
		time.Sleep(time.Minute)
		hosts.Store(&map[uint32]string{2: "m2", 3: "m3"})
		time.Sleep(ticketCheckInterval + minTicketPause)
		if held("m1") || !held("m3") {
			t.Errorf("m1: %t, m3: %t", held("m1"), held("m3"))
		}
		stop()
	})
}

// The tickets for the members that an operator's change names are got at once, although the list does not have them, and also if the
// last round has failed. They are forgotten unless the list has them then.
func TestTicketsOfNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		for _, host := range []string{"m4", "m5", "m6"} {
			r.kdc.Add(t, "zkquorum/"+host)
		}
		two := r.guard(2, nil)
		stop := r.run(two)
		defer stop()
		time.Sleep(time.Minute)
		named := func(member uint32) Dialed {
			host := fmt.Sprintf("m%d", member)
			return Dialed{Member: member, Host: host, NamedHost: host}
		}
		awaitDial := func(member uint32, wantIn time.Duration) error {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			began := time.Now()
			err := two.AwaitDial(ctx, named(member))
			if took := time.Since(began); took > wantIn {
				t.Errorf("member %d may be dialed after %v (%v), want %v", member, took, err, wantIn)
			}
			return err
		}
		if err := two.MayDial(Dialed{Member: 4, Host: "m4"}); err == nil {
			t.Error("a member that nobody has named has a ticket")
		}
		for _, member := range []uint32{4, 5} {
			if err := awaitDial(member, minTicketPause); err != nil {
				t.Error(err)
			}
		}
		if err := awaitDial(9, 5*time.Second); err == nil || !strings.Contains(err.Error(), "the KDC has no principal zkquorum/m9") {
			t.Errorf("a host without a principal: %v", err)
		}
		time.Sleep(newcomerLifetime / 2) // the rounds for it fail, with long pauses
		if err := awaitDial(6, minTicketPause); err != nil {
			t.Error(err)
		}
		time.Sleep(newcomerLifetime + 2*maxTicketPause)
		two.kerberos.tickets.mu.Lock()
		defer two.kerberos.tickets.mu.Unlock()
		if got := len(two.kerberos.tickets.held); got != 2 {
			t.Errorf("%d tickets are held after the change, want those of members 1 and 3", got)
		}
	})
}

// However many newcomers are named, maxNewcomers are kept, those that were dialed last.
func TestNewcomersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := newRealm(t).guard(2, nil)
		for i := range maxNewcomers + 10 {
			host := fmt.Sprintf("new%d", i)
			_ = two.MayDial(Dialed{Member: 9, Host: host, NamedHost: host})
			time.Sleep(time.Millisecond)
		}
		all := two.kerberos.tickets.allWanted()
		has := func(i int) bool {
			return slices.Contains(all, kerberos.Principal{Name: fmt.Sprintf("zkquorum/new%d", i), Realm: kdctest.Realm})
		}
		if len(all) != 2+maxNewcomers || has(9) || !has(10) || !has(maxNewcomers+9) {
			t.Errorf("%d are wanted; the newest of those to be forgotten: %t, the oldest that is kept: %t", len(all), has(9), has(10))
		}
	})
}

// After a change of the members, the connections of those that have left close in both directions, and the connection to a host that a
// member has left. The others stay open.
func TestKerberosMembersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parting = 5 * time.Second
		r := newRealm(t)
		var left atomic.Uint32
		var hosts3 atomic.Pointer[[]string]
		hosts3.Store(&[]string{"m3"})
		one := r.ready(1, func(cfg *Config) {
			cfg.PartingTime = parting
			cfg.HasLeft = func(member uint32) bool { return member == left.Load() }
			cfg.CurrentHosts = func(member uint32) []string {
				if member == 3 {
					return *hosts3.Load()
				}
				return cfg.configuredHosts(member)
			}
		})
		stop := r.run(one)
		defer stop()
		var conns []net.Conn // from and to member 2, from and to member 3
		for _, member := range []uint32{2, 3} {
			other := r.ready(member, nil)
			_, in := meet(other, one)
			a, b := net.Pipe()
			accepted, connected := accepts(other, b), dials(one, a, member)
			<-accepted
			out := <-connected
			if in.err != nil || out.err != nil {
				t.Fatal(in.err, out.err)
			}
			conns = append(conns, in.conn, out.conn)
		}
		wantOpen := func(when string, want ...bool) {
			t.Helper()
			synctest.Wait()
			for i, c := range conns {
				if isOpen(c) != want[i] {
					t.Errorf("%s, connection %d is open: %t", when, i, !want[i])
				}
			}
		}
		one.MembersChanged()
		time.Sleep(2 * parting)
		wantOpen("while all are members", true, true, true, true)
		left.Store(2)
		one.MembersChanged()
		time.Sleep(parting - time.Second)
		one.MembersChanged() // another step of the same change
		time.Sleep(parting - time.Second)
		wantOpen("before the parting time is over", true, true, true, true)
		time.Sleep(time.Second)
		wantOpen("after member 2 has left", false, false, true, true)
		if !strings.Contains(r.logs.String(), "member 2 has left the ensemble") {
			t.Errorf("logged:\n%s", r.logs.String())
		}
		hosts3.Store(&[]string{"m3", "moved"})
		one.MembersChanged()
		time.Sleep(parting)
		wantOpen("while member 3 moves", false, false, true, true)
		hosts3.Store(&[]string{"moved"})
		one.MembersChanged()
		time.Sleep(parting)
		wantOpen("after member 3 has moved", false, false, false, false)
		if len(one.provedConns) != 0 {
			t.Errorf("%d connections are kept", len(one.provedConns))
		}
	})
}

// A new member's ticket is got when the list has it, without the wait for the next check.
func TestTicketsOfNewMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		var members atomic.Pointer[[]uint32]
		members.Store(&[]uint32{1, 2})
		two := r.guard(2, func(cfg *Config) { cfg.CurrentMembers = func() []uint32 { return *members.Load() } })
		stop := r.run(two)
		defer stop()
		time.Sleep(time.Minute + minTicketPause)
		members.Store(&[]uint32{1, 2, 3})
		two.MembersChanged()
		time.Sleep(minTicketPause)
		if got := two.TicketSeconds(time.Now())["3"]; got == 0 {
			t.Error("there is no ticket for the new member")
		}
	})
}

// A member whose principal has another key since rejects the ticket of the old one. The next ticket is got at once, and not one for each
// connection.
func TestRejectedTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		two := r.guard(2, nil)
		stop := r.run(two)
		time.Sleep(time.Minute)
		r.kdc.Add(t, "zkquorum/m1")
		fresh := r.guard(1, func(cfg *Config) { // its keytab has the new key alone
			content := r.kdc.Keytab(t, "zkquorum/m1")
			old := len(newRealm(t).kdc.Keytab(t, "zkquorum/m1")) - 2
			if err := os.WriteFile(cfg.Kerberos.Dialed.Keytab, append([]byte("\x05\x02"), content[2+old:]...), 0o600); err != nil {
				t.Fatal(err)
			}
		})
		before := r.kdc.Requests()
		_, in := meet(two, fresh)
		wantRejection(t, in.err, BadTicket+Reason(kerberos.UnknownKey), "encrypted with version 1 of the key; the keytab has 2")
		time.Sleep(minTicketPause)
		if out, in := meet(two, fresh); out.err != nil || in.err != nil {
			t.Error(out.err, in.err)
		} else {
			_, _ = out.conn.Close(), in.conn.Close()
		}
		for range 50 {
			two.kerberos.tickets.noteRejected(kerberos.Principal{Name: "zkquorum/m1", Realm: kdctest.Realm})
			time.Sleep(100 * time.Millisecond)
		}
		if got := r.kdc.Requests() - before; got != 2 {
			t.Errorf("%d requests for the new ticket, want 2", got)
		}
		stop()
	})
}

// The keytab of the dialed side may be replaced while it runs.
func TestKeytabIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		path := ""
		one := r.guard(1, func(cfg *Config) { path = cfg.Kerberos.Dialed.Keytab })
		r.kdc.Add(t, "zkquorum/m1")
		two := r.ready(2, nil)
		if err := os.WriteFile(path, r.kdc.Keytab(t, "zkquorum/m1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, in := meet(two, one); out.err != nil || in.err != nil {
			t.Error(out.err, in.err)
		}
		if !strings.Contains(r.logs.String(), "keytab of members replaced") {
			t.Errorf("logged:\n%s", r.logs.String())
		}
	})
}

// The dialed side takes a request whose time is within the clock skew of its settings, and no other one.
func TestKerberosSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		one := r.guard(1, func(cfg *Config) { cfg.Kerberos.ClockSkew = time.Second })
		two := r.ready(2, nil)
		offered, err := two.kerberos.offerFor(Dialed{Member: 1})
		if err != nil {
			t.Fatal(err)
		}
		for late, taken := range map[time.Duration]bool{time.Second: true, 2 * time.Second: false} {
			c, in, err := tlsTo(t, one, kerberosTLS())
			if err != nil {
				t.Fatal(err)
			}
			conn := &Conn{Conn: c}
			_, token, err := kerberos.NewPeerRequest(offered.ticket)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(late)
			_ = writeToken(conn, token)
			if _, err := readToken(conn); (err == nil) != taken {
				t.Errorf("after %v: %v", late, err)
			}
			_ = c.NetConn().Close()
			if err := (<-in).err; !taken {
				wantRejection(t, err, BadTicket+Reason(kerberos.ClockSkew), "the client's clock is 2s behind this one; must be within 1s")
			}
		}
	})
}

// A member does not start with principals that the others would reject, or with keytabs that lack them.
func TestKerberosSettings(t *testing.T) {
	r := newRealm(t)
	of := func(name, realm string) kerberos.Principal { return kerberos.Principal{Name: name, Realm: realm} }
	for want, change := range map[string]func(*Config){
		"": func(*Config) {},
		"the principal for dialing is learner/m3@EXAMPLE.COM, but this member is server.2, whose host is m2": func(c *Config) { c.Kerberos.Dialing.Principal = of("learner/m3", kdctest.Realm) },
		"the principal for dialing is learner@EXAMPLE.COM":                                                   func(c *Config) { c.Kerberos.Dialing.Principal = of("learner", kdctest.Realm) },
		"the principal for being dialed is zkquorum/m2@EXAMPLE.COM, but the other members dial zkquorum/localhost@EXAMPLE.COM by quorum.auth.kerberos.servicePrincipal=zkquorum/localhost": func(c *Config) { c.Kerberos.DialedName = "zkquorum/localhost" },
		"learner/m2@OTHER.COM and zkquorum/m2@EXAMPLE.COM are of different realms":                                                                                                         func(c *Config) { c.Kerberos.Dialing.Principal = of("learner/m2", "OTHER.COM") },
		"the keytab has no key of learner/m2@EXAMPLE.COM; it has those of learner/m3@EXAMPLE.COM":                                                                                          func(c *Config) { c.Kerberos.Dialing.Keytab = r.kdc.WriteKeytab(t, "learner/m3") },
		"the keytab has no key of zkquorum/m2@EXAMPLE.COM; it has those of zkquorum/m1@EXAMPLE.COM":                                                                                        func(c *Config) { c.Kerberos.Dialed.Keytab = r.kdc.WriteKeytab(t, "zkquorum/m1") },
		"/nowhere/keytab: no such file": func(c *Config) { c.Kerberos.Dialing.Keytab = "/nowhere/keytab" },
	} {
		cfg := Config{MemberID: 2, ConfiguredHosts: r.hosts, Settings: Settings{Kerberos: r.settings("m2")}}
		change(&cfg)
		g, err := New(cfg)
		if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) && want != "" {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil && (g.UsesTickets() != true || cfg.IsPlain()) {
			t.Error("the member does not use Kerberos")
		}
	}
	missing := Config{Settings: Settings{Kerberos: r.settings("m2")}}
	missing.Kerberos.Dialed.Keytab = r.kdc.WriteKeytab(t, "zkquorum/m1")
	missing.Kerberos.Dialing.Keytab = filepath.Join(t.TempDir(), "nowhere")
	missing.MemberID, missing.ConfiguredHosts = 3, r.hosts
	if faults := missing.Check(); len(faults) != 3 || !strings.Contains(faults[0].Error(), "but this member is server.3, whose host is m3") {
		t.Errorf("faults: %v", faults)
	}
	missing.MemberID = 2
	if faults := missing.Check(); len(faults) != 2 || !strings.Contains(faults[0].Error(), "no key of zkquorum/m2@EXAMPLE.COM") || !strings.Contains(faults[1].Error(), "no such file") {
		t.Errorf("faults: %v", faults)
	}
}

// The principal of a dialed member has the host that was dialed, in lower case, in place of _HOST.
func TestDialedPrincipal(t *testing.T) {
	for _, tt := range []struct{ name, host, want string }{
		{"zkquorum/_HOST", "ZK1.Example.com", "zkquorum/zk1.example.com@R"},
		{"zkquorum/_HOST", "10.0.0.1", "zkquorum/10.0.0.1@R"},
		{"zkquorum/localhost", "m1", "zkquorum/localhost@R"},
		{"zkquorum", "m1", "zkquorum@R"},
		{"zkquorum/_HOST.x", "m1", "zkquorum/_HOST.x@R"},
	} {
		k := Kerberos{DialedName: tt.name, Dialed: KeytabPrincipal{Principal: kerberos.Principal{Realm: "R"}}}
		if got := k.dialedAt(tt.host).String(); got != tt.want {
			t.Errorf("%s at %s: %s, want %s", tt.name, tt.host, got, tt.want)
		}
	}
	r := newRealm(t)
	two := r.guard(2, nil)
	two.kerberos.hostsOf = func(uint32) []string { return []string{"first", "second"} }
	for host, want := range map[string]string{"": "zkquorum/first@", "second": "zkquorum/second@", "Third": "zkquorum/third@"} {
		if _, err := two.kerberos.offerFor(Dialed{Member: 1, Host: host}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dialed at %q: %v, want %s", host, err, want)
		}
	}
}
