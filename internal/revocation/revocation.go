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
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"
)

const (
	// queryTimeout limits a query to all responders of a certificate, which share it evenly.
	queryTimeout = 5 * time.Second
	// waitTimeout limits the time that a query waits for its turn. A handshake of a client may take 10 s, for both.
	waitTimeout = 5 * time.Second
	// maxResponse limits a response in bytes. One with a certificate of its signer has 2 to 4 KiB.
	maxResponse = 64 << 10
	// maxResponders limits the responders of a certificate that are tried. One or two are usual.
	maxResponders = 3
	// maxRedirects limits the redirects of a query.
	maxRedirects = 3
	// maxQueries limits the queries under way. Each has a connection and up to maxResponse bytes.
	maxQueries = 128
	// maxWaiting limits the queries that wait for their turn. Each has a goroutine and a certificate, some 10 KiB.
	maxWaiting = 1024
	// shares is the number of silent responders that it takes to hold all places: each has one in shares of those of the
	// queries under way, and of those that wait. Few authorities run more responders than two.
	shares = 4
	// maxQueriesEach limits the queries under way to one responder, and maxWaitingEach those that wait for it.
	maxQueriesEach, maxWaitingEach = maxQueries / shares, maxWaiting / shares
	// maxAnswers limits the answers that are kept, of some 100 bytes each.
	maxAnswers = 16_384
	// clockSkew is how far the clock of a responder may be off: Java's value. It is also how long a response without a next update counts.
	clockSkew = 15 * time.Minute
	// retryAfter is how long a query that failed stands for the next ones: clients of a silent responder retry at once.
	retryAfter = 5 * time.Second
	// maxErrorBytes limits the text of an error, which may quote what a responder sent.
	maxErrorBytes = 512
)

// Checker asks responders. It is safe for concurrent use.
type Checker struct {
	client  *http.Client
	now     func() time.Time
	queries chan struct{} // has a place for each query under way; the others get theirs in the order in which they came
	waiting chan struct{} // has a place for each query under way, and for each that waits

	mu         sync.Mutex
	answers    map[certificateKey]*answer
	responders map[string]*share // by host and port: those with a query under way or one that waits
}

// share is the part of the places that one responder may use.
type share struct {
	host    string
	queries chan struct{} // has a place for each query under way; the others get theirs in the order in which they came
	users   int           // queries under way, and those that wait; Checker.mu guards it
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
		now:    now, queries: make(chan struct{}, maxQueries), waiting: make(chan struct{}, maxQueries+maxWaiting), answers: map[certificateKey]*answer{},
		responders: map[string]*share{},
	}
}

// checkRedirect rejects redirects away from the host and port that the certificate names. An authority chooses those. A redirect comes over
// plain HTTP, so whoever is on the way could send this member to any address that it reaches.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case req.URL.Scheme != "http" || req.URL.Host != via[0].URL.Host:
		return fmt.Errorf("a redirect to %s://%s, but only %s is asked, over http", req.URL.Scheme, req.URL.Host, via[0].URL.Host)
	}
	return nil
}

// Check returns an error unless no certificate of a chain is revoked. The chain leads to a trusted authority, which is not checked.
// staple is the response that the other end sent for the first one, or empty. It blocks until all are known, for waitTimeout and queryTimeout at
// most, or until ctx ends.
func (c *Checker) Check(ctx context.Context, chain []*x509.Certificate, staple []byte) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout+queryTimeout)
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
		return unknownError(cert, ctx.Err())
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
	s, err := c.takeShare(cert)
	if err != nil {
		a.err = unknownError(cert, err)
		close(a.known)
		return a
	}
	c.answers[key] = a
	go func() {
		until, err := c.queryInTurn(s, cert, issuer)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.giveBack(s)
		a.err, a.until = err, until
		close(a.known)
	}()
	return a
}

// takeShare returns the share in which the query of a certificate counts, that of the first responder. It returns an error if
// too many queries wait for that one, or for all. giveBack must follow. The caller holds mu.
func (c *Checker) takeShare(cert *x509.Certificate) (*share, error) {
	host := ""
	if len(cert.OCSPServer) > 0 {
		if u, err := url.Parse(cert.OCSPServer[0]); err == nil {
			host = strings.ToLower(u.Host)
		}
	}
	s := c.responders[host]
	if s == nil {
		s = &share{host: host, queries: make(chan struct{}, maxQueriesEach)}
	}
	if s.users == maxQueriesEach+maxWaitingEach {
		return nil, fmt.Errorf("%d queries wait for the responder %q; try again", maxWaitingEach, host)
	}
	select {
	case c.waiting <- struct{}{}:
	default:
		return nil, fmt.Errorf("%d queries wait for responders; try again", maxWaiting)
	}
	s.users++
	c.responders[host] = s
	return s, nil
}

// giveBack ends the use of a share. The caller holds mu.
func (c *Checker) giveBack(s *share) {
	<-c.waiting
	if s.users--; s.users == 0 {
		delete(c.responders, s.host)
	}
}

// unknownError returns the error for a certificate whose state is not known. why may quote what a responder sent.
func unknownError(cert *x509.Certificate, why error) error {
	text := why.Error()
	return fmt.Errorf("whether the certificate of %q is revoked is not known: %s", cert.Subject, text[:min(len(text), maxErrorBytes)])
}

