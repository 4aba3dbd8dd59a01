package sasl

import (
	"crypto/md5"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"
)

// The example in section 4 of RFC 2831.
func TestDigestOfTheRFC(t *testing.T) {
	d, err := parseDirectives([]byte(`charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,cnonce="OA6MHXh6VqTrRk",` +
		`digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth`))
	if err != nil {
		t.Fatal(err)
	}
	secret := md5.Sum([]byte("chris:elwood.innosoft.com:secret"))
	if got := d.responseDigest(secret, "AUTHENTICATE"); got != d["response"] {
		t.Errorf("response %s, want %s", got, d["response"])
	}
	if got, want := d.responseDigest(secret, ""), "ea40f60335c427b5527b84dbabcdfffd"; got != want {
		t.Errorf("proof of the server %s, want %s", got, want)
	}
}

// javaLogin is one login between Java's client and Java's server.
type javaLogin struct{ user, password, challenge, response, answer string }

// javaLogins reads testdata/java.txt: in each line a user, a password, and the three tokens, all in
// base64, as OpenJDK 17 wrote them.
func javaLogins(t testing.TB) (all []javaLogin) {
	t.Helper()
	text, err := os.ReadFile("testdata/java.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var f [5]string
		for i, field := range strings.Split(line, " ")[:len(f)] {
			b, err := base64.StdEncoding.DecodeString(field)
			if err != nil {
				t.Fatal(err)
			}
			f[i] = string(b)
		}
		all = append(all, javaLogin{f[0], f[1], f[2], f[3], f[4]})
	}
	return all
}

// nonceIn returns the nonce in a challenge.
func nonceIn(t testing.TB, challenge string) string {
	t.Helper()
	d, err := parseDirectives([]byte(challenge))
	if err != nil || d["nonce"] == "" {
		t.Fatalf("challenge %s: %v", challenge, err)
	}
	return d["nonce"]
}

// Java's clients log in, and get the proof that Java's server would give them. They do not with
// another password.
func TestJavaLogsIn(t *testing.T) {
	logins := javaLogins(t)
	if len(logins) < 20 {
		t.Fatalf("%d logins", len(logins))
	}
	for _, j := range logins {
		x := NewExchange(NewUsers(map[string]string{j.user: j.password}))
		challenge, done, err := x.Step(nil)
		if err != nil || done {
			t.Fatal(done, err)
		}
		if mine, theirs := nonceIn(t, string(challenge)), nonceIn(t, j.challenge); strings.ReplaceAll(string(challenge), mine, theirs) != j.challenge {
			t.Errorf("challenge %s, Java's is %s", challenge, j.challenge)
		}
		x.nonce = nonceIn(t, j.challenge)
		answer, done, err := x.Step([]byte(j.response))
		if err != nil || !done || string(answer) != j.answer || x.UserName() != j.user {
			t.Errorf("%s: %q, %t, %v, user %q, want %q", j.response, answer, done, err, x.UserName(), j.answer)
		}
		for _, users := range []map[string]string{{j.user: j.password + "x"}, {j.user + "x": j.password}} {
			x := NewExchange(NewUsers(users))
			x.nonce = nonceIn(t, j.challenge)
			if _, done, err := x.Step([]byte(j.response)); err == nil || done || x.UserName() != "" {
				t.Errorf("%v: %s is in", users, j.user)
			}
		}
	}
}

// respond returns bob's response to the challenge, after change has been made to its directives. A
// directive that change removes is left out; the digest is right for the others.
func respond(t testing.TB, challenge []byte, password string, change func(directives)) []byte {
	t.Helper()
	d := directives{
		"username": "bob", "realm": Realm, "nonce": nonceIn(t, string(challenge)), "nc": nonceCount, "cnonce": "c", "digest-uri": digestURI, "qop": qopAuth, "charset": "utf-8",
	}
	if change != nil {
		change(d)
	}
	if !d.hasKey("response") {
		d["response"] = d.responseDigest(md5.Sum([]byte(d["username"]+":"+Realm+":"+password)), "AUTHENTICATE")
	}
	var parts []string
	for key, value := range d {
		parts = append(parts, key+`="`+value+`"`)
	}
	return []byte(strings.Join(parts, ","))
}

