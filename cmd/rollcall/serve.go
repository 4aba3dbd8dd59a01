package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/operator/logs"
	"rollcall/quorum/disk"
)

// drainPace is how long a graceful stop takes to close client connections, so that the clients do not
// all arrive at the next member at once.
const drainPace = 500 * time.Millisecond

// newServe returns the command that runs one member.
func newServe(w cli.IOStreams) *cobra.Command {
	var f memberFlags
	cmd := &cobra.Command{
		Use: "serve [flags] [zoo.cfg]", Short: "run one member", GroupID: cli.RunGroup, Args: cli.RangeArgs(0, 1, oneFileArgument),
		Long: "Runs one member, with ZooKeeper's zoo.cfg. Without a file it takes $ZOO_CONF_DIR/zoo.cfg, or the variables ZOO_… of ZooKeeper's image. " +
			"docs/configuration.md lists keys and variables.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, log, err := f.loadConfig(w, "serve", args)
			if err != nil {
				return err
			}
			stop := f.reloadOnHangup(w, args, cfg, log)
			defer stop()
			return serveMember(cmd.Context(), cfg, log, w, func() []string { return f.changedSince(w, args, cfg, log) })
		},
	}
	f.registerFlags(cmd)
	return cmd
}

// serveMember runs one member until ctx ends. changed returns the keys that have changed since the configuration was read.
func serveMember(ctx context.Context, cfg config.Config, log *logs.Log, w cli.IOStreams, changed func() []string) error {
	warnMissingParent(cfg, log.Logger())
	if err := cfg.SaveMyID(); err != nil {
		return explainedError{fmt.Errorf("serve: %w", err)}
	}
	memory := newMemory(cfg.Memory, availableMemory(), log.Logger())
	limitCollector(systemMemory(), w.Env)
	p := &memberProcess{cfg: cfg, log: log, streams: w, settings: memberConfig(cfg, log), systemd: newNotifier(w), firstMade: make(chan struct{})}
	p.settings.Memory = memory
	p.settings.OnEvent = func(e member.Event) { log.Logger().Log(ctx, eventLevel(e.Kind), string(e.Kind), "event", e) }
	over, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { watchMemory(over, memory, log.Logger()) })
	beside.Go(func() {
		select {
		case <-p.firstMade:
			p.systemd.run(over, p.memberHealth)
		case <-over.Done():
		}
	})
	err := runWithRestarts(ctx, log.Logger(), p.runMember, changed)
	stop()
	beside.Wait()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	log.Logger().Info("member stopped", "member", cfg.MyID)
	return nil
}

// memberProcess is the process of `rollcall serve`, in which one member after the other may run. They all have the same disk and ports.
type memberProcess struct {
	cfg           config.Config
	log           *logs.Log
	streams       cli.IOStreams
	settings      member.Config // those of each member, without its listeners
	systemd       *notifier
	newest        atomic.Pointer[member.Member] // the newest one
	firstMade     chan struct{}                 // closed when the first member is there
	startingSince atomic.Pointer[time.Time]     // since when a member is being made; nil: none is
}

// runMember runs one member until ctx ends, or the member cannot continue.
func (p *memberProcess) runMember(ctx context.Context) error {
	logger, now := p.log.Logger(), time.Now()
	p.startingSince.Store(&now)
	settings, err := p.openListeners()
	if err != nil {
		closeListeners(settings)
		return err
	}
	p.systemd.send("STATUS=opening the data directory")
	m, err := member.New(settings)
	if err != nil {
		closeListeners(settings) // the error of New is the one to return
		if errors.Is(err, disk.ErrOtherMember) {
			err = fmt.Errorf("%w; the number of this member is from %s", err, p.cfg.IDSource)
		}
		return err
	}
	serveSocket(m, settings, logger)
	logger.Info("member starts", "member", p.cfg.MyID, "version", builtFrom().fullVersion(), "clients", listenerAddr(settings.ClientListener), "tls", listenerAddr(settings.SecureListener),
		"http", listenerAddr(settings.OperatorListener), "metrics", listenerAddr(settings.MetricsListener), "data", p.cfg.Dir, "members", len(settings.Servers), "protection", m.Protection(), "tick", p.cfg.Tick)
	before := p.newest.Swap(m)
	p.startingSince.Store(nil)
	if before == nil {
		close(p.firstMade)
	} else {
		debug.FreeOSMemory() // the state of the member before is garbage, and this one loads its own
	}
	over, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { tuneCollector(over, p.streams.Env, m.Ready()) })
	beside.Go(func() { reloadFiles(over, m) })
	err = m.Run(ctx)
	stop()
	beside.Wait()
	return err
}

