package cli

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rollcall/keystore/authority"
)

// --admin takes URLs with https. The member's certificate is held against --tls-ca, and that of --tls-cert is shown.
func TestAdminOverHTTPS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	issue := func(name string) (caFile, ownFile string) {
		a, err := authority.New(name, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cert, _, err := a.Files()
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
		l := NewLink(World{Err: io.Discard})
		l.admin, l.tls = srv.URL, tt.tls
		member, err := l.Admin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := member.Text(t.Context(), "/readyz")
		if (err == nil) != tt.ok || string(text) != tt.want {
			t.Errorf("%+v: %q, %v", tt.tls, text, err)
		}
	}
}
