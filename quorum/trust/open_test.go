package trust

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/keystore/authority"
	"rollcall/operator/logs/logtest"
)

// list returns a list of revoked certificates in PEM, which is current until a time.
func list(t *testing.T, a *authority.Authority, until time.Time, revoked ...*Guard) []byte {
	t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: until}
	for _, g := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: g.keys.Certificate().Leaf.SerialNumber, RevocationTime: time.Now()})
	}
	cert, key, err := a.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, signer.Leaf, signer.PrivateKey.(crypto.Signer))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// world is member 1, which runs, and the connections of members 2 and 3 with it.
type world struct {
	t               *testing.T
	authority       *authority.Authority
	one, two, three *Guard
	own             string // files of member 1
	lists, trusted  string
	from2, to2      net.Conn
	from3, to3      net.Conn
	twoUntil        time.Time
	logs            logtest.Buffer
}

// runWorld calls try in a bubble with a world in which all members know each other. Member 1 checks lists of revoked
// certificates, and the present one is current until an hour before the certificate of member 2 expires.
func runWorld(t *testing.T, try func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, authority: newAuthority(t), twoUntil: time.Now().Add(2 * time.Hour)}
		w.two = certified(t, 2, files(t, w.authority, hosts[2], w.twoUntil), "", nil)
		w.three = certified(t, 3, files(t, w.authority, hosts[3], soon()), "", nil)
		c := files(t, w.authority, hosts[1], soon())
		c.CheckRevocation, c.RevocationFile = true, filepath.Join(t.TempDir(), "lists.pem")
		w.own, w.lists, w.trusted = c.KeyStore.Location, c.RevocationFile, c.TrustStore.Location
		w.put(w.lists, list(t, w.authority, w.twoUntil.Add(-time.Hour)))
		w.one = certified(t, 1, c, "", func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&w.logs, nil)) })
		go func() { _ = w.one.Run(t.Context()) }()
		w.from2, w.to2 = w.connect(w.two, 2)
		w.from3, w.to3 = w.connect(w.three, 3)
		try(w)
	})
}

// connect opens a connection of a member with member 1 in each direction, and returns the ends of member 1.
func (w *world) connect(g *Guard, member uint32) (from, to net.Conn) {
	w.t.Helper()
	_, in := meet(g, w.one)
	a, b := net.Pipe()
	accepted, connected := accepts(g, b), dials(w.one, a, member)
	<-accepted
	out := <-connected
	if in.err != nil || out.err != nil {
		w.t.Fatal(in.err, out.err)
	}
	if err := in.conn.(*Conn).MaySpeakAs(member); err != nil {
		w.t.Fatal(err)
	}
	return in.conn, out.conn
}

