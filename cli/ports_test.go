package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/internal/keystore/authority"
)

// serveConns calls serve for each connection of l, and closes the connection after that.
func serveConns(t *testing.T, l net.Listener, err error, serve func(net.Conn)) (addr string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// serveWord does what a port for clients does without a session: it replies to ruok, and closes connections of anything else.
func serveWord(c net.Conn) {
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err == nil && string(b) == "ruok" {
		_, _ = io.WriteString(c, "imok")
	}
}

// closeForeign closes the connection after its first eight bytes, as a port for members does if they are not a member's.
func closeForeign(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 8)) }

// wrongPorts are ports of all kinds on loopback, and the files for TLS.
type wrongPorts struct{ clients, secure, secureNoCert, web, webTLS, members, ca, own string }

func startWrongPorts(t *testing.T) (p wrongPorts) {
	t.Helper()
	a, err := authority.New("rollcall", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	caText, _, err := a.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	ownText, err := a.Issue([]string{"127.0.0.1"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	p.ca, p.own = filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "own.pem")
	for file, text := range map[string][]byte{p.ca: caText, p.own: ownText} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.LoadX509KeyPair(p.own, p.own)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(caText)
	plain := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		return serveConns(t, l, err, serve)
	}
	secure := func(auth tls.ClientAuthType) string {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: auth, ClientCAs: roots})
		return serveConns(t, l, err, serveWord)
	}
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	webTLS := httptest.NewUnstartedServer(http.NotFoundHandler())
	webTLS.TLS, webTLS.Config.ErrorLog = &tls.Config{Certificates: []tls.Certificate{pair}}, log.New(io.Discard, "", 0)
	webTLS.StartTLS()
	t.Cleanup(webTLS.Close)
	p.clients, p.members, p.web, p.webTLS = plain(serveWord), plain(closeForeign), web.Listener.Addr().String(), webTLS.Listener.Addr().String()
	p.secure, p.secureNoCert = secure(tls.RequireAndVerifyClientCert), secure(tls.NoClientCert)
	return p
}

// A command at the wrong kind of port says what is at that port and what to write, and does not wait until its own limit.
func TestWrongPorts(t *testing.T) {
	p := startWrongPorts(t)
	for _, tt := range []struct {
		name string
		args []string
		want []string // parts of the error
	}{
		{"admin https at HTTP", []string{"status", "--admin", "https://" + p.web}, []string{p.web + " is a port for HTTP", "--admin http://" + p.web}},
		{"admin http at clients", []string{"status", "--admin", "http://" + p.clients}, []string{p.clients + " is a port for clients", "such as http://127.0.0.1:8080", "--hosts " + p.clients}},
		{"admin http at TLS clients", []string{"status", "--admin", "http://" + p.secure}, []string{p.secure + " is a port for TLS without HTTP", "such as http://127.0.0.1:8080"}},
		{"admin http at members, silent", []string{"status", "--admin", "http://" + p.members}, []string{p.members + " is a port for neither clients nor operators", "server line", "such as http://127.0.0.1:8080"}},
		{"hosts at HTTP", []string{"ls", "/", "--hosts", p.web}, []string{p.web + " is a port for HTTP", "such as 127.0.0.1:2181", "--admin http://" + p.web}},
		{"hosts at HTTPS", []string{"ls", "/", "--hosts", p.webTLS}, []string{p.webTLS + " is a port for HTTPS", "such as 127.0.0.1:2181"}},
		{"hosts at TLS", []string{"ls", "/", "--hosts", p.secure}, []string{p.secure + " is a port for TLS", "add --tls-ca FILE"}},
		{"hosts at members, silent", []string{"ls", "/", "--hosts", p.members}, []string{p.members + " is a port for neither", "such as 127.0.0.1:2181"}},
		{"hosts at two wrong ports, one silent", []string{"ls", "/", "--hosts", p.web + "," + p.members}, []string{p.web + " is a port for HTTP", p.members + " is a port for neither"}},
		{"TLS at plain clients", []string{"ls", "/", "--hosts", p.clients, "--tls-ca", p.ca}, []string{"clients without TLS", "leave out --tls-ca"}},
		{"no certificate", []string{"ls", "/", "--hosts", p.secure, "--tls-ca", p.ca}, []string{"certificate required", "--tls-cert must name"}},
		{"another host name", []string{"ls", "/", "--hosts", strings.Replace(p.secureNoCert, "127.0.0.1", "localhost", 1), "--tls-ca", p.ca}, []string{"x509", "--tls-ca must name"}},
		{"shell at HTTP", []string{"shell", "--hosts", p.web, "ls", "/"}, []string{p.web + " is a port for HTTP", "such as 127.0.0.1:2181"}},
		{"shell at TLS", []string{"shell", "--hosts", p.secure, "ls", "/"}, []string{"add --tls-ca FILE"}},
		{"word at HTTP", []string{"word", "srvr", "--hosts", p.web}, []string{p.web + " is a port for HTTP"}},
		{"word at TLS", []string{"word", "srvr", "--hosts", p.secure}, []string{p.secure + " is a port for TLS"}},
		{"word over TLS at plain clients", []string{"word", "srvr", "--hosts", p.clients, "--tls-ca", p.ca}, []string{"leave out --tls-ca"}},
		{"word without certificate", []string{"word", "srvr", "--hosts", p.secure, "--tls-ca", p.ca}, []string{"--tls-cert must name"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _, _ := testWorld()
			w.portReplyTimeout = 4 * time.Second // the machine may be busy
			if strings.Contains(tt.name, "silent") {
				w.portReplyTimeout = time.Second // it is waited for
			}
			_, err := Execute(t.Context(), NewRoot(w, "1"), tt.args)
			if StatusOf(err) != Unavailable {
				t.Fatalf("%v (status %d), want status %d", err, StatusOf(err), Unavailable)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v: does not say %s", err, part)
				}
			}
			for _, part := range []string{"within " + defaultSessionOpenTimeout.String(), "frame of", "expired", "EOF"} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("%v: says %s", err, part)
				}
			}
		})
	}
}

