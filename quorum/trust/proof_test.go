package trust

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	old   = "the old secret of the tests"
	fresh = "the new secret of the tests"
	other = "a secret of somebody else"
)

// limit is the deadline that the tests set, as package wire does.
const limit = 5 * time.Second

// newGuard returns the guard of a member whose file has these secrets.
func newGuard(t *testing.T, self uint32, unify bool, secrets ...string) *Guard {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, secrets...)
	g, err := New(Config{Settings: Settings{SecretFile: path, AcceptPlain: unify}, MemberID: self})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// write replaces a file of secrets at once, so that nobody reads a part of it.
func write(t *testing.T, path string, secrets ...string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(strings.Join(secrets, "\n")+"\n"), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// outcome is what one end of a connection has come to.
type outcome struct {
	conn net.Conn
	err  error
}

// admits lets every handshake begin.
func admits() error { return nil }

// accepts lets g accept conn as package wire does.
func accepts(g *Guard, conn net.Conn) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		_ = conn.SetDeadline(time.Now().Add(limit))
		c, err := g.SecureAccepted(conn, admits)
		if err != nil {
			_ = conn.Close()
			done <- outcome{nil, err}
			return
		}
		done <- outcome{c, nil}
	}()
	return done
}

// dials lets g prove itself to member to over conn.
func dials(g *Guard, conn net.Conn, to uint32) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		_ = conn.SetDeadline(time.Now().Add(limit))
		c, err := g.SecureDialed(conn, Dialed{Member: to})
		if err != nil {
			_ = conn.Close()
		}
		done <- outcome{c, err}
	}()
	return done
}

// meet connects two guards: dialer is member 2, dialed is asked for as member 1.
func meet(dialer, dialed *Guard) (out, in outcome) {
	a, b := net.Pipe()
	accepted, connected := accepts(dialed, b), dials(dialer, a, 1)
	return <-connected, <-accepted
}

// wantRejection fails the test unless an error is a Rejection for a reason, and contains say.
func wantRejection(t *testing.T, err error, why Reason, say string) {
	t.Helper()
	r, ok := errors.AsType[*Rejection](err)
	if !ok || r.Reason != why || !strings.Contains(err.Error(), say) {
		t.Errorf("refused with %v (%T), want reason %d and %q", err, err, why, say)
	}
}

// Two members connect if they have a secret in common, in every order during a rotation, and what
// they say then arrives.
func TestSecrets(t *testing.T) {
	tests := []struct {
		name           string
		dialer, dialed []string
		meet           bool
	}{
		{"the same", []string{old}, []string{old}, true},
		{"another", []string{old}, []string{other}, false},
		{"dialer has both", []string{old, fresh}, []string{old}, true},
		{"dialer has both, the other way round", []string{fresh, old}, []string{old}, true},
		{"dialed has both", []string{old}, []string{old, fresh}, true},
		{"dialed has both, the other way round", []string{old}, []string{fresh, old}, true},
		{"both have both", []string{old, fresh}, []string{fresh, old}, true},
		{"the old one is gone at the dialer", []string{fresh}, []string{old, fresh}, true},
		{"the old one is gone at the dialed", []string{old, fresh}, []string{fresh}, true},
		{"one was forgotten in the rotation", []string{old}, []string{fresh}, false},
		{"two others", []string{old, fresh}, []string{other, "and yet another secret"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				out, in := meet(newGuard(t, 2, false, tt.dialer...), newGuard(t, 1, false, tt.dialed...))
				if time.Since(begin) != 0 {
					t.Errorf("took %v", time.Since(begin))
				}
				if !tt.meet {
					wantRejection(t, in.err, NoProof, "says it is member 2")
					if out.err == nil || !errors.Is(out.err, ErrProofRejected) {
						t.Errorf("dialer: %v", out.err)
					}
					return
				}
				if out.err != nil || in.err != nil {
					t.Fatalf("dialer %v, dialed %v", out.err, in.err)
				}
				speak(t, out.conn, in.conn)
				speak(t, in.conn, out.conn)
				c := in.conn.(*Conn)
				if c.MaySpeakAs(2) != nil {
					t.Errorf("MaySpeakAs(2): %v", c.MaySpeakAs(2))
				}
				wantRejection(t, c.MaySpeakAs(3), OtherMember, "member 2 has proved itself, but it says that it is member 3")
				_ = out.conn.Close()
				if _, err := in.conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("after Close: %v, want EOF", err)
				}
				_ = in.conn.Close()
			})
		})
	}
}

