package revocation

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// like returns a certificate that differs from cert in what change does.
func like(cert *x509.Certificate, change func(*x509.Certificate)) *x509.Certificate {
	other := *cert
	change(&other)
	return &other
}

// A responder that is hostile, or that somebody on the way speaks for, makes no certificate pass, and none that counts fails for what
// responders may do.
func TestHostileResponders(t *testing.T) {
	r, stranger := newResponder(t), newResponder(t)
	now := time.Now()
	good := ocsp.Response{Status: ocsp.Good}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect led to another host") }))
	defer elsewhere.Close()
	send := func(text []byte) func(http.ResponseWriter, *ocsp.Request) {
		return func(w http.ResponseWriter, _ *ocsp.Request) { _, _ = w.Write(text) }
	}
	about := func(issuer *x509.Certificate) func(http.ResponseWriter, *ocsp.Request) {
		return func(w http.ResponseWriter, query *ocsp.Request) {
			text, err := ocsp.CreateResponse(issuer, r.issuer, ocsp.Response{
				Status: ocsp.Good, SerialNumber: query.SerialNumber, ThisUpdate: now, NextUpdate: now.Add(time.Hour),
			}, r.key)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(text)
		}
	}
	signedBy := func(of *responder, change func(*x509.Certificate)) func(http.ResponseWriter, *ocsp.Request) {
		template := &x509.Certificate{NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}}
		change(template)
		signer, key, err := of.a.IssueFromTemplate(template)
		if err != nil {
			t.Fatal(err)
		}
		return func(w http.ResponseWriter, query *ocsp.Request) {
			text, err := ocsp.CreateResponse(r.issuer, signer, ocsp.Response{
				Status: ocsp.Good, SerialNumber: query.SerialNumber, ThisUpdate: now, NextUpdate: now.Add(time.Hour), Certificate: signer,
			}, key)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(text)
		}
	}
	at := func(this, next time.Duration) func(http.ResponseWriter, *ocsp.Request) {
		of := ocsp.Response{Status: ocsp.Good, ThisUpdate: now.Add(this)}
		if next != 0 {
			of.NextUpdate = now.Add(next)
		}
		return r.say(of)
	}
	redirect := func(to string, status int) func(http.ResponseWriter, *ocsp.Request) {
		return func(w http.ResponseWriter, _ *ocsp.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(status)
		}
	}
	for _, tt := range []struct {
		name, err string
		respond   func(http.ResponseWriter, *ocsp.Request)
	}{
		{"another issuer with this key", "another issuer", about(like(r.issuer, func(c *x509.Certificate) {
			c.RawSubject = append(c.RawSubject[:len(c.RawSubject):len(c.RawSubject)], 0)
		}))},
		{"an issuer with another key", "another issuer", about(like(r.issuer, func(c *x509.Certificate) { c.RawSubjectPublicKeyInfo = stranger.issuer.RawSubjectPublicKeyInfo }))},
		{"hashes of SHA-256", "", r.say(ocsp.Response{Status: ocsp.Good, IssuerHash: crypto.SHA256})},
		{"the certificate of the issuer comes with it", "", r.say(ocsp.Response{Status: ocsp.Good, Certificate: r.issuer})},
		{"signed for the issuer", "", signedBy(r, func(*x509.Certificate) {})},
		{"signed by one who may no longer", "is not valid now", signedBy(r, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour) })},
		{"signed by one who may not yet", "is not valid now", signedBy(r, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour); c.NotAfter = now.Add(2 * time.Hour) })},
		{"signed by one who may sign code", "is not allowed", signedBy(r, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} })},
		{"signed by a client", "is not allowed", signedBy(r, func(c *x509.Certificate) { c.ExtKeyUsage = nil })},
		{"signed for a stranger", "the signer", signedBy(stranger, func(*x509.Certificate) {})},
		{"signed by a stranger", "verification failure", func(w http.ResponseWriter, query *ocsp.Request) {
			text, err := ocsp.CreateResponse(r.issuer, r.issuer, ocsp.Response{
				Status: ocsp.Good, SerialNumber: query.SerialNumber, ThisUpdate: now, NextUpdate: now.Add(time.Hour),
			}, stranger.key)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(text)
		}},
		{"changed on the way", "not known", func(w http.ResponseWriter, query *ocsp.Request) {
			text := r.sign(ocsp.Response{Status: ocsp.Revoked, RevokedAt: now, SerialNumber: query.SerialNumber})
			_, _ = w.Write(bytes.Replace(text, query.SerialNumber.Bytes(), big.NewInt(7).FillBytes(make([]byte, len(query.SerialNumber.Bytes()))), 1))
		}},
		{"cut off", "unexpected EOF", func(w http.ResponseWriter, query *ocsp.Request) {
			text := r.sign(ocsp.Response{Status: ocsp.Good, SerialNumber: query.SerialNumber})
			w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
			_, _ = w.Write(text)
		}},
		{"an address that is none", "must be an address of http", nil},
		{"nothing", "sequence truncated", send(nil)},
		{"text", "is not known", send([]byte("<html>"))},
		{"try later", "try later", send(ocsp.TryLaterErrorResponse)},
		{"something after the response", "trailing data", func(w http.ResponseWriter, query *ocsp.Request) {
			r.say(good)(w, query)
			_, _ = w.Write([]byte{0})
		}},
		{"a critical extension", "critical extension", r.say(ocsp.Response{Status: ocsp.Good, ExtraExtensions: []pkix.Extension{{Id: []int{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}})},
		{"no more for a while", "", at(-2*time.Hour, -clockSkew+time.Minute)},
		{"no more", "too old", at(-2*time.Hour, -clockSkew-time.Minute)},
		{"no more, without a next update", "too old", at(-clockSkew-time.Minute, 0)},
		{"a little early", "", at(clockSkew-time.Minute, time.Hour)},
		{"too early", "later than now", at(clockSkew+time.Minute, time.Hour)},
		{"headers without an end", "not known", func(w http.ResponseWriter, query *ocsp.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
			r.say(good)(w, query)
		}},
		{"compressed zeros", "more than 65536 bytes", func(w http.ResponseWriter, _ *ocsp.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 16<<20))
			_ = z.Close()
		}},
		{"the connection ends", "EOF", func(http.ResponseWriter, *ocsp.Request) { panic(http.ErrAbortHandler) }},
		{"a redirect to another host", "is asked, over http", redirect(elsewhere.URL, http.StatusTemporaryRedirect)},
		{"a redirect to the services of a cloud", "is asked, over http", redirect("http://169.254.169.254/latest/meta-data/", http.StatusFound)},
		{"a redirect to a file", "is asked, over http", redirect("file:///etc/passwd", http.StatusFound)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.set(tt.respond)
			at := r.url
			if tt.respond == nil {
				at = "http://%zz"
			}
			err := New(time.Now, nil).Check(t.Context(), []*x509.Certificate{r.issue(at), r.issuer}, nil)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
	t.Run("a redirect on the same host", func(t *testing.T) {
		r.set(r.say(good))
		left := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if left--; left >= 0 {
				redirect("/"+strconv.Itoa(left), http.StatusPermanentRedirect)(w, nil)
				return
			}
			r.serve(w, req)
		}))
		defer srv.Close()
		for n, want := range map[int]bool{maxRedirects: true, maxRedirects + 1: false} {
			left = n
			if err := New(time.Now, nil).Check(t.Context(), []*x509.Certificate{r.issue(srv.URL), r.issuer}, nil); (err == nil) != want {
				t.Errorf("%d redirects: %v", n, err)
			}
		}
	})
	if _, err := New(time.Now, nil).parse(make([]byte, maxResponse+1), r.issuer, r.issuer); err == nil ||
		!strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("a long staple: %v", err)
	}
}

