package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/internal/keystore"
	"rollcall/internal/keystore/authority"
)

// A member serves clients over TLS, and on its plain port, too, if that is unified. New keys are in use after
// Reload. Files that cannot be used change nothing. A member with bad files does not start.
func TestKeysAreReadAgain(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ca, err := authority.New("rollcall", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string) {
		t.Helper()
		text, err := ca.Issue([]string{name, "127.0.0.1"}, now, time.Hour)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "own.pem"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	issue("first")
	var log bytes.Buffer
	cfg := Config{
		ID: 1, Servers: []Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}}, ClientListener: listen(t), SecureListener: listen(t),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Settings: config.Settings{
			Dir: t.TempDir(), Tick: 100 * time.Millisecond,
			ClientTLS: config.ClientTLS{Key: keystore.Store{Location: filepath.Join(dir, "own.pem")}, Terms: keystore.ServerTerms{Auth: keystore.NoCertificate}, UnifiedPort: true},
		}.WithDefaults(),
	}
	m, stop := runAlone(t, cfg)
	cert, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	shows := func(want string) {
		t.Helper()
		for _, l := range []net.Listener{cfg.ClientListener, cfg.SecureListener} {
			if got := nameAt(t, l.Addr().String(), cert); got != want {
				t.Errorf("the certificate is that of %s, want %s", got, want)
			}
		}
	}
	shows("first")
	issue("second")
	shows("first")
	m.ReloadSecrets()
	shows("second")
	if err := os.WriteFile(filepath.Join(dir, "own.pem"), cert, 0o600); err != nil {
		t.Fatal(err)
	}
	m.ReloadSecrets()
	shows("second")
	stop()
	if text := log.String(); !strings.Contains(text, "keys reloaded") || !strings.Contains(text, "keys not reloaded; the former ones stay in use") {
		t.Errorf("the log is\n%s", text)
	}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "there is no private key in the file") {
		t.Errorf("New with a file without a key: %v", err)
	}
}

// A member without a plain port has none: it shows that, and clients over TLS are served.
func TestNoPlainPort(t *testing.T) {
	ca, err := authority.New("rollcall", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ca.Issue([]string{"first", "127.0.0.1"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "own.pem")
	if err := os.WriteFile(own, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		ID: 1, Servers: []Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}}, SecureListener: listen(t),
		Settings: config.Settings{
			Dir: t.TempDir(), Tick: 100 * time.Millisecond,
			ClientTLS: config.ClientTLS{Key: keystore.Store{Location: own}, Terms: keystore.ServerTerms{Auth: keystore.NoCertificate}},
		}.WithDefaults(),
	}
	m, stop := runAlone(t, cfg)
	cert, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	if got := nameAt(t, cfg.SecureListener.Addr().String(), cert); got != "first" {
		t.Errorf("the certificate is that of %s", got)
	}
	if got := m.cfg.clientAddress(); got != cfg.SecureListener.Addr().String() {
		t.Errorf("clients connect at %q, want %v", got, cfg.SecureListener.Addr())
	}
	lines, _ := source{m}.Settings(0, 0)
	if got := lines[0]; got.Name != "clientPort" || got.Value != "-1" {
		t.Errorf("conf begins with %+v, want clientPort=-1", got)
	}
	stop()
}

// The seconds that a certificate is valid are those of the clients' and of the operators' certificate, each under its own
// name. A port without TLS has none.
func TestCertificatesAreShownByAudience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, err := authority.New("rollcall", time.Now(), 100*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		keys := func(valid time.Duration) *keystore.Keys {
			own := filepath.Join(t.TempDir(), "own.pem")
			text, err := ca.Issue([]string{"zoo1"}, time.Now(), valid)
			if err == nil {
				err = os.WriteFile(own, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			k, err := keystore.Open(keystore.Options{Key: keystore.Store{Location: own}})
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		clients, operators := keys(10*time.Hour), keys(20*time.Hour)
		time.Sleep(time.Hour)
		for _, tt := range []struct {
			clients, operators *keystore.Keys
			want               map[string]int64
		}{
			{nil, nil, map[string]int64{}},
			{clients, nil, map[string]int64{"clients": 9 * 3600}},
			{nil, operators, map[string]int64{"operators": 19 * 3600}},
			{clients, operators, map[string]int64{"clients": 9 * 3600, "operators": 19 * 3600}},
		} {
			keys := serverKeys{clients: tt.clients, operators: tt.operators}
			if got := keys.secondsToExpiry(time.Now(), time.Time{}); !maps.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		}
	})
}

// runAlone runs a member that is alone, and returns it when it serves. stop waits for its end.
func runAlone(t *testing.T, cfg Config) (m *Member, stop func()) {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-m.Ready()
	return m, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// nameAt asks srvr over TLS, and returns the name in the server's certificate.
func nameAt(t *testing.T, addr string, ca []byte) string {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "srvr"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), "Zookeeper version") {
		t.Errorf("srvr: %q, %v", text, err)
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// Changed files are read again by themselves, if client.certReload says so.
func TestWatchKeys(t *testing.T) {
	for _, reload := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			path, now := filepath.Join(t.TempDir(), "own.pem"), time.Now()
			ca, err := authority.New("rollcall", now, 24*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			issue := func(name string) {
				text, err := ca.Issue([]string{name}, now, 24*time.Hour)
				if err == nil {
					err = os.WriteFile(path, text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			issue("first")
			cfg := Config{Settings: config.Settings{ClientTLS: config.ClientTLS{Key: keystore.Store{Location: path}, UnifiedPort: true, CertReload: reload}}}
			keys, err := openServerKeys(&cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() { _ = keys.watchFiles(ctx) }()
			issue("second")
			time.Sleep(2 * keystore.WatchInterval)
			synctest.Wait()
			want := map[bool]string{true: "second", false: "first"}[reload]
			if got := keys.clients.Certificate().Leaf.Subject.CommonName; got != want {
				t.Errorf("certReload %t: the certificate is that of %s, want %s", reload, got, want)
			}
		})
	}
}

// With ssl.ocsp, a client's certificate about which no responder says that it is not revoked is rejected; without, none is asked.
func TestClientsAreCheckedByOCSP(t *testing.T) {
	dir := t.TempDir()
	ca, err := authority.New("clients", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	roots, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	location := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(location, roots, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, _, err := ca.IssueFromTemplate(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{true, false} {
		settings := config.ClientTLS{Trust: keystore.Store{Location: location}, OCSP: on}
		keys, err := keystore.Open(clientKeyOptions(settings))
		if err != nil {
			t.Fatal(err)
		}
		check := serverKeys{clients: keys}.clientTLS(settings).Checks.Revocation
		if !on {
			if check != nil {
				t.Error("responders are asked, and ssl.ocsp is not set")
			}
			continue
		}
		state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		if err := check(t.Context(), state); err == nil || !strings.Contains(err.Error(), "names no responder") {
			t.Errorf("a certificate without a responder: %v", err)
		}
	}
}
