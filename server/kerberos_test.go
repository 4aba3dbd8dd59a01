package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"rollcall/operator/logs/logtest"
	"rollcall/zk/jute"
	"rollcall/zk/kerberos"
)

const (
	kerberosRealm   = "EXAMPLE.COM"
	kerberosService = "zookeeper/host"
	aes256          = 18
)

// testKDC makes tickets for a service, with the keys of its keytab.
type testKDC struct{ keys *keytab.Keytab }

func newTestKDC(t *testing.T, versions ...uint8) testKDC {
	t.Helper()
	k := testKDC{keytab.New()}
	for _, version := range versions {
		if err := k.keys.AddEntry(kerberosService, kerberosRealm, fmt.Sprint("password", version), time.Now(), version, aes256); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// write writes the keytab.
func (k testKDC) write(t *testing.T, path string) {
	t.Helper()
	content, err := k.keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// login returns the client's side of a login, with a ticket for a service that has ended so long ago.
func (k testKDC) login(t *testing.T, client, service string, version int, ended time.Duration) *kerberos.Login {
	t.Helper()
	name, _ := types.ParseSPNString(client)
	of, _ := types.ParseSPNString(service)
	keys := *k.keys
	if service != kerberosService {
		keys = *keytab.New()
		if err := keys.AddEntry(service, kerberosRealm, "other", time.Now(), uint8(version), aes256); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC()
	ticket, session, err := messages.NewTicket(name, kerberosRealm, of, kerberosRealm, types.NewKrbFlags(), &keys, aes256, version, now, now, now.Add(-ended), now)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := ticket.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	login, err := kerberos.NewLogin(kerberos.Ticket{Encoded: encoded, SessionKey: session, Client: name, Realm: kerberosRealm})
	if err != nil {
		t.Fatal(err)
	}
	return login
}

// withKerberos lets clients log in with the keytab at path, and then makes another change.
func withKerberos(path string, more func(*Config)) func(*Config) {
	return func(cfg *Config) {
		cfg.Login = Login{
			SuperUsers: []string{"carol@EXAMPLE.COM"},
			Kerberos:   Kerberos{KeytabFile: path, Principal: kerberosService + "@" + kerberosRealm, DefaultRealm: kerberosRealm},
		}
		if more != nil {
			more(cfg)
		}
	}
}

// logInBy runs a login, and returns the code of the last reply.
func (c *client) logInBy(login *kerberos.Login) jute.Code {
	c.tb.Helper()
	var answer []byte
	for {
		token, done, err := login.Step(answer)
		if err != nil {
			c.tb.Fatal(err)
		}
		if done {
			return jute.OK
		}
		code, reply := c.token(token)
		if code != jute.OK {
			return code
		}
		answer = reply
	}
}

// A client that logs in by Kerberos has the identity of its principal in whoAmI and in ACLs, and may become the super user.
func TestKerberosLogin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keytab")
	kdc := newTestKDC(t, 1)
	kdc.write(t, path)
	for _, tcp := range []bool{false, true} {
		w := newWorld(t, tcp, withKerberos(path, func(cfg *Config) { cfg.Login.Schemes = []string{"sasl"} }))
		bob := w.connect()
		if code := bob.logInBy(kdc.login(t, "bob", kerberosService, 1, -time.Hour)); code != jute.OK {
			t.Fatal(code)
		}
		if got := bob.whoAmI(); !strings.HasSuffix(got, " sasl:bob@EXAMPLE.COM") {
			t.Errorf("bob is %s", got)
		}
		app := w.connect()
		if code := app.logInBy(kdc.login(t, "app/host", kerberosService, 1, -time.Hour)); code != jute.OK {
			t.Fatal(code)
		}
		app.must(jute.OpCreate, jute.CreateRequest{Path: []byte("/a"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}})
		if h, _ := bob.call(jute.OpGetData, getData("/a", false)); h.Err != jute.NoAuth {
			t.Errorf("bob reads the service's node: %v", h.Err)
		}
		carol := w.connect()
		if code := carol.logInBy(kdc.login(t, "carol", kerberosService, 1, -time.Hour)); code != jute.OK {
			t.Fatal(code)
		}
		carol.must(jute.OpGetData, getData("/a", false))
		for c, want := range map[*client]string{app: " sasl:app/host@EXAMPLE.COM", carol: " sasl:carol@EXAMPLE.COM super:"} {
			if got := c.whoAmI(); !strings.HasSuffix(got, want) {
				t.Errorf("%s, want%s", got, want)
			}
		}
		c := w.connect() // of DIGEST-MD5
		if code, _ := c.token([]byte{}); code != jute.SessionClosedRequireSaslAuth {
			t.Errorf("an empty token: %v", code)
		}
		c.expectClosed()
	}
}

// Each fault of a login has its own line in the log, once a minute, and the client gets the code of a failed login.
func TestKerberosFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keytab")
	kdc := newTestKDC(t, 1, 2)
	kdc.write(t, path)
	stale := newTestKDC(t, 1)
	stale.write(t, path)
	var log logtest.Buffer
	w := newWorld(t, false, withKerberos(path, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
	for range 2 {
		for _, login := range []*kerberos.Login{
			kdc.login(t, "bob", kerberosService, 1, time.Hour), kdc.login(t, "bob", "zookeeper/alias", 1, -time.Hour), kdc.login(t, "bob", kerberosService, 2, -time.Hour),
		} {
			c := w.connect()
			if code := c.logInBy(login); code != jute.AuthFailed {
				t.Errorf("%v", code)
			}
			c.expectClosed()
		}
	}
	text := log.String()
	for _, want := range []string{
		`fault="ticket expired" reason="the ticket has expired 1h0m`, `fault="wrong service" reason="the ticket is for \"zookeeper/alias\"; must be for zookeeper/host`,
		`fault="unknown key version" reason="the ticket is encrypted with version 2 of the key; the keytab has 1`,
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("the log has not %s once:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "Kerberos login failed"); n != 3 || !strings.Contains(text, "client=pipe") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	kdc.write(t, path)
	if code := w.connect().logInBy(kdc.login(t, "bob", kerberosService, 2, -time.Hour)); code != jute.OK {
		t.Errorf("with the new keytab: %v", code)
	}
	if text := log.String(); !strings.Contains(text, "keytab replaced") {
		t.Errorf("the log has no line about the new keytab:\n%s", text)
	}
}

// If clients stay connected after a failed login, clients with a failed Kerberos login stay too, without an identity.
func TestKerberosKeepsFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keytab")
	kdc := newTestKDC(t, 1)
	kdc.write(t, path)
	w := newWorld(t, true, withKerberos(path, func(cfg *Config) { cfg.Login.KeepFailed = true }))
	c := w.connect()
	token, _, err := kdc.login(t, "bob", kerberosService, 1, time.Hour).Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := c.token(token); code != jute.OK || answer != nil {
		t.Errorf("%v, %q", code, answer)
	}
	if got := c.whoAmI(); strings.Contains(got, "sasl") {
		t.Errorf("the client is %s", got)
	}
}

// Without a usable keytab a server does not start.
func TestKerberosNeedsAKeytab(t *testing.T) {
	for _, k := range []Kerberos{
		{KeytabFile: "/nowhere", Principal: "zookeeper/host@EXAMPLE.COM"},
		{KeytabFile: "/nowhere", Principal: "*"},
		{KeytabFile: "/nowhere", Principal: "zookeeper/host@EXAMPLE.COM", Rules: "RULE"},
	} {
		m := newFakeMember()
		if _, err := New(Config{Member: m, State: m.state, Tick: testTick, Login: Login{Kerberos: k}}); err == nil {
			t.Errorf("%+v starts", k)
		}
	}
}

// Tokens over the network that are truncated, huge, changed or empty end the login of their client alone. A flood of
// them keeps no other client from logging in.
func TestHostileKerberosTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keytab")
	kdc := newTestKDC(t, 1)
	kdc.write(t, path)
	w := newWorld(t, true, withKerberos(path, func(cfg *Config) { cfg.Logger = slog.New(slog.DiscardHandler) }))
	right, _, err := kdc.login(t, "bob", kerberosService, 1, -time.Hour).Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(at int) []byte {
		token := slices.Clone(right)
		token[at] ^= 1
		return token
	}
	tokens := map[string][]byte{
		"empty": {}, "cut short": right[:len(right)/2], "one byte less": right[:len(right)-1], "one byte more": append(slices.Clone(right), 0),
		"a changed ticket": changed(len(right) / 2), "a changed authenticator": changed(len(right) - 1), "a changed length": changed(2),
		"the longest": append(slices.Clone(right), make([]byte, kerberos.MaxToken-len(right))...),
		"too long":    make([]byte, kerberos.MaxToken+1), "nested": bytes.Repeat([]byte{0x60, 0x80}, 30_000),
	}
	for name, token := range tokens {
		c := w.connect()
		code, answer := c.token(token)
		if code == jute.OK || answer != nil {
			t.Errorf("%s: %v, %q", name, code, answer)
		}
		c.expectClosed()
	}
	var flood sync.WaitGroup
	for range 40 {
		c := w.connect()
		flood.Go(func() {
			first, _ := c.token(right)
			second, answer := c.token(right) // it comes where an empty one must
			if first != jute.OK || second == jute.OK || answer != nil {
				t.Errorf("a token twice: %v, then %v, %q", first, second, answer)
			}
		})
	}
	if code := w.connect().logInBy(kdc.login(t, "carol", kerberosService, 1, -time.Hour)); code != jute.OK {
		t.Errorf("a login during the flood: %v", code)
	}
	flood.Wait()
}
