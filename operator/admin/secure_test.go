package admin

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/keystore"
	"rollcall/internal/keystore/authority"
)

// secureWorld has an authority, the keys of a member, and files.
type secureWorld struct {
	t       *testing.T
	dir     string
	ca      *authority.Authority
	caFile  string
	keyFile string
}

func newSecureWorld(t *testing.T) *secureWorld {
	t.Helper()
	ca, err := authority.New("rollcall", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w := &secureWorld{t: t, dir: t.TempDir(), ca: ca}
	cert, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	w.caFile = w.file("ca.pem", cert)
	w.keyFile = w.issue(ca, "127.0.0.1")
	return w
}

func (w *secureWorld) file(name string, text []byte) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// issue returns a file with a key and the certificate of a name.
func (w *secureWorld) issue(ca *authority.Authority, name string) string {
	w.t.Helper()
	text, err := ca.Issue([]string{name}, time.Now(), time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.file(name+".pem", text)
}

// serve serves an HTTP with these settings, and returns its address.
func (w *secureWorld) serve(auth keystore.ClientAuth, settings HTTPSettings) string {
	w.t.Helper()
	keys, err := keystore.Open(keystore.Options{Prefix: "ssl.quorum", Key: keystore.Store{Location: w.keyFile}, Trust: keystore.Store{Location: w.caFile}})
	if err != nil {
		w.t.Fatal(err)
	}
	words, source := newTestWords(w.t, "leader")
	h, err := NewHTTP(HTTPConfig{
		HTTPSettings: settings, TLS: keys.ServerConfig(keystore.ServerTerms{Auth: auth}), SuperSubject: "CN=root.example", AnonymousAccess: AnonymousAccess{Reads: ReadNothing},
		FourLetter: words, Source: source, Operations: newFakeOps(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- h.Serve(ctx, l) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	return l.Addr().String()
}

// visit returns the status of a request of a client with the certificate in a file, or 0 if there was no reply.
func (w *secureWorld) visit(method, url, file string) int {
	w.t.Helper()
	roots := x509.NewCertPool()
	text, err := os.ReadFile(w.caFile)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		w.t.Fatal(err)
	}
	config := &tls.Config{RootCAs: roots}
	if file != "" {
		own, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			w.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// HTTPS is served alone or beside plain HTTP. A client with a valid certificate reads, and the super user's certificate
// allows changes.
func TestHTTPS(t *testing.T) {
	w := newSecureWorld(t)
	stranger, err := authority.New("another", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	reads, super, foreign := w.issue(w.ca, "reader.example"), w.issue(w.ca, "root.example"), w.issue(stranger, "foreign.example")
	const read, change = "/v1/status", "/commands/stat_reset"
	for _, tt := range []struct {
		name                         string
		auth                         keystore.ClientAuth
		settings                     HTTPSettings
		plain, none, reader, strange int // statuses of a read: over plain HTTP, without a certificate, with one, with one of another authority, which a client of Go does not show
	}{
		{"alone", keystore.WantCertificate, HTTPSettings{ForceHTTPS: true, UnifyPorts: true}, 400, 401, 200, 401},
		{"beside plain connections", keystore.WantCertificate, HTTPSettings{UnifyPorts: true}, 401, 401, 200, 401},
		{"with certificates alone", keystore.NeedCertificate, HTTPSettings{ForceHTTPS: true}, 400, 0, 200, 0},
		{"without certificates", keystore.NoCertificate, HTTPSettings{ForceHTTPS: true}, 400, 401, 401, 401},
	} {
		addr := w.serve(tt.auth, tt.settings)
		for name, got := range map[string][2]int{
			"plain": {w.visit("GET", "http://"+addr+read, ""), tt.plain}, "no certificate": {w.visit("GET", "https://"+addr+read, ""), tt.none},
			"a certificate": {w.visit("GET", "https://"+addr+read, reads), tt.reader}, "a foreign one": {w.visit("GET", "https://"+addr+read, foreign), tt.strange},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %s: %d, want %d", tt.name, name, got[0], got[1])
			}
		}
		if tt.auth == keystore.NoCertificate {
			continue
		}
		if status := w.visit("POST", "https://"+addr+change, reads); status != http.StatusForbidden {
			t.Errorf("%s: a certificate that reads changes something: %d", tt.name, status)
		}
		if status := w.visit("POST", "https://"+addr+change, super); status != http.StatusOK {
			t.Errorf("%s: the super user's certificate: %d", tt.name, status)
		}
	}
}

// shortOfFiles is a listener whose first Accept fails because the process has too many files open.
type shortOfFiles struct {
	net.Listener
	failed atomic.Bool
}

func (l *shortOfFiles) Accept() (net.Conn, error) {
	if !l.failed.Swap(true) {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// A port for HTTPS and plain HTTP continues after a temporary error.
func TestPortSurvivesTemporaryErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		h.cfg.TLS, h.cfg.UnifyPorts = &tls.Config{}, true // no connection of this test uses it
		p, done := newPipes(), make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- h.Serve(ctx, &shortOfFiles{Listener: p}) }()
		synctest.Wait()
		ours, theirs := net.Pipe()
		select {
		case p.conns <- localPipe{theirs}:
			if status, err := requestStatus(ours, "/livez"); status != http.StatusOK || err != nil {
				t.Errorf("status %d: %v", status, err)
			}
		case <-time.After(time.Minute):
			t.Error("no connection is accepted any more")
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A silent connection is closed, also where the first byte distinguishes TLS from plain connections.
func TestSilenceBeforeTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		h.cfg.TLS, h.cfg.UnifyPorts = &tls.Config{}, true
		p, stop := serveOn(t, h)
		if took := ended(p.dial()); took != headerTimeout {
			t.Errorf("it was closed after %v, want %v", took, headerTimeout)
		}
		stop()
	})
}

// halfConn is a connection that notes whether its writing side was closed.
type halfConn struct {
	net.Conn
	closed bool
}

func (c *halfConn) CloseWrite() error {
	c.closed = true
	return nil
}

// The writing side of a connection whose first byte was read can be closed alone, so that its client reads a reply to
// the end.
func TestBegunConnectionClosesItsSide(t *testing.T) {
	below := &halfConn{}
	if err := (&peekedConn{Conn: below}).CloseWrite(); err != nil || !below.closed {
		t.Errorf("%v, closed: %t", err, below.closed)
	}
}

// If no user is super by certificate, a certificate with an empty subject is not super either.
func TestNobodyIsSuperByCertificate(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	empty := &x509.Certificate{RawSubject: []byte{0x30, 0}}
	r := &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{empty}, VerifiedChains: [][]*x509.Certificate{{empty}}}}
	if who := h.authorizer.administratorOf(r); who != "" {
		t.Errorf("it is the administrator's: %q", who)
	}
}

// A TLS handshake that comes too fast ends before the member signs anything.
func TestHandshakesAreLimited(t *testing.T) {
	signed := false
	config := limitHandshakes(&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		signed = true
		return nil, os.ErrNotExist
	}}, func(remote net.Addr) error {
		if remote.Network() != "pipe" {
			t.Errorf("asked about %v", remote)
		}
		return os.ErrDeadlineExceeded
	})
	ours, theirs := net.Pipe()
	go func() { _ = tls.Client(theirs, &tls.Config{ServerName: "localhost"}).Handshake() }()
	if err := tls.Server(ours, config).Handshake(); !errors.Is(err, os.ErrDeadlineExceeded) || signed {
		t.Errorf("%v; a certificate was chosen: %t", err, signed)
	}
	_, _ = ours.Close(), theirs.Close()
}

// countingSigner counts the signatures that are made at the same time.
type countingSigner struct {
	crypto.Signer
	now, most, total atomic.Int32
}

func (s *countingSigner) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	s.total.Add(1)
	time.Sleep(time.Millisecond) // virtual: all others get here
	return s.Signer.Sign(random, digest, opts)
}

// Of many handshakes, one at a time signs, and all of them succeed.
func TestSignaturesAreLimited(t *testing.T) {
	w := newSecureWorld(t)
	cert, err := tls.LoadX509KeyPair(w.keyFile, w.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	key := &countingSigner{Signer: cert.PrivateKey.(crypto.Signer)}
	cert.PrivateKey = key
	synctest.Test(t, func(t *testing.T) {
		chosen := &tls.Config{Certificates: []tls.Certificate{cert}}
		config := limitHandshakes(&tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil },
		}, func(net.Addr) error { return nil })
		const clients = 20
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				ours, theirs := net.Pipe()
				defer ours.Close()
				defer theirs.Close()
				ended := make(chan error, 1)
				go func() { ended <- tls.Server(ours, config).Handshake() }()
				client := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true})
				if err := client.Handshake(); err != nil {
					t.Error(err)
					return
				}
				go func() { _, _ = client.Read(make([]byte, 1)) }() // session tickets
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if key.most.Load() != maxSignatures || key.total.Load() != clients {
			t.Errorf("%d signed at a time, %d in all; want %d and %d", key.most.Load(), key.total.Load(), maxSignatures, clients)
		}
	})
}
