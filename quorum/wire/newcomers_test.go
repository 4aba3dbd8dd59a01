package wire

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/keystore"
	"rollcall/internal/keystore/authority"
	"rollcall/quorum/trust"
)

// certifiedHello returns the hello of a member that knows peers, with a certificate for a host. It admits newcomers.
func certifiedHello(t *testing.T, ca *authority.Authority, peers []Peer, self uint32, host string) Hello {
	t.Helper()
	own, err := ca.Issue([]string{host}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	trusted, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := trust.Certificates{
		KeyStore:   keystore.Store{Location: filepath.Join(dir, "own.pem")},
		TrustStore: keystore.Store{Location: filepath.Join(dir, "trusted.pem")},
	}
	if err := errors.Join(os.WriteFile(c.KeyStore.Location, own, 0o600), os.WriteFile(c.TrustStore.Location, trusted, 0o600)); err != nil {
		t.Fatal(err)
	}
	g, err := trust.New(trust.Config{
		Settings: trust.Settings{ShowCertificates: true, Certificates: c}, MemberID: self, AdmitNewcomers: true,
		ConfiguredHosts: map[uint32]string{1: "one.example", 2: "two.example"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return NewHello(testBook(self, peers)).WithGuard(g)
}

// A process with any certificate of the authority, and a number that no member has, gets to gRPC, where it may say Hello. It does not get
// to raft's port, because its requests would get into the log.
func TestNewcomersDoNotReachRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, err := authority.New("members", time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		one := certifiedHello(t, ca, testPeers, 1, "one.example")
		newcomer := certifiedHello(t, ca, append([]Peer{{ID: 9, Addr: "m9:3888"}}, testPeers...), 9, "client.example")
		for _, tt := range []struct {
			port   string
			hello  Hello
			logged string // "": it is let in
		}{
			{"gRPC's", one.AcceptingUnknown(), ""},
			{"raft's", one, "member 9 is not in the server list"},
		} {
			var logs bytes.Buffer
			come := make(arrivals)
			l := NewListener(come, tt.hello, slog.New(slog.NewTextHandler(&logs, nil)))
			conn, err := newcomer.HandshakeDialed(come.from("10.0.0.7:1"), 1)
			synctest.Wait()
			if (err == nil) != (tt.logged == "") || !strings.Contains(logs.String(), tt.logged) {
				t.Errorf("%s port: %v; logged %q, want %q", tt.port, err, logs.String(), tt.logged)
			}
			if err == nil {
				in, err := l.Accept()
				if err != nil || !trust.IsOfNewcomer(in.(*Conn).Conn) {
					t.Errorf("%s port accepts %v, %v", tt.port, in, err)
				}
				_ = conn.Close()
			}
			_ = l.Close()
		}
	})
}
