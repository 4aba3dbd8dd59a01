package cli

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/internal/keystore/authority"
)

// --admin takes URLs with https. The member's certificate is held against --tls-ca, and that of --tls-cert is shown.
func TestAdminOverHTTPS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	issue := func(name string) (caFile, ownFile string) {
		a, err := authority.New(name, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cert, _, err := a.PEMFiles()
		if err != nil {
			t.Fatal(err)
		}
		own, err := a.Issue([]string{"127.0.0.1"}, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		caFile, ownFile = filepath.Join(dir, name+"-ca.pem"), filepath.Join(dir, name+".pem")
		for file, text := range map[string][]byte{caFile: cert, ownFile: own} {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return caFile, ownFile
	}
	ca, own := issue("one")
	otherCA, _ := issue("other")
	pair, err := tls.LoadX509KeyPair(own, own)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 1 {
			_, _ = io.WriteString(w, "shown")
		}
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	defer srv.Close()
	for _, tt := range []struct {
		tls  TLS
		want string
		ok   bool
	}{
		{TLS{ca: ca}, "", true}, {TLS{ca: ca, cert: own}, "shown", true}, {TLS{ca: otherCA}, "", false}, {TLS{}, "", false},
	} {
		l := NewEnsembleFlags(IOStreams{Err: io.Discard})
		l.adminURLs, l.tls = srv.URL, tt.tls
		member, err := l.AdminClient(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := member.GetText(t.Context(), "/readyz")
		if (err == nil) != tt.ok || string(text) != tt.want {
			t.Errorf("%+v: %q, %v", tt.tls, text, err)
		}
	}
}

// httpsServer is a server over TLS. It keeps the bytes of its connections, and the credentials of its requests.
type httpsServer struct {
	net.Listener

	mu    sync.Mutex
	bytes bytes.Buffer // as they come, encrypted or not
	auths []string     // of each request
}

// newHTTPSServer serves over TLS with a certificate. It redirects every request to elsewhere, unless that is "".
func newHTTPSServer(t *testing.T, certificate tls.Certificate, elsewhere string) *httpsServer {
	t.Helper()
	s := &httpsServer{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" && r.Header.Get("Authorization") == "" {
			return // a check of the port
		}
		s.mu.Lock()
		s.auths = append(s.auths, r.Header.Get("Authorization"))
		s.mu.Unlock()
		if elsewhere != "" {
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	s.Listener = srv.Listener
	srv.Listener, srv.TLS = s, &tls.Config{Certificates: []tls.Certificate{certificate}}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return s
}

// Accept implements net.Listener.
func (s *httpsServer) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	return heardConn{c, s}, err
}

// heardConn is a connection whose server keeps what it reads.
type heardConn struct {
	net.Conn
	by *httpsServer
}

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.bytes.Write(b[:n])
	return n, err
}

// got returns the credentials of the requests so far, and whether the bytes show the token. It forgets both.
func (s *httpsServer) got() (auths []string, shown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	auths, shown = s.auths, bytes.Contains(s.bytes.Bytes(), []byte("abcdefghijklmnop"))
	s.auths = nil
	s.bytes.Reset()
	return auths, shown
}

// The token is sent over TLS to a member whose certificate is right, and to nothing else that speaks TLS: neither to one with
// another certificate, nor to the place that the right one names, nor if the URL asks for no TLS.
func TestTokenOverHTTPS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	issue := func(a *authority.Authority, name string, from time.Time) (pair tls.Certificate) {
		text, err := a.Issue([]string{name}, from, time.Hour)
		if err == nil {
			pair, err = tls.X509KeyPair(text, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	ca, err := authority.New("ours", now.Add(-3*time.Hour), 6*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := authority.New("foreign", now.Add(-3*time.Hour), 6*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := ca.PEMFiles()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.pem"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := make(chan string, 10)
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere <- r.Header.Get("Authorization") }))
	defer plain.Close()
	for _, tt := range []struct {
		name   string
		server *httpsServer
		scheme string
		ca     bool
		auths  []string // that it gets
		want   string   // in the error
	}{
		{"the right certificate", newHTTPSServer(t, issue(ca, "127.0.0.1", now), ""), "https", true, []string{"Bearer abcdefghijklmnop", "Bearer abcdefghijklmnop"}, ""}, // who it is, and the request
		{"no authority is named", newHTTPSServer(t, issue(ca, "127.0.0.1", now), ""), "https", false, nil, "certificate"},
		{"another authority", newHTTPSServer(t, issue(foreign, "127.0.0.1", now), ""), "https", true, nil, "certificate"},
		{"another name", newHTTPSServer(t, issue(ca, "127.0.0.9", now), ""), "https", true, nil, "certificate"},
		{"an expired certificate", newHTTPSServer(t, issue(ca, "127.0.0.1", now.Add(-2*time.Hour)), ""), "https", true, nil, "certificate"},
		{"another place", newHTTPSServer(t, issue(ca, "127.0.0.1", now), plain.URL), "https", true, []string{"Bearer abcdefghijklmnop"}, "307"},
		{"a URL without TLS", newHTTPSServer(t, issue(ca, "127.0.0.1", now), ""), "http", true, nil, "is a port for HTTPS: --admin takes a port for operators"},
	} {
		w, _, _ := testWorld("ROLLCALL_ADMIN=" + tt.scheme + "://" + tt.server.Addr().String())
		line := []string{"log-level", "debug", "--token-file", tokenFile(t)}
		if tt.ca {
			w.Env = append(w.Env, "ROLLCALL_TLS_CA="+filepath.Join(dir, "ca.pem"))
		}
		_, err := Execute(t.Context(), NewRoot(w, "1"), line)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if auths, shown := tt.server.got(); !slices.Equal(auths, tt.auths) || shown {
			t.Errorf("%s: it got %q, want %q; the token is readable: %t", tt.name, auths, tt.auths, shown)
		}
		if n := len(elsewhere); n > 0 {
			t.Fatalf("%s: the place that it names got %d requests, the first with %q", tt.name, n, <-elsewhere)
		}
	}
}
