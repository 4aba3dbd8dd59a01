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
	"rollcall/internal/tuning"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/operator/logs"
	"rollcall/quorum/disk"
)

// A graceful stop closes client connections over drainPace, so that the clients do not all reconnect at once.
const drainPace = 500 * time.Millisecond

func newServe(w cli.IOStreams) *cobra.Command {
	var f memberFlags
	cmd := &cobra.Command{
		Use: "serve [flags] [zoo.cfg]", Short: "run one member", GroupID: cli.RunGroup,
		Args: cli.RangeArgs(0, 1, oneFileArgument),
		Long: "Runs one member, with ZooKeeper's zoo.cfg. Without a file it takes $ZOO_CONF_DIR/zoo.cfg, or the variables " +
			"ZOO_… of ZooKeeper's image. " +
			"docs/configuration.md lists keys and variables.",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, args []string) error {
			cfg, log, err := f.loadConfigAndLog(w, args)
			if err != nil {
				return err
			}
			defer onHangup(func() { f.reloadConfig(w, args, cfg, log) })()
			return serveMember(cmd.Context(), cfg, log, w, func() []string { return f.findChangedKeys(w, args, cfg, log) })
		}),
	}
	f.registerFlags(cmd)
	return cmd
}

// serveMember runs one member until ctx ends. changed returns the keys that have changed since the
// configuration was read.
func serveMember(ctx context.Context, cfg config.Config, log *logs.Log, w cli.IOStreams,
	changed func() []string,
) error {
	warnMissingParent(cfg, log.Logger())
	if err := cfg.SaveMyID(); err != nil {
		return explainedError{err}
	}
	memory := newMemoryLimiter(cfg.Memory, tuning.AvailableMemory(), log.Logger())
	tuning.SetCollectorLimit(tuning.SystemMemory(), w.Env)
	p := &memberProcess{
		cfg: cfg, log: log, streams: w, settings: memberConfig(cfg, log), systemd: newSystemdNotifier(w),
		firstMade: make(chan struct{}),
	}
	p.settings.Memory = memory
	p.settings.OnEvent = func(e member.Event) { log.Logger().Log(ctx, eventLevel(e.Kind), string(e.Kind), "event", e) }
	workCtx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { feedMemoryLimiter(workCtx, memory, log.Logger()) })
	background.Go(func() {
		select {
		case <-p.firstMade:
			p.systemd.reportUntilEnd(workCtx, p.memberHealth)
		case <-workCtx.Done():
		}
	})
	err := runWithRestarts(ctx, log.Logger(), p.runMember, changed)
	stop()
	background.Wait()
	if err != nil {
		return err
	}
	log.Logger().Info("member stopped", "member", cfg.MyID)
	return nil
}

// memberProcess is the process of `rollcall serve`. It runs one member after another on the same disk and
// ports.
type memberProcess struct {
	cfg           config.Config
	log           *logs.Log
	streams       cli.IOStreams
	settings      member.Config // without listeners
	systemd       *systemdNotifier
	newest        atomic.Pointer[member.Member]
	firstMade     chan struct{}             // closed when the first member is made
	startingSince atomic.Pointer[time.Time] // nil: no member is being made
}

// runMember runs one member until ctx ends or the member fails.
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
		closeListeners(settings) // New's error counts
		if errors.Is(err, disk.ErrOtherMember) {
			err = fmt.Errorf("%w; the number of this member is from %s", err, p.cfg.IDSource)
		}
		return err
	}
	serveOperatorSocket(m, settings, logger)
	logger.Info("member starts", "member", p.cfg.MyID, "version", buildCommit().fullVersion(), "clients",
		listenerAddr(settings.ClientListener), "tls", listenerAddr(settings.SecureListener),
		"http", listenerAddr(settings.OperatorListener), "metrics", listenerAddr(settings.MetricsListener), "data", p.cfg.Dir,
		"members", len(settings.Servers), "protection", m.Protection(), "tick", p.cfg.Tick)
	before := p.newest.Swap(m)
	p.startingSince.Store(nil)
	if before == nil {
		close(p.firstMade)
	} else {
		debug.FreeOSMemory() // the former member's state is garbage now
	}
	workCtx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { tuning.TuneCollector(workCtx, p.streams.Env, m.Ready()) })
	endReloads := onHangup(m.ReloadSecrets)
	err = m.Run(ctx)
	endReloads()
	stop()
	background.Wait()
	return err
}

// startLimit limits a restart in this process. systemd limits the first start: see TimeoutStartSec in
// deploy/systemd/rollcall.service.
const startLimit = 5 * time.Minute

// memberHealth returns the newest member's health. If the next start hangs, it says so, because the former
// member has ended and does not show a stalled disk.
func (p *memberProcess) memberHealth() admin.Health {
	if text := p.startStallText(time.Now()); text != "" {
		return admin.Health{Stalled: text}
	}
	return p.newest.Load().Health()
}

// startStallText describes a start that has taken longer than startLimit, or returns "".
func (p *memberProcess) startStallText(now time.Time) string {
	if since := p.startingSince.Load(); since == nil || now.Sub(*since) < startLimit {
		return ""
	}
	return fmt.Sprintf("this member has ended, and its next start in this process has taken %v: the data directory, or "+
		"another file, does not open", startLimit)
}