func (w *world) put(path string, text []byte) {
	w.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// wantOpen waits until a change has taken effect, and then fails the test unless the connections of the members are open or not.
func (w *world) wantOpen(when string, two, three bool) {
	w.t.Helper()
	time.Sleep(watchInterval + time.Second)
	synctest.Wait()
	got := []bool{isOpen(w.from2), isOpen(w.to2), isOpen(w.from3), isOpen(w.to3)}
	for i, want := range []bool{two, two, three, three} {
		if got[i] != want {
			w.t.Fatalf("%s: open are %v (from and to member 2, from and to member 3), want %t for member 2 and %t for member 3", when, got, two, three)
		}
	}
}

// A member that has left the ensemble loses its connections, although its certificate is valid. One that shares the secret keeps them,
// because a secret proves no host.
func TestMemberLeaves(t *testing.T) {
	runWorld(t, func(w *world) {
		w.one.hasLeft = func(member uint32) bool { return member == 2 }
		w.wantOpen("nothing has changed yet", true, true)
		w.one.MembersChanged()
		w.wantOpen("member 2 has left", false, true)
	})
	synctest.Test(t, func(t *testing.T) {
		one, two := newGuard(t, 1, false, old), newGuard(t, 2, false, old)
		one.hasLeft = func(uint32) bool { return true }
		_, in := meet(two, one)
		if in.err != nil {
			t.Fatal(in.err)
		}
		if one.closeDisproved(everyConn); !isOpen(in.conn) {
			t.Error("the connection with a secret is closed")
		}
	})
}

// A certificate that is revoked takes its connections with it, those that came in and those that were
// opened, and no others. New ones are refused with the reason.
func TestRevoked(t *testing.T) {
	runWorld(t, func(w *world) {
		w.put(w.lists, list(t, w.authority, w.twoUntil, w.three)[:100])
		w.wantOpen("the list is damaged", true, true)
		w.put(w.lists, list(t, w.authority, w.twoUntil, w.two))
		w.wantOpen("member 2 is revoked", false, true)
		if want := `msg="connections of a member closed: what it has proved on them no longer counts" peer=2 connections=2`; strings.Count(w.logs.String(), want) != 1 || !strings.Contains(w.logs.String(), "was revoked at") {
			t.Errorf("the log is\n%s\nwant one line with %q, which says that the certificate was revoked", &w.logs, want)
		}
		_, in := meet(w.two, w.one)
		wantRejection(t, in.err, BadHandshake, "was revoked at")
		for _, c := range []net.Conn{w.from2, w.to2, w.from3, w.to3} {
			_ = c.Close()
		}
		if len(w.one.provedConns) != 0 {
			t.Errorf("%d connections are kept after Close", len(w.one.provedConns))
		}
	})
}

// An authority that is no longer believed takes all its connections with it, at once at SIGHUP.
func TestAuthorityRemoved(t *testing.T) {
	runWorld(t, func(w *world) {
		next := newAuthority(t)
		w.put(w.trusted, append(trusted(t, next), trusted(t, w.authority)...))
		w.wantOpen("another authority is believed, too", true, true)
		w.put(w.trusted, trusted(t, next))
		begin := time.Now()
		w.one.RequestReload()
		synctest.Wait()
		if isOpen(w.from2) || isOpen(w.to2) || time.Since(begin) > time.Second {
			t.Errorf("open after SIGHUP: from member 2 %t, to member 2 %t", isOpen(w.from2), isOpen(w.to2))
		}
		w.wantOpen("only another authority is believed", false, false)
	})
}

// A member whose certificate is replaced by that of another one keeps its own, and logs why.
func TestReplacedByAnothers(t *testing.T) {
	runWorld(t, func(w *world) {
		before := w.one.keys.Certificate()
		for _, host := range []string{hosts[2], hosts[1]} {
			text, err := w.authority.Issue([]string{host}, time.Now(), 24*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			w.put(w.own, text)
			w.wantOpen("the certificate is for "+host, true, true)
			if got, want := w.one.keys.Certificate() != before, host == hosts[1]; got != want {
				t.Errorf("the certificate for %s is in use: %t, want %t", host, got, want)
			}
		}
		if want := "the certificate is for b.example, but this member is server.1, whose host is a.example"; !strings.Contains(w.logs.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, &w.logs)
		}
	})
}

// Time alone closes nothing. The next change closes what would be refused then.
func TestExpiredWhileOpen(t *testing.T) {
	runWorld(t, func(w *world) {
		time.Sleep(time.Until(w.twoUntil) - time.Minute)
		w.wantOpen("the list has run out", true, true)
		time.Sleep(time.Hour)
		w.wantOpen("member 2's certificate has expired", true, true)
		w.put(w.lists, list(t, w.authority, soon()))
		w.wantOpen("then there is a new list", false, true)
	})
}

// If the files change between the TLS handshake and the hello, the hello is refused. So no connection
// slips in after the others were checked.
func TestRevokedBeforeHello(t *testing.T) {
	runWorld(t, func(w *world) {
		_, in := meet(w.two, w.one)
		if in.err != nil {
			t.Fatal(in.err)
		}
		dialed, kept := w.to2.(*Conn), len(w.one.provedConns)
		w.one.untrack(dialed) // as if it were opened now
		w.put(w.lists, list(t, w.authority, w.twoUntil, w.two))
		time.Sleep(watchInterval + time.Second)
		synctest.Wait()
		wantRejection(t, in.conn.(*Conn).MaySpeakAs(2), OtherMember, "was revoked at")
		wantRejection(t, in.conn.(*Conn).MaySpeakAs(2), OtherMember, "was revoked at") // the first has proved nothing
		if err := w.one.trackProved(dialed, 2); err == nil || !strings.Contains(err.Error(), "was revoked at") {
			t.Errorf("a connection to member 2 is kept: %v", err)
		}
		if got := len(w.one.provedConns); got != kept-2 {
			t.Errorf("%d connections are kept, want the %d with member 3", got, kept-2)
		}
	})
}

// If hosts are not checked, a certificate may speak as any member, but as one alone on each connection.
func TestSpeaksAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		anyHost := func(c *Config) { c.Certificates.AnyHost = true }
		_, in := meet(certified(t, 2, files(t, a, hosts[2], soon()), "", anyHost), certified(t, 1, files(t, a, hosts[1], soon()), "", anyHost))
		if in.err != nil {
			t.Fatal(in.err)
		}
		c := in.conn.(*Conn)
		if err := c.MaySpeakAs(3); err != nil {
			t.Fatal(err)
		}
		wantRejection(t, c.MaySpeakAs(2), OtherMember, "member 3 has proved itself, but it says that it is member 2")
	})
}
