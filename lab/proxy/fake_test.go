package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/rollcalltest"
)

// sessionTimeout is the timeout that the clients of these tests request.
const sessionTimeout = 2 * time.Second

// memoryEnsemble has new servers in memory for each run.
type memoryEnsemble struct {
	members   int
	onRequest func(rollcalltest.Request) // nil: nothing
}

func (m *memoryEnsemble) Describe() string { return "servers of a test" }

func (m *memoryEnsemble) Fresh(ctx context.Context) (Servers, error) {
	e, err := rollcalltest.New(ctx, m.members, rollcalltest.Config{Pipes: true, OnRequest: func(r rollcalltest.Request) rollcalltest.Verdict {
		if m.onRequest != nil {
			m.onRequest(r)
		}
		return rollcalltest.Verdict{}
	}})
	if err != nil {
		return Servers{}, err
	}
	return Servers{
		Addresses: strings.Split(e.ConnectString(), ","), Dial: e.Dial,
		Close: func(context.Context) error { return e.Close() },
	}, nil
}

// pipes is a network of one listener at a time, in memory.
type pipes struct {
	mu    sync.Mutex
	conns chan net.Conn
}

// Listen opens the listener that Dial reaches from now on.
func (p *pipes) Listen() (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = make(chan net.Conn)
	return &pipeListener{conns: p.conns, closed: make(chan struct{})}, nil
}

// Dial connects to the listener.
func (p *pipes) Dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	conns := p.conns
	p.mu.Unlock()
	here, there := net.Pipe()
	select {
	case conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{} }

// script is a program that runs in this process, with a client of its own. Its context ends if it is killed.
type script struct {
	pipes *pipes
	run   func(ctx context.Context, dial func(context.Context) (*client.Client, error)) error
}

func (s script) Start(ctx context.Context, _ string, out io.Writer) (Process, error) {
	ctx, kill := context.WithCancel(ctx)
	p := &scriptProcess{kill: kill, ended: make(chan error, 1)}
	start := time.Now()
	dial := func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, "proxy:1", client.Config{
			Timeout: sessionTimeout, WhileSuspended: client.Fail,
			Clock: func() time.Duration { return time.Since(start) + 1 },
			DialConn: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := s.pipes.Dial(ctx)
				if err != nil {
					return nil, err
				}
				return pausedConn{conn, &p.gate}, nil
			},
		})
	}
	go func() {
		err := s.run(ctx, dial)
		if err != nil {
			fmt.Fprintln(out, "the script failed:", err)
		}
		p.ended <- err
	}()
	return p, nil
}

// scriptProcess is a script that runs. While it is stopped, its connections stand still.
type scriptProcess struct {
	kill  context.CancelFunc
	ended chan error
	gate  gate
}

func (p *scriptProcess) Wait() error { return <-p.ended }
func (p *scriptProcess) Kill()       { p.kill() }

func (p *scriptProcess) Stop() error     { return p.gate.set(make(chan struct{})) }
func (p *scriptProcess) Continue() error { return p.gate.set(nil) }

// gate lets nothing pass while it is closed. Unlike a lock, its channel lets the time of a bubble advance.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil: it is open
}

func (g *gate) set(closed chan struct{}) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
	}
	g.closed = closed
	return nil
}

func (g *gate) pass() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

// pausedConn waits before each write while its process is stopped.
type pausedConn struct {
	net.Conn
	gate *gate
}

func (c pausedConn) Write(b []byte) (int, error) {
	c.gate.pass()
	return c.Conn.Write(b)
}