// A server for HTTPS that rejects the handshake by an alert, as one does that is asked too often, is still a port for HTTPS: the error
// of the request to it gets no advice. So does that of a request over TLS to a port that may be for HTTPS.
func TestAlertIsNoWrongPort(t *testing.T) {
	p := startWrongPorts(t)
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("too fast") }}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	check := newPortCheck(IOStreams{})
	check.replyTimeout = 4 * time.Second // the machine may be busy
	if kind := check.kindOf(t.Context(), srv.Listener.Addr().String()); kind != httpsPort {
		t.Errorf("kind %d, want %d", kind, httpsPort)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(p.ca)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for _, addr := range []string{srv.Listener.Addr().String(), p.secure} {
		r, err := client.Get("https://" + addr)
		if err == nil {
			_ = r.Body.Close()
			t.Fatal("no alert")
		}
		if got := check.explainAdminError(t.Context(), "https", addr, err); !errors.Is(got, err) || got.Error() != err.Error() {
			t.Errorf("%v, want %v", got, err)
		}
	}
}

// A check of a port takes less than a second in all.
func TestPortCheckIsShort(t *testing.T) {
	if p := newPortCheck(IOStreams{}); p.delay+2*p.replyTimeout >= time.Second {
		t.Errorf("%v and twice %v, want less than a second", p.delay, p.replyTimeout)
	}
}

// A command that speaks no TLS gives up before it begins if none of its addresses can ever be right.
func TestCheckClientPorts(t *testing.T) {
	p := startWrongPorts(t)
	w, _, _ := testWorld()
	w.portReplyTimeout = 4 * time.Second // the machine may be busy
	for servers, want := range map[string]string{
		p.web:                   p.web + " is a port for HTTP: --hosts takes a port for clients, such as 127.0.0.1:2181",
		p.webTLS:                p.webTLS + " is a port for HTTPS: --hosts takes",
		p.secure:                p.secure + " is a port for TLS, which this command does not speak: --hosts takes",
		p.clients:               "",
		p.web + "," + p.clients: "",
		"127.0.0.1:1":           "",
	} {
		err := CheckClientPorts(t.Context(), w, nil, strings.Split(servers, ","))
		if want == "" && err != nil || want != "" && (StatusOf(err) != Unavailable || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", servers, err, want)
		}
	}
	if err := CheckClientPorts(t.Context(), w, &TLS{ca: p.ca}, []string{p.clients}); err == nil || !strings.Contains(err.Error(), "leave out --tls-ca") {
		t.Errorf("TLS at a plain port: %v", err)
	}
}

// A port at which a session may be opened later is no reason to give up: nothing listens, a server hangs, or one of several
// addresses is right.
func TestPortsThatMayBecomeRight(t *testing.T) {
	p := startWrongPorts(t)
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hung.Close() }()
	for _, hosts := range []string{"127.0.0.1:1", hung.Addr().String(), p.clients, p.web + "," + p.clients} {
		t.Run(hosts, func(t *testing.T) {
			t.Parallel()
			l := linkOf(t, nil)
			l.ports.replyTimeout = 4 * time.Second
			if hosts == hung.Addr().String() {
				l.ports.replyTimeout = 100 * time.Millisecond
			}
			if err := l.ports.findWrongPorts(t.Context(), l.streams, &l.tls, strings.Split(hosts, ",")); err != nil {
				t.Error(err)
			}
		})
	}
}

// Results and errors name a member's socket as the user does, and not the host of the requests.
func TestSocketIsNamed(t *testing.T) {
	c, err := linkOf(t, nil).newAdminClient("unix:/srv/data/admin.sock", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetText(t.Context(), "/readyz"); c.Name() != "unix:/srv/data/admin.sock" || err == nil || strings.Contains(err.Error(), "localhost\"") {
		t.Errorf("%s, %v", c.Name(), err)
	}
}

// A command rejects a token file that other users may read, and the error has the chmod that mends it. If the file belongs to
// another user, the command cannot change the mode: it warns once and uses the token.
func TestExposedTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("abcdefghijklmnop\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	auth, err := linkOf(t, nil, "--token-file", file).readAuthorization()
	if auth != "" || err == nil || StatusOf(err) != UsageError || !strings.Contains(err.Error(), "--token-file: ") ||
		!strings.Contains(err.Error(), "(mode 0644)") || !strings.Contains(err.Error(), "chmod 600 "+file) {
		t.Errorf("%q, %v, want a usage error with the advice", auth, err)
	}
	others := map[os.FileMode]int{0o600: 0}
	if os.Geteuid() == 0 {
		others[0o644] = 1
		if err := os.Chown(file, 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	for mode, want := range others {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		l := linkOf(t, nil, "--token-file", file)
		var errs bytes.Buffer
		l.streams.Err = &errs
		for range 2 {
			if auth, err := l.readAuthorization(); auth != "Bearer abcdefghijklmnop" || err != nil {
				t.Errorf("%q, %v", auth, err)
			}
		}
		if got := strings.Count(errs.String(), "--token-file: "+file+": the file is open to others (mode 0644); chmod 600 it"); got != want {
			t.Errorf("mode %v: %d warnings, want %d: %s", mode, got, want, &errs)
		}
	}
}
