package revocation

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"rollcall/internal/keystore/authority"
)

// responder answers for an authority over HTTP.
type responder struct {
	t       *testing.T
	issuer  *x509.Certificate
	key     crypto.Signer
	asked   atomic.Int64
	mu      sync.Mutex
	respond func(w http.ResponseWriter, query *ocsp.Request)
	url     string
	a       *authority.Authority
}

func newResponder(t *testing.T) *responder {
	t.Helper()
	a, err := authority.New("authority", time.Now().Add(-time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certText, keyText, err := a.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certText)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(keyText)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	r := &responder{t: t, issuer: cert, key: key.(crypto.Signer), a: a}
	r.respond = r.say(ocsp.Response{Status: ocsp.Good})
	srv := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

func (r *responder) serve(w http.ResponseWriter, req *http.Request) {
	r.asked.Add(1)
	text, _ := io.ReadAll(req.Body)
	query, err := ocsp.ParseRequest(text)
	if err != nil || req.Header.Get("Content-Type") != "application/ocsp-request" {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	respond := r.respond
	r.mu.Unlock()
	respond(w, query)
}

// set makes respond answer the next queries.
func (r *responder) set(respond func(w http.ResponseWriter, query *ocsp.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = respond
}

// sign returns a response. What it does not say is as usual.
func (r *responder) sign(template ocsp.Response) []byte {
	r.t.Helper()
	signer, key := r.issuer, r.key
	if template.Certificate != nil {
		signer = template.Certificate
	}
	if template.ThisUpdate.IsZero() {
		template.ThisUpdate, template.NextUpdate = time.Now(), time.Now().Add(time.Hour)
	}
	text, err := ocsp.CreateResponse(r.issuer, signer, template, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// say returns a handler that says the same of every certificate.
func (r *responder) say(template ocsp.Response) func(w http.ResponseWriter, query *ocsp.Request) {
	return func(w http.ResponseWriter, query *ocsp.Request) {
		of := template
		of.SerialNumber = query.SerialNumber
		_, _ = w.Write(r.sign(of))
	}
}

// issue returns a certificate that names the responders.
func (r *responder) issue(urls ...string) *x509.Certificate {
	r.t.Helper()
	cert, _, err := r.a.IssueFromTemplate(&x509.Certificate{OCSPServer: urls, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		r.t.Fatal(err)
	}
	return cert
}

// A certificate passes only if a responder says now, in a response of its issuer, that it is not revoked.
func TestCheck(t *testing.T) {
	r := newResponder(t)
	stranger := newResponder(t)
	now := time.Now()
	for _, tt := range []struct {
		name, err string
		urls      []string
		respond   func(http.ResponseWriter, *ocsp.Request)
	}{
		{"good", "", []string{r.url}, r.say(ocsp.Response{Status: ocsp.Good})},
		{"revoked", "was revoked at", []string{r.url}, r.say(ocsp.Response{Status: ocsp.Revoked, RevokedAt: now.Add(-time.Minute)})},
		{"unknown", "does not know the certificate", []string{r.url}, r.say(ocsp.Response{Status: ocsp.Unknown})},
		{"none is named", "names no responder", nil, nil},
		{"not over http", "must be an address of http", []string{"ldap://a/b"}, nil},
		{"the second one answers", "", []string{"http://127.0.0.1:1/", r.url}, r.say(ocsp.Response{Status: ocsp.Good})},
		{"of yesterday", "too old", []string{r.url}, r.say(ocsp.Response{Status: ocsp.Good, ThisUpdate: now.Add(-24 * time.Hour), NextUpdate: now.Add(-time.Hour)})},
		{"of yesterday without a next update", "too old", []string{r.url}, r.say(ocsp.Response{Status: ocsp.Good, ThisUpdate: now.Add(-24 * time.Hour)})},
		{"of tomorrow", "later than now", []string{r.url}, r.say(ocsp.Response{Status: ocsp.Good, ThisUpdate: now.Add(24 * time.Hour), NextUpdate: now.Add(48 * time.Hour)})},
		{"signed by a stranger", "is not known", []string{r.url}, stranger.say(ocsp.Response{Status: ocsp.Good})},
		{"another certificate", "is not known", []string{r.url}, func(w http.ResponseWriter, _ *ocsp.Request) {
			_, _ = w.Write(r.sign(ocsp.Response{Status: ocsp.Good, SerialNumber: r.issuer.SerialNumber}))
		}},
		{"an error", "status 500", []string{r.url}, func(w http.ResponseWriter, _ *ocsp.Request) { w.WriteHeader(http.StatusInternalServerError) }},
		{"too long", "more than 65536 bytes", []string{r.url}, func(w http.ResponseWriter, _ *ocsp.Request) { _, _ = w.Write(make([]byte, maxResponse+1)) }},
		{"redirects without an end", "more than 3 redirects", []string{r.url}, func(w http.ResponseWriter, _ *ocsp.Request) {
			w.Header().Set("Location", r.url)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
		{"a redirect elsewhere", "is asked, over http", []string{r.url}, func(w http.ResponseWriter, _ *ocsp.Request) {
			w.Header().Set("Location", "https://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.set(tt.respond)
			err := New(time.Now, nil).Check(t.Context(), []*x509.Certificate{r.issue(tt.urls...), r.issuer}, nil)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
}

// A certificate of the issuer that may not sign responses signs none, although its signature is right: whoever has a revoked certificate
// could vouch for it.
func TestSigners(t *testing.T) {
	r := newResponder(t)
	mayNot, key, err := r.a.IssueFromTemplate(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	may, mayKey, err := r.a.IssueFromTemplate(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning},
	})
	if err != nil {
		t.Fatal(err)
	}
	cert := r.issue()
	for _, tt := range []struct {
		signer *x509.Certificate
		key    crypto.Signer
		err    string
	}{{may, mayKey, ""}, {mayNot, key, "names no responder"}} {
		staple, err := ocsp.CreateResponse(r.issuer, tt.signer, ocsp.Response{
			Status: ocsp.Good, SerialNumber: cert.SerialNumber, ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour), Certificate: tt.signer,
		}, tt.key)
		if err != nil {
			t.Fatal(err)
		}
		err = New(time.Now, nil).Check(t.Context(), []*x509.Certificate{cert, r.issuer}, staple)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("signed by %v: %v, want %q", tt.signer.ExtKeyUsage, err, tt.err)
		}
	}
}

// An answer counts until its next update, a failure for a moment, and no responder is asked meanwhile. A stapled response needs none.
func TestAnswersAreKept(t *testing.T) {
	r := newResponder(t)
	now := time.Now()
	c := New(func() time.Time { return now }, nil)
	chain := []*x509.Certificate{r.issue(r.url), r.issuer}
	expect := func(asked int64, good bool) {
		t.Helper()
		for range 3 {
			if err := c.Check(t.Context(), chain, nil); (err == nil) != good {
				t.Fatal(err)
			}
		}
		if n := r.asked.Load(); n != asked {
			t.Errorf("asked %d times, want %d", n, asked)
		}
	}
	expect(1, true)
	now = now.Add(time.Hour + clockSkew + time.Second)
	r.set(func(w http.ResponseWriter, _ *ocsp.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	expect(2, false)
	now = now.Add(retryAfter)
	r.set(r.say(ocsp.Response{Status: ocsp.Good, ThisUpdate: now, NextUpdate: now.Add(time.Hour)}))
	expect(3, true)

	staple := r.sign(ocsp.Response{Status: ocsp.Good, SerialNumber: chain[0].SerialNumber, ThisUpdate: now, NextUpdate: now.Add(time.Hour)})
	other := New(func() time.Time { return now }, nil)
	if err := other.Check(t.Context(), chain, staple); err != nil || r.asked.Load() != 3 {
		t.Errorf("stapled: %v, asked %d times", err, r.asked.Load())
	}
	revoked := r.sign(ocsp.Response{Status: ocsp.Revoked, SerialNumber: chain[0].SerialNumber, RevokedAt: now, ThisUpdate: now, NextUpdate: now.Add(time.Hour)})
	if err := other.Check(t.Context(), chain, revoked); err == nil {
		t.Error("a stapled response says that the certificate is revoked, and it passes")
	}
}

// Nothing that a responder or a client sends makes a response of something else.
func FuzzParse(f *testing.F) {
	f.Add([]byte{0x30, 3, 0x0a, 1, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		cert := &x509.Certificate{Raw: []byte("x")}
		if _, err := New(time.Now, nil).parse(text, cert, cert); err == nil {
			t.Error("a response without a signature passes")
		}
	})
}