func speak(t *testing.T, from, to net.Conn) {
	t.Helper()
	go func() { _, _ = from.Write([]byte("a vote")) }()
	heard := make([]byte, 6)
	if _, err := io.ReadFull(to, heard); err != nil || string(heard) != "a vote" {
		t.Errorf("heard %q, %v", heard, err)
	}
}

// A secret that leaves the file takes its connections with it, at both ends, and no others. A file
// that cannot be used changes nothing.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, old, fresh)
		g, err := New(Config{Settings: Settings{SecretFile: path}, MemberID: 1, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = g.Run(t.Context()) }()
		_, withOld := meet(newGuard(t, 2, false, old), g)
		_, withFresh := meet(newGuard(t, 2, false, fresh), g)
		toOld, _ := meet(g, newGuard(t, 2, false, old))
		if withOld.err != nil || withFresh.err != nil || toOld.err == nil {
			t.Fatal(withOld.err, withFresh.err, "and to itself:", toOld.err)
		}
		away := newGuard(t, 3, false, old)
		a, b := net.Pipe()
		accepted, connected := accepts(away, b), dials(g, a, 3)
		<-accepted
		dialed := <-connected
		for range 3 {
			write(t, path, "short")
			time.Sleep(watchInterval)
		}
		synctest.Wait()
		for _, c := range []net.Conn{withOld.conn, withFresh.conn, dialed.conn} {
			if !isOpen(c) {
				t.Error("a bad file has closed a connection")
			}
		}
		if n := strings.Count(logs.String(), "cannot be reloaded"); n != 1 || strings.Contains(logs.String(), "short\"") {
			t.Errorf("%d lines about the bad file, want 1:\n%s", n, logs.String())
		}
		write(t, path, fresh)
		time.Sleep(watchInterval + time.Second)
		synctest.Wait()
		if isOpen(withOld.conn) || isOpen(dialed.conn) || !isOpen(withFresh.conn) {
			t.Errorf("open after the rotation: accepted with the old secret %t, dialed with it %t, with the new one %t", isOpen(withOld.conn), isOpen(dialed.conn), isOpen(withFresh.conn))
		}
		if _, in := meet(newGuard(t, 2, false, old), g); in.err == nil {
			t.Error("the old secret still counts")
		}
		for _, c := range []net.Conn{withOld.conn, withFresh.conn, dialed.conn} {
			_ = c.Close()
		}
		if len(g.provedConns) != 0 {
			t.Errorf("%d connections are kept after Close", len(g.provedConns))
		}
	})
}

// A file that is read while it is being written counts as it is a moment later.
func TestReloadOfHalfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, 1, false, old)
		go func() { _ = g.Run(t.Context()) }()
		_, in := meet(newGuard(t, 2, false, old), g)
		time.Sleep(watchInterval - time.Millisecond)
		write(t, g.secrets.source.path, old[:minSecretLength])
		time.Sleep(rereadDelay / 2)
		write(t, g.secrets.source.path, old, fresh)
		time.Sleep(rereadDelay)
		synctest.Wait()
		if !isOpen(in.conn) || !g.secrets.contains(fresh) || !g.secrets.contains(old) {
			t.Errorf("open %t, and the secrets are the new ones: %t", isOpen(in.conn), g.secrets.contains(fresh))
		}
	})
}