// dynamicResponder knows the states of many certificates, which change while it runs.
type dynamicResponder struct {
	*responder
	mu     sync.Mutex
	now    time.Time
	states map[string]int // by serial number: of package ocsp
	down   bool
}

func (d *dynamicResponder) setState(cert *x509.Certificate, state int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.states[cert.SerialNumber.String()] = state
}

func (d *dynamicResponder) answer(w http.ResponseWriter, query *ocsp.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state, known := d.states[query.SerialNumber.String()]
	switch {
	case d.down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case !known:
		state = ocsp.Unknown
	}
	_, _ = w.Write(d.sign(ocsp.Response{Status: state, SerialNumber: query.SerialNumber, RevokedAt: d.now, ThisUpdate: d.now, NextUpdate: d.now.Add(time.Hour)}))
}

// The state of a certificate and that of the authority between it and the trust store follow the responder: at the next update, and after
// an outage. A revoked authority takes its certificates with it.
func TestDynamicResponder(t *testing.T) {
	d := &dynamicResponder{responder: newResponder(t), now: time.Now(), states: map[string]int{}}
	d.responder.set(d.answer)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := func(serial int64, isCA bool, issuer *x509.Certificate, public, by any) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "between"}, NotBefore: d.now.Add(-time.Hour), NotAfter: d.now.Add(24 * time.Hour),
			IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, OCSPServer: []string{d.url},
		}, issuer, public, by)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	between := made(7, true, d.issuer, key.Public(), d.key)
	leaf := made(8, false, between, key.Public(), key)
	second := &dynamicResponder{responder: &responder{t: t, issuer: between, key: key}, now: d.now, states: map[string]int{}}
	d.set(func(w http.ResponseWriter, query *ocsp.Request) { // one address for both)
		if query.SerialNumber.Int64() == 8 {
			second.answer(w, query)
		} else {
			d.answer(w, query)
		}
	})
	c := New(func() time.Time { return d.now }, nil)
	want := func(text string) {
		t.Helper()
		err := c.Check(t.Context(), []*x509.Certificate{leaf, between, d.issuer}, nil)
		if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	pass := func(time time.Duration) { d.now = d.now.Add(time); second.now = d.now }
	want("does not know")
	second.setState(leaf, ocsp.Good)
	pass(time.Hour + clockSkew)
	want("does not know") // the authority between
	d.setState(between, ocsp.Good)
	pass(time.Hour + clockSkew)
	want("")
	d.setState(between, ocsp.Revoked)
	second.setState(leaf, ocsp.Revoked)
	pass(time.Hour + clockSkew - time.Second)
	want("") // the answers count still
	second.setState(leaf, ocsp.Good)
	pass(time.Second)
	want("was revoked")
	d.setState(between, ocsp.Good)
	pass(time.Hour + clockSkew)
	want("")
	d.down, second.down = true, true
	pass(time.Hour)
	want("")
	pass(clockSkew)
	want("status 503")
	d.down, second.down = false, false
	want("status 503")
	pass(retryAfter)
	want("")
}
