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
	"sync"
	"time"

	"rollcall/config"
	"rollcall/member"
	"rollcall/quorum/disk"
)

// drainPace is how long a graceful stop takes to close client connections, so that the clients do not
// all arrive at the next member at once.
const drainPace = 500 * time.Millisecond

// serve runs one member until ctx ends.
func serve(ctx context.Context, args, env []string, stderr io.Writer) error {
	cfg, logger, err := configured("serve", args, env, stderr, nil)
	if err != nil {
		return err
	}
	if err := cfg.SaveMyID(); err != nil {
		return told{fmt.Errorf("serve: %w", err)}
	}
	keepWithin(cgroupMemory(os.DirFS("/")), env)
	clients, err := listenClients(cfg.ClientAddr)
	if err != nil {
		return fmt.Errorf("serve: clients: %w", err)
	}
	settings := memberConfig(cfg, logger)
	settings.Clients = clients
	settings.Operators = listenHTTP(cfg.HTTP.Addr, "HTTP for operators is not served; set another admin.serverPort, or admin.enableServer=false", logger)
	settings.Collectors = listenHTTP(cfg.HTTP.MetricsAddr, "metrics are not served; set another metricsProvider.httpPort", logger)
	settings.Events = func(e member.Event) { logger.Log(ctx, eventLevel(e.Kind), string(e.Kind), "event", e) }
	m, err := member.New(settings)
	if err != nil {
		closeListeners(settings) // the error of New is the one to return
		if errors.Is(err, disk.ErrOtherMember) {
			err = fmt.Errorf("%w; the number of this member is from %s", err, cfg.IDFrom)
		}
		return fmt.Errorf("serve: %w", err)
	}
	logger.Info("member starts", "member", cfg.MyID, "version", builtFrom().version(), "clients", clients.Addr().String(),
		"http", addrOf(settings.Operators), "metrics", addrOf(settings.Collectors), "data", cfg.Dir, "members", len(settings.Servers), "tick", cfg.Tick)
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

// eventLevel returns the level at which an event is logged. Events of every client's normal work
// are at the debug level, and so are not in the log.
func eventLevel(kind member.EventKind) slog.Level {
	switch kind {
	case member.EventQuota:
		return slog.LevelWarn
	case member.EventLeader, member.EventExpired, member.EventKilled:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// configured parses the flags of a command that works on one member, loads its configuration and logs
// the warnings. more adds flags that only this command has; it may be nil.
func configured(command string, args, env []string, stderr io.Writer, more func(*flag.FlagSet)) (config.Config, *slog.Logger, error) {
	fs := newFlags(command, "[zoo.cfg]", stderr)
	var flags config.Flags
	flags.Register(fs)
	if more != nil {
		more(fs)
	}
	verbose := fs.Bool("v", false, "also log what matters only to developers")
	if err := fs.Parse(args); err != nil {
		return config.Config{}, nil, err
	}
	if fs.NArg() > 1 {
		return config.Config{}, nil, fmt.Errorf("%s: unexpected argument %q; after the flags comes one zoo.cfg", command, fs.Arg(1))
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	cfg, warnings, err := config.Load(fs.Arg(0), env, flags)
	for _, w := range warnings {
		logger.Warn(w.Text, "where", w.Where)
	}
	if err != nil {
		return config.Config{}, nil, told{fmt.Errorf("%s: %w", command, err)}
	}
	return cfg, logger, nil
}

// listenClients opens the port for clients. A member without one, whose addr is "", gets a listener on
// loopback that nobody knows of.
func listenClients(addr string) (net.Listener, error) {
	if addr == "" {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return net.Listen("tcp", addr)
}

// listenHTTP opens a port for HTTP. A member without one serves its clients all the same: a port that
// is in use, mostly by another member on this machine, is a warning. The result is nil then, and if
// addr is "".
func listenHTTP(addr, warning string, logger *slog.Logger) net.Listener {
	if addr == "" {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		logger.Warn(warning, "err", err)
		return nil
	}
	return l
}

// addrOf returns where a listener listens, or "" if there is none.
func addrOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// closeListeners closes the listeners of a member that could not be made.
func closeListeners(cfg member.Config) {
	for _, l := range []net.Listener{cfg.Clients, cfg.Operators, cfg.Collectors} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// memberConfig adds to the settings what a member needs besides. The caller adds
// the listeners and Events.
func memberConfig(cfg config.Config, logger *slog.Logger) member.Config {
	cfg.Limits.Budget = clientMemory(cfg.Limits.Budget, 1)
	return member.Config{
		Settings: cfg.Settings, ID: cfg.MyID, Servers: voters(cfg), Drain: drainPace,
		Bind: cfg.Bind, EnsembleText: cfg.EnsembleText(),
		Version: builtFrom().version(), Built: builtFrom().built(), Logger: logger,
	}
}

// standaloneAddr stands for the addresses of a member that has no others: nobody dials
// them, and it listens on no port for members.
const standaloneAddr = "standalone"

// voters returns the members that vote.
func voters(cfg config.Config) []member.Server {
	if cfg.Standalone {
		return []member.Server{{ID: cfg.MyID, Grpc: standaloneAddr + ":1", Raft: standaloneAddr + ":2"}}
	}
	servers := make([]member.Server, 0, len(cfg.Servers))
	for _, s := range cfg.Servers {
		servers = append(servers, member.Server{ID: s.ID, Grpc: s.QuorumAddr(), Raft: s.ElectionAddr()})
	}
	return servers
}