func isOpen(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// tlsTo opens TLS to a guard without a proof, and returns it after the handshake.
func tlsTo(t *testing.T, g *Guard, cfg *tls.Config) (*tls.Conn, <-chan outcome, error) {
	t.Helper()
	a, b := net.Pipe()
	in := accepts(g, b)
	_ = a.SetDeadline(time.Now().Add(2 * limit))
	cfg.InsecureSkipVerify = true
	c := tls.Client(a, cfg)
	return c, in, c.Handshake()
}

func proofTLS() *tls.Config { return &tls.Config{NextProtos: []string{secretProtocol}} }

// What a stranger may try at a member's port: each is refused, within the deadline, without a word
// that depends on the secret.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, 1, false, old)
		plain := func(sent string) outcome {
			a, b := net.Pipe()
			in := accepts(g, b)
			go func() { _, _ = a.Write([]byte(sent)) }()
			defer func() { _ = a.Close() }()
			return <-in
		}
		wantRejection(t, plain("ROLLCALL\x00\x01").err, PlainHello, "portUnification")
		wantRejection(t, plain("GET / HTTP/1.1\r\n\r\n").err, UnknownProtocol, "does not speak TLS")

		for _, cfg := range []*tls.Config{{MaxVersion: tls.VersionTLS12, NextProtos: []string{secretProtocol}}, {NextProtos: []string{"h2"}}} {
			_, in, err := tlsTo(t, g, cfg)
			wantRejection(t, (<-in).err, BadHandshake, "TLS handshake")
			if err == nil {
				t.Error("the stranger's handshake is done")
			}
		}
		_, in, _ := tlsTo(t, g, &tls.Config{}) // without a protocol
		wantRejection(t, (<-in).err, BadHandshake, "the dialer offers [], members prove themselves here by secret")

		// nobody gets more than a nonce and the end
		for name, send := range map[string][]byte{
			"silent":    nil,
			"truncated": make([]byte, dialerMessageSize-1),
			"garbage":   make([]byte, dialerMessageSize),
			"oversized": make([]byte, 100*dialerMessageSize),
		} {
			c, in, err := tlsTo(t, g, proofTLS())
			if err != nil {
				t.Fatal(name, err)
			}
			begin := time.Now()
			got := make(chan []byte, 1)
			go func() { all, _ := io.ReadAll(c); got <- all }()
			go func() { _, _ = c.Write(send) }()
			wantRejection(t, (<-in).err, NoProof, "proof")
			if n := len(<-got); n != nonceSize {
				t.Errorf("%s: got %d bytes, want a nonce of %d", name, n, nonceSize)
			}
			if took := time.Since(begin); took > limit {
				t.Errorf("%s: took %v", name, took)
			}
		}
		if len(g.provedConns) != 0 {
			t.Errorf("%d connections are kept", len(g.provedConns))
		}
	})
}

// A handshake of TLS begins only if the caller lets it. Otherwise the caller's error comes back, and the dialer has no
// connection. A plain connection does not ask.
func TestHandshakeMayNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, asked := errors.New("no place"), 0
		accept := func(g *Guard, conn net.Conn) error {
			_, err := g.SecureAccepted(conn, func() error { asked++; return full })
			if err != nil {
				_ = conn.Close()
			}
			return err
		}
		a, b := net.Pipe()
		out := dials(newGuard(t, 2, false, old), a, 1)
		if err := accept(newGuard(t, 1, false, old), b); !errors.Is(err, full) || asked != 1 {
			t.Errorf("%v, asked %d times; want %v, once", err, asked, full)
		}
		if (<-out).err == nil {
			t.Error("the dialer has a connection")
		}
		a, b = net.Pipe()
		go func() { _, _ = a.Write([]byte("ROLLCALL")) }()
		if err := accept(newGuard(t, 1, true, old), b); err != nil || asked != 1 {
			t.Errorf("a plain connection: %v; asked %d times in all, want once", err, asked)
		}
		_ = a.Close()
	})
}

// A slow stranger does not get more time by sending a byte now and then.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in, err := tlsTo(t, newGuard(t, 1, false, old), proofTLS())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
		begin := time.Now()
		drips := make(chan struct{})
		go func() {
			defer close(drips)
			for {
				if _, err := c.Write([]byte{1}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		defer func() { <-drips }()
		if err := (<-in).err; err == nil || time.Since(begin) != limit {
			t.Errorf("%v after %v, want the end after %v", err, time.Since(begin), limit)
		}
	})
}

// capture runs a dialer against a process that has no secret, and returns the dialer's message with
// its outcome. answer makes the reply, if it is not nil.
func capture(t *testing.T, g *Guard, n nonce, answer func(msg []byte) []byte) ([]byte, outcome) {
	t.Helper()
	a, b := net.Pipe()
	out := dials(g, a, 1)
	cfg, err := unprovedTLSConfig(secretProtocol)
	if err != nil {
		t.Fatal(err)
	}
	_ = b.SetDeadline(time.Now().Add(limit))
	c := tls.Server(b, cfg)
	msg := make([]byte, dialerMessageSize)
	if _, err = c.Write(n[:]); err == nil {
		_, err = io.ReadFull(c, msg)
	}
	if err != nil {
		t.Fatal(err)
	}
	if answer != nil {
		_, err = c.Write(answer(msg))
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	return msg, <-out
}

// A process without the secret cannot pass itself off as a member: not with silence, not with
// garbage, and not with the dialer's own proofs sent back.
func TestFalseMember(t *testing.T) {
	const nothing = "nothing"
	answers := map[string]func(msg []byte) []byte{
		nothing:            nil,
		"garbage":          func([]byte) []byte { return make([]byte, proofSize) },
		"the first proof":  func(msg []byte) []byte { return msg[8+nonceSize:][:proofSize] },
		"the second proof": func(msg []byte) []byte { return msg[8+nonceSize+proofSize:] },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, 2, false, old, fresh)
				_, out := capture(t, g, nonce{}, answer)
				if out.err == nil || len(g.provedConns) != 0 {
					t.Fatalf("the dialer takes it for member 1; %d connections kept", len(g.provedConns))
				}
				why := "the other end does not have the ensemble's secret"
				if name == nothing {
					why = ErrProofRejected.Error()
				}
				if !strings.Contains(out.err.Error(), why) {
					t.Errorf("the error is %q, want %q", out.err, why)
				}
			})
		})
	}
}

