package sasl

import (
	"strings"
	"testing"
)

// A login sends what Java's client sends, and takes the proof of Java's server.
func TestLoginAsJava(t *testing.T) {
	logins := javaLogins(t)
	compared := 0
	for _, j := range logins {
		theirs, err := parseDirectives([]byte(j.response))
		if err != nil {
			t.Fatal(err)
		}
		if theirs.hasKey("authzid") {
			continue // a login asks to act as nobody else
		}
		compared++
		l := NewLogin(j.user, j.password)
		l.clientNonce = theirs["cnonce"]
		token, done, err := l.Step([]byte(j.challenge))
		if err != nil || done {
			t.Fatalf("%s: %v, %v", j.user, done, err)
		}
		mine, err := parseDirectives(token)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"username", "realm", "nonce", "nc", "cnonce", "digest-uri", "response", "qop"} {
			if mine[key] != theirs[key] {
				t.Errorf("%s: %s is %q, Java's is %q", j.user, key, mine[key], theirs[key])
			}
		}
		if token, done, err := l.Step([]byte(j.answer)); err != nil || !done || token != nil {
			t.Errorf("%s: %q, %v, %v", j.user, token, done, err)
		}
	}
	if compared < 10 {
		t.Errorf("%d logins", compared)
	}
}

// A login and an exchange agree about users and passwords with any letters.
func TestLoginMeetsExchange(t *testing.T) {
	for name, password := range map[string]string{"bob": "bobsecret", `b"o\b`: `"\`, "é": "ü", "日本": "語", "empty": ""} {
		x, l := NewExchange(NewUsers(map[string]string{name: password})), NewLogin(name, password)
		challenge, _, err := x.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		response, _, err := l.Step(challenge)
		if err != nil {
			t.Fatal(err)
		}
		proof, done, err := x.Step(response)
		if err != nil || !done || x.UserName() != name {
			t.Fatalf("%s: %v, %v, user %q", name, done, err, x.UserName())
		}
		if _, done, err := l.Step(proof); err != nil || !done {
			t.Errorf("%s: %v, %v", name, done, err)
		}
		if _, done, err := l.Step(proof); err == nil || done {
			t.Errorf("%s: a step after the end: %v", name, done)
		}
	}
}

// A server that does not know the password, or speaks something else, is rejected. No error has the password.
func TestLoginRefuses(t *testing.T) {
	const challenge = `realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`
	for _, tt := range []struct {
		tokens []string
		want   string
	}{
		{[]string{""}, "no login by DIGEST-MD5"},
		{[]string{"n,,"}, "challenge: sasl: the token is not a list"},
		{[]string{strings.Repeat("a", maxToken+1)}, "the server's token has 4097 bytes"},
		{[]string{`realm="elsewhere",nonce="n"`}, `realm is "elsewhere"`},
		{[]string{`realm="zk-sasl-md5"`}, "no nonce"},
		{[]string{`realm="zk-sasl-md5",nonce="n",qop="auth-conf"`}, "qop"},
		{[]string{challenge, ""}, "does not prove"},
		{[]string{challenge, "rspauth=00000000000000000000000000000000"}, "does not prove"},
	} {
		l := NewLogin("bob", "bobsecret")
		var err error
		for _, token := range tt.tokens {
			if err != nil {
				t.Fatalf("%q: %v too early", tt.tokens, err)
			}
			var done bool
			if _, done, err = l.Step([]byte(token)); done {
				t.Errorf("%q: logged in", tt.tokens)
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "bobsecret") {
			t.Errorf("%q: %v, want %s", tt.tokens, err, tt.want)
		}
	}
}

// A client's section has one user with a password.
func TestParseClient(t *testing.T) {
	const head = "Client {\n" + module + " required\n"
	for _, tt := range []struct{ text, name, password, want string }{
		{text: head + "username=\"bob\"\npassword=\"b\\\"s\";};\nServer {" + module + " required username=\"eve\" password=\"e\";};", name: "bob", password: `b"s`},
		{text: head + "username=bob password=secret debug=true;};", name: "bob", password: "secret"},
		{text: head + "username=bob;};", want: `section "Client" has no password`},
		{text: head + "password=secret;};", want: `section "Client" has no username`},
		{text: head + "username=bob password=\"\";};", want: `section "Client" has no password`},
		{text: "Server {" + module + " required username=bob password=secret;};", want: `no section "Client" in the file; add it`},
		{text: head + "username=bob password=\"${secret}\";};", want: "line 3: a value with ${: Java puts a property there, which is not done here"},
		{text: "Client {\ncom.sun.security.auth.module.Krb5LoginModule required username=bob password=secret;};", want: "line 2: section \"Client\" uses Kerberos (Krb5LoginModule), which is not supported here; must be "},
	} {
		name, password, err := ParseClientLogin([]byte(tt.text), "Client")
		switch {
		case tt.want == "" && (err != nil || name != tt.name || password != tt.password):
			t.Errorf("%s: %q, %q, %v", tt.text, name, password, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
}
