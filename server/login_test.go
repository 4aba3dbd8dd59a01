package server

import (
	"crypto/md5"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/operator/logs/logtest"
	"rollcall/zk/jute"
	"rollcall/zk/sasl"
)

// loginUsers are the users of the tests.
var loginUsers = map[string]string{"bob": "bobsecret", "carol": "carolsecret", "super": "adminsecret"}

// withLogin returns a change that lets loginUsers log in, and then makes another change.
func withLogin(more func(*Login)) func(*Config) {
	return func(cfg *Config) {
		cfg.Login = Login{Users: sasl.NewUsers(loginUsers), SuperUsers: []string{"dave", "carol"}}
		if more != nil {
			more(&cfg.Login)
		}
	}
}

var nonceOf = regexp.MustCompile(`nonce="([^"]*)"`)

// respond returns the response of DIGEST-MD5 to a challenge, and the proof with which the server must reply.
func respond(challenge []byte, user, password string) (token []byte, proof string) {
	hexed := func(text string) string { return fmt.Sprintf("%x", md5.Sum([]byte(text))) }
	nonce := nonceOf.FindSubmatch(challenge)[1]
	secret := md5.Sum([]byte(user + ":zk-sasl-md5:" + password))
	digest := func(method string) string {
		a1 := hexed(fmt.Sprintf("%s:%s:c", secret[:], nonce))
		return hexed(fmt.Sprintf("%s:%s:00000001:c:auth:%s", a1, nonce, hexed(method+":zookeeper/zk-sasl-md5")))
	}
	return fmt.Appendf(nil, `charset=utf-8,username="%s",realm="zk-sasl-md5",nonce="%s",nc=00000001,cnonce="c",digest-uri="zookeeper/zk-sasl-md5",response=%s,qop=auth`,
		user, nonce, digest("AUTHENTICATE")), "rspauth=" + digest("")
}

// token sends a token of SASL, and returns the code and the server's token.
func (c *client) token(token []byte) (jute.Code, []byte) {
	c.tb.Helper()
	h, body := c.call(jute.OpSASL, jute.SASLToken{Token: token})
	if h.Zxid != 0 {
		c.tb.Errorf("zxid %#x, want 0", h.Zxid)
	}
	var answer jute.SASLToken // of an error, too
	d := jute.NewDecoder(body)
	if answer.Decode(&d); d.Err() != nil || h.Err != jute.OK && answer.Token != nil {
		c.tb.Fatalf("%v, token %q: %v", h.Err, answer.Token, d.Err())
	}
	return h.Err, answer.Token
}

// logIn logs in by SASL, and returns the code of the last reply. It checks the server's proof.
func (c *client) logIn(user, password string) jute.Code {
	c.tb.Helper()
	code, challenge := c.token([]byte{})
	if code != jute.OK {
		return code
	}
	response, proof := respond(challenge, user, password)
	code, answer := c.token(response)
	if code == jute.OK && answer != nil && string(answer) != proof {
		c.tb.Errorf("the server proves %q, want %q", answer, proof)
	}
	return code
}

// Without users, a login by SASL is rejected at its first token, and then the connection is closed. A token that cannot
// be decoded gets no reply.
func TestSASLIsRefused(t *testing.T) {
	w := newWorld(t, false, nil)
	for _, token := range [][]byte{nil, {}, []byte("n,,")} {
		c := w.connect()
		touched := w.touched(c.id)
		if code, _ := c.token(token); code != jute.AuthFailed {
			t.Errorf("token %q: %v", token, code)
		}
		c.expectClosed()
		if n := w.touched(c.id) - touched; n != 0 {
			t.Errorf("token %q: touched the session %d times", token, n)
		}
		waitFor(t, func() bool { return !w.has(c.id) })
	}
	c := w.connect()
	c.request(jute.OpSASL, raw{0, 0})
	c.expectClosed()
}