// Each directive of a response is checked. The verdicts match Java's server, except in the cases marked otherwise.
func TestResponses(t *testing.T) {
	set := func(key, value string) func(directives) { return func(d directives) { d[key] = value } }
	drop := func(key string) func(directives) { return func(d directives) { delete(d, key) } }
	for _, tt := range []struct {
		name   string
		change func(directives)
		err    string // "": bob is in
	}{
		{"as it is", nil, ""},
		{"own name as authorization id", set("authzid", "bob"), ""},
		{"empty authorization id", set("authzid", ""), ""},
		{"other authorization id, which Java's server hears and does not follow", set("authzid", "super"), `user "bob" tries to act as "super"`},
		{"no user", drop("username"), "no username"},
		{"unknown user", set("username", "eve"), `no user "eve"`},
		{"name that is not UTF-8", set("username", "b\xff"), "not valid UTF-8"},
		{"other realm", set("realm", "other"), `realm is "other"; must be "zk-sasl-md5"`},
		{"no realm", drop("realm"), "realm"},
		{"other nonce", set("nonce", "x"), "nonce"},
		{"no nonce", drop("nonce"), "nonce"},
		{"no cnonce", drop("cnonce"), "no cnonce"},
		{"empty cnonce", set("cnonce", ""), ""},
		{"second use of the nonce", set("nc", "00000002"), "nc"},
		{"no count, which Java's server takes", drop("nc"), "nc"},
		{"other host", set("digest-uri", "zookeeper/127.0.0.1"), "digest-uri"},
		{"other service", set("digest-uri", "ldap/zk-sasl-md5"), "digest-uri"},
		{"no uri", drop("digest-uri"), "digest-uri"},
		{"no quality", drop("qop"), ""},
		{"signed messages", set("qop", "auth-int"), "qop"},
		{"no charset", drop("charset"), ""},
		{"other charset", set("charset", "latin1"), "charset"},
		{"length and cipher of messages", func(d directives) { d["maxbuf"], d["cipher"] = "1", "des" }, ""},
		{"unknown directive", set("color", "blue"), ""},
		{"no digest", set("response", ""), "wrong password"},
		{"digest of another password", set("response", strings.Repeat("0", 32)), "wrong password"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := NewExchange(NewUsers(map[string]string{"bob": "secret", "super": "s"}))
			challenge, _, err := x.Step(nil)
			if err != nil {
				t.Fatal(err)
			}
			_, done, err := x.Step(respond(t, challenge, "secret", tt.change))
			if in := x.UserName() == "bob"; in != (tt.err == "") || done != in || (err == nil) != in {
				t.Errorf("user %q, done %t: %v", x.UserName(), done, err)
			}
			if err != nil && (tt.err == "" || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("error %v, want %s", err, tt.err)
			}
		})
	}
}

// The digest of an unknown user is known: it is zero. No client can log in with it, under any name.
func TestUnknownUserWithItsDigest(t *testing.T) {
	for _, name := range []string{"eve", ""} {
		x := NewExchange(NewUsers(map[string]string{"bob": "secret"}))
		challenge, _, err := x.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, done, err := x.Step(respond(t, challenge, "", func(d directives) {
			d["username"] = name
			d["response"] = d.responseDigest([md5.Size]byte{}, "AUTHENTICATE")
		}))
		if err == nil || done || answer != nil || x.UserName() != "" || !strings.Contains(err.Error(), "no user") {
			t.Errorf("user %q is in: %t, %q, user %q, %v", name, done, answer, x.UserName(), err)
		}
	}
}

// A name without a charset is in ISO 8859-1.
func TestLatin1Name(t *testing.T) {
	x := NewExchange(NewUsers(map[string]string{"\u00fclf": "p"}))
	challenge, _, _ := x.Step(nil)
	_, done, err := x.Step(respond(t, challenge, "p", func(d directives) {
		delete(d, "charset")
		d["username"] = "\xfclf"
	}))
	if !done || x.UserName() != "\u00fclf" {
		t.Errorf("user %q: %v", x.UserName(), err)
	}
}

