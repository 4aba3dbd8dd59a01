package session

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// ending describes the end of one session of TestNoLeaks: the server's part, on the first connection, and the
// configuration.
type ending struct {
	name   string
	server func(p *peer, cancel func()) // cancel ends the context of Open
	adjust func(cfg *Config)
	opens  bool // Open succeeds
	close  bool // and Close follows, else Abandon
}

var endings = []ending{
	{name: "close", opens: true, close: true, server: func(p *peer, _ func()) {
		p.accept()
		p.reply(p.want(jute.OpCloseSession).Xid, 1, jute.OK, nil)
		p.ended()
	}},
	{name: "abandon", opens: true, server: func(p *peer, _ func()) { p.accept(); p.ended() }},
	{
		name: "abandon at a read-only server", opens: true, server: func(p *peer, _ func()) { p.acceptReadOnly(7); p.ended() },
		adjust: func(cfg *Config) { cfg.AllowReadOnly = true; cfg.Servers = append(cfg.Servers, "none") },
	},
	{name: "refused", adjust: func(cfg *Config) {
		cfg.Dial = func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	}},
	{name: "closed at once", server: func(*peer, func()) {}},
	{name: "silent", server: func(p *peer, cancel func()) { p.connectRequest(); cancel(); p.ended() }},
	{name: "cut short", server: func(p *peer, _ func()) { p.connectRequest(); _, _ = p.Write([]byte{0, 0, 0, 37, 0}) }},
	{name: "nonsense", server: func(p *peer, _ func()) { p.connectRequest(); _, _ = p.Write([]byte("HTTP/1.1 400 Bad Request\r\n")) }},
	{name: "rejected", server: func(p *peer, _ func()) { p.rejectHandshake() }, adjust: func(cfg *Config) { cfg.Resume = &ResumeToken{ID: 7} }},
	{name: "read-only", server: func(p *peer, _ func()) { p.acceptReadOnly(7) }},
	{name: "identity rejected", server: func(p *peer, _ func()) {
		p.accept()
		p.want(jute.OpAuth)
		p.reply(jute.XidAuth, 0, jute.AuthFailed, nil)
	}, adjust: func(cfg *Config) { cfg.Auth = []Auth{{Scheme: "digest"}} }},
	{
		name: "closed before the identity", server: func(p *peer, _ func()) { p.accept() },
		adjust: func(cfg *Config) { cfg.Auth = []Auth{{Scheme: "digest"}} },
	},
	{name: "login rejected", server: func(p *peer, _ func()) {
		p.accept()
		p.frame()
		p.reply(0, 0, jute.AuthFailed, nil)
	}, adjust: func(cfg *Config) { cfg.Login = &Login{User: "u", Password: "p"} }},
	{
		name: "no TLS", server: func(p *peer, _ func()) {
			_, _ = p.Write([]byte("no TLS here"))
			_, _ = io.Copy(io.Discard, p.r) // until the client closes the connection
		},
		adjust: func(cfg *Config) { cfg.TLS = &tls.Config{ServerName: "x"} },
	},
}

// Sessions leave no goroutine and no descriptor, however they end. An Open that fails ends with its context, at the
// second attempt to connect.
func TestNoLeaks(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	endOne(t, ln, endings[0]) // what Go itself keeps is there after the first
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	for i := range 100 {
		endOne(t, ln, endings[i%len(endings)])
	}
	awaitNoMore(t, "goroutines", goroutines, runtime.NumGoroutine)
	awaitNoMore(t, "descriptors", descriptors, func() int { return openDescriptors(t) })
}

// endOne opens a session at ln, which ends as e.
func endOne(t *testing.T, ln net.Listener, e ending) {
	t.Helper()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	attempts := 0
	cfg := Config{Servers: []string{ln.Addr().String()}, Dial: dialDefault, Timeout: 3 * time.Second}
	if e.adjust != nil {
		e.adjust(&cfg)
	}
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		if addr != "none" { // the search for a server that can write has that one, and does not end
			if attempts++; attempts == 1 {
				return dial(ctx, addr)
			}
			cancel()
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if e.server == nil {
			return
		}
		conn, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		e.server(&peer{Conn: conn, t: t, r: bufio.NewReader(conn)}, cancel)
	}()
	c, err := Open(limited, cfg)
	switch {
	case (err == nil) != e.opens:
		t.Errorf("%s: open: %v", e.name, err)
	case e.opens && e.close:
		if err := c.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", e.name, err)
		}
	case e.opens:
		c.Abandon()
	}
	<-served
}

// openDescriptors returns the number of this process's descriptors, or 0 where that is not known.
func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(list)
}

// awaitNoMore waits until count returns no more than limit.
func awaitNoMore(t *testing.T, counted string, limit int, count func() int) {
	t.Helper()
	for began := time.Now(); count() > limit; time.Sleep(time.Millisecond) { // some may be about to end
		if time.Since(began) > time.Minute {
			t.Errorf("%d %s, at first there were %d", count(), counted, limit)
			return
		}
	}
}
