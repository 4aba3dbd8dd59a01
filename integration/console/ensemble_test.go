package console

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/lab/process"
)

// ensemble is three members as processes, with a few sessions.
type ensemble struct {
	*process.Ensemble
	t *testing.T
}

// superLines make the user super with the password "secret".
const superLines = "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n"

// slowLines make nearly every write a slow request.
const slowLines = "slowWriteThreshold=1\n"

func startEnsemble(t *testing.T) *ensemble {
	t.Helper()
	return &ensemble{process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: time.Second, Lines: process.AnyHTTP + superLines + slowLines}), t}
}

// console returns the address of a member's console.
func (e *ensemble) console(m *process.Member) string {
	e.t.Helper()
	addr, err := m.HTTP()
	if err != nil {
		e.t.Fatal(err)
	}
	return "http://" + addr
}

// session opens a session on a member. It ends with the test.
func (e *ensemble) session(t *testing.T, m *process.Member, timeout time.Duration) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	c, err := client.Dial(ctx, m.Clients, client.Config{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
		defer cancel()
		_ = c.Close(ctx) // the test has closed or killed it
	})
	return c
}

// create creates a node.
func create(t *testing.T, c *client.Client, path, data string, mode client.Mode) {
	t.Helper()
	if _, _, err := c.Create(t.Context(), path, []byte(data), mode); err != nil {
		t.Fatalf("create %q: %v", path, err)
	}
}

// relay passes the connections of a browser on to a member, whose address may change. The page keeps its
// address.
type relay struct {
	listener net.Listener

	mu    sync.Mutex
	to    string // "": nowhere
	conns map[net.Conn]bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.lead("")
		serving.Wait()
	})
	return r
}

func (r *relay) base() string { return "http://" + r.listener.Addr().String() }

// lead cuts the connections, and has new ones lead to another address; "": nowhere.
func (r *relay) lead(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) pass(c net.Conn) {
	defer c.Close()
	r.mu.Lock()
	to := r.to
	r.conns[c] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, c)
	}()
	if to == "" {
		return
	}
	onward, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer onward.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, onward) // an error ends the connection, as does its end
		_ = c.Close()
	})
	_, _ = io.Copy(onward, c)
	_ = onward.Close()
	back.Wait()
}

// idOf returns the id of a client's session.
func idOf(c *client.Client) string {
	id, _ := c.Session()
	return id.String()
}
