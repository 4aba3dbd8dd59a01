package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"rollcall/internal/keystore"
	"rollcall/internal/secretfile"
	"rollcall/internal/slowkey"
	"rollcall/internal/tokenproof"
	"rollcall/zk/digest"
)

const (
	minTokenBytes = 16   // bytes of a token: fewer can be guessed
	maxTokenBytes = 4096 // far more than any token needs, and less than maxHeaderBytes

	maxTokenFileBytes = maxTokenBytes + 2 // bytes of its file: a token and the end of its line
)

// credentials are the secrets that callers are checked against. The zero value accepts none.
type credentials struct {
	superDigest  string // user, colon, and the base64 of a hash; "": there is no super user
	digestAlg    digest.Algorithm
	adminToken   tokenHash   // for administrators
	readToken    tokenHash   // for reading
	metricsToken tokenHash   // for reading metrics
	proofKey     slowkey.Key // proves adminToken
}

// tokenHash is the hash of a token. The zero value matches nothing.
type tokenHash struct {
	sum   [sha256.Size]byte
	isSet bool
}

// matches compares in constant time.
func (t tokenHash) matches(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return t.isSet && subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// hasProvedToken reports whether the connection of a request has proved the administrators' token.
func hasProvedToken(r *http.Request) bool {
	bound, ok := r.Context().Value(connKey{}).(*boundedConn)
	if !ok {
		return false // a test without connections
	}
	c, ok := bound.Conn.(*tokenproof.Conn)
	return ok && c.HasProof()
}

// administratorOf returns "super", "token" or "certificate", by the credentials that the request proves, or "".
// TLS has verified a certificate.
func (a *authorizer) administratorOf(r *http.Request) string {
	if hasProvedToken(r) {
		return "token"
	}
	if a.superSubject != "" && hasVerifiedCertificate(r) &&
		keystore.JavaSubject(r.TLS.PeerCertificates[0]) == a.superSubject {
		return "certificate"
	}
	if len(r.Header.Values("Authorization")) != 1 { // a proxy may have looked at another one
		return ""
	}
	scheme, proof, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	proof = strings.TrimSpace(proof)
	switch strings.ToLower(scheme) {
	case "digest": // as ZooKeeper's AdminServer: the text of addauth
		if a.credentials.isSuperPassword(proof) {
			return "super"
		}
	case "bearer":
		if a.credentials.adminToken.matches(proof) {
			return "token"
		}
	}
	return ""
}

// acceptedKinds returns the kinds of secrets that make their holder an administrator: "super" and "token".
func (c *credentials) acceptedKinds() []string {
	all := []string{}
	if c.superDigest != "" {
		all = append(all, "super")
	}
	if c.adminToken.isSet {
		all = append(all, "token")
	}
	return all
}

// isSuperPassword reports whether text is "super:" and the super user's password.
func (c *credentials) isSuperPassword(text string) bool {
	return subtle.ConstantTimeCompare([]byte(c.digestAlg.IdentityOf(text)), []byte(c.superDigest)) == 1
}

// tokenFile is a configuration key that names a file with a token.
type tokenFile struct {
	key, path string
	hashIn    func(*credentials) *tokenHash
}

// tokenFiles returns the keys, from the most powerful token to the least.
func (s *HTTPSettings) tokenFiles() []tokenFile {
	return []tokenFile{
		{"admin.tokenFile", s.TokenFile, func(c *credentials) *tokenHash { return &c.adminToken }},
		{"admin.readTokenFile", s.ReadTokenFile, func(c *credentials) *tokenHash { return &c.readToken }},
		{"admin.metricsTokenFile", s.MetricsTokenFile, func(c *credentials) *tokenHash { return &c.metricsToken }},
	}
}

// HasToken reports whether the configuration names a token of any role.
func (s *HTTPSettings) HasToken() bool {
	return slices.ContainsFunc(s.tokenFiles(), func(f tokenFile) bool { return f.path != "" })
}

func (c *credentials) readTokens(s *HTTPSettings, log *slog.Logger) error {
	for _, f := range s.tokenFiles() {
		if f.path == "" {
			continue
		}
		token, exposed, err := readToken(f.key, f.path)
		if err != nil {
			return err
		}
		secretfile.LogIfExposed(log, f.key, f.path, exposed)
		*f.hashIn(c) = tokenHash{sha256.Sum256([]byte(token)), true}
		if f.hashIn(c) == &c.adminToken {
			c.proofKey = tokenproof.DeriveTokenKey(token)
		}
	}
	return nil
}

// readToken returns the token in a file without surrounding white space. exposed is not empty if other users can
// read the file and that is no reason to reject it.
func readToken(key, path string) (token, exposed string, err error) {
	f, err := secretfile.ReadTrustedFile(path, maxTokenFileBytes)
	if err == nil {
		err = f.RejectExposed()
	}
	if err != nil {
		return "", "", secretfile.WrapFault(key, path, err)
	}
	text := bytes.TrimSpace(f.Text)
	switch {
	case len(f.Text) > maxTokenFileBytes:
		err = fmt.Errorf("the file has over %d bytes; it may have a token of %d to %d and the end of its line",
			maxTokenFileBytes, minTokenBytes, maxTokenBytes)
	case len(text) < minTokenBytes || len(text) > maxTokenBytes:
		err = fmt.Errorf("the token has %d bytes; must have %d to %d", len(text), minTokenBytes, maxTokenBytes)
	case bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		err = errors.New("the token has other characters than visible ones of ASCII")
	}
	return string(text), f.ExposedWarning(), secretfile.WrapFault(key, path, err)
}

// CheckToken reads the files with tokens as NewHTTP does, and returns their faults.
func (s HTTPSettings) CheckToken() (faults []*secretfile.Fault) {
	for _, f := range s.tokenFiles() {
		if f.path == "" {
			continue
		}
		_, exposed, err := readToken(f.key, f.path)
		if fault := (*secretfile.Fault)(nil); errors.As(err, &fault) {
			faults = append(faults, fault)
			continue
		}
		faults = append(faults, secretfile.NewWarnings(f.key, f.path, exposed)...)
	}
	return faults
}

// roleOf returns the higher one of the roles that the header and a verified certificate give.
func (a *authorizer) roleOf(r *http.Request) callerRole {
	if hasVerifiedCertificate(r) {
		return max(a.headerRole(r), roleReads)
	}
	return a.headerRole(r)
}

// headerRole returns the role that the header Authorization gives.
func (a *authorizer) headerRole(r *http.Request) callerRole {
	if a.administratorOf(r) != "" {
		return roleAdmin
	}
	scheme, proof, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	proof = strings.TrimSpace(proof)
	switch {
	case len(r.Header.Values("Authorization")) != 1 || !strings.EqualFold(scheme, "bearer"):
	case a.credentials.readToken.matches(proof):
		return roleReads
	case a.credentials.metricsToken.matches(proof):
		return roleMetrics
	}
	return roleNone
}

// hasVerifiedCertificate reports whether the trust store verifies the client's certificate.
func hasVerifiedCertificate(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}
