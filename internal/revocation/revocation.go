// Package revocation asks the responders that certificates name whether they are revoked, by OCSP (RFC 6960). It knows no connection and
// no file.
//
// As Java's PKIX does with ocsp.enable, it believes no certificate whose state is not known: a responder that is silent, lies or does
// not know the certificate makes Check fail. Answers are kept until their next update, so that a short outage of a responder ends no
// connection of a client that was here before.
package revocation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"
)

const (
	// queryTimeout limits a query to all responders of a certificate. A handshake of a client may take 10 s.
	queryTimeout = 5 * time.Second
	// maxResponse limits a response in bytes. One with a certificate of its signer has 2 to 4 KiB.
	maxResponse = 64 << 10
	// maxResponders limits the responders of a certificate that are tried. One or two are usual.
	maxResponders = 3
	// maxRedirects limits the redirects of a query.
	maxRedirects = 3
	// maxQueries limits the queries under way. Each has a connection and up to maxResponse bytes.
	maxQueries = 32
	// maxAnswers limits the answers that are kept, of some 100 bytes each.
	maxAnswers = 16_384
	// clockSkew is how far the clock of a responder may be off: Java's value. It is also how long a response without a next update counts.
	clockSkew = 15 * time.Minute
	// retryAfter is how long a query that failed stands for the next ones: clients of a silent responder retry at once.
	retryAfter = 5 * time.Second
)

// Checker asks responders. It is safe for concurrent use.
type Checker struct {
	client  *http.Client
	now     func() time.Time
	queries chan struct{} // has a place for each query under way

	mu      sync.Mutex
	answers map[certificateKey]*answer
}

// certificateKey is a hash of a certificate and its issuer's.
type certificateKey [sha256.Size]byte

// answer is what is known of a certificate.
type answer struct {
	known chan struct{} // closed when the fields below are set
	err   error         // nil: it is not revoked
	until time.Time     // the answer counts until then
}

// New returns a Checker with the wall clock now. transport carries the queries; nil means HTTP with the proxy of the environment.
func New(now func() time.Time, transport http.RoundTripper) *Checker {
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10}
	}
	return &Checker{
		client: &http.Client{Transport: transport, CheckRedirect: checkRedirect},
		now:    now, queries: make(chan struct{}, maxQueries), answers: map[certificateKey]*answer{},
	}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case req.URL.Scheme != "http":
		return fmt.Errorf("a redirect to %q, but responders are asked over http", req.URL.Scheme)
	}
	return nil
}

// Check returns an error unless no certificate of a chain is revoked. The chain leads to a trusted authority, which is not checked.
// staple is the response that the other end sent for the first one, or empty. It blocks until all are known, for queryTimeout at most, or
// until ctx ends.
func (c *Checker) Check(ctx context.Context, chain []*x509.Certificate, staple []byte) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout+time.Second)
	defer cancel()
	for i, cert := range chain[:max(0, len(chain)-1)] {
		issuer := chain[i+1]
		if i == 0 && len(staple) > 0 {
			if response, err := c.parse(staple, cert, issuer); err == nil {
				if err := stateError(response, cert); err != nil {
					return err
				}
				continue
			}
		}
		if err := c.await(ctx, cert, issuer); err != nil {
			return err
		}
	}
	return nil
}

// await returns what is known of a certificate, and has its responders asked if that is nothing.
func (c *Checker) await(ctx context.Context, cert, issuer *x509.Certificate) error {
	a := c.answerOf(cert, issuer)
	select {
	case <-a.known:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("whether the certificate of %q is revoked was not known in time: %w", cert.Subject, ctx.Err())
	}
}

// answerOf returns the answer that counts, or one that will be known once the responders were asked.
func (c *Checker) answerOf(cert, issuer *x509.Certificate) *answer {
	key := certificateKey(sha256.Sum256(slices.Concat(cert.Raw, issuer.RawSubjectPublicKeyInfo)))
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.answers[key]; a != nil && !a.isOver(c.now()) {
		return a
	}
	c.makeRoom()
	a := &answer{known: make(chan struct{})}
	select {
	case c.queries <- struct{}{}:
	default:
		a.err = fmt.Errorf("whether the certificate of %q is revoked is not known: %d queries to responders are under way; try again",
			cert.Subject, maxQueries)
		close(a.known)
		return a
	}
	c.answers[key] = a
	go func() {
		defer func() { <-c.queries }()
		until, err := c.query(cert, issuer)
		c.mu.Lock()
		defer c.mu.Unlock()
		a.err, a.until = err, until
		close(a.known)
	}()
	return a
}

