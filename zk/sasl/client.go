package sasl

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Login is the client's side of one login. Make one with NewLogin. The client sends an empty token first. It
// then passes each reply of the server to Step, and sends the result, until Step is done.
type Login struct {
	userName, password string
	clientNonce        string
	expectedProof      string // of the server; "" before the response
	finished           bool
}

// NewLogin returns a login of the user name.
func NewLogin(name, password string) *Login {
	var random [nonceBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	return &Login{userName: name, password: password, clientNonce: base64.StdEncoding.EncodeToString(random[:])}
}

// Step takes the server's reply to the last token and returns the next token. If done, the server has
// accepted the login and proved that it knows the password, too, and there is no next token. After an error
// the login is over, and every further step fails.
func (l *Login) Step(answer []byte) (token []byte, done bool, err error) {
	switch {
	case l.finished:
		return nil, false, errors.New("sasl: the login is over")
	case len(answer) > maxToken:
		err = fmt.Errorf("sasl: the server's token has %d bytes; must be at most %d", len(answer), maxToken)
	case l.expectedProof == "":
		token, err = l.makeResponse(answer)
	case subtle.ConstantTimeCompare(answer, []byte(l.expectedProof)) != 1:
		err = fmt.Errorf("sasl: the server does not prove that it knows the password of user %s", quoteShort(l.userName))
	default:
		done = true
	}
	l.finished = done || err != nil
	return token, done, err
}

func (l *Login) makeResponse(challenge []byte) ([]byte, error) {
	if len(challenge) == 0 {
		return nil, errors.New("sasl: the server sends no challenge, so it has no login by DIGEST-MD5")
	}
	d, err := parseDirectives(challenge)
	if err != nil {
		return nil, fmt.Errorf("sasl: the server's challenge: %w", err)
	}
	switch {
	case d["realm"] != Realm:
		return nil, fmt.Errorf("sasl: the server's realm is %s; servers of ZooKeeper's protocol have %s",
			quoteShort(d["realm"]), quoteShort(Realm))
	case d["nonce"] == "":
		return nil, errors.New("sasl: the server's challenge has no nonce")
	case d.hasKey("qop") && !strings.Contains(","+d["qop"]+",", ","+qopAuth+","):
		return nil, fmt.Errorf("sasl: the server offers the qop %s; must be %s", quoteShort(d["qop"]), qopAuth)
	case !utf8.ValidString(l.userName) || !utf8.ValidString(l.password):
		return nil, errors.New("sasl: the user or the password is not valid UTF-8")
	}
	d["cnonce"], d["nc"], d["digest-uri"] = l.clientNonce, nonceCount, digestURI
	secret, _ := NewUsers(map[string]string{l.userName: l.password}).digestOf(l.userName)
	l.expectedProof = "rspauth=" + d.responseDigest(secret, "")
	response := d.responseDigest(secret, "AUTHENTICATE")
	return fmt.Appendf(nil,
		`charset=utf-8,username=%s,realm="%s",nonce=%s,nc=%s,cnonce="%s",digest-uri="%s",response=%s,qop=%s`,
		quoteValue(l.userName), Realm, quoteValue(d["nonce"]), nonceCount, l.clientNonce, digestURI, response, qopAuth,
	), nil
}

func quoteValue(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