// openListeners returns the settings with listeners, which the caller closes, even after an error. A later
// member listens on the ports of the first one, even if the system chose them.
func (p *memberProcess) openListeners() (settings member.Config, err error) {
	settings = p.settings
	if settings.ClientListener, err = listenTCPIfSet(p.cfg.ClientAddr); err != nil {
		return settings, fmt.Errorf("clients: %w", err)
	}
	if settings.SecureListener, err = listenTCPIfSet(p.cfg.SecureAddr); err != nil {
		return settings, fmt.Errorf("clients over TLS: %w", err)
	}
	if settings.OperatorListener, err = listenOperators(p.cfg, "set another admin.serverPort, or admin.enableServer=false",
		p.log.Logger()); err != nil {
		return settings, err
	}
	settings.MetricsListener = listenHTTPOrWarn(p.cfg.HTTP.MetricsAddr,
		"metrics are not served; set another metricsProvider.httpPort", p.log.Logger())
	p.cfg.ClientAddr, p.cfg.SecureAddr = withChosenPort(p.cfg.ClientAddr, settings.ClientListener),
		withChosenPort(p.cfg.SecureAddr, settings.SecureListener)
	p.cfg.HTTP.Addr, p.cfg.HTTP.MetricsAddr = withChosenPort(p.cfg.HTTP.Addr, settings.OperatorListener),
		withChosenPort(p.cfg.HTTP.MetricsAddr, settings.MetricsListener)
	return settings, nil
}

// eventLevel returns the log level of an event. Events of clients' normal work are logged at the debug level.
func eventLevel(kind member.EventKind) slog.Level {
	switch kind {
	case member.EventNamesEnded:
		return slog.LevelError
	case member.EventQuotaOverused, member.EventQuotaWarning, member.EventNamesWarning, member.EventRulesDiffer:
		return slog.LevelWarn
	case member.EventLeader, member.EventExpired, member.EventKilled:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

const oneFileArgument = "one zoo.cfg"

// configFileArg returns the zoo.cfg among the arguments, or "".
func configFileArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// memberFlags are the flags of commands for one member.
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

// loadConfigAndLog loads the configuration of a member, opens the log, and logs the warnings.
func (f *memberFlags) loadConfigAndLog(w cli.IOStreams, args []string) (config.Config, *logs.Log, error) {
	cfg, warnings, err := config.Load(configFileArg(args), w.Env, f.config)
	log := logs.New(w.Err, logs.Settings{JSON: cfg.Log.JSON, Level: f.logLevel(cfg)}, stderrIsJournal(w))
	logWarnings(log.Logger(), warnings)
	if err != nil {
		return config.Config{}, nil, explainedError{err}
	}
	return cfg, log, nil
}

// logLevel returns the level of the log. The flag -v overrides the key.
func (f *memberFlags) logLevel(cfg config.Config) slog.Level {
	if f.verbose {
		return slog.LevelDebug
	}
	return cfg.Log.Level
}

// logWarnings logs the warnings about a configuration. Keys without effect share one line; their reasons are
// logged at the debug level.
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

// listenTCPIfSet opens a port. It returns nil if addr is "".
func listenTCPIfSet(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	return net.Listen("tcp", addr)
}

// listenHTTPOrWarn opens a port for HTTP. It returns nil if addr is "". An error is only a warning, because the port
// is mostly in use by another member of this machine; the result is nil.
func listenHTTPOrWarn(addr, warning string, logger *slog.Logger) net.Listener {
	l, err := listenTCPIfSet(addr)
	if err != nil {
		logger.Warn(warning, "err", err)
		return nil
	}
	return l
}

// listenerAddr returns the address of a listener, or "" for nil.
func listenerAddr(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// withChosenPort returns the address to listen on after l is closed: addr, with l's port if addr leaves the port to
// the system. l may be nil.
func withChosenPort(addr string, l net.Listener) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != "0" || l == nil {
		return addr
	}
	_, port, _ = net.SplitHostPort(l.Addr().String()) // a listener's address has a port
	return net.JoinHostPort(host, port)
}

func closeListeners(cfg member.Config) {
	for _, l := range []net.Listener{cfg.ClientListener, cfg.SecureListener, cfg.OperatorListener, cfg.MetricsListener} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// memberConfig returns the settings of a member. The caller adds the listeners and OnEvent.
func memberConfig(cfg config.Config, log *logs.Log) member.Config {
	cfg.Limits.Budget = clientMemoryBudget(cfg.Limits.Budget, 1)
	return member.Config{
		Settings: cfg.Settings, ID: cfg.MyID, Servers: ensembleServers(cfg), DrainTime: drainPace,
		BindAddress: cfg.BindAddress, EnsembleText: ensembleText(cfg), ConfigKeys: cfg.Keys,
		Version: buildCommit().fullVersion(), BuildTime: buildCommit().buildTime(), Log: log,
	}
}

// ensembleText returns the content of /zookeeper/config until the data have a server list. It is nil for a standalone
// server.
func ensembleText(cfg config.Config) []byte {
	if cfg.Standalone {
		return nil
	}
	return []byte(cfg.Servers.ConfigText(0)) // the list in the data has a version of its own
}

// standaloneAddr is the placeholder host of a standalone member, which has no port for members.
const standaloneAddr = "standalone"

// ensembleServers returns the members of the ensemble, including observers.
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
