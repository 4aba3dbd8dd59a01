package admin

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

const (
	minToken = 16   // bytes of a token: fewer can be guessed
	maxToken = 4096 // far more than any token needs, and less than maxHeader
)

// credentials are what administrators prove themselves with. The zero value accepts nobody.
type credentials struct {
	superDigest string   // "super:" and the base64 of a SHA-1; "": nobody is super
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
	sum := sha1.Sum([]byte(text))
	digest := "super:" + base64.StdEncoding.EncodeToString(sum[:])
	return subtle.ConstantTimeCompare([]byte(digest), []byte(c.superDigest)) == 1
}

// bearer reports whether text is the token. The hashes have one length, so that the comparison
// takes the same time for every text.
func (c *credentials) bearer(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return c.hasToken && subtle.ConstantTimeCompare(sum[:], c.token[:]) == 1
}

// readToken reads the token in a file, without the white space around it. It returns an error if
// other users could read or change the file. Its group may read it: Kubernetes mounts secrets so.
func readToken(path string) (token [32]byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return token, fmt.Errorf("admin: token file: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o027 != 0 {
		return token, fmt.Errorf("admin: token file %s has mode %v; it must be a file that others cannot read and only its owner can change: chmod 600", path, mode)
	}
	f, err := os.Open(path)
	if err != nil {
		return token, fmt.Errorf("admin: token file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read from
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return token, fmt.Errorf("admin: token file: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) < minToken || len(text) > maxToken {
		return token, fmt.Errorf("admin: the token in %s has %d bytes; allowed are %d to %d", path, len(text), minToken, maxToken)
	}
	if bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return token, errors.New("admin: the token in " + path + " has other characters than visible ones of ASCII")
	}
	return sha256.Sum256(text), nil
}
