package tokenproof

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const token = "abcdefghijklmnop"

// listen returns the address of a listener that sends a line to each connection after a byte of it. The line says
// whether the connection has proved the token. refused counts the wrong proofs.
func listen(t *testing.T, of string) (addr string, refused *atomic.Int32) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewListener(inner, DeriveTokenKey(of))
	if err != nil {
		t.Fatal(err)
	}
	refused = new(atomic.Int32)
	l.OnRejected = func(net.Conn) { refused.Add(1) }
	var conns sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer func() { _ = c.Close() }()
				if _, err := c.Read(make([]byte, 1)); err == nil {
					_, _ = fmt.Fprintf(c, "%t\n", c.(*Conn).HasProof())
				}
			})
		}
	})
	return inner.Addr().String(), refused
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// said returns what a connection says after a byte.
func said(t *testing.T, c net.Conn) string {
	t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil && len(text) == 0 {
		t.Fatal(err)
	}
	return string(text)
}

// Both ends prove the token to each other, and another one is not taken. Plain connections have proved nothing.
func TestProof(t *testing.T) {
	addr, refused := listen(t, token)
	c, err := ProveMutually(dial(t, addr), DeriveTokenKey(token))
	if err != nil {
		t.Fatal(err)
	}
	if got := said(t, c); got != "true\n" {
		t.Errorf("after the proof: %q", got)
	}
	if got := said(t, dial(t, addr)); got != "false\n" {
		t.Errorf("plain: %q", got)
	}
	if _, err := ProveMutually(dial(t, addr), DeriveTokenKey("another-token-of-them")); !errors.Is(err, ErrNotProved) || refused.Load() != 1 {
		t.Errorf("another token: %v, %d refused", err, refused.Load())
	}
}

// A program that answers with a proof of another token, with the command's own proof or with anything else is not believed.
func TestWrongProof(t *testing.T) {
	config, err := newBlankTLSConfig()
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]func(e proofExchange, proof []byte) []byte{
		"of another token": func(e proofExchange, _ []byte) []byte {
			p := e.computeProof(DeriveTokenKey("another"), byMember)
			return p[:]
		},
		"the command's own":  func(_ proofExchange, proof []byte) []byte { return proof },
		"nothing but zeroes": func(_ proofExchange, proof []byte) []byte { return make([]byte, len(proof)) },
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			defer func() { _, _ = here.Close(), there.Close() }()
			go func() {
				private := tls.Server(there, config)
				if private.Handshake() != nil {
					return
				}
				e, err := newExchange(private)
				message := make([]byte, nonceSize+sha256.Size)
				if _, failed := private.Write(e.memberNonce[:]); err != nil || failed != nil {
					return
				}
				if _, err := io.ReadFull(private, message); err != nil {
					return
				}
				copy(e.commandNonce[:], message)
				_, _ = private.Write(answer(e, message[nonceSize:]))
			}()
			if c, err := ProveMutually(here, DeriveTokenKey(token)); !errors.Is(err, ErrNotProved) || c != nil {
				t.Errorf("believed: %t, %v", c != nil, err)
			}
		})
	}
}

// recorded keeps what is written to a connection.
type recorded struct {
	net.Conn
	to *bytes.Buffer
}

func (r recorded) Write(p []byte) (int, error) {
	r.to.Write(p)
	return r.Conn.Write(p)
}