// A client that logs in by SASL has the user's identity in whoAmI, and in ACLs with the scheme auth.
// It may also have proved others. The login does not touch its session.
func TestSASLLogin(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		w := newWorld(t, tcp, withLogin(nil))
		bob := w.connect()
		ip := bob.whoAmI()
		touched := w.touched(bob.id)
		if code := bob.logIn("bob", "bobsecret"); code != jute.OK {
			t.Fatal(code)
		}
		if n := w.touched(bob.id) - touched; n != 0 {
			t.Errorf("the login touched the session %d times", n)
		}
		if got := bob.whoAmI(); got != ip+" sasl:bob" {
			t.Errorf("bob is %s", got)
		}
		bob.must(jute.OpCreate, jute.CreateRequest{Path: []byte("/b"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}})
		other := w.connect()
		if h, _ := other.call(jute.OpGetData, getData("/b", false)); h.Err != jute.NoAuth {
			t.Errorf("a stranger reads bob's node: %v", h.Err)
		}
		other.must(jute.OpAuth, auth("digest", "u:p"))
		if code := other.logIn("bob", "bobsecret"); code != jute.OK {
			t.Fatal(code)
		}
		other.must(jute.OpGetData, getData("/b", false))
		if got := other.whoAmI(); got != "digest:u "+ip+" sasl:bob" {
			t.Errorf("bob with a digest is %s", got)
		}
	}
}

// The user that is named as the super user becomes that. The user "super" does not.
func TestSASLSuperUser(t *testing.T) {
	w := newWorld(t, false, withLogin(nil))
	owner := w.connect()
	owner.must(jute.OpAuth, auth("digest", "u:p"))
	owner.must(jute.OpCreate, jute.CreateRequest{Path: []byte("/p"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}})
	for user, want := range map[string]jute.Code{"carol": jute.OK, "super": jute.NoAuth, "bob": jute.NoAuth} {
		c := w.connect()
		if code := c.logIn(user, loginUsers[user]); code != jute.OK {
			t.Fatal(code)
		}
		if h, _ := c.call(jute.OpGetData, getData("/p", false)); h.Err != want {
			t.Errorf("%s: %v, want %v", user, h.Err, want)
		}
		if is := strings.HasSuffix(c.whoAmI(), " super:"); is != (want == jute.OK) {
			t.Errorf("%s is %s", user, c.whoAmI())
		}
	}
}

// A failed login closes the connection, unless that is switched off. The codes match ZooKeeper 3.8.0. The log has one
// line with the address and the reason, and no password.
func TestSASLFailures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Login)
		code   jute.Code // 0: the client stays connected
	}{
		{"by default", nil, jute.AuthFailed},
		{"sasl is required", func(l *Login) { l.Schemes = []string{"sasl"} }, jute.SessionClosedRequireSaslAuth},
		{"another scheme is required", func(l *Login) { l.Schemes = []string{"digest"} }, jute.AuthFailed},
		{"failed clients stay", func(l *Login) { l.KeepFailed = true }, jute.OK},
		{"failed clients stay, but sasl is required", func(l *Login) { l.KeepFailed, l.Schemes = true, []string{"digest", "sasl"} }, jute.SessionClosedRequireSaslAuth},
		{"failed clients stay, and another scheme is required", func(l *Login) { l.KeepFailed, l.Schemes = true, []string{"digest"} }, jute.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for user, reason := range map[string]string{"bob": "wrong password of user", "eve": "no user"} {
				var log logtest.Buffer
				w := newWorld(t, false, func(cfg *Config) {
					withLogin(tt.change)(cfg)
					cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				})
				c := w.connect()
				if code := c.logIn(user, "wrong"); code != tt.code {
					t.Errorf("%s: %v, want %v", user, code, tt.code)
				}
				if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "SASL login failed") ||
					!strings.Contains(text, reason) || !strings.Contains(text, "client=") || strings.Contains(text, "secret") {
					t.Errorf("the log says %s, want %s", text, reason)
				}
				if tt.code != jute.OK {
					c.expectClosed()
					waitFor(t, func() bool { return w.srv.Stats().EndedByReason["auth_failed"] == 1 })
					continue
				}
				if code, answer := c.token([]byte{}); code != jute.OK || answer != nil {
					t.Errorf("another try: %v, %q", code, answer)
				}
				c.must(jute.OpAuth, auth("digest", "u:p"))
				if got := c.whoAmI(); got != "digest:u ip:pipe" {
					t.Errorf("the client is %s", got)
				}
			}
		})
	}
}

