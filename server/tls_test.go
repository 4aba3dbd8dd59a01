package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// tlsConfig returns a server's configuration with a certificate of a, which requests one from clients.
func (a signer) tlsConfig() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{a.issue(pkix.Name{CommonName: "server"})},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: a.pool(),
	}
}

// secureDial connects to addr over TLS.
func (a signer) secureDial(addr string) (*tls.Conn, error) {
	return tls.Dial("tcp", addr, &tls.Config{RootCAs: a.pool()})
}

// addrOf returns the address of a world's server.
func addrOf(w *world) string {
	c := w.dial()
	defer c.Close()
	return c.RemoteAddr().String()
}

// A port that takes both serves plain connections and those over TLS. A plain one gets into a loop as on a
// port of its own.
func TestUnifiedPort(t *testing.T) {
	a := newAuthority(t)
	w := newWorld(t, true, func(c *Config) {
		c.TLS = TLS{Config: a.tlsConfig(), Unified: true, Detection: patience}
	})
	addr := addrOf(w)
	plain := w.connect()
	plain.must(jute.OpGetData, getData("/", false))
	w.dial = func() net.Conn {
		c, err := a.secureDial(addr)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	secure := w.connect()
	for range 20 {
		plain.must(jute.OpGetData, getData("/", false))
		secure.must(jute.OpGetData, getData("/", false))
	}
	page, _ := w.srv.Listing().ConnectionsFrom(t.Context(), make([]clients.Connection, 0, 10), 0)
	page = slices.DeleteFunc(page, func(c clients.Connection) bool { return c.Session == 0 }) // addrOf's may be there still
	if len(page) != 2 || page[0].TLS != "" || page[0].Cipher != "" || page[1].TLS != "TLSv1.3" || !strings.HasPrefix(page[1].Cipher, "TLS_") {
		t.Errorf("operators see %+v", page)
	}
	if secure, plain := inLoop(w, secure), inLoop(w, plain); secure || plain != (runtime.GOOS == "linux") {
		t.Errorf("in a loop: TLS %t, plain %t; want false, %t", secure, plain, (runtime.GOOS == "linux"))
	}
}

// A port that takes both does not wait for a client that sends nothing.
func TestUnifiedPortWaitsForTheFirstByte(t *testing.T) {
	const detection = 300 * time.Millisecond
	w := newWorld(t, true, func(c *Config) {
		c.TLS = TLS{Config: newAuthority(t).tlsConfig(), Unified: true, Detection: detection}
		c.Limits.Handshake = 2 * patience
	})
	began, silent := time.Now(), w.open()
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) < detection {
		t.Errorf("a client that sends nothing gets %v after %v, want the end after %v", err, time.Since(began), detection)
	}
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["handshake_timeout"] == 1 })
}

// inLoop reports whether a loop serves a client's connection.
func inLoop(w *world, c *client) bool {
	conn := w.srv.conns.carrierOf(c.id)
	conn.stream.Lock()
	defer conn.stream.Unlock()
	return conn.stream.State().InLoop
}

// halfHello is the beginning of a handshake of TLS: the head of a message of 512 bytes, and 8 of them.
const halfHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03ab"

// recorder keeps what is written, for half of a handshake.
type recorder struct {
	net.Conn
	wrote bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) { return r.wrote.Write(b) }
func (r *recorder) Read([]byte) (int, error)    { return 0, net.ErrClosed }

// hello returns the whole first message of a client.
func hello(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	r := &recorder{Conn: ours}
	_ = tls.Client(r, &tls.Config{InsecureSkipVerify: true}).Handshake()
	return r.wrote.Bytes()
}

