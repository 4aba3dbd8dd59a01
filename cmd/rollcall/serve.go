package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"rollcall/member"
	"rollcall/quorum/disk"
	"rollcall/server"
	"rollcall/znode"
)

// drainPace is how long a graceful stop takes to send clients elsewhere, so that they do
// not all arrive at the next member at once.
const drainPace = 500 * time.Millisecond

// serve runs one member until ctx ends.
func serve(ctx context.Context, args, env []string, stderr io.Writer) error {
	cfg, logger, err := configured("serve", args, env, stderr, nil)
	if err != nil {
		return err
	}
	if err := cfg.SaveMyID(); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	keepWithin(cgroupMemory(os.DirFS("/")), env)
	clients, err := cfg.listenClients()
	if err != nil {
		return fmt.Errorf("serve: clients: %w", err)
	}
	settings := cfg.member(logger)
	settings.Clients = clients
	settings.Events = func(e member.Event) { logger.Log(ctx, eventLevel(e.Kind), string(e.Kind), "event", e) }
	m, err := member.New(settings)
	if err != nil {
		_ = clients.Close() // the error of New is the one to tell
		if errors.Is(err, disk.ErrOtherMember) {
			err = fmt.Errorf("%w; the number of this member is from %s", err, cfg.idFrom)
		}
		return fmt.Errorf("serve: %w", err)
	}
	logger.Info("member starts", "member", cfg.MyID, "version", builtFrom().version(), "clients", clients.Addr().String(),
		"data", cfg.DataDir, "members", len(settings.Servers), "tick", cfg.Tick)
	var tuning sync.WaitGroup
	over, stop := context.WithCancel(ctx)
	tuning.Go(func() { keepSmall(over, env, m.Ready()) })
	err = m.Run(ctx)
	stop()
	tuning.Wait()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	logger.Info("member stopped", "member", cfg.MyID)
	return nil
}

// eventLevel keeps what every client does all day out of the log.
func eventLevel(kind member.EventKind) slog.Level {
	switch kind {
	case member.EventQuota:
		return slog.LevelWarn
	case member.EventLeader, member.EventExpired:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// configured reads the flags of a command that works on one member, and its
// configuration, and tells the warnings. more adds flags of the command's own.
func configured(command string, args, env []string, stderr io.Writer, more func(*flag.FlagSet)) (Config, *slog.Logger, error) {
	fs := newFlags(command, "[zoo.cfg]", stderr)
	var flags Flags
	flags.Register(fs)
	if more != nil {
		more(fs)
	}
	verbose := fs.Bool("v", false, "log what matters only to a developer, too")
	if err := fs.Parse(args); err != nil {
		return Config{}, nil, err
	}
	if fs.NArg() > 1 {
		return Config{}, nil, fmt.Errorf("%s: unexpected argument %q", command, fs.Arg(1))
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	cfg, warnings, err := Load(fs.Arg(0), env, flags)
	for _, w := range warnings {
		logger.Warn(w.Text, "where", w.Where)
	}
	if err != nil {
		return Config{}, nil, fmt.Errorf("%s: %w", command, err)
	}
	return cfg, logger, nil
}

// listenClients opens the client port; a member without one gets a listener that hears
// nobody.
func (c *Config) listenClients() (net.Listener, error) {
	if c.ClientAddr == "" {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return net.Listen("tcp", c.ClientAddr)
}

// member translates a configuration for package member.
func (c *Config) member(logger *slog.Logger) member.Config {
	return member.Config{
		ID: c.MyID, Servers: c.voters(), Dir: c.DataDir, LogDir: c.DataLogDir,
		Tick: c.Tick, InitLimit: c.InitLimit, SyncLimit: c.SyncLimit, MinTimeout: c.MinSessionTimeout, MaxTimeout: c.MaxSessionTimeout,
		Limits: server.Limits{
			MaxBuffer:      c.MaxBuffer,
			MaxClientConns: unlimited(c.MaxClientCnxns),
			MaxConns:       unlimited(c.MaxCnxns),
			MaxInFlight:    c.ConnOutstandingLimit,
			MaxUnread:      c.ConnUnreadLimit,
			MaxMultiOps:    c.MultiOperationLimit,
			Budget:         clientMemory(int64(c.ClientMemoryLimit), 1),
			Handshake:      c.HandshakeTimeout,
		},
		InFlight: c.GlobalOutstandingLimit, Drain: drainPace,
		LinearizableReads: c.Linearizable,
		SuperDigest:       c.SuperDigest, Rules: znode.Rules{SkipACL: c.SkipACL, TTLNodes: c.ExtendedTypes, EnforceQuota: c.EnforceQuota},
		Reaping: c.Reaping, Whitelist: c.Whitelist, SnapCount: uint64(c.SnapCount), StoreStallLimit: c.StoreStallLimit, LogKind: c.LogKind,
		NewEnsemble: c.NewEnsemble, Bind: c.bind, EnsembleText: c.ensembleText(),
		Version: builtFrom().version(), Built: builtFrom().built(), Logger: logger,
	}
}

// unlimited translates ZooKeeper's 0 for "no limit"; to package server that is -1.
func unlimited(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// standaloneAddr stands for the addresses of a member that has no others: nobody dials
// them, and it listens on no port for members.
const standaloneAddr = "standalone"

func (c *Config) voters() []member.Server {
	if c.Standalone {
		return []member.Server{{ID: c.MyID, Grpc: standaloneAddr + ":1", Raft: standaloneAddr + ":2"}}
	}
	servers := make([]member.Server, 0, len(c.Servers))
	for _, s := range c.Servers {
		servers = append(servers, member.Server{ID: s.ID, Grpc: s.QuorumAddr(), Raft: s.ElectionAddr()})
	}
	return servers
}

// bind is where to listen for an advertised address of this member.
func (c *Config) bind(addr string) string {
	if !c.ListenOnAllIPs {
		return addr
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // listening will say what is wrong with it
	}
	return net.JoinHostPort("", port)
}

// ensembleText is what /zookeeper/config says; a standalone server has none.
func (c *Config) ensembleText() []byte {
	if c.Standalone {
		return nil
	}
	var b strings.Builder
	for _, s := range c.Servers {
		b.WriteString(s.String() + "\n")
	}
	b.WriteString("version=0") // of the server list: it does not change while members run
	return []byte(b.String())
}