// A connection logs in once. A client of another mechanism is logged.
func TestSASLOtherTokens(t *testing.T) {
	w := newWorld(t, false, withLogin(nil))
	c := w.connect()
	if code := c.logIn("bob", "bobsecret"); code != jute.OK {
		t.Fatal(code)
	}
	if code, _ := c.token([]byte{}); code != jute.AuthFailed {
		t.Errorf("a second login: %v", code)
	}
	c.expectClosed()
	for _, token := range []string{"\x60\x82\x01\x02", "n,,"} {
		c := w.connect()
		if code, _ := c.token([]byte(token)); code != jute.AuthFailed {
			t.Errorf("%q: %v", token, code)
		}
		c.expectClosed()
	}
	c = w.connect()
	if code, challenge := c.token(nil); code != jute.OK || challenge == nil { // a null token is an empty one
		t.Errorf("a null token: %v, %q", code, challenge)
	}
}

// If a scheme is required, a client without an identity of it is served auth and sasl only. Every
// other opcode is answered with -124 and nothing else, does not touch the session, and ends the
// connection; ZooKeeper 3.8.0 does the same, for unknown opcodes too.
func TestUnauthenticatedRequests(t *testing.T) {
	began := time.Now()
	var log logtest.Buffer
	lines := newAuditLines(t)
	w := newWorld(t, false, func(cfg *Config) {
		withLogin(func(l *Login) { l.Schemes = []string{"sasl", "digest"} })(cfg)
		cfg.Audit = lines.log
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for op := range jute.AllOps() {
		if op == jute.OpAuth || op == jute.OpSASL {
			continue
		}
		c := w.connect()
		touched, before := w.touched(c.id), w.countForwarded()
		c.send(jute.RequestHeader{Xid: 7, Op: op}, create("/x", "", 0))
		h, body := c.reply()
		if h != (jute.ReplyHeader{Xid: 7, Err: jute.SessionClosedRequireSaslAuth}) || len(body) != 0 {
			t.Errorf("%v: %+v, %q", op, h, body)
		}
		c.expectClosed()
		waitFor(t, func() bool { return !w.has(c.id) })
		if n := w.touched(c.id) - touched; n != 0 || w.countForwarded() != before+1 {
			t.Errorf("%v: the session is touched %d times, %d transactions in the log, want only its close", op, n, w.countForwarded()-before)
		}
	}
	c := w.connect()
	c.send(jute.RequestHeader{Xid: 9, Op: 9999})
	c.expect(9, jute.SessionClosedRequireSaslAuth)
	c.expectClosed()
	if w.srv.Stats().EndedByReason["not_authenticated"] == 0 {
		t.Error("no connection ended for not_authenticated")
	}
	const line = "msg=\"client is not authenticated\" component=server client=pipe"
	if text := log.String(); strings.Count(text, line) == 0 || strings.Count(text, line) > 1+int(time.Since(began)/admission.LogInterval) {
		t.Errorf("the log says\n%s", text)
	}
	text := lines.text()
	for _, want := range []string{`"operation":"authenticate","target":"sasl,digest","result":"failure","error":"`, `"reason":"the client requested `, `"dropped":`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the audit log:\n%s", want, text)
		}
	}
}

// has reports whether there is such a session.
func (w *world) has(id jute.SessionID) bool {
	w.state.RLock()
	defer w.state.RUnlock()
	_, has := w.state.Session(id)
	return has
}

// The session of a client that is rejected for want of an identity ends with the connection, if this connection has
// opened it and the client has done nothing else. No other session ends.
func TestRefusedSession(t *testing.T) {
	sasl := func(l *Login) { l.Schemes = []string{"sasl"} }
	wrong := func(c *client) { _ = c.logIn("bob", "wrong") }
	get := func(c *client) { c.call(jute.OpGetData, getData("/", false)) }
	for _, tt := range []struct {
		name  string
		login func(*Login)
		do    func(w *world, c *client) *client // returns the client that is refused
		ends  bool
	}{
		{"a wrong password", nil, func(_ *world, c *client) *client { wrong(c); return c }, true},
		{"a wrong password, sasl is required", sasl, func(_ *world, c *client) *client { wrong(c); return c }, true},
		{"no login", sasl, func(_ *world, c *client) *client { get(c); return c }, true},
		{"a closeSession without a login", sasl, func(_ *world, c *client) *client { c.call(jute.OpCloseSession); return c }, true},
		{"an unknown scheme", nil, func(_ *world, c *client) *client { c.call(jute.OpAuth, auth("foo", "")); return c }, false},
		{"a request before the login", nil, func(_ *world, c *client) *client { get(c); wrong(c); return c }, false},
		{"a ping before the login", nil, func(_ *world, c *client) *client { c.call(jute.OpPing); wrong(c); return c }, false},
		{"another identity before the login", sasl, func(_ *world, c *client) *client { c.must(jute.OpAuth, auth("digest", "u:p")); wrong(c); return c }, false},
		{"a second login", nil, func(_ *world, c *client) *client { _ = c.logIn("bob", "bobsecret"); _, _ = c.token([]byte{}); return c }, false},
		{"a session that was resumed", sasl, func(w *world, c *client) *client { again := w.resume(c); get(again); return again }, false},
		{"a session that has moved", sasl, func(w *world, c *client) *client {
			w.hold() // the client has moved, and this member does not know it yet
			w.inject(other, elsewhere(c, 1, w.since(c)))
			wrong(c)
			return c
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, withLogin(tt.login))
				bystander := w.connect()
				c := w.connect()
				refused := tt.do(w, c)
				refused.expectClosed()
				synctest.Wait()
				w.release()
				if has := w.has(c.id); has == tt.ends {
					t.Errorf("the session is there: %v, want %v", has, !tt.ends)
				}
				if !w.has(bystander.id) {
					t.Error("another session has ended")
				}
			})
		})
	}
}