// A program that has taken the address of a member gets no token, and cannot pass on what it gets to the member: the
// proof belongs to one connection.
func TestStrangerAtTheAddress(t *testing.T) {
	addr, refused := listen(t, token)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config, err := newBlankTLSConfig()
	if err != nil {
		t.Fatal(err)
	}
	var strangers sync.WaitGroup
	defer strangers.Wait()
	defer func() { _ = inner.Close() }()
	var got bytes.Buffer
	strangers.Go(func() { // it decrypts on both sides, and relays
		c, err := inner.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		towards, err := relay(c, config, addr)
		if err != nil {
			return
		}
		defer func() { _ = towards.Close() }()
		strangers.Go(func() { _, _ = io.Copy(towards.Conn, io.TeeReader(towards.from, &got)) })
		_, _ = io.Copy(towards.from, towards.Conn)
	})
	var sent bytes.Buffer
	_, err = ProveMutually(recorded{dial(t, inner.Addr().String()), &sent}, DeriveTokenKey(token))
	if !errors.Is(err, ErrNotProved) {
		t.Errorf("through a relay: %v", err)
	}
	if refused.Load() != 1 {
		t.Errorf("the member refused %d proofs that were relayed", refused.Load())
	}
	_ = inner.Close()
	strangers.Wait()
	if strings.Contains(sent.String()+got.String(), token) {
		t.Error("the token was sent")
	}
	if got.Len() != nonceSize+32 {
		t.Errorf("the stranger got %d bytes, want a nonce and a proof", got.Len())
	}
}

// relayed are the two connections of a relay, decrypted.
type relayed struct {
	net.Conn          // to the member
	from     net.Conn // of the command
}

// relay accepts a command and connects to the member as one does, without a proof of its own.
func relay(command net.Conn, config *tls.Config, member string) (*relayed, error) {
	from := tls.Server(command, config)
	if err := from.Handshake(); err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", member)
	if err != nil {
		return nil, err
	}
	to := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, InsecureSkipVerify: true})
	return &relayed{to, from}, to.Handshake()
}

// Servers of HTTPS do not prove the token, whether or not they choose among protocols. The error says how to reach a member there,
// and they get no proof.
func TestServerOfHTTPS(t *testing.T) {
	for _, protocols := range [][]string{nil, {"h2", "http/1.1"}} {
		config, err := newBlankTLSConfig()
		if err != nil {
			t.Fatal(err)
		}
		config.NextProtos = protocols
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte, 1)
		go func() {
			defer close(got)
			c, err := tls.NewListener(inner, config).Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(make([]byte, nonceSize)) // as if it were a nonce
			text, _ := io.ReadAll(c)
			got <- text
			_ = c.Close()
		}()
		c := dial(t, inner.Addr().String())
		_, err = ProveMutually(c, DeriveTokenKey(token))
		if !errors.Is(err, ErrNotProved) || !errors.Is(err, errProtocol) {
			t.Errorf("%v: %v", protocols, err)
		}
		_ = c.Close()
		if text := <-got; len(text) > 0 {
			t.Errorf("%v: it got %q", protocols, text)
		}
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A proof is what the comment of the package says. It is written down here once more, so that it does not lose a part: each keeps
// proofs from being used otherwise.
func TestPartsOfProof(t *testing.T) {
	e := proofExchange{memberNonce: [32]byte{1}, commandNonce: [32]byte{2}, keyingMaterial: []byte("the keying of a session")}
	key := DeriveTokenKey(token)
	for _, by := range []string{"member", "command"} {
		h := hmac.New(sha256.New, key[:])
		for _, part := range [][]byte{[]byte("rollcall proof of the token, 1"), []byte(by), e.memberNonce[:], e.commandNonce[:], e.keyingMaterial} {
			h.Write(part)
		}
		if got := e.computeProof(key, by); !hmac.Equal(got[:], h.Sum(nil)) {
			t.Errorf("the proof of a %s is %x", by, got)
		}
	}
}

// Each end can close its writing side alone, with a proof and without one.
func TestOneSideCloses(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewListener(inner, DeriveTokenKey(token))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, proves := range []bool{true, false} {
		served := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				served <- err
				return
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, err = c.Read(make([]byte, 1))
			err = errors.Join(err, c.(*Conn).CloseWrite())
			_, last := c.Read(make([]byte, 1))
			served <- errors.Join(err, last)
		}()
		c := dial(t, inner.Addr().String())
		if proves {
			if c, err = ProveMutually(c, DeriveTokenKey(token)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(c); err != nil || len(text) > 0 {
			t.Errorf("proof %t: %q, %v", proves, text, err)
		}
		if _, err := c.Write([]byte("y")); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Errorf("proof %t: the other end: %v", proves, err)
		}
	}
}