// Strangers that send a part of their first message, or all of it and nothing more, keep no client from its turn:
// however many they are, another client's handshake continues.
func TestStrangersKeepNoTurn(t *testing.T) {
	a := newAuthority(t)
	w := newWorld(t, true, func(c *Config) { c.TLS = TLS{Config: a.tlsConfig(), Unified: true} })
	addr := addrOf(w)
	whole := hello(t)
	const strangers = 24
	for i := range strangers {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		bytes := []byte(halfHello)
		if i%2 == 0 {
			bytes = whole
		}
		if _, err := c.Write(bytes); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // the server's answer shows that it has had its turn
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, func() bool { return underWay(w) == strangers })
	if n := w.srv.tls.computeSlots.Taken(); n != 0 {
		t.Errorf("%d turns are held", n)
	}
	c, err := a.secureDial(addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// A handshake waits for its turn, and gets it when another one has signed. If there is none in time, the
// connection ends.
func TestHandshakesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config, _ := bubble(t, func(*TLS) {})
		slots := w.srv.tls.computeSlots
		for range slots.Limit() {
			slots.TryTake()
		}
		if err := tls.Client(w.dial(), config).Handshake(); err == nil {
			t.Error("a handshake does not wait for its turn")
		}
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["handshake_timeout"]; n != 1 {
			t.Errorf("%d handshakes took too long, want 1", n)
		}
		waits := make(chan error, 1)
		go func() { waits <- tls.Client(w.dial(), config).Handshake() }()
		synctest.Wait()
		if n := underWay(w); n != 1 || len(waits) != 0 {
			t.Errorf("%d handshakes are under way, and %d are done, want 1 and none", n, len(waits))
		}
		slots.Release()
		if err := <-waits; err != nil {
			t.Errorf("when there is a turn: %v", err)
		}
		synctest.Wait()
		if n := slots.Taken(); n != slots.Limit()-1 {
			t.Errorf("%d turns are held, want %d", n, slots.Limit()-1)
		}
		for slots.Taken() > 0 {
			slots.Release()
		}
	})
}

// underWay returns the number of handshakes that have a place.
func underWay(w *world) int {
	return w.srv.tls.handshakeLimiter.UnderWay()
}

// bubble returns a world whose clients may connect over TLS in memory, the configuration of these clients, and the
// server's log, which may be read when synctest.Wait has returned.
func bubble(t *testing.T, change func(*TLS)) (w *world, config *tls.Config, log *bytes.Buffer) {
	t.Helper()
	a := newAuthority(t)
	log = new(bytes.Buffer)
	w = newWorld(t, false, func(c *Config) {
		c.TLS = TLS{Config: a.tlsConfig()}
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
		change(&c.TLS)
	})
	l := newPipeListener()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.srv.ServeTLS(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("ServeTLS: %v", err)
		}
		if n, held := underWay(w), w.srv.tls.computeSlots.Taken(); n != 0 || held != 0 {
			t.Errorf("in the end %d handshakes are under way, and %d have turns", n, held)
		}
	})
	w.dial = l.dial
	return w, &tls.Config{RootCAs: a.pool(), ServerName: "127.0.0.1"}, log
}

// If all places are taken, a client gets the one of the client that has been silent for longest. Another one keeps
// its place, and can make its handshake.
func TestSilentClientsLoseTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config, log := bubble(t, func(c *TLS) { c.Handshakes = 3 })
		nothing := w.dial()
		synctest.Wait() // the places are taken in the order of the dials
		half := w.dial()
		if _, err := half.Write([]byte(halfHello)); err != nil {
			t.Fatal(err)
		}
		waits := tls.Client(w.dial(), config)
		synctest.Wait()
		for _, silent := range []net.Conn{nothing, half} {
			if n := underWay(w); n != 3 {
				t.Fatalf("%d handshakes are under way, want 3", n)
			}
			last := tls.Client(w.dial(), config)
			defer last.Close()
			synctest.Wait()
			if n, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatalf("the oldest one gets %d bytes, %v", n, err)
			}
		}
		if err := waits.Handshake(); err != nil {
			t.Errorf("the one that keeps its place: %v", err)
		}
		synctest.Wait()
		if ended := w.srv.Stats().EndedByReason; ended["max_tls_handshakes"] != 2 || ended["tls_failed"] != 0 {
			t.Errorf("ended: %v", ended)
		}
		if n := strings.Count(log.String(), "a client's TLS handshake failed"); n != 1 ||
			!strings.Contains(log.String(), admission.ErrDisplaced.Error()) {
			t.Errorf("%d lines:\n%s", n, log)
		}
	})
}