// Proofs that were seen on one connection are worth nothing on another one, not even with the same
// nonce.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		msg, _ := capture(t, newGuard(t, 2, false, old), nonce{}, nil)
		c, in, err := tlsTo(t, newGuard(t, 1, false, old), proofTLS())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
		if _, err := c.Write(msg); err != nil {
			t.Fatal(err)
		}
		wantRejection(t, (<-in).err, NoProof, "says it is member 2")
	})
}

// A relay with a TLS session to each side gets nothing accepted, though it passes on every byte.
func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := relay(t, newGuard(t, 2, false, old), newGuard(t, 1, false, old), secretProtocol)
		wantRejection(t, in.err, NoProof, "says it is member 2")
		if out.err == nil {
			t.Error("the dialer trusts the relay")
		}
	})
}

// relay connects two guards by a process that has a TLS session to each of them, for a protocol.
func relay(t *testing.T, dialer, dialed *Guard, protocol string) (out, in outcome) {
	t.Helper()
	a, toDialer := net.Pipe()
	toDialed, b := net.Pipe()
	accepted, connected := accepts(dialed, b), dials(dialer, a, 1)
	cfg, err := unprovedTLSConfig(protocol)
	if err != nil {
		t.Fatal(err)
	}
	near, far := tls.Server(toDialer, cfg), tls.Client(toDialed, &tls.Config{NextProtos: []string{protocol}, InsecureSkipVerify: true})
	go func() { _, _ = io.Copy(near, far); _ = toDialer.Close() }()
	go func() { _, _ = io.Copy(far, near); _ = toDialed.Close() }()
	in = <-accepted
	return <-connected, in
}

// Both ends choose a new nonce for each connection.
func TestNoncesAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newGuard(t, 1, false, old), newGuard(t, 2, false, old)
		seen := map[nonce]string{{}: "zero"}
		check := func(end string, n nonce) {
			if seen[n] != "" {
				t.Errorf("the nonce of the %s is that of the %s", end, seen[n])
			}
			seen[n] = end
		}
		for range 3 {
			msg, _ := capture(t, two, nonce{}, nil)
			check("dialer", nonce(msg[8:]))
			c, in, err := tlsTo(t, one, proofTLS())
			if err != nil {
				t.Fatal(err)
			}
			var n nonce
			if _, err := io.ReadFull(c, n[:]); err != nil {
				t.Fatal(err)
			}
			check("dialed", n)
			_ = c.NetConn().Close()
			<-in
		}
	})
}

// A process that goes after the handshake, before its nonce or after it, is no member.
func TestGoneBeforeTheProof(t *testing.T) {
	for want, n := range map[string]nonce{"no nonce: ": {}, "send proof: ": {1}} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t, 2, false, old)
			a, b := net.Pipe()
			out := dials(g, a, 1)
			cfg, err := unprovedTLSConfig(secretProtocol)
			if err != nil {
				t.Fatal(err)
			}
			c := tls.Server(b, cfg)
			if err = c.Handshake(); err == nil && n != (nonce{}) {
				_, err = c.Write(n[:])
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = b.Close()
			if got := <-out; got.err == nil || !strings.HasPrefix(got.err.Error(), want) || len(g.provedConns) != 0 {
				t.Errorf("dialer: %v, %d connections kept, want %s", got.err, len(g.provedConns), want)
			}
		})
	}
}

