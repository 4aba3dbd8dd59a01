package sasl

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxToken is the longest token of a client, in bytes: the limit of RFC 2831 and of Java.
	maxToken = 4096
	// nonceBytes is the length of a nonce before base64, as in Java.
	nonceBytes = 30
	// maxQuoted limits the bytes of a client's text in an error. Names are shorter.
	maxQuoted = 64

	nonceCount = "00000001" // a client counts a nonce once, because it is new in each exchange
	qopAuth    = "auth"     // only authentication: later messages are neither signed nor encrypted
	digestURI  = "zookeeper/" + Realm
)

// ErrKerberos means that the client uses another mechanism, Kerberos (GSSAPI).
var ErrKerberos = errors.New("sasl: the client uses Kerberos (GSSAPI), and the JAAS file has users with " +
	"passwords; use DIGEST-MD5, or put Krb5LoginModule into the section of the JAAS file")

// Exchange is the server's side of one login. Make one with NewExchange.
type Exchange struct {
	users    *Users
	nonce    string // "" before the challenge
	userName string // "" before the login
	finished bool
}

// NewExchange returns an exchange before the client's first token.
func NewExchange(users *Users) *Exchange { return &Exchange{users: users} }

// UserName returns the name of the user that has logged in, or "".
func (x *Exchange) UserName() string { return x.userName }

// Step takes a token of the client and returns the server's reply. done reports whether the client has logged
// in. After an error the exchange is over, and every further step fails. The error is for the log of the
// server: clients only learn that the login failed.
func (x *Exchange) Step(token []byte) (answer []byte, done bool, err error) {
	switch {
	case x.finished:
		return nil, false, errors.New("sasl: the exchange is over; a connection can log in once")
	case len(token) > maxToken:
		err = fmt.Errorf("sasl: a token of %d bytes; must be at most %d", len(token), maxToken)
	case x.nonce == "":
		answer, err = x.makeChallenge(token)
	default:
		answer, err = x.verifyResponse(token)
		done = err == nil
	}
	x.finished = done || err != nil
	return answer, done, err
}

// makeChallenge takes the client's first token, which is empty in DIGEST-MD5.
func (x *Exchange) makeChallenge(token []byte) ([]byte, error) {
	const kerberos = 0x60 // the first byte of a GSSAPI token
	switch {
	case len(token) > 0 && token[0] == kerberos:
		return nil, ErrKerberos
	case len(token) > 0:
		return nil, errors.New("sasl: the client's first token is not empty, so it uses another mechanism; " +
			"only DIGEST-MD5 is served")
	}
	var random [nonceBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	x.nonce = base64.StdEncoding.EncodeToString(random[:])
	return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, Realm, x.nonce), nil
}

// verifyResponse checks the client's response to the challenge, and returns the server's proof that it knows
// the password, too.
func (x *Exchange) verifyResponse(token []byte) ([]byte, error) {
	d, err := parseDirectives(token)
	if err != nil {
		return nil, err
	}
	name, err := x.checkDirectives(d)
	if err != nil {
		return nil, err
	}
	secret, known := x.users.digestOf(name)
	right := subtle.ConstantTimeCompare([]byte(d.responseDigest(secret, "AUTHENTICATE")), []byte(d["response"])) == 1
	switch {
	case !known:
		return nil, fmt.Errorf("sasl: no user %s in the JAAS file", quoteShort(name))
	case !right:
		return nil, fmt.Errorf("sasl: wrong password of user %s", quoteShort(name))
	}
	x.userName = name
	return []byte("rspauth=" + d.responseDigest(secret, "")), nil
}

// checkDirectives returns the user's name, or an error if the response does not match this challenge.
func (x *Exchange) checkDirectives(d directives) (name string, err error) {
	if d.hasKey("charset") && !strings.EqualFold(d["charset"], "utf-8") {
		return "", fmt.Errorf("sasl: charset is %s; must be utf-8, or absent for ISO 8859-1", quoteShort(d["charset"]))
	}
	for _, needed := range []string{"username", "cnonce"} {
		if !d.hasKey(needed) {
			return "", fmt.Errorf("sasl: the response has no %s", needed)
		}
	}
	for _, fixed := range []struct{ key, value string }{
		{"realm", Realm}, {"nonce", x.nonce}, {"nc", nonceCount}, {"digest-uri", digestURI},
	} {
		if d[fixed.key] != fixed.value {
			return "", fmt.Errorf("sasl: %s is %s; must be %s", fixed.key, quoteShort(d[fixed.key]), quoteShort(fixed.value))
		}
	}
	if d.hasKey("qop") && d["qop"] != qopAuth {
		return "", fmt.Errorf("sasl: qop is %s; must be %s, because messages are neither signed nor encrypted by SASL",
			quoteShort(d["qop"]), qopAuth)
	}
	if d.hasKey("authzid") && d["authzid"] != "" && d["authzid"] != d["username"] {
		return "", fmt.Errorf("sasl: user %s tries to act as %s; a user can act only as itself",
			quoteShort(d["username"]), quoteShort(d["authzid"]))
	}
	name = d["username"]
	switch {
	case !d.hasKey("charset"):
		name = fromLatin1(name)
	case !utf8.ValidString(name):
		return "", fmt.Errorf("sasl: user %s is not valid UTF-8", quoteShort(name))
	}
	return name, nil
}

// responseDigest returns the expected response if method is AUTHENTICATE, and the server's proof if it is
// empty. secret is the digest of name, realm and password.
func (d directives) responseDigest(secret [md5.Size]byte, method string) string {
	session := string(secret[:]) + ":" + d["nonce"] + ":" + d["cnonce"]
	if d.hasKey("authzid") {
		session += ":" + d["authzid"]
	}
	request := hexMD5(method + ":" + d["digest-uri"])
	return hexMD5(strings.Join([]string{hexMD5(session), d["nonce"], d["nc"], d["cnonce"], qopAuth, request}, ":"))
}

func hexMD5(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// fromLatin1 converts ISO 8859-1 to UTF-8.
func fromLatin1(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(rune(text[i]))
	}
	return b.String()
}

// quoteShort quotes a client's text for an error, and cuts it if it is long.
func quoteShort(text string) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%q...", text[:maxQuoted])
	}
	return fmt.Sprintf("%q", text)
}
