package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509/pkix"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

// withGuesses returns a change that gives a server a table of guesses, and the table.
func withGuesses(more func(*Config)) (func(*Config), *admission.CredentialLimiter) {
	table := admission.NewCredentialLimiter(nil)
	return func(cfg *Config) {
		cfg.CredentialLimiter = table
		if more != nil {
			more(cfg)
		}
	}, table
}

// A wrong password of the super user is logged and counted, although for the client it is merely another identity.
// Passwords of other users are not.
func TestSuperGuessesLeaveTraces(t *testing.T) {
	lines := newAuditLines(t)
	var log bytes.Buffer
	table := admission.NewCredentialLimiter(slog.New(slog.NewTextHandler(&log, nil)))
	w := newWorld(t, false, func(cfg *Config) { cfg.CredentialLimiter, cfg.Audit = table, lines.log })
	c := w.connect()
	c.must(jute.OpAuth, auth("digest", "bob:guess"))
	c.must(jute.OpAuth, auth("digest", "super:secret"))
	if n := table.FailureCounts()["super"]; n != 0 {
		t.Errorf("%d guesses before the first one", n)
	}
	c.must(jute.OpAuth, auth("digest", "super:guess"))
	if n := table.FailureCounts()["super"]; n != 1 {
		t.Errorf("%d guesses, want 1", n)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "credentials failed") ||
		!strings.Contains(text, "address=pipe kind=super failures=1") {
		t.Errorf("the log says %s", text)
	}
	text := lines.text()
	if n := strings.Count(text, `"operation":"authenticate","target":"digest","result":"failure","error":"wrong password of the super user"`); n != 1 || !strings.Contains(text, `"address":"pipe"`) || strings.Contains(text, "guess") {
		t.Errorf("%d lines in %s", n, text)
	}
}

// Without a super user there is nothing to guess.
func TestNoSuperUser(t *testing.T) {
	change, table := withGuesses(func(cfg *Config) { cfg.SuperDigest = "" })
	w := newWorld(t, false, change)
	c := w.connect()
	c.must(jute.OpAuth, auth("digest", "super:guess"))
	if n := table.FailureCounts()["super"]; n != 0 {
		t.Errorf("%d guesses", n)
	}
}

// After ten wrong passwords each further one waits, also the right one. Other requests are not slowed, and nothing else of a connection is.
func TestSuperGuessesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		change, _ := withGuesses(nil)
		w := newWorld(t, false, change)
		c := w.connect()
		took := func(op jute.Op, r record) time.Duration {
			begun := time.Now()
			c.must(op, r)
			return time.Since(begun).Round(time.Millisecond)
		}
		for range 10 {
			if d := took(jute.OpAuth, auth("digest", "super:guess")); d != 0 {
				t.Errorf("one of the first failures took %v", d)
			}
		}
		for _, text := range []string{"super:guess", "super:secret"} {
			if d := took(jute.OpAuth, auth("digest", text)); d != time.Second {
				t.Errorf("%s took %v", text, d)
			}
		}
		if !strings.Contains(c.whoAmI(), "super:") {
			t.Errorf("the client with the right password is %s", c.whoAmI())
		}
		if d := took(jute.OpAuth, auth("digest", "bob:guess")) + took(jute.OpGetData, getData("/", false)); d != 0 {
			t.Errorf("other requests took %v", d)
		}
	})
}

