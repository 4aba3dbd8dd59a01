package wire

import (
	"bytes"
	"errors"
	"io"
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

// A stranger that claims a thousand numbers gets no member's share of what this member remembers. With a certificate, nothing about it
// is remembered. With the secret, its processes take the one share of all unknown members. Neither makes its address a member's.
func TestStrangersTakeOneShare(t *testing.T) {
	const secret = "the secret of the members"
	for _, tt := range []struct {
		name          string
		hellos        func(t *testing.T) (one Hello, stranger func(as uint32) *trust.Guard)
		claims, taken int
	}{
		{"certificate", func(t *testing.T) (Hello, func(uint32) *trust.Guard) {
			ca, err := authority.New("members", time.Now(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			client := certifiedHello(t, ca, testPeers, 9, "client.example").trustGuard
			return certifiedHello(t, ca, testPeers, 1, "one.example"), func(uint32) *trust.Guard { return client }
		}, 1000, 0},
		{"secret", func(t *testing.T) (Hello, func(uint32) *trust.Guard) {
			return guarded(t, 1, secret, false), func(as uint32) *trust.Guard { return guarded(t, as, secret, false).trustGuard }
		}, 2 * maxProcessesPerMember, maxProcessesPerMember},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, stranger := tt.hellos(t)
				come := make(arrivals)
				l := NewListener(come, one.AcceptingUnknown(), nil)
				defer l.Close()
				go func() {
					for c, err := l.Accept(); err == nil; c, err = l.Accept() {
						_, _ = io.Copy(io.Discard, c) // until the stranger closes it
						_ = c.Close()
					}
				}()
				for n := range uint32(tt.claims) {
					id := 100 + n
					claim := NewHello(testBook(id, append([]Peer{{ID: id, Addr: "m:3888"}}, testPeers...))).WithGuard(stranger(id))
					conn, err := claim.HandshakeDialed(come.from("10.0.0.7:1"), 1)
					if (err == nil) != (id <= maxMemberID) {
						t.Fatalf("the number %d: %v", id, err)
					}
					if err == nil {
						_ = conn.Close()
					}
					time.Sleep(sourceRate.perToken)
				}
				synctest.Wait()
				if n := len(one.handshakeLimiter.memberAddresses.learntFrom); n != 0 {
					t.Errorf("it has the addresses of %d members", n)
				}
				taken := 0
				for _, processes := range one.knownProcesses.byMember {
					taken += len(processes)
				}
				if taken != tt.taken {
					t.Errorf("%d processes are remembered, want %d", taken, tt.taken)
				}
			})
		})
	}
}
