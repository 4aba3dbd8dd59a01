package console

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/config"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/member"
	"rollcall/server"
	"rollcall/zk/jute"
)

// crowd is three members in this process with more sessions than a process may have files. The connections of
// clients are in memory.
type crowd struct {
	members  []*member.Member
	ports    []*memoryPort
	consoles []string // their addresses
}

const (
	crowdOpeners = 16 // sessions that are opened at once
	crowdTries   = 20 // at each: an election, on a machine that is busy with all of them, may cost a few
)

// newCrowd starts the members, and opens n sessions with timeouts of 10 to 40 ticks. Each is heard every third
// of its timeout until the test ends.
func newCrowd(t *testing.T, n int, tick time.Duration) *crowd {
	t.Helper()
	c := &crowd{}
	var servers []member.Server
	for id := uint32(1); id <= 3; id++ {
		servers = append(servers, member.Server{ID: id, GrpcAddr: process.FreePort(t).String(), RaftAddr: process.FreePort(t).String()})
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, s := range servers {
		operators, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := newMemoryPort()
		m, err := member.New(member.Config{
			ID: s.ID, Servers: servers, ClientListener: port, OperatorListener: operators, Version: "0.1.0-dev",
			Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
			Settings: config.Settings{
				Dir: filepath.Join(t.TempDir(), "data"), Tick: tick, MaxTimeout: 40 * tick, Limits: server.Limits{MaxClientConns: -1, MaxConns: -1},
			}.WithDefaults(),
		})
		if err != nil {
			t.Fatal(err)
		}
		c.members, c.ports, c.consoles = append(c.members, m), append(c.ports, port), append(c.consoles, "http://"+operators.Addr().String())
		running.Go(func() {
			if err := m.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var sessions sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		sessions.Wait()
	})
	for _, m := range c.members {
		select {
		case <-m.Ready():
		case <-time.After(process.Patience):
			t.Fatal("a member does not serve")
		}
	}
	var opened atomic.Int64
	var opening sync.WaitGroup
	for range crowdOpeners {
		opening.Go(func() {
			for i := int(opened.Add(1) - 1); i < n; i = int(opened.Add(1) - 1) {
				timeout := time.Duration(1+i%4) * 10 * tick
				conn, err := c.ports[i%3].open(i, timeout)
				for try := 1; err != nil && try < crowdTries; try++ {
					time.Sleep(tick / 2)
					conn, err = c.ports[i%3].open(i, timeout)
				}
				if err != nil {
					t.Error(err)
					return
				}
				sessions.Go(func() { keepAlive(ctx, conn, timeout) })
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return c
}

// open opens a session with a timeout.
func (p *memoryPort) open(i int, timeout time.Duration) (*wire.Conn, error) {
	c, err := p.dial(memoryAddr(fmt.Sprintf("10.%d.%d.%d:%d", i>>14&63, i>>7&127, 1+i&127, 40000+i%20000)))
	if err != nil {
		return nil, err
	}
	conn := wire.New(c)
	if _, err := conn.Open(timeout); err != nil {
		return nil, err
	}
	return conn, nil
}

// keepAlive sends pings until ctx ends or the connection breaks.
func keepAlive(ctx context.Context, c *wire.Conn, timeout time.Duration) {
	defer c.Close()
	next := time.NewTimer(rand.N(timeout / 3)) // each at its own times
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(timeout / 3)
		if c.Send(-2, jute.OpPing, nil) != nil {
			return
		}
		if _, err := c.Recv(); err != nil {
			return
		}
	}
}

// memoryPort is a listener in memory.
type memoryPort struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newMemoryPort() *memoryPort {
	return &memoryPort{conns: make(chan net.Conn), done: make(chan struct{})}
}

// dial connects from an address.
func (p *memoryPort) dial(from memoryAddr) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- memoryConn{theirs, from}:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *memoryPort) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *memoryPort) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *memoryPort) Addr() net.Addr { return memoryAddr("10.0.0.1:2181") }

type memoryConn struct {
	net.Conn
	from memoryAddr
}

func (c memoryConn) RemoteAddr() net.Addr { return c.from }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }
