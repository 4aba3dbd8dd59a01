package credentials

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes a file, and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An error names the file that is missing or wrong, and shows nothing of a keytab.
func TestFilesAreMissing(t *testing.T) {
	conf := write(t, "krb5.conf", "include /nowhere\n[libdefaults]\ndefault_realm = EXAMPLE.COM\n")
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Krb5Conf: "/nowhere/krb5.conf"}, "/nowhere/krb5.conf"},
		{Config{Krb5Conf: conf, Keytab: "/nowhere/keytab", Principal: "bob"}, "/nowhere/keytab: no such file"},
		{Config{Krb5Conf: conf, Keytab: write(t, "keytab", "\x05\x02\x00\x00\x00\x20secret"), Principal: "bob"}, "is no keytab"},
		{Config{Krb5Conf: conf, Keytab: write(t, "keytab", "\x05\x02\x00\x00\x00\x00"), Principal: "@"}, `the principal "@" needs a name and a realm`},
		{Config{Krb5Conf: conf, Cache: "FILE:/nowhere/cache"}, "the cache of tickets /nowhere/cache"},
	} {
		step, err := New(tt.cfg).Begin(t.Context(), "host:2181")
		if err == nil || step != nil || !strings.Contains(err.Error(), "a ticket for zookeeper/host: ") ||
			!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %s", tt.cfg, err, tt.want)
		}
	}
	if _, err := New(Config{Krb5Conf: "/nowhere"}).Begin(t.Context(), "unix:/socket"); err == nil ||
		!strings.Contains(err.Error(), "set ServerPrincipal") || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Begin returns when its context ends, although the KDC does not reply.
func TestBeginEndsWithItsContext(t *testing.T) {
	kdc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer kdc.Close()
	conf := write(t, "krb5.conf", "[libdefaults]\ndefault_realm = R\ndns_lookup_kdc = false\nudp_preference_limit = 1\n[realms]\nR = {\n kdc = "+kdc.Addr().String()+"\n}\n")
	keytab := write(t, "keytab", "\x05\x02\x00\x00\x00\x3b\x00\x01\x00\x01R\x00\x03bob\x00\x00\x00\x01\x00\x00\x00\x01\x01\x00\x12\x00\x20"+strings.Repeat("k", 32)+"\x00\x00\x00\x01")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	connected := make(chan net.Conn, 1)
	go func() {
		conn, err := kdc.Accept()
		if err == nil {
			connected <- conn
		}
		cancel(err) // once Begin waits for the answer
	}()
	_, err = New(Config{Krb5Conf: conf, Keytab: keytab, Principal: "bob"}).Begin(ctx, "host:2181")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case conn := <-connected:
		_ = conn.Close()
	default:
		t.Error("Begin has ended without a connection to the KDC")
	}
}