// startLimit is how long it may take to make a later member. systemd limits the first start likewise: see TimeoutStartSec in
// deploy/systemd/rollcall.service.
const startLimit = 5 * time.Minute

// memberHealth returns how the newest member fares, or that the start of the next one hangs: the one before has ended, and its disk does
// not show that.
func (p *memberProcess) memberHealth() admin.Health {
	if text := p.startStall(time.Now()); text != "" {
		return admin.Health{Stalled: text}
	}
	return p.newest.Load().Health()
}

// startStall returns what is wrong if the member that is being made is not there after startLimit. Otherwise it returns "".
func (p *memberProcess) startStall(now time.Time) string {
	if since := p.startingSince.Load(); since == nil || now.Sub(*since) < startLimit {
		return ""
	}
	return fmt.Sprintf("this member has ended, and its next start in this process has taken %v: the data directory, or another file, does not open", startLimit)
}

// openListeners returns the settings with listeners, which the caller closes. A later member listens on the ports of the first one, also if the
// configuration leaves their choice to the system. After an error, the settings may have listeners.
func (p *memberProcess) openListeners() (settings member.Config, err error) {
	settings = p.settings
	if settings.ClientListener, err = listenClients(p.cfg.ClientAddr); err != nil {
		return settings, fmt.Errorf("clients: %w", err)
	}
	if settings.SecureListener, err = listenClients(p.cfg.SecureAddr); err != nil {
		return settings, fmt.Errorf("clients over TLS: %w", err)
	}
	if settings.OperatorListener, err = listenOperators(p.cfg, "set another admin.serverPort, or admin.enableServer=false", p.log.Logger()); err != nil {
		return settings, err
	}
	settings.MetricsListener = listenHTTP(p.cfg.HTTP.MetricsAddr, "metrics are not served; set another metricsProvider.httpPort", p.log.Logger())
	p.cfg.ClientAddr, p.cfg.SecureAddr = keepPort(p.cfg.ClientAddr, settings.ClientListener), keepPort(p.cfg.SecureAddr, settings.SecureListener)
	p.cfg.HTTP.Addr, p.cfg.HTTP.MetricsAddr = keepPort(p.cfg.HTTP.Addr, settings.OperatorListener), keepPort(p.cfg.HTTP.MetricsAddr, settings.MetricsListener)
	return settings, nil
}