// isOver reports whether an answer is known and counts no more.
func (a *answer) isOver(now time.Time) bool {
	select {
	case <-a.known:
		return !now.Before(a.until)
	default:
		return false
	}
}

// makeRoom drops answers if there are too many: those that are over, or else one that is known, however long it counts. The caller holds
// mu.
func (c *Checker) makeRoom() {
	if len(c.answers) < maxAnswers {
		return
	}
	now := c.now()
	for key, a := range c.answers {
		if a.isOver(now) {
			delete(c.answers, key)
		}
	}
	for key, a := range c.answers {
		if len(c.answers) < maxAnswers {
			return
		}
		select {
		case <-a.known:
			delete(c.answers, key)
		default:
		}
	}
}

// query asks the responders of a certificate one after the other, and returns what they say and until when that counts.
func (c *Checker) query(cert, issuer *x509.Certificate) (until time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	request, err := ocsp.CreateRequest(cert, issuer, nil)
	if err == nil && len(cert.OCSPServer) == 0 {
		err = errors.New("it names no responder (authorityInfoAccess)")
	}
	if err == nil {
		for _, responder := range cert.OCSPServer[:min(len(cert.OCSPServer), maxResponders)] {
			var response *ocsp.Response
			if response, err = c.ask(ctx, responder, request, cert, issuer); err == nil {
				return validUntil(response), stateError(response, cert)
			}
		}
	}
	return c.now().Add(retryAfter), fmt.Errorf("whether the certificate of %q is revoked is not known: %w", cert.Subject, err)
}

// ask sends a query to a responder.
func (c *Checker) ask(ctx context.Context, responder string, request []byte, cert, issuer *x509.Certificate) (*ocsp.Response, error) {
	if at, err := url.Parse(responder); err != nil || at.Scheme != "http" {
		return nil, fmt.Errorf("responder %q: must be an address of http", responder)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, responder, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/ocsp-request")
	req.Header.Set("Accept", "application/ocsp-response")
	reply, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("responder %s: status %s", responder, reply.Status)
	}
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("responder %s: %w", responder, err)
	case len(text) > maxResponse:
		return nil, fmt.Errorf("responder %s: its response has more than %d bytes", responder, maxResponse)
	}
	response, err := c.parse(text, cert, issuer)
	if err != nil {
		return nil, fmt.Errorf("responder %s: %w", responder, err)
	}
	return response, nil
}

// parse returns a response about cert that counts now: its issuer has signed it, or one whom the issuer allows to.
func (c *Checker) parse(text []byte, cert, issuer *x509.Certificate) (*ocsp.Response, error) {
	if len(text) > maxResponse {
		return nil, fmt.Errorf("a response of more than %d bytes", maxResponse)
	}
	response, err := ocsp.ParseResponseForCert(text, cert, issuer)
	if err != nil {
		return nil, err
	}
	now := c.now()
	if signer := response.Certificate; signer != nil && !signer.Equal(issuer) {
		// package ocsp does not check these, and every certificate of the issuer could sign otherwise
		if !slices.Contains(signer.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) {
			return nil, fmt.Errorf("the signer %q is not allowed to sign responses", signer.Subject)
		}
		if now.Before(signer.NotBefore) || now.After(signer.NotAfter) {
			return nil, fmt.Errorf("the certificate of the signer %q is not valid now", signer.Subject)
		}
	}
	switch {
	case now.Add(clockSkew).Before(response.ThisUpdate):
		return nil, fmt.Errorf("the response is from %s, later than now; if that is not so, the clock of this machine is wrong",
			response.ThisUpdate.UTC().Format(time.DateTime))
	case !now.Before(validUntil(response)):
		return nil, fmt.Errorf("the response is too old: it is from %s", response.ThisUpdate.UTC().Format(time.DateTime))
	}
	return response, nil
}

// validUntil returns when a response no longer counts.
func validUntil(r *ocsp.Response) time.Time {
	if r.NextUpdate.IsZero() {
		return r.ThisUpdate.Add(clockSkew)
	}
	return r.NextUpdate.Add(clockSkew)
}

// stateError returns an error unless a response says that the certificate is not revoked.
func stateError(r *ocsp.Response, cert *x509.Certificate) error {
	switch r.Status {
	case ocsp.Good:
		return nil
	case ocsp.Revoked:
		return fmt.Errorf("the certificate of %q was revoked at %s", cert.Subject, r.RevokedAt.UTC().Format(time.DateTime))
	}
	return fmt.Errorf("the responder does not know the certificate of %q", cert.Subject)
}