// A dialer that has proved itself and goes before the reply is not kept.
func TestDialerGoesBeforeTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, 1, false, old)
		c, in, err := tlsTo(t, g, proofTLS())
		if err != nil {
			t.Fatal(err)
		}
		conn := &Conn{Conn: c}
		e, err := conn.newExchange()
		if err != nil {
			t.Fatal(err)
		}
		e.from, e.to = 2, 1
		if _, err := io.ReadFull(c, e.dialedNonce[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(e.encodeDialerMessage(keysOf([]secret{old}))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the reply waits for a reader
		if len(g.provedConns) != 1 {
			t.Errorf("%d connections are kept before the reply, want 1", len(g.provedConns))
		}
		_ = c.NetConn().Close()
		if err := (<-in).err; err == nil || !strings.HasPrefix(err.Error(), "send proof: ") {
			t.Errorf("dialed: %v", err)
		}
		if len(g.provedConns) != 0 {
			t.Errorf("%d connections are kept", len(g.provedConns))
		}
	})
}

// A proof depends on everything that both ends know of their connection, on the secret and on whose proof it is.
func TestProofDependsOnEverything(t *testing.T) {
	e := proofExchange{from: 1, to: 2, dialedNonce: nonce{3}, dialerNonce: nonce{4}, keyingMaterial: []byte("keying")}
	first := e.computeProof(secret(old).proofKey(), roleDialer)
	for name, other := range map[string]proof{
		"the secret":        e.computeProof(secret(old+"x").proofKey(), roleDialer),
		"the role":          e.computeProof(secret(old).proofKey(), roleDialed),
		"the dialer":        (&proofExchange{9, e.to, e.dialedNonce, e.dialerNonce, e.keyingMaterial}).computeProof(secret(old).proofKey(), roleDialer),
		"the dialed":        (&proofExchange{e.from, 9, e.dialedNonce, e.dialerNonce, e.keyingMaterial}).computeProof(secret(old).proofKey(), roleDialer),
		"the dialed nonce":  (&proofExchange{e.from, e.to, nonce{9}, e.dialerNonce, e.keyingMaterial}).computeProof(secret(old).proofKey(), roleDialer),
		"the dialer's":      (&proofExchange{e.from, e.to, e.dialedNonce, nonce{9}, e.keyingMaterial}).computeProof(secret(old).proofKey(), roleDialer),
		"the keying":        (&proofExchange{e.from, e.to, e.dialedNonce, e.dialerNonce, []byte("other")}).computeProof(secret(old).proofKey(), roleDialer),
		"members, swapped":  (&proofExchange{e.to, e.from, e.dialedNonce, e.dialerNonce, e.keyingMaterial}).computeProof(secret(old).proofKey(), roleDialer),
		"nonces, exchanged": (&proofExchange{e.from, e.to, e.dialerNonce, e.dialedNonce, e.keyingMaterial}).computeProof(secret(old).proofKey(), roleDialer),
	} {
		if other == first {
			t.Errorf("the proof is the same with another of these: %s", name)
		}
	}
	if e.computeProof(secret(old).proofKey(), roleDialer) != first {
		t.Error("the same connection has two proofs")
	}
}

// A proof that a process has collected at a member's address is not one with the secret itself: to try out a secret, the process
// must derive its key, which is slow.
func TestProofIsSlowToGuess(t *testing.T) {
	e := &proofExchange{from: 1, to: 2, keyingMaterial: []byte("keying")}
	got := e.computeProof(secret(old).proofKey(), roleDialer)
	fast := hmac.New(sha256.New, []byte(old))
	for _, part := range [][]byte{[]byte(proofLabel), []byte(roleDialer), {0, 0, 0, 1, 0, 0, 0, 2}, e.dialedNonce[:], e.dialerNonce[:], e.keyingMaterial} {
		fast.Write(part)
	}
	if bytes.Equal(fast.Sum(nil), got[:]) {
		t.Error("the proof is one with the secret itself")
	}
	begun := time.Now()
	secret("a secret that nobody has used").proofKey()
	if took := time.Since(begun); took < 5*time.Millisecond {
		t.Errorf("the key of a secret took %v", took)
	}
}

// A proof names both ends: a member with the secret is refused if it means another one, or says
// that it is the one it speaks to.
func TestProofNamesBothEnds(t *testing.T) {
	g := newGuard(t, 1, false, old)
	for _, tt := range []struct {
		self, to uint32
		say      string
	}{{2, 3, "meant for member 3"}, {1, 1, "another process with the secret says it is member 1"}} {
		a, b := net.Pipe()
		in, out := accepts(g, b), dials(newGuard(t, tt.self, false, old), a, tt.to)
		wantRejection(t, (<-in).err, OtherMember, tt.say)
		if (<-out).err == nil {
			t.Errorf("dialer %d to %d is accepted", tt.self, tt.to)
		}
	}
}

