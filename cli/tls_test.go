package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"rollcall/internal/keystore/authority"
)

// Commands connect over TLS if they have an authority. They show the certificate that they have, believe no other
// authority, and say what is wrong with their files.
func TestDialTLS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	made := func(name string) (ca, own string) {
		a, err := authority.New("rollcall", now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cert, _, err := a.PEMFiles()
		if err != nil {
			t.Fatal(err)
		}
		text, err := a.Issue([]string{"127.0.0.1"}, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return file(name+"-ca.pem", cert), file(name+".pem", text)
	}
	ca, own := made("one")
	otherCA, _ := made("other")
	addr := listenTLS(t, ca, own)
	for _, tt := range []struct {
		env, args []string
		want      string // a part of the error; "": it connects
		advice    string // how the advice begins, if no session is opened for that error
	}{
		{nil, []string{"--tls-ca", ca, "--tls-cert", own}, "", ""},
		{nil, []string{"--tls-ca", ca, "--tls-cert", own, "--tls-key", own}, "", ""},
		{[]string{"ROLLCALL_TLS_CA=" + ca, "ROLLCALL_TLS_CERT=" + own}, nil, "", ""},
		{nil, []string{"--tls-ca", ca}, "certificate required", "--tls-cert must"},
		{nil, []string{"--tls-ca", otherCA, "--tls-cert", own}, "unknown authority", "--tls-ca must"},
		{nil, []string{"--tls-cert", own}, "--tls-cert and --tls-key need --tls-ca", ""},
		{nil, []string{"--tls-ca", ca, "--tls-key", own}, "--tls-key needs --tls-cert", ""},
		{nil, []string{"--tls-ca", dir}, "--tls-ca: ", ""},
		{nil, []string{"--tls-ca", file("empty", nil)}, "there is no certificate in PEM", ""},
		{nil, []string{"--tls-ca", ca, "--tls-cert", ca}, "--tls-cert " + ca, ""},
	} {
		link := linkOf(t, tt.env, tt.args...)
		dial, err := link.tls.Dialer(link.streams)
		if err != nil && StatusOf(err) != UsageError {
			t.Errorf("%q: status %v", tt.args, StatusOf(err))
		}
		var conn net.Conn
		if err == nil {
			if conn, err = dial(t.Context(), addr); err == nil {
				_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 a client learns only now that it is refused
				_ = conn.Close()
			}
		}
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q %q: %v, want %s", tt.env, tt.args, err, tt.want)
		}
		if got := link.tls.connectAdvice(link.streams, err); tt.advice != "" && !strings.HasPrefix(got, tt.advice) {
			t.Errorf("%q: the advice is %q, want %q", tt.args, got, tt.advice)
		}
	}
}

// A plain client whose connections are ended at once may have the port for TLS. A client over TLS has not.
func TestAdviceForPlainClients(t *testing.T) {
	const plain, other = "--hosts names others; if that is secureClientPort, --tls-ca must name the authority of its certificate", "--hosts names others"
	for _, tt := range []struct {
		args []string
		err  error
		want string
	}{
		{nil, io.EOF, plain},
		{nil, syscall.ECONNRESET, plain},
		{nil, syscall.ECONNREFUSED, "start one of them first, or name others with --hosts"},
		{nil, syscall.ETIMEDOUT, other},
		{[]string{"--tls-ca", "ca.pem"}, io.EOF, other},
	} {
		link := linkOf(t, nil, tt.args...)
		if got := link.tls.connectAdvice(link.streams, fmt.Errorf("client: connect: %w", tt.err)); got != tt.want {
			t.Errorf("%q, %v: the advice is %q, want %q", tt.args, tt.err, got, tt.want)
		}
	}
}

// The flags of two ensembles are told apart by their prefix, and errors name them with it. Another process gets
// the same flags without it.
func TestTLSOfTwo(t *testing.T) {
	w, _, _ := testWorld()
	cmd, a, b := &cobra.Command{Use: "x"}, &TLS{}, &TLS{}
	a.Register(cmd, "a-")
	b.Register(cmd, "b-")
	if err := cmd.ParseFlags([]string{"--b-tls-ca", "ca", "--b-tls-cert", "cert", "--b-tls-key", "key"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.CommandArgs(), " "); got != "--tls-ca=ca --tls-cert=cert --tls-key=key" || len(a.CommandArgs()) > 0 {
		t.Errorf("b: %s, a: %s", got, a.CommandArgs())
	}
	if _, err := a.Dialer(w); err != nil {
		t.Errorf("a: %v", err)
	}
	if _, err := b.Dialer(w); err == nil || !strings.Contains(err.Error(), "--b-tls-ca: open ca") {
		t.Errorf("b: %v", err)
	}
}

// listenTLS listens for clients with a certificate of ca, and sends each a byte.
func listenTLS(t *testing.T, ca, own string) (addr string) {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(own, own)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots})
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
			_, _ = c.Write([]byte{1})
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}
