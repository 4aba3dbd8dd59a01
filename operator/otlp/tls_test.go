package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/keystore"
	"rollcall/internal/keystore/authority"
	"rollcall/operator/otlp/otlptest"
)

// certificates makes files with keys and certificates.
type certificates struct {
	t   *testing.T
	dir string
}

func (c certificates) write(name string, text []byte) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c certificates) authority(name string) (ca *authority.Authority, text []byte) {
	c.t.Helper()
	ca, err := authority.New(name, time.Now(), 24*time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	if text, _, err = ca.PEMFiles(); err != nil {
		c.t.Fatal(err)
	}
	return ca, text
}

func (c certificates) issue(ca *authority.Authority, host string) []byte {
	c.t.Helper()
	text, err := ca.Issue([]string{host}, time.Now(), 24*time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// Over TLS, the collector's certificate must be for the URL's host and of an authority in the file, and the member shows
// its own.
func TestTLS(t *testing.T) {
	for _, tt := range []struct {
		name, host, trusted string
		line                string // "": the collector is trusted
	}{
		{name: "trusted", host: "collector", trusted: "ours"},
		{name: "another host", host: "elsewhere", trusted: "ours", line: "not collector"},
		{name: "another authority", host: "collector", trusted: "another", line: "unknown authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c := certificates{t, dir}
				ours, text := c.authority("ours")
				_, other := c.authority("another")
				files := map[string]string{"ours": c.write("ours.pem", text), "another": c.write("another.pem", other)}
				pair := c.issue(ours, tt.host)
				own, err := tls.X509KeyPair(pair, pair)
				if err != nil {
					t.Fatal(err)
				}
				clients := x509.NewCertPool()
				clients.AppendCertsFromPEM(text)
				secure := otlptest.StartTLS(&tls.Config{
					Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
				})
				defer secure.Close()
				r := start(t, func(cfg *Config) {
					cfg.Endpoint, cfg.Dial, cfg.NoMetrics = "https://collector:4318", secure.Dial, true
					cfg.TrustFile, cfg.KeyFile = files[tt.trusted], c.write("member.pem", c.issue(ours, "member"))
				})
				r.KeepSlow(slowWrite())
				time.Sleep(time.Second / 2)
				if came := len(secure.Spans()) == 3; came != (tt.line == "") || !strings.Contains(r.lines.String(), tt.line) {
					t.Errorf("%d spans came; the lines are %s, want %q", len(secure.Spans()), r.lines, tt.line)
				}
				r.stop()
			})
		})
	}
}

// An authority that is replaced in the file counts for the next connection.
func TestTLSReload(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := certificates{t, dir}
		first, firstText := c.authority("first")
		_, secondText := c.authority("second")
		pair := c.issue(first, "collector")
		own, err := tls.X509KeyPair(pair, pair)
		if err != nil {
			t.Fatal(err)
		}
		secure := otlptest.StartTLS(&tls.Config{Certificates: []tls.Certificate{own}})
		defer secure.Close()
		file := c.write("authorities.pem", secondText)
		r := start(t, func(cfg *Config) {
			cfg.Endpoint, cfg.Dial, cfg.NoMetrics, cfg.TrustFile = "https://collector", secure.Dial, true, file
		})
		r.KeepSlow(slowWrite())
		time.Sleep(time.Second / 2)
		c.write("authorities.pem", firstText)
		time.Sleep(2*keystore.WatchInterval + lastPause)
		if len(secure.Spans()) != 3 {
			t.Errorf("%d spans came after the authority was replaced, want 3; %s", len(secure.Spans()), r.lines)
		}
		r.stop()
	})
}
