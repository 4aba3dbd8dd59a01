// Package alone gives the tests of a package one member, which they share. It runs in their process.
package alone

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"rollcall/config"
	"rollcall/leader"
	"rollcall/member"
	"rollcall/server"
	"rollcall/znode"
)

// Run is what TestMain of a package calls. It starts a standalone member, passes it to use with the address
// where it takes clients, runs the tests, stops the member, and ends the process. The super user's password
// is secret.
func Run(m *testing.M, use func(alone *member.Member, addr string)) {
	status, err := run(m, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func run(m *testing.M, use func(alone *member.Member, addr string)) (int, error) {
	dir, err := os.MkdirTemp("", "alone")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	alone, err := member.New(member.Config{
		ID: 1, Servers: []member.Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}}, ClientListener: clients, Logger: slog.New(slog.DiscardHandler),
		Settings: config.Settings{
			Dir: dir, Tick: 200 * time.Millisecond, MinTimeout: 400 * time.Millisecond, MaxTimeout: time.Minute,
			SuperDigest: "super:lK75jTNcA+U9vtVEw5vB51mj/w4=", Limits: server.Limits{MaxClientConns: -1},
			Reaping: leader.Reaping{Interval: time.Hour}, Rules: znode.Rules{TTLNodes: true},
		}.WithDefaults(),
	})
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- alone.Run(ctx) }()
	use(alone, clients.Addr().String())
	status := m.Run()
	stop()
	return status, <-ended
}