// queryInTurn is query, once fewer than maxQueriesEach are under way in the share, and then fewer than maxQueries in all. In this
// order, a query that waits for its own responder takes no place from the others. A query that waited for too long may be made
// again at once.
func (c *Checker) queryInTurn(s *share, cert, issuer *x509.Certificate) (until time.Time, err error) {
	turn := time.NewTimer(waitTimeout)
	defer turn.Stop()
	select {
	case s.queries <- struct{}{}:
		defer func() { <-s.queries }()
	case <-turn.C:
		return c.now(), unknownError(cert, fmt.Errorf("%d queries to the responder %q are under way, and were for %v; try again", maxQueriesEach,
			s.host, waitTimeout))
	}
	select {
	case c.queries <- struct{}{}:
		defer func() { <-c.queries }()
	case <-turn.C:
		return c.now(), unknownError(cert, fmt.Errorf("%d queries to responders are under way, and were for %v; try again", maxQueries, waitTimeout))
	}
	return c.query(cert, issuer)
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
	response, err := c.askAll(cert, issuer)
	if err != nil {
		return c.now().Add(retryAfter), unknownError(cert, err)
	}
	return validUntil(response), stateError(response, cert)
}

// askAll returns the first response of a responder that counts. A panic, of the parsers of what others sent, is an error.
func (c *Checker) askAll(cert, issuer *x509.Certificate) (response *ocsp.Response, err error) {
	defer recoverAsError(&err)
	responders := cert.OCSPServer[:min(len(cert.OCSPServer), maxResponders)]
	request, err := ocsp.CreateRequest(cert, issuer, nil)
	if err == nil && len(responders) == 0 {
		err = errors.New("it names no responder (authorityInfoAccess)")
	}
	if err != nil {
		return nil, err
	}
	for _, responder := range responders {
		share, cancel := context.WithTimeout(context.Background(), queryTimeout/time.Duration(len(responders)))
		response, err = c.ask(share, responder, request, cert, issuer)
		cancel()
		if err == nil {
			return response, nil
		}
	}
	return nil, err
}

func recoverAsError(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the response cannot be read: %v", r)
	}
}

// ask sends a query to a responder.
func (c *Checker) ask(ctx context.Context, responder string, request []byte, cert, issuer *x509.Certificate) (*ocsp.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, responder, bytes.NewReader(request))
	if err != nil || req.URL.Scheme != "http" {
		return nil, fmt.Errorf("responder %q: must be an address of http", responder)
	}
	req.Header.Set("Content-Type", "application/ocsp-request")
	req.Header.Set("Accept", "application/ocsp-response")
	reply, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("responder %s: status %d", responder, reply.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxResponse+1))
	if err != nil {
		return nil, fmt.Errorf("responder %s: %w", responder, err)
	}
	response, err := c.parse(text, cert, issuer)
	if err != nil {
		return nil, fmt.Errorf("responder %s: %w", responder, err)
	}
	return response, nil
}

// parse returns a response about cert that counts now: its issuer has signed it, or one whom the issuer allows to.
func (c *Checker) parse(text []byte, cert, issuer *x509.Certificate) (response *ocsp.Response, err error) {
	defer recoverAsError(&err)
	if len(text) > maxResponse {
		return nil, fmt.Errorf("a response of more than %d bytes", maxResponse)
	}
	response, err = ocsp.ParseResponseForCert(text, cert, nil) // checkSigner decides who may have signed it
	if err != nil {
		return nil, err
	}
	now := c.now()
	if err := checkSigner(response, issuer, now); err != nil {
		return nil, err
	}
	if err := checkSubject(response, cert, issuer); err != nil {
		return nil, err
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

// checkSigner returns an error unless the issuer has signed a response, or has made a certificate for signing responses whose key has.
func checkSigner(r *ocsp.Response, issuer *x509.Certificate, now time.Time) error {
	signer := r.Certificate
	if signer == nil || bytes.Equal(signer.RawSubjectPublicKeyInfo, issuer.RawSubjectPublicKeyInfo) {
		return r.CheckSignatureFrom(issuer)
	}
	// Package ocsp has checked that the key of signer has signed the response.
	if err := issuer.CheckSignature(signer.SignatureAlgorithm, signer.RawTBSCertificate, signer.Signature); err != nil {
		return fmt.Errorf("the signer %q: %w", signer.Subject, err)
	}
	if !slices.Contains(signer.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) {
		return fmt.Errorf("the signer %q is not allowed to sign responses", signer.Subject)
	}
	if now.Before(signer.NotBefore) || now.After(signer.NotAfter) {
		return fmt.Errorf("the certificate of the signer %q is not valid now", signer.Subject)
	}
	return nil
}

// certID names a certificate in a response.
type certID struct {
	Algorithm         pkix.AlgorithmIdentifier
	NameHash, KeyHash []byte // of its issuer
	SerialNumber      *big.Int
}

// checkSubject returns an error unless a response is about cert of issuer. Package ocsp compares serial numbers alone, and those of two
// issuers may be equal: one key may sign responses for both.
func checkSubject(r *ocsp.Response, cert, issuer *x509.Certificate) error {
	var data struct { // RFC 6960, 4.2.1
		Version    int `asn1:"optional,explicit,default:0,tag:0"`
		Responder  asn1.RawValue
		ProducedAt time.Time `asn1:"generalized"`
		Responses  []struct{ CertID certID }
	}
	_, dataErr := asn1.Unmarshal(r.TBSResponseData, &data)
	text, requestErr := ocsp.CreateRequest(cert, issuer, &ocsp.RequestOptions{Hash: r.IssuerHash})
	want, err := ocsp.ParseRequest(text) // has the names that the response must have
	if err := errors.Join(dataErr, requestErr, err); err != nil {
		return err
	}
	for _, one := range data.Responses {
		if id := one.CertID; id.SerialNumber.Cmp(cert.SerialNumber) == 0 { // the one that package ocsp has taken
			if bytes.Equal(id.NameHash, want.IssuerNameHash) && bytes.Equal(id.KeyHash, want.IssuerKeyHash) {
				return nil
			}
			break
		}
	}
	return errors.New("the response is about a certificate of another issuer")
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
