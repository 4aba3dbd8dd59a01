package otlp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rollcall/internal/keystore"
)

const (
	// sendTimeout limits a request, from connecting to the end of the reply. It is the SDKs' default.
	sendTimeout = 10 * time.Second
	// maxReplyBytes limits the reply that is read. A reply names at most the reason of a rejection.
	maxReplyBytes = 64 << 10
	// maxReplyHeaders limits the headers of a reply, in bytes.
	maxReplyHeaders = 64 << 10
	// maxShownReply limits the part of a reply that a log line shows, in bytes.
	maxShownReply = 200
	// maxShownError limits the text of an error, in bytes: that of a reply that is no HTTP quotes all of it.
	maxShownError = 512
	// maxRetryAfter limits the time that a collector may ask to be left alone. Meanwhile the queue fills.
	maxRetryAfter = 5 * time.Minute
	// idleTimeout ends a connection that is not used. Metrics use it once in a minute by default.
	idleTimeout = 90 * time.Second
)

// sender sends requests to one collector.
type sender struct {
	endpoint    string
	headersFile string
	client      http.Client
	keys        *keystore.Keys // nil: no file with keys or authorities
}

// KeyOptions returns the options of the files with keys and authorities.
func (s *Settings) KeyOptions() keystore.Options {
	o := keystore.Options{Prefix: "otlp"}
	if s.KeyFile != "" {
		o.Key = keystore.Store{Location: s.KeyFile, Type: "PEM"}
	}
	if s.TrustFile != "" {
		o.Trust = keystore.Store{Location: s.TrustFile, Type: "PEM"}
	}
	return o
}

func newSender(cfg *Config) (*sender, error) {
	s := &sender{endpoint: strings.TrimRight(cfg.Endpoint, "/"), headersFile: cfg.HeadersFile}
	if _, err := readHeaders(cfg.HeadersFile); err != nil {
		return nil, err
	}
	if cfg.KeyFile != "" || cfg.TrustFile != "" {
		o := cfg.KeyOptions()
		o.Log, o.Now = cfg.Logger, cfg.Now
		var err error
		if s.keys, err = keystore.Open(o); err != nil {
			return nil, err
		}
	}
	dial := cfg.Dial
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	s.client = http.Client{
		Transport: &http.Transport{
			DialContext:    func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) },
			DialTLSContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return s.dialTLS(ctx, dial, addr) },
			// The proxy of the environment is for what users start, and would get the headers.
			Proxy:                  nil,
			MaxConnsPerHost:        2, // one for traces and one for metrics
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxReplyHeaders,
			DisableCompression:     true, // a reply cannot be longer than what is read of it
		},
		// Another address is not the one that the operator trusts with paths and headers.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// dialTLS opens a connection over TLS with the current keys.
func (s *sender) dialTLS(ctx context.Context, dial func(context.Context, string) (net.Conn, error), addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if s.keys != nil {
		config.RootCAs = s.keys.Roots()
		if own := s.keys.Certificate(); own != nil {
			config.Certificates = []tls.Certificate{*own}
		}
	}
	plain, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // the handshake's error is the reason
		return nil, keystore.AddClockHint(err)
	}
	return conn, nil
}

func (s *sender) watchFiles(ctx context.Context) {
	if s.keys != nil {
		s.keys.Watch(ctx)
	}
}

func (s *sender) close() { s.client.CloseIdleConnections() }

// sendError is the failure of a request.
type sendError struct {
	err        error
	canRetry   bool          // the same request may succeed later
	retryAfter time.Duration // that the collector asked for; 0: it did not
}

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

// send posts a body to a path below the endpoint, and returns the reply's body. The error is a *sendError.
func (s *sender) send(ctx context.Context, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, &sendError{err: err}
	}
	// The file is read each time: it is short, and a token in it may be replaced.
	headers, err := readHeaders(s.headersFile)
	if err != nil {
		return nil, &sendError{err: err, canRetry: true}
	}
	for _, h := range headers {
		request.Header.Set(h.name, h.value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", "rollcall")
	reply, err := s.client.Do(request)
	if err != nil {
		return nil, &sendError{err: fmt.Errorf("%w; check otlp.endpoint, and that a collector takes OTLP over HTTP there, "+
			"usually at port 4318 (4317 is for gRPC)", err), canRetry: true}
	}
	defer func() { _ = reply.Body.Close() }() // it is read, or not needed
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReplyBytes+1))
	if reply.StatusCode/100 != 2 {
		return nil, statusError(reply, text)
	}
	switch {
	case err != nil:
		// The collector has taken the request, and only the end of its reply is missing.
		return nil, nil
	case len(text) > maxReplyBytes:
		return nil, nil
	}
	return text, nil
}

// statusAdvice is what an operator can do about a status.
var statusAdvice = map[int]string{
	http.StatusUnauthorized:          "the header that it expects belongs in the file of otlp.headersFile",
	http.StatusForbidden:             "the header that it expects belongs in the file of otlp.headersFile",
	http.StatusNotFound:              "otlp.endpoint must be the URL before /v1/traces and /v1/metrics",
	http.StatusMethodNotAllowed:      "otlp.endpoint must be the URL before /v1/traces and /v1/metrics",
	http.StatusRequestEntityTooLarge: "allow longer requests at the collector",
	http.StatusUnsupportedMediaType:  "the collector must take application/x-protobuf",
	http.StatusTooManyRequests:       "it is overloaded, or limits its clients",
}

// statusError returns the error of a reply that is not 2xx. text is the beginning of its body.
func statusError(reply *http.Response, text []byte) error {
	advice := statusAdvice[reply.StatusCode]
	switch {
	case reply.StatusCode/100 == 3:
		advice = "redirects are not followed; otlp.endpoint must be the collector's own address"
	case advice == "" && reply.StatusCode/100 == 5:
		advice = "look at the collector's log"
	}
	err := fmt.Errorf("it replied %d%s; %s", reply.StatusCode, shownReply(text), cmp.Or(advice, "check otlp.endpoint"))
	failed := &sendError{err: err}
	switch reply.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		failed.canRetry, failed.retryAfter = true, retryAfter(reply.Header.Get("Retry-After"))
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError:
		failed.canRetry = true // a token is replaced, or the collector restarted
	}
	return failed
}

// shownReply returns the beginning of a reply that is text, as a part of an error.
func shownReply(text []byte) string {
	cut := text[:min(len(text), maxShownReply)]
	if len(cut) == 0 || !utf8.Valid(text[:min(len(text), maxReplyBytes)]) || bytes.ContainsRune(cut, 0) {
		return ""
	}
	return fmt.Sprintf(" %q", cut)
}

// retryAfter reads the header Retry-After in seconds, the form that collectors use. It is at most maxRetryAfter.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 32)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // a number that is too great counts as the greatest one
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// failureOf returns the parts of a send's error.
func failureOf(err error) *sendError {
	if failed := (*sendError)(nil); errors.As(err, &failed) {
		return failed
	}
	return &sendError{err: err}
}
