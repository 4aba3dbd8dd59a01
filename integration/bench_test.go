package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
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

// BenchmarkWrite measures writes of 100 bytes by clients of the leader, and by clients of a
// follower, which forwards them. Three members run in one process, over loopback, with the log on
// disk. Nothing else runs. With one writer, each write waits for the one before.
func BenchmarkWrite(b *testing.B) {
	counts := []int{1, 16, 64}
	if testing.Short() {
		counts = counts[1:2]
	}
	for _, writers := range counts {
		for _, on := range []string{"leader", "follower"} {
			b.Run(fmt.Sprintf("writers=%d/on=%s", writers, on), func(b *testing.B) {
				e := startBench(b, 2*time.Second)
				at := e.roles(b)
				e.write(b, at[on], writers)
			})
		}
	}
}

// benchEnsemble is three members with real time, connections and disks.
type benchEnsemble struct {
	members []*member.Member
	clients []string
	stop    []context.CancelFunc // of each member
}

// busyFailover is so long that a member which waits for a processor is not taken for a dead one.
const busyFailover = 2 * time.Second

func startBench(b testing.TB, tick time.Duration) *benchEnsemble {
	b.Helper()
	e := &benchEnsemble{}
	var servers []member.Server
	for id := uint32(1); id <= 3; id++ {
		servers = append(servers, member.Server{ID: id, GrpcAddr: process.FreePort(b).String(), RaftAddr: process.FreePort(b).String()})
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	b.Cleanup(func() {
		stop()
		running.Wait()
	})
	for _, s := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		m, err := member.New(member.Config{
			ID: s.ID, Servers: servers, ClientListener: l,
			Settings: config.Settings{
				Dir: filepath.Join(b.TempDir(), "data"), Tick: tick, Limits: server.Limits{MaxClientConns: -1},
				HeartbeatTimeout: busyFailover,
			}.WithDefaults(),
		})
		if err != nil {
			b.Fatal(err)
		}
		e.members, e.clients = append(e.members, m), append(e.clients, l.Addr().String())
		ctx, stop := context.WithCancel(ctx)
		e.stop = append(e.stop, stop)
		running.Go(func() {
			if err := m.Run(ctx); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	for _, m := range e.members {
		select {
		case <-m.Ready():
		case <-time.After(time.Minute):
			b.Fatal("a member does not serve after a minute")
		}
	}
	e.wait(b, "all members vote", func() bool {
		return !slices.ContainsFunc(e.members, func(m *member.Member) bool { return m.Role() != "leader" && m.Role() != "follower" })
	})
	return e
}

// wait waits until a condition holds.
func (e *benchEnsemble) wait(b testing.TB, what string, holds func() bool) {
	b.Helper()
	for limit := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			b.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

// roles returns the client address of one member of each role.
func (e *benchEnsemble) roles(b *testing.B) map[string]string {
	b.Helper()
	at := map[string]string{}
	for i, m := range e.members {
		at[m.Role()] = e.clients[i]
	}
	if len(at) != 2 {
		b.Fatalf("roles: %v", at)
	}
	return at
}

// write lets the given number of clients of one member set nodes of their own, b.N times
// altogether.
func (e *benchEnsemble) write(b *testing.B, addr string, writers int) {
	b.Helper()
	conns := make([]*wire.Conn, writers)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		conns[i] = wire.New(c)
		defer c.Close()
		_, err = conns[i].Open(20 * time.Second)
		if err == nil {
			_, _, err = conns[i].Call(1, jute.OpCreate, &jute.CreateRequest{Path: fmt.Append(nil, "/b", i), ACL: jute.OpenACL})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var done sync.WaitGroup
	b.ResetTimer()
	for i, c := range conns {
		done.Go(func() {
			req := &jute.SetDataRequest{Path: fmt.Append(nil, "/b", i), Data: make([]byte, 100), Version: -1}
			for xid := int32(2); left.Add(-1) >= 0; xid++ {
				if r, _, err := c.Call(xid, jute.OpSetData, req); err != nil || r.Err != jute.OK {
					b.Error(errors.Join(err, r.Err.Err()))
					return
				}
			}
		})
	}
	done.Wait()
	b.StopTimer()
}