// eventLevel returns the level at which an event is logged. Events of every client's normal work
// are at the debug level, and so are not in the log.
func eventLevel(kind member.EventKind) slog.Level {
	switch kind {
	case member.EventQuotaOverused, member.EventQuotaWarning:
		return slog.LevelWarn
	case member.EventLeader, member.EventExpired, member.EventKilled:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// oneFileArgument is what commands that work on one member take.
const oneFileArgument = "one zoo.cfg"

// configFileOf returns the zoo.cfg among the arguments, or "" if there is none.
func configFileOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// memberFlags are the flags of the commands that work on one member.
type memberFlags struct {
	config  config.Flags
	verbose bool
}

func (f *memberFlags) registerFlags(cmd *cobra.Command) {
	fs := flag.NewFlagSet(cmd.Name(), flag.ContinueOnError)
	f.config.Register(fs)
	cmd.Flags().AddGoFlagSet(fs)
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "also log what matters only to developers")
}

// loadConfig loads the configuration of a member, for the command of this name, and opens the log with
// the warnings.
func (f *memberFlags) loadConfig(w cli.IOStreams, command string, args []string) (config.Config, *logs.Log, error) {
	cfg, warnings, err := config.Load(configFileOf(args), w.Env, f.config)
	log := logs.New(w.Err, logs.Settings{JSON: cfg.Log.JSON, Level: f.logLevel(cfg)}, isJournal(w))
	logWarnings(log.Logger(), warnings)
	if err != nil {
		return config.Config{}, nil, explainedError{fmt.Errorf("%s: %w", command, err)}
	}
	return cfg, log, nil
}

// logLevel returns the level of the log: the flag -v wins over the key.
func (f *memberFlags) logLevel(cfg config.Config) slog.Level {
	if f.verbose {
		return slog.LevelDebug
	}
	return cfg.Log.Level
}

// logWarnings logs the warnings about a configuration. All keys that have no effect are in one line; the
// reasons are at the debug level.
func logWarnings(log *slog.Logger, warnings []config.Warning) {
	var idle []string
	for _, w := range warnings {
		if w.NoEffect == "" {
			log.Warn(w.Text, "where", w.Where)
			continue
		}
		log.Debug(w.Text, "where", w.Where)
		name := w.NoEffect
		if w.Where != name {
			name += " (" + w.Where + ")"
		}
		idle = append(idle, name)
	}
	if len(idle) > 0 {
		log.Warn("keys have no effect; docs/configuration.md says why", "keys", strings.Join(idle, ", "))
	}
}

// listenClients opens a port for clients. The result is nil if addr is "".
func listenClients(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
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

// listenerAddr returns where a listener listens, or "" if there is none.
func listenerAddr(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// keepPort returns the address to listen on once l is closed: addr, with l's port if addr leaves the port to the system. l may be nil.
func keepPort(addr string, l net.Listener) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != "0" || l == nil {
		return addr
	}
	_, port, _ = net.SplitHostPort(l.Addr().String()) // a listener's address has a port
	return net.JoinHostPort(host, port)
}

// closeListeners closes the listeners of a member that could not be made.
func closeListeners(cfg member.Config) {
	for _, l := range []net.Listener{cfg.ClientListener, cfg.SecureListener, cfg.OperatorListener, cfg.MetricsListener} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// memberConfig adds to the settings what a member needs besides. The caller adds
// the listeners and Events.
func memberConfig(cfg config.Config, log *logs.Log) member.Config {
	cfg.Limits.Budget = clientMemoryBudget(cfg.Limits.Budget, 1)
	return member.Config{
		Settings: cfg.Settings, ID: cfg.MyID, Servers: ensembleServers(cfg), DrainTime: drainPace,
		BindAddress: cfg.BindAddress, EnsembleText: cfg.EnsembleText(), ConfigKeys: cfg.Keys,
		Version: builtFrom().fullVersion(), BuildTime: builtFrom().buildTime(), Log: log,
	}
}

// standaloneAddr stands for the addresses of a member that has no others: nobody dials
// them, and it listens on no port for members.
const standaloneAddr = "standalone"

// ensembleServers returns the members of the ensemble, observers included.
func ensembleServers(cfg config.Config) []member.Server {
	if cfg.Standalone {
		return []member.Server{{ID: cfg.MyID, GrpcAddr: standaloneAddr + ":1", RaftAddr: standaloneAddr + ":2"}}
	}
	all := make([]member.Server, 0, len(cfg.Servers))
	for _, s := range cfg.Servers {
		all = append(all, member.Server{ID: s.ID, GrpcAddr: s.QuorumAddr(), RaftAddr: s.ElectionAddr(), Observer: s.Observer})
	}
	return all
}