// A slowed attempt leaves the loop to the other connections, and waits in a reader. Attempts that would have to wait too long end their
// connections, also with the right password, so that no client believes that it is wrong.
func TestSlowedGuessesHoldNoPlaces(t *testing.T) {
	change, table := withGuesses(func(cfg *Config) { cfg.Limits.MaxClientConns = -1 })
	w := newWorld(t, true, change)
	guesser, other := w.connect(), w.connect()
	for range 10 {
		guesser.must(jute.OpAuth, auth("digest", "super:guess"))
	}
	for range 20 { // both are served by the loop
		guesser.must(jute.OpPing)
		other.must(jute.OpPing)
	}
	const most = 40
	var waiting []*client
	for range most {
		c := w.connect()
		c.must(jute.OpPing)
		c.request(jute.OpAuth, auth("digest", "super:secret"))
		waiting = append(waiting, c)
	}
	waitFor(t, func() bool { _, rejected := table.SlowedCounts(); return rejected > 0 })
	begun := time.Now()
	other.must(jute.OpGetData, getData("/", false))
	if waited, rejected := table.SlowedCounts(); waited+rejected == most && time.Since(begun) > time.Second/2 {
		t.Errorf("another connection waited for %v, until all attempts had ended", time.Since(begun))
	}
	waitFor(t, func() bool { waited, rejected := table.SlowedCounts(); return waited+rejected == most })
	waitFor(t, func() bool {
		_, rejected := table.SlowedCounts()
		return w.srv.Stats().EndedByReason["credentials_slowed"] == rejected
	})
	served := slices.DeleteFunc(waiting, func(c *client) bool { _, err := c.read(); return err != nil })
	if waited, _ := table.SlowedCounts(); len(served) != int(waited) || len(served) == 0 {
		t.Errorf("%d clients were served, and %d have waited", len(served), waited)
	}
}

// Logins by SASL that fail are counted and slowed, but not the first token of a login.
func TestLoginGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		change, table := withGuesses(withLogin(nil))
		w := newWorld(t, false, change)
		login := func(password string) (time.Duration, jute.Code) {
			begun := time.Now()
			code := w.connect().logIn("bob", password)
			return time.Since(begun).Round(time.Millisecond), code
		}
		for range 10 {
			if d, code := login("guess"); d != 0 || code != jute.AuthFailed {
				t.Errorf("one of the first failures took %v: %v", d, code)
			}
		}
		if d, code := login("guess"); d != time.Second || code != jute.AuthFailed {
			t.Errorf("a wrong password took %v: %v", d, code)
		}
		if d, code := login("bobsecret"); d != time.Second || code != jute.OK {
			t.Errorf("the right password took %v: %v", d, code)
		}
		if n := table.FailureCounts()["sasl"]; n != 11 {
			t.Errorf("%d failures were counted, want 11", n)
		}
	})
}

// Certificates of unknown clients are counted, and so are requests for the identity of a certificate that was not shown.
// They delay no client: a certificate proves a key, which cannot be guessed.
func TestCertificateGuesses(t *testing.T) {
	a := newAuthority(t)
	for name, certs := range map[string][]tls.Certificate{"of another authority": {newAuthority(t).issue(pkix.Name{CommonName: "ann"})}, "none": nil} {
		change, table := withGuesses(func(cfg *Config) { cfg.TLS.Config.ClientAuth = tls.RequireAndVerifyClientCert })
		w := newTLSWorld(t, &certs, a, change)
		for i := range uint64(12) {
			c := w.open()
			_, _ = c.Write(frameOf(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16)}))
			_, _ = c.read() // an error: the server rejects the certificate
			waitFor(t, func() bool { return table.FailureCounts()["certificate"] == i+1 })
		}
		if attempt := table.NewAttempt("127.0.0.1"); attempt.IsSlowed() {
			t.Errorf("%s: the address is slowed", name)
		}
	}
	change, table := withGuesses(nil)
	c := newWorld(t, false, change).connect()
	if h, _ := c.call(jute.OpAuth, auth("x509", "")); h.Err != jute.AuthFailed || table.FailureCounts()["certificate"] != 1 {
		t.Errorf("%v, counts %v", h.Err, table.FailureCounts())
	}
}

// A handshake that fails for another reason is no guess.
func TestNoCertificateGuess(t *testing.T) {
	a := newAuthority(t)
	change, table := withGuesses(nil)
	var certs []tls.Certificate
	w := newTLSWorld(t, &certs, a, change)
	secure := w.dial
	w.dial = func() net.Conn {
		c, err := net.Dial("tcp", secure().RemoteAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := w.open()
	_, _ = c.Write([]byte("\x16\x03\x01\x00\x05hello"))
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["tls_failed"] == 1 })
	if n := table.FailureCounts()["certificate"]; n != 0 {
		t.Errorf("%d guesses", n)
	}
}