// A client that has sent its first message keeps its place. If all places are taken by such clients, a further one is
// rejected at once.
func TestTooManyHandshakes(t *testing.T) {
	whole := hello(t)
	synctest.Test(t, func(t *testing.T) {
		w, config, log := bubble(t, func(c *TLS) { c.Handshakes = 1 })
		first := w.dial()
		defer first.Close()
		if _, err := first.Write(whole); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := tls.Client(w.dial(), config).Handshake(); err == nil {
			t.Error("a second handshake is not refused")
		}
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["max_tls_handshakes"]; n != 1 ||
			!strings.Contains(log.String(), admission.ErrTooManyHandshakes.Error()) {
			t.Errorf("%d refused, log:\n%s", n, log)
		}
		_ = first.Close()
		synctest.Wait()
		if err := tls.Client(w.dial(), config).Handshake(); err != nil {
			t.Errorf("when the first has gone: %v", err)
		}
	})
}

// asked is a client's socket. Its second write is the reply to the server's request for another key. Before that write,
// it reads the bytes that the server still writes, because a pipe holds nothing, and calls answers.
type asked struct {
	net.Conn
	writes  int
	kept    io.Reader
	answers func()
}

func (c *asked) Write(b []byte) (int, error) {
	if c.writes++; c.writes == 2 {
		change := make([]byte, 6) // a record that TLS 1.3 ignores
		if _, err := io.ReadFull(c.Conn, change); err != nil {
			return 0, err
		}
		c.kept = io.MultiReader(bytes.NewReader(change), c.Conn)
		c.answers()
	}
	return c.Conn.Write(b)
}

func (c *asked) Read(b []byte) (int, error) {
	if c.kept != nil {
		return c.kept.Read(b)
	}
	return c.Conn.Read(b)
}

// A client that reads nothing keeps no turn.
func TestSlowReadersKeepNoTurn(t *testing.T) {
	whole := hello(t)
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := bubble(t, func(*TLS) {})
		c := w.dial()
		defer c.Close()
		if _, err := c.Write(whole); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := w.srv.tls.computeSlots.Taken(); n != 0 || underWay(w) != 1 {
			t.Errorf("%d turns are held, %d handshakes are under way", n, underWay(w))
		}
		if n, err := c.Read(make([]byte, 1)); n != 1 {
			t.Errorf("it is not answered: %v", err)
		}
	})
}

// If a client's first message has no key share that the server accepts, the server requests another one. The client
// waits for its turn a second time, because only then the server signs.
func TestSecondHelloTakesATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config, log := bubble(t, func(c *TLS) { c.Config.CurvePreferences = []tls.CurveID{tls.CurveP384} })
		slots := w.srv.tls.computeSlots
		config.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384}
		c := tls.Client(&asked{Conn: w.dial(), answers: func() {
			if n := slots.Taken(); n != 0 {
				t.Errorf("%d turns are held while the client is asked", n)
			}
			for range slots.Limit() {
				slots.TryTake()
			}
		}}, config)
		defer c.Close()
		done := make(chan error, 1)
		go func() { done <- c.Handshake() }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		for range slots.Limit() {
			slots.Release()
		}
		if err := <-done; err != nil {
			t.Errorf("when there are turns: %v\n%s", err, log)
		}
		if !c.ConnectionState().HelloRetryRequest {
			t.Error("the client was not asked for another key")
		}
	})
}