// An identity of any of the schemes is enough, and it holds for the connection.
func TestEntitled(t *testing.T) {
	for _, tt := range []struct {
		schemes []string
		with    string // what the client proves
		in      bool
	}{
		{nil, "", true},
		{[]string{"sasl"}, "", false},
		{[]string{"sasl"}, "digest", false},
		{[]string{"sasl"}, "sasl", true},
		{[]string{"digest"}, "sasl", false},
		{[]string{"digest"}, "digest", true},
		{[]string{"x509", "digest"}, "digest", true},
		{[]string{"ip"}, "", true},
		{[]string{"x509"}, "sasl", false},
	} {
		w := newWorld(t, false, withLogin(func(l *Login) { l.Schemes = tt.schemes }))
		c := w.connect()
		switch tt.with {
		case "digest":
			c.must(jute.OpAuth, auth("digest", "u:p"))
		case "sasl":
			if code := c.logIn("bob", "bobsecret"); code != jute.OK {
				t.Fatal(code)
			}
		}
		want := jute.SessionClosedRequireSaslAuth
		if tt.in {
			want = jute.OK
		}
		if h, _ := c.call(jute.OpPing); h.Err != want {
			t.Errorf("%q with %q: %v, want %v", tt.schemes, tt.with, h.Err, want)
		}
		if tt.in {
			c.must(jute.OpCreate, create("/a", "", 0))
			if again := w.resume(c); len(tt.schemes) > 0 && tt.with != "" { // the identity was the connection's
				if h, _ := again.call(jute.OpPing); h.Err != jute.SessionClosedRequireSaslAuth {
					t.Errorf("%q: after a resume: %v", tt.schemes, h.Err)
				}
			}
		}
	}
}