// The first token is empty. Clients of other mechanisms are rejected.
func TestFirstToken(t *testing.T) {
	for _, token := range []string{"n,,", "\x00bob\x00secret", "\x60\x82\x01\x02"} {
		x := NewExchange(NewUsers(map[string]string{"bob": "secret"}))
		_, done, err := x.Step([]byte(token))
		if err == nil || done || errors.Is(err, ErrKerberos) != (token[0] == 0x60) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// An exchange is over after a login and after an error, so a password cannot be guessed twice with
// one nonce. Two exchanges have different nonces.
func TestOneLogin(t *testing.T) {
	users := NewUsers(map[string]string{"bob": "secret"})
	var challenges [][]byte
	for _, password := range []string{"secret", "wrong"} {
		x := NewExchange(users)
		challenge, _, err := x.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		challenges = append(challenges, challenge)
		if _, done, _ := x.Step(respond(t, challenge, password, nil)); done != (password == "secret") {
			t.Errorf("password %s: %t", password, done)
		}
		for _, token := range [][]byte{nil, respond(t, challenge, "secret", nil)} {
			if answer, done, err := x.Step(token); answer != nil || done || err == nil {
				t.Errorf("a step after the last: %q, %t, %v", answer, done, err)
			}
		}
	}
	if string(challenges[0]) == string(challenges[1]) {
		t.Errorf("twice %s", challenges[0])
	}
}

// A token has at most maxToken bytes.
func TestTokenBound(t *testing.T) {
	for _, tt := range []struct {
		extra int
		in    bool
	}{{0, true}, {1, false}} {
		x := NewExchange(NewUsers(map[string]string{"bob": "secret"}))
		challenge, _, _ := x.Step(nil)
		token := respond(t, challenge, "secret", nil)
		token = append(token, ` , filler="`...)
		token = append(token, strings.Repeat("x", maxToken-1-len(token)+tt.extra)+`"`...)
		if _, done, err := x.Step(token); done != tt.in {
			t.Errorf("%d bytes: %v", len(token), err)
		}
	}
}

// Users can be replaced while an exchange is under way.
func TestUsersBecome(t *testing.T) {
	users := NewUsers(map[string]string{"bob": "old"})
	now := NewUsers(map[string]string{"bob": "new", "eve": "x"})
	if users.Equal(now) || now.Equal(users) || users.Equal(NewUsers(map[string]string{"bob": "other"})) {
		t.Error("different users are equal")
	}
	x := NewExchange(users)
	challenge, _, _ := x.Step(nil)
	users.ReplaceWith(now)
	if !users.Equal(now) || users.Count() != 2 {
		t.Errorf("%d users", users.Count())
	}
	if _, done, err := x.Step(respond(t, challenge, "new", nil)); !done {
		t.Error(err)
	}
}

// The list of directives is read as Java reads it.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // the realm; "": the text is rejected
	}{
		{`realm=a`, "a"},
		{`realm="a"`, "a"},
		{` ,, realm = "a" , `, "a"},
		{`REALM=a`, "a"},
		{"x=y,\r\n\trealm=a", "a"},
		{`realm="a,b=\"c\\"`, `a,b="c\`},
		{`x="1",x="2",realm=a`, "a"},
		{`realm=a,realm=a`, ""},
		{`realm`, ""},
		{`=a`, ""},
		{`re alm=a`, ""},
		{`realm=`, ""},
		{`realm=a b`, ""},
		{`realm="a`, ""},
		{`realm="a\`, ""},
		{`realm="a"b`, ""},
		{`realm=a"b"`, ""},
		{"\x00\x00", ""},
	} {
		d, err := parseDirectives([]byte(tt.text))
		if (err == nil) != (tt.want != "") || d["realm"] != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.text, d["realm"], err, tt.want)
		}
	}
	if d, err := parseDirectives(nil); err != nil || len(d) != 0 {
		t.Errorf("nothing: %v, %v", d, err)
	}
}

// No token makes a step panic, and none but the right one lets a client in.
func FuzzStep(f *testing.F) {
	users := NewUsers(map[string]string{"bob": "secret"})
	for _, j := range javaLogins(f) {
		f.Add([]byte(j.response))
	}
	x := NewExchange(users)
	challenge, _, _ := x.Step(nil)
	f.Add(respond(f, challenge, "secret", nil))
	f.Fuzz(func(t *testing.T, token []byte) {
		x := NewExchange(users)
		if answer, done, err := x.Step(token); done || err == nil != (len(token) == 0) || err == nil != (answer != nil) {
			t.Fatalf("first token %q: %q, %t, %v", token, answer, done, err)
		}
		x = NewExchange(users)
		_, _, _ = x.Step(nil)
		if _, done, err := x.Step(token); done || err == nil || x.UserName() != "" {
			t.Fatalf("%q: user %q, %v", token, x.UserName(), err)
		}
	})
}
