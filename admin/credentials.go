package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"rollcall/digest"
	"rollcall/secretfile"
)

const (
	minToken = 16   // bytes of a token: fewer can be guessed
	maxToken = 4096 // far more than any token needs, and less than maxHeader

	maxTokenFile = maxToken + 2 // bytes of its file: a token and the end of its line
)

// credentials are what administrators prove themselves with. The zero value accepts nobody.
type credentials struct {
	superDigest string // "super:" and the base64 of a hash; "": nobody is super
	alg         digest.Alg
	token       [32]byte // SHA-256 of the token
	hasToken    bool
}

// who returns the administrator that the request proves to come from, "super" or "token", or "" if it
// proves nothing. Another proof, such as a client's certificate, would be checked here.
func (h *HTTP) who(r *http.Request) string {
	if len(r.Header.Values("Authorization")) != 1 { // a proxy may have looked at another one
		return ""
	}
	scheme, proof, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	proof = strings.TrimSpace(proof)
	switch strings.ToLower(scheme) {
	case "digest": // as ZooKeeper's AdminServer: the text of addauth
		if h.cred.super(proof) {
			return "super"
		}
	case "bearer":
		if h.cred.bearer(proof) {
			return "token"
		}
	}
	return ""
}

// super reports whether text is "super:" and the password of the super user.
func (c *credentials) super(text string) bool {
	return subtle.ConstantTimeCompare([]byte(c.alg.ID(text)), []byte(c.superDigest)) == 1
}

// bearer reports whether text is the token. The hashes have one length, so that the comparison
// takes the same time for every text.
func (c *credentials) bearer(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return c.hasToken && subtle.ConstantTimeCompare(sum[:], c.token[:]) == 1
}

// tokenKey names the token file in the configuration.
const tokenKey = "admin.tokenFile"

// readToken reads the token in a file, without the white space around it. exposed says that others may read
// the file.
func readToken(path string) (token [32]byte, exposed string, err error) {
	f, err := secretfile.Read(path, maxTokenFile)
	if err != nil {
		return token, "", secretfile.Wrong(tokenKey, path, err)
	}
	text := bytes.TrimSpace(f.Text)
	switch {
	case len(f.Text) > maxTokenFile:
		err = fmt.Errorf("the file has over %d bytes; it may have a token of %d to %d and the end of its line", maxTokenFile, minToken, maxToken)
	case len(text) < minToken || len(text) > maxToken:
		err = fmt.Errorf("the token has %d bytes; allowed are %d to %d", len(text), minToken, maxToken)
	case bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		err = errors.New("the token has other characters than visible ones of ASCII")
	}
	return sha256.Sum256(text), f.Exposed(), secretfile.Wrong(tokenKey, path, err)
}

// CheckToken reads the token file as NewHTTP does, and returns what is wrong with it.
func (s HTTPSettings) CheckToken() []*secretfile.Fault {
	if s.TokenFile == "" {
		return nil
	}
	_, exposed, err := readToken(s.TokenFile)
	if fault := (*secretfile.Fault)(nil); errors.As(err, &fault) {
		return []*secretfile.Fault{fault}
	}
	return secretfile.Warn(tokenKey, s.TokenFile, exposed)
}