// With portUnification plain hellos are taken, with all their bytes, and a dialer that meets a plain
// member learns of it. Without it, neither.
func TestUnify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		in := accepts(newGuard(t, 1, true, old), b)
		go func() { _, _ = a.Write([]byte("ROLLCALL")) }()
		got := <-in
		if got.err != nil {
			t.Fatal(got.err)
		}
		hello := make([]byte, 8)
		if _, err := io.ReadFull(got.conn, hello); err != nil || string(hello) != "ROLLCALL" || got.conn.(*Conn).MaySpeakAs(7) != nil {
			t.Errorf("read %q, %v", hello, err)
		}
		for _, unify := range []bool{true, false} {
			a, b := net.Pipe()
			out := dials(newGuard(t, 2, unify, old), a, 1)
			_, _ = io.ReadFull(b, hello)
			_ = b.Close() // as a plain member does
			if err := (<-out).err; err == nil || errors.Is(err, ErrPeerIsPlain) != unify {
				t.Errorf("unify %t: %v", unify, err)
			}
			a, b = net.Pipe()
			out = dials(newGuard(t, 2, unify, old), a, 1)
			go func() { _, _ = io.Copy(io.Discard, b) }() // it hangs: that says nothing about what it speaks
			if err := (<-out).err; err == nil || errors.Is(err, ErrPeerIsPlain) {
				t.Errorf("unify %t, silence: %v", unify, err)
			}
			met, _ := meet(newGuard(t, 2, unify, old), newGuard(t, 1, false, other))
			if met.err == nil || errors.Is(met.err, ErrPeerIsPlain) {
				t.Errorf("unify %t, another secret: %v", unify, met.err)
			}
		}
	})
}

// Without a guard connections stay as they are.
func TestNoGuard(t *testing.T) {
	g, err := New(Config{MemberID: 1})
	if g != nil || err != nil {
		t.Fatal(g, err)
	}
	a, b := net.Pipe()
	if c, err := g.SecureDialed(a, Dialed{Member: 2}); c != a || err != nil {
		t.Error(c, err)
	}
	if c, err := g.SecureAccepted(b, admits); err != nil || c.Conn != b || c.MaySpeakAs(5) != nil {
		t.Error(c, err)
	}
	g.RequestReload()
	if err := g.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// Whatever a dialer sends in place of its proof, nobody is proved but with the secret.
func FuzzProof(f *testing.F) {
	secrets := []secret{old, fresh}
	e := proofExchange{from: 2, to: 1, keyingMaterial: make([]byte, 32)}
	f.Add(e.encodeDialerMessage(keysOf(secrets)))
	f.Add(e.encodeDialerMessage(keysOf([]secret{other})))
	f.Add(make([]byte, dialerMessageSize))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if len(sent) != dialerMessageSize {
			return
		}
		got := proofExchange{keyingMaterial: e.keyingMaterial}
		at := got.decodeDialerMessage((*[dialerMessageSize]byte)(sent), keysOf(secrets))
		if at == noKey {
			return
		}
		p := got.computeProof(secrets[at].proofKey(), roleDialer)
		if !bytes.Contains(sent[8+nonceSize:], p[:]) {
			t.Fatalf("proved with %x", sent)
		}
	})
}

// closedSays is the error of a dialer that is refused without a word of TLS: it says where the reason is.
const closedSays = "TLS handshake: the member closed the connection; its log says why"

func TestClosedWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		out := dials(newGuard(t, 2, false, old), a, 1)
		_, _ = b.Read(make([]byte, 4<<10)) // the first message of TLS
		_ = b.Close()
		if err := (<-out).err; !errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), closedSays) {
			t.Errorf("dialer: %v", err)
		}
	})
}

// A connection that is reset counts as closed: the system resets it if not all bytes were read.
func TestResetWithoutAWord(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	out := dials(newGuard(t, 2, false, old), a, 1)
	if _, err := b.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = b.(*net.TCPConn).SetLinger(0) // Close resets
	_ = b.Close()
	if err := (<-out).err; !errors.Is(err, syscall.ECONNRESET) || !strings.HasPrefix(err.Error(), closedSays) {
		t.Errorf("dialer: %v", err)
	}
}
