package session

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// certificate returns a certificate for a host, and a pool that trusts it.
func certificate(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// serve replies to every request on the connections of ln until the test ends.
func serve(t *testing.T, ln net.Listener) {
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
}

// checkPipeline sends many requests of all sizes, without waiting, and checks that each is answered.
func checkPipeline(t *testing.T, c *Session) {
	t.Helper()
	const requests = 300
	replies := make(chan error, requests)
	for i := range requests {
		rec := &jute.SetDataRequest{Path: []byte("/"), Data: bytes.Repeat([]byte{byte(i)}, i*i/2), Version: -1}
		if err := c.Go(ctx, jute.OpSetData, rec, func(r Reply, err error) {
			if err == nil && r.Err != jute.OK {
				err = r.Err
			}
			replies <- err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range requests {
		if err := <-replies; err != nil {
			t.Fatal(err)
		}
	}
}

// A Unix socket carries a session. It is written to and read without waiting, as TCP is.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, ln)
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := Open(limited, Config{Servers: []string{"unix:" + path}, TLS: &tls.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	if c.Server() != "unix:"+path {
		t.Errorf("server %s", c.Server())
	}
	c.mu.Lock()
	if c.link.conn.raw == nil {
		t.Error("the socket is used through Go's poller alone")
	}
	c.mu.Unlock()
	checkPipeline(t, c)
}

// Over TLS no byte is lost, whichever goroutine writes. The certificate must be for the server's host, unless the
// configuration names another one.
func TestTLS(t *testing.T) {
	cert, pool := certificate(t, "zk.example.com")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, ln)
	dial := func(ctx context.Context, addr string) (net.Conn, error) { // resolves every name to this machine
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
	for _, tt := range []struct {
		server, name string
		ok           bool
	}{
		{"zk.example.com:2181", "", true},
		{"zk.example.com", "", true},
		{"other.example.com:2181", "", false},
		{"other.example.com:2181", "zk.example.com", true},
		{"zk.example.com:2181", "other.example.com", false},
	} {
		cfg := Config{Servers: []string{tt.server}, Dial: dial, TLS: &tls.Config{RootCAs: pool, ServerName: tt.name}}
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		if !tt.ok {
			dials := 0
			cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				if dials++; dials > 1 { // one attempt is enough
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return dial(ctx, addr)
			}
		}
		c, err := Open(limited, cfg)
		if tt.ok {
			if err != nil {
				t.Fatalf("%+v: %v", tt, err)
			}
			checkPipeline(t, c)
			c.Abandon()
		} else if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Errorf("%+v: %v", tt, err)
		}
		cancel()
	}
	// The target of an SRV record is the host.
	res := &fakeResolver{}
	res.set(false, "zk.example.com.")
	c, err := Open(ctx, Config{Servers: []string{srvEntry}, Resolver: res, Dial: dial, TLS: &tls.Config{RootCAs: pool}})
	if err != nil {
		t.Fatal(err)
	}
	c.Abandon()
}

// A handshake of TLS that is not answered ends with the server's share of the timeout, and the next server is tried.
func TestTLSHandshakeDeadline(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		go func() {
			for range 2 {
				p := <-f.peers
				for err := error(nil); err == nil; _, err = p.r.ReadByte() {
				}
			}
		}()
		_, err := Open(limited, Config{
			Servers: []string{"a:1", "b:1"}, Dial: f.dial, TLS: &tls.Config{}, Timeout: 30 * time.Second,
		})
		if !errors.Is(err, context.DeadlineExceeded) || len(f.dials) != 2 {
			t.Errorf("%v, after %q", err, f.dials)
		}
	})
}