// longHello is the beginning of a first message of 64 KiB: as many bytes as a handshake may have, with which the
// message is not complete.
func longHello() (b []byte) {
	b = append(b, "\x16\x03\x01\x40\x00\x01\x01\x00\x00\x03\x03"...)
	b = append(b, make([]byte, 16384-6)...)
	for len(b) < maxHandshakeBytes {
		b = append(b, "\x16\x03\x01\x40\x00"...)
		b = append(b, make([]byte, 16384)...)
	}
	return b[:maxHandshakeBytes]
}

// A handshake of too many bytes is rejected. Bytes after the handshake do not count.
func TestHandshakeOfTooManyBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config, log := bubble(t, func(*TLS) {})
		long, bytes := w.dial(), longHello()
		if _, err := long.Write(bytes[:maxHandshakeBytes-1]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := underWay(w); n != 1 {
			t.Fatalf("with a byte less, %d handshakes are under way", n)
		}
		if _, err := long.Write(bytes[maxHandshakeBytes-1:]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["tls_failed"]; n != 1 ||
			!strings.Contains(log.String(), "the client's TLS handshake has more than 65536 bytes") {
			t.Errorf("%d refused, log:\n%s", n, log)
		}
		dial := w.dial
		w.dial = func() net.Conn { return tls.Client(dial(), config) }
		c := w.connect()
		c.must(jute.OpCreate, create("/large", strings.Repeat("x", 2*maxHandshakeBytes), jute.Persistent))
	})
}

// Why handshakes fail is in the log, one line in a second, with the client's address. A client that connects
// and goes away is not.
func TestFailedHandshakesAreLogged(t *testing.T) {
	a := newAuthority(t)
	began := time.Now()
	var log bytes.Buffer
	lines := newAuditLines(t)
	w := newWorld(t, true, func(c *Config) {
		c.TLS = TLS{Config: a.tlsConfig()}
		c.TLS.Config.ClientAuth, c.TLS.Unified = tls.RequireAndVerifyClientCert, true
		c.Audit = lines.log
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	addr := addrOf(w)
	for range 3 {
		c, err := a.secureDial(addr)
		if err == nil {
			_, err = c.Read(make([]byte, 1)) // with TLS 1.3 the client learns only then that it is refused
		}
		if err == nil {
			t.Error("a client without a certificate is served")
		}
	}
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["tls_failed"] == 3 })
	if n := strings.Count(log.String(), "a client's TLS handshake failed"); n == 0 ||
		n > 1+int(time.Since(began)/admission.LogInterval) || !strings.Contains(log.String(), "client=127.0.0.1:") ||
		!strings.Contains(log.String(), "didn't provide a certificate") {
		t.Errorf("%d lines:\n%s", n, &log)
	}
	const line = `"address":"127.0.0.1","operation":"authenticate","target":"tls","result":"failure","error":"tls: client didn't provide a certificate"`
	if text := lines.text(); strings.Count(text, line) != 3 {
		t.Errorf("the audit log has not three lines with %s:\n%s", line, text)
	}
}

// A server without keys serves no port for TLS.
func TestServeTLSWithoutKeys(t *testing.T) {
	w := newWorld(t, false, nil)
	l := newPipeListener()
	if err := w.srv.ServeTLS(context.Background(), l); err == nil {
		t.Error("it does")
	}
}

// A member that cannot serve closes connections over TLS at once, although their clients read nothing: closing TLS
// itself would wait for them, one after the other.
func TestCutAllDoesNotWaitForTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		config := a.tlsConfig()
		config.SessionTicketsDisabled = true // the server writes nothing after the handshake
		w := newWorld(t, false, func(c *Config) { c.TLS = TLS{Config: config} })
		l := newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- w.srv.ServeTLS(ctx, l) }()
		for range 3 {
			c := tls.Client(l.dial(), &tls.Config{RootCAs: a.pool(), ServerName: "127.0.0.1"})
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(t, func() bool { return underWay(w) == 0 })
		began := time.Now()
		w.srv.DropAll()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it takes %v", took)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
