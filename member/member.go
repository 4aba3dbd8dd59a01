// Package member assembles one member of an ensemble from the packages below it:
//
//   - quorum, the log;
//   - znode, the replicated state;
//   - follower, which runs for the member's whole life;
//   - leader, for each term that this member leads;
//   - server, for its clients.
//
// The command and the tests both use this assembly. Types of this package hold the member's ports, server
// lists, drains, backups and health. The package changes the replicated state only through the log.
//
// A process that no operator has added becomes a member only if it proves the secret, or if its certificate is for the host of its
// server line and members.join.hosts has that host (joinRequests).
//
// The data flows as follows:
//
//   - raft hands committed entries to machine, which applies them to the state under the tree's
//     write lock;
//   - the state reports changes to hooks, which passes them to follower, server and, while
//     this member leads, the leader's session table;
//   - raft's gains and losses of leadership drive terms: each term opens with a TermStart in
//     the log and has a new leader.Leader.
package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/config"
	"rollcall/follower"
	"rollcall/internal/admission"
	"rollcall/internal/earlyclose"
	"rollcall/internal/keystore"
	"rollcall/internal/lockwatch"
	"rollcall/internal/monotonic"
	"rollcall/leader"
	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/operator/audit"
	"rollcall/operator/logs"
	"rollcall/operator/past/served"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/server"
	"rollcall/server/tenant"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Server is one member of a server list.
type Server struct {
	ID       uint32 // 1 to 255
	GrpcAddr string // host:port between members, server.N's second field
	RaftAddr string // host:port of the log, server.N's third field

	Observer bool // it does not vote
}

// Network connects a member to other members, listens for them and resolves their hosts. The default is TCP and the
// system's resolver.
type Network struct {
	Listen func(addr string) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	Lookup wire.LookupFunc

	DialCollector func(ctx context.Context, addr string) (net.Conn, error) // of OpenTelemetry; default: TCP
}

// Config configures a Member. A field without a default is required.
type Config struct {
	config.Settings // Dir is not needed with Stores

	ID      uint32
	Servers []Server // every voting member; a single one opens no port for members

	ClientListener   net.Listener  // for clients; Run closes it; default: none
	SecureListener   net.Listener  // for clients over TLS; Run closes it; default: none
	OperatorListener net.Listener  // for HTTP; Run closes it; default: none
	MetricsListener  net.Listener  // for /metrics alone, without credentials; likewise
	DrainTime        time.Duration // spreads closing the clients' connections in a graceful stop; default: at once
	EnsembleText     []byte        // content of /zookeeper/config; nil: standalone
	ConfigKeys       []config.Key  // every key of the configuration, for operators

	Version   string    // of this program, for srvr; default "dev"
	BuildTime time.Time // date of its commit

	Memory      *admission.MemoryLimiter // of this process; default: no limit
	Network     Network                  // default TCP
	BindAddress func(addr string) string // advertised address → the one to listen on; default the same
	Stores      *disk.Stores             // default: files in Dir
	Now         func() time.Time         // wall clock; default time.Now
	OnEvent     func(Event)              // called for each event in the ensemble, on the leader, by one goroutine
	AuditOutput io.Writer                // for audit lines without a file; default: standard output
	Log         *logs.Log                // operators can read it over HTTP; default: they cannot
	Logger      *slog.Logger             // default: that of Log, or discard

	// Monotonic is the clock of session timeouts and leases; raft uses package time. Default: monotonic.System.
	Monotonic monotonic.Clock

	// The following are for tests. Hooks are called after the member's own hooks. WrapMember wraps the
	// member for its connections, and WrapLog wraps the log for a leader.
	Hooks      znode.Hooks                       // default: none
	WrapMember func(server.Member) server.Member // default: no wrapping
	WrapLog    func(leader.Log) leader.Log       // default: no wrapping
}

// checkAndComplete checks cfg and fills in the defaults.
func (c *Config) checkAndComplete() error {
	switch {
	case c.ID < 1 || c.ID > 255:
		return fmt.Errorf("member: id %d is not between 1 and 255", c.ID)
	case c.Tick <= 0:
		return fmt.Errorf("member: tick %v is not positive", c.Tick)
	case c.Reaping.Interval < 0 || c.Reaping.PerMinute < 0 || c.Reaping.NeverUsed < 0:
		return errors.New("member: a limit of the reaper is negative")
	case c.InitLimit <= 0 || c.SyncLimit <= 0:
		return fmt.Errorf("member: InitLimit is %d and SyncLimit %d ticks, but both must be positive", c.InitLimit,
			c.SyncLimit)
	case c.HeartbeatTimeout <= 0:
		return fmt.Errorf("member: HeartbeatTimeout is %v, but must be positive", c.HeartbeatTimeout)
	case c.StoreStallLimit <= 0:
		return fmt.Errorf("member: StoreStallLimit is %v, but must be positive", c.StoreStallLimit)
	case c.MaxInFlight < 0 || c.DrainTime < 0:
		return errors.New("member: a limit is negative")
	case !slices.ContainsFunc(c.Servers, func(s Server) bool { return s.ID == c.ID }):
		return fmt.Errorf("member: this member, %d, is not in the server list", c.ID)
	}
	c.Version = cmp.Or(c.Version, "dev")
	c.Limits.Tenants = cmp.Or(c.Limits.Tenants, new(tenant.Limiter)) // operators and the server share it
	if c.Logger == nil && c.Log != nil {
		c.Logger = c.Log.Logger()
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Network.Listen == nil {
		c.Network.Listen = earlyclose.Listen
	}
	if c.Network.Dial == nil {
		c.Network.Dial = wire.DialTCP
	}
	if c.Network.Lookup == nil {
		c.Network.Lookup = wire.LookupSystem
	}
	if c.BindAddress == nil {
		c.BindAddress = func(addr string) string { return addr }
	}
	if c.Hooks == nil {
		c.Hooks = noHooks{}
	}
	if c.WrapMember == nil {
		c.WrapMember = func(m server.Member) server.Member { return m }
	}
	if c.WrapLog == nil {
		c.WrapLog = func(l leader.Log) leader.Log { return l }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Monotonic == nil {
		c.Monotonic = monotonic.System{}
	}
	return nil
}

// isStandalone reports whether the member is a standalone server, which no other member can join.
func (c *Config) isStandalone() bool { return c.EnsembleText == nil && len(c.Servers) == 1 }

// ownServer returns this member's configured server. It listens there, even if the ensemble's list has other addresses.
func (c *Config) ownServer() Server {
	i := slices.IndexFunc(c.Servers, func(s Server) bool { return s.ID == c.ID })
	return c.Servers[i] // checkAndComplete has checked it
}

// allowedCommands returns the enabled four-letter commands. In read-only mode clients send isro to find a member with a
// leader, so isro is always enabled then, as in ZooKeeper.
func (c *Config) allowedCommands() []string {
	if !c.ReadOnlyMode {
		return c.CommandWhitelist
	}
	return append(slices.Clone(c.CommandWhitelist), "isro")
}

// anonymousAccess returns the access of callers without credentials.
func (c *Config) anonymousAccess() admin.AnonymousAccess {
	certificates := c.ClientListener == nil && c.SecureListener != nil &&
		c.ClientTLS.Terms.Auth == keystore.NeedCertificate
	return admin.AnonymousAccess{Reads: c.HTTP.LocalReads, AuthRequired: len(c.Login.Schemes) > 0 || certificates}
}

// Member is one running member. Make one with New; Run it once.
type Member struct {
	cfg         Config
	log         *slog.Logger
	wallClock   *leader.Clock // wall clock
	incarnation incarnation

	state             *znode.State
	node              *quorum.Node
	follower          *follower.Follower
	server            *server.Server
	serverKeys        serverKeys
	terms             *terms
	peerConns         *peerConns
	auditLog          *audit.Log // nil: there is none
	credentialLimiter *admission.CredentialLimiter
	helloClient       *helloClient
	adminHTTP         *admin.HTTP
	viewer            viewer
	ports             ports
	serverLists       *serverLists
	removalWatch      *removalWatch
	eventQueue        *eventQueue
	drain             *drain
	health            *health
	backups           *backups
	rebalancer        rebalancer

	applyProgress applyProgress
}

// incarnation is this process as a run of the member.
type incarnation struct {
	number         uint64
	startTime      time.Time
	ready          chan struct{} // closed when the member first serves clients
	stopping       atomic.Bool   // Run is stopping
	operatorSocket net.Listener  // for HTTP, too; nil: none
}

// New checks cfg, opens the data directory and the member ports and assembles the member. It starts
// nothing. The caller must call Run, which releases what New opened. If New returns an error,
// its listeners are still open.
func New(cfg Config) (*Member, error) {
	if err := cfg.checkAndComplete(); err != nil {
		return nil, err
	}
	m := &Member{
		cfg: cfg, wallClock: leader.NewClock(cfg.Now),
		incarnation: incarnation{number: randomUint64(), startTime: time.Now(), ready: make(chan struct{})},
		eventQueue:  newEventQueue(),
	}
	m.applyProgress.quotaWarnings = quotaWarnings{events: m.eventQueue, self: cfg.ID}
	m.log = slog.New(shutdownHandler{cfg.Logger.Handler(), &m.incarnation.stopping}).With("member", cfg.ID)
	m.credentialLimiter = admission.NewCredentialLimiter(m.log)
	var err error
	if m.auditLog, err = audit.Open(m.auditConfig()); err != nil {
		return nil, err
	}
	if err := m.assembleParts(); err != nil {
		m.auditLog.Close()
		return nil, err
	}
	return m, nil
}

func stateConfig(cfg *Config, h znode.Hooks) znode.Config {
	return znode.Config{Self: cfg.ID, Hooks: h, EnsembleText: cfg.EnsembleText, ChangeHistory: max(cfg.WatchHistory, 0)}
}

func (m *Member) assembleParts() (err error) {
	m.terms = newTerms(m)
	m.peerConns = newPeerConns(m.cfg.Tick, m.dialMember)
	m.serverLists = newServerLists(&m.cfg, wire.NewAddressBook(m.cfg.ID, raftPeers(m.cfg.Servers)),
		m.peerConns.discardConns, m.log)
	m.viewer = newViewer(m)
	m.state = znode.New(stateConfig(&m.cfg, hooks{m}))
	if m.serverKeys, err = openServerKeys(&m.cfg, m.log); err != nil {
		return err
	}
	if m.follower, err = follower.New(m.followerConfig()); err != nil {
		return err
	}
	words, err := admin.NewFourLetterCommands(m.commandsConfig())
	if err != nil {
		return err
	}
	if m.viewer.collector, err = m.viewer.newCollector(); err != nil {
		return err
	}
	m.rebalancer.m, m.rebalancer.pollMembers, m.rebalancer.requestCloses = m, m.viewer.collector.MemberStatuses,
		m.rebalancer.sendCloseRequest
	if m.adminHTTP, err = admin.NewHTTP(m.httpConfig(words)); err != nil {
		return err
	}
	if err = m.viewer.slow.openExporter(); err != nil {
		return err
	}
	if m.server, err = server.New(m.serverConfig(words)); err != nil {
		return err
	}
	if err := m.openPortsAndLog(); err != nil {
		m.ports.closeAll()
		return err
	}
	return nil
}

// openPortsAndLog opens the ports for members, and then the data directory. No port is served meanwhile, because all that
// they show comes from the data, and a directory that does not open is an error of New. That takes as long as reading the
// log's files once: 0.2 s for 512 MiB in the page cache. The snapshot and the entries are read in Run, and Health says so.
func (m *Member) openPortsAndLog() (err error) {
	if m.ports, err = openPorts(&m.cfg, m.serverLists.addressBook, m.log); err != nil {
		return err
	}
	m.ports.warnInsecurePorts(m.log)
	m.ports.addressBook.OnEnsembleSet(m.peerConns.discardAllConns)
	if m.node, err = quorum.Open(m.quorumConfig()); err != nil {
		return err
	}
	m.assembleLogParts()
	if err = m.serverLists.loadStored(m.node); err == nil {
		m.backups.archive, err = newArchiveSender(m)
	}
	if err != nil {
		return errors.Join(err, m.node.Close())
	}
	return nil
}

// assembleLogParts makes the parts that need the log.
func (m *Member) assembleLogParts() {
	m.helloClient = &helloClient{
		probes: make(map[peerRoute]*probe),
		cfg:    &m.cfg, ports: &m.ports, peers: m.peerConns, serverLists: m.serverLists, node: m.node,
		digestWarnings: &digestWarnings{ownAlgorithm: m.cfg.digestAlgorithm(), log: m.log},
		otherAddress:   &otherAddress{serverLists: m.serverLists, node: m.node, log: m.log},
		lastWords:      newLastWords(func() time.Time { return m.wallClock.Now() }),
	}
	m.removalWatch = &removalWatch{
		self: m.cfg.ID, tick: m.cfg.Tick, serverLists: m.serverLists, helloClient: m.helloClient, node: m.node,
		server: m.server, log: m.log,
	}
	cutOffWatch := &cutOffWatch{
		clock: m.cfg.Monotonic, heartbeat: m.cfg.HeartbeatTimeout, node: m.node, server: m.server,
		isListed: func() bool { return m.removalWatch.unlistedVersion() == 0 }, log: m.log,
	}
	m.health = &health{
		cfg: &m.cfg, node: m.node, server: m.server, terms: m.terms, removalWatch: m.removalWatch,
		cutOffWatch: cutOffWatch, applyProgress: &m.applyProgress, hangError: m.hangError, log: m.log,
		lockWatch:     lockwatch.New(m.cfg.StoreStallLimit, m.locks),
		damageReports: make(chan string, 1), disputeReported: make(chan struct{}, 1),
	}
	m.drain = &drain{
		cfg: &m.cfg, node: m.node, server: m.server, http: m.adminHTTP, log: m.log,
		returnReadLease: func(ctx context.Context) { follower.ReturnReadLease(ctx, m.follower) }, started: make(chan struct{}),
	}
	m.backups = &backups{
		cfg: &m.cfg, wallClock: m.wallClock, state: m.state, follower: m.follower, serverLists: m.serverLists,
		memberHealth: m.Health, stages: m.viewer.slow.recorder,
		onDamage: func(err error) { m.health.reportDamage(err.Error()) }, log: m.log,
	}
}

func (m *Member) followerConfig() follower.Config {
	return follower.Config{
		Self: m.cfg.ID, Boot: m.incarnation.number, Tick: m.cfg.Tick, State: m.state, Clients: connectionCloser{m},
		Raft: followerRaft{m}, Peers: followerPeers{m},
		SyncLimit:    m.cfg.SyncLimit,
		WallClock:    m.wallClock.Now,
		Monotonic:    m.cfg.Monotonic,
		OnDamage:     func(why string) { m.health.reportDamage(why) },
		OnDivergence: func(why string) { m.health.recordDispute(why) },
		ReadsByLease: m.cfg.LinearizableReads,
		MaxInFlight:  m.cfg.MaxInFlight, Stages: m.viewer.slow.recorder, Logger: m.log,
	}
}

// connectionCloser implements follower.Clients. It reads m.server late, because the server is made after the follower.
type connectionCloser struct{ m *Member }

func (c connectionCloser) DropConnection(id jute.SessionID, conn uint64, why error) {
	c.m.server.DropConnection(id, conn, why)
}

func (m *Member) serverConfig(words *admin.FourLetterCommands) server.Config {
	return server.Config{
		Member: m.cfg.WrapMember(m.follower), State: m.state,
		Tick: m.cfg.Tick, MinTimeout: m.cfg.MinTimeout, MaxTimeout: m.cfg.MaxTimeout,
		TLS: m.serverKeys.clientTLS(m.cfg.ClientTLS), SuperSubject: m.cfg.SuperSubject,
		ConnBase: randomUint64(), Limits: m.cfg.Limits, SuperDigest: m.cfg.SuperDigest, Digest: m.cfg.Digest,
		NoDigest: m.cfg.NoDigest, Login: m.cfg.Login, LinearizableReads: m.cfg.LinearizableReads,
		Memory:   m.cfg.Memory,
		Commands: words, Audit: m.auditLog, CredentialLimiter: m.credentialLimiter, Stages: m.viewer.slow.recorder, Logger: m.log,
		EnsembleID:    func() [32]byte { id, _ := m.node.Record().EnsembleID(); return id },
		MembersInSync: func() (bool, <-chan struct{}) { return m.applyProgress.clientReconfig.raftFollows(m.node) },
	}
}

func (m *Member) auditConfig() audit.Config {
	return audit.Config{Settings: m.cfg.Audit, Member: m.cfg.ID, Out: m.cfg.AuditOutput, Logger: m.log}
}

func (m *Member) commandsConfig() admin.FourLetterConfig {
	return admin.FourLetterConfig{
		Whitelist: m.cfg.allowedCommands(), Version: m.cfg.Version, BuildDate: m.cfg.BuildTime,
		Source: source{m}, AnonymousAccess: m.cfg.anonymousAccess(),
	}
}

func (m *Member) httpConfig(words *admin.FourLetterCommands) admin.HTTPConfig {
	cfg := admin.HTTPConfig{
		HTTPSettings: m.cfg.HTTP, SuperDigest: m.cfg.SuperDigest, DigestAlg: m.cfg.Digest,
		FourLetter: words, Source: source{m}, Operations: operations{m.viewer.collector, m},
		Past:       served.New(served.KeptLog{Files: pastFiles{m}}, m.state, m.log),
		ConfigKeys: settingRows(m.cfg.ConfigKeys), AuditLog: m.auditLog, AnonymousAccess: m.cfg.anonymousAccess(),
		CredentialLimiter: m.credentialLimiter, TLS: m.serverKeys.operatorTLS(&m.cfg), SuperSubject: m.cfg.SuperSubject,
		Limits: limits{m.cfg.Limits.Tenants}, Logger: m.log,
	}
	if cfg.TLS != nil {
		limiter := wire.NewSourceLimiter()
		cfg.AdmitHandshake = func(remote net.Addr) error { return limiter.Admit(m.log, remote) }
	}
	if m.cfg.Log != nil {
		cfg.Log, cfg.AuditLogger = m.cfg.Log, m.cfg.Log.UnfilteredLogger().With("member", m.cfg.ID)
	}
	if name, err := os.Hostname(); err == nil {
		cfg.HostNames = append(cfg.HostNames, name)
	}
	for _, addr := range []string{m.cfg.HTTP.Addr, m.cfg.ownServer().GrpcAddr} {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.HostNames = append(cfg.HostNames, host)
		}
	}
	return cfg
}

// ServeOnSocket makes Run serve HTTP on l, too, which is a socket in the data directory, and close it. Call it
// before Run.
func (m *Member) ServeOnSocket(l net.Listener) { m.incarnation.operatorSocket = l }

// Run serves until ctx ends, or until this member cannot continue; then it returns the reason. When ctx ends, it first
// hands leadership over and closes its clients' connections.
func (m *Member) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	m.auditLog.Start()
	g, inner := errgroup.WithContext(inner)
	var nodeReason atomic.Pointer[error] // why the node has ended
	g.Go(func() error {
		err := m.node.Run(inner)
		nodeReason.Store(&err)
		return err
	})
	g.Go(func() error { return m.follower.Run(inner) })
	g.Go(func() error { return m.terms.leadershipLoop(inner) })
	g.Go(func() error { return m.terms.proposedLists.sendHelloLoop(inner, m.helloClient) })
	if m.cfg.ClientListener != nil {
		g.Go(func() error { return m.server.Serve(inner, m.cfg.ClientListener) })
	}
	if m.cfg.SecureListener != nil {
		g.Go(func() error { return m.server.ServeTLS(inner, m.cfg.SecureListener) })
	}
	g.Go(func() error { return m.serverLists.listChangeLoop(inner, m.node, m.terms.selfJoin.membersChanged) })
	g.Go(func() error { return m.serverKeys.watchFiles(inner) })
	g.Go(func() error { return m.eventQueue.deliverLoop(inner, m.cfg.OnEvent, m.log) })
	g.Go(func() error { return m.signalWhenServing(inner) })
	g.Go(func() error { return m.health.stallLoop(inner) })
	g.Go(func() error { return m.health.diskAwayLoop(inner) })
	g.Go(func() error { return m.health.lockWatch.Run(inner) })
	g.Go(func() error { return m.health.damageLoop(inner) })
	g.Go(func() error { return m.health.disputeLoop(inner) })
	g.Go(func() error { return m.drain.yieldLoop(inner) })
	g.Go(func() error { return m.health.readOnlyLoop(inner) })
	g.Go(func() error { return m.removalWatch.suspendUnlistedLoop(inner) })
	g.Go(func() error { return m.backups.backupLoop(inner) })
	g.Go(func() error { return m.backups.archiveLoop(inner) })
	g.Go(func() error { return m.rebalancer.autoRebalanceLoop(inner) })
	g.Go(func() error { return m.viewer.slow.joinLoop(inner) })
	if exporter := m.viewer.slow.exporter; exporter != nil {
		g.Go(func() error { return exporter.Run(inner) })
	}
	g.Go(func() error {
		m.viewer.slow.recorder.WatchPauses(inner.Done(), m.cfg.Monotonic.After, m.viewer.slow.recordPause)
		return nil
	})
	g.Go(func() error { return m.ports.trustGuard.Run(inner) })
	g.Go(func() error { return m.ports.hello.HandshakeLimiter().RunLookups(inner, m.cfg.Network.Lookup) })
	if m.cfg.OperatorListener != nil {
		g.Go(func() error { return m.adminHTTP.Serve(inner, m.cfg.OperatorListener) })
	}
	if m.incarnation.operatorSocket != nil {
		g.Go(func() error { return m.adminHTTP.ServeSocket(inner, m.incarnation.operatorSocket) })
	}
	if m.cfg.MetricsListener != nil {
		g.Go(func() error { return m.adminHTTP.ServeMetrics(inner, m.cfg.MetricsListener) })
	}
	if !m.cfg.isStandalone() {
		g.Go(func() error { return m.removalWatch.pollWithoutLeader(inner) })
		g.Go(func() error { return m.terms.selfJoin.askLoop(inner) })
		g.Go(func() error { return m.terms.joinRequests.promoteLoop(inner) })
		g.Go(func() error { return m.helloClient.otherAddress.watchLoop(inner) })
		g.Go(func() error { return m.health.cutOffWatch.watchLoop(inner) })
	}
	m.serveMembers(inner, g)
	g.Go(func() error {
		select {
		case <-inner.Done(): // something failed
		case <-ctx.Done():
			m.incarnation.stopping.Store(true)
			m.drain.drainForStop(inner)
		}
		stop()
		return nil
	})
	err := awaitStop(inner, g)
	if reason := nodeReason.Load(); reason != nil {
		err = endReason(err, *reason)
	}
	if !m.auditLog.Close() && err != nil { // a member that ends without an error is not restarted
		err = errors.Join(err, errNotStopped)
	}
	if err != nil && !m.cfg.isStandalone() && !CanRestart(err) {
		m.helloClient.sendLastWords(m.serverLists.currentList(), err)
	}
	m.peerConns.closeAll()
	m.ports.closeAll()
	return err
}

// stopTimeout limits the time for the member's goroutines to end. raft's end is limited to 10 s
// (quorum.stopTimeout), and nothing else takes long, except a goroutine that waits for a hanging disk.
const stopTimeout = 15 * time.Second

var errNotStopped = errors.New("member: a part of this member did not stop in time, probably because its disk " +
	"hangs; it ends with the process")

// awaitStop waits until the goroutines of g have ended, for at most stopTimeout after ctx has ended: a goroutine that
// waits for a hanging disk ends only with the process.
func awaitStop(ctx context.Context, g *errgroup.Group) error {
	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stopTimeout):
	}
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) {
		return errors.Join(why, errNotStopped)
	}
	return errNotStopped
}

// endReason returns why the member ends, given the first error of its goroutines and the node's error. A node that ends
// closes the stores, so another goroutine may return the error of a closed store before the node returns. That one explains
// nothing. Other errors are reasons of their own.
func endReason(first, ofNode error) error {
	switch {
	case ofNode == nil || errors.Is(first, ofNode):
		return first
	case !errors.Is(first, os.ErrClosed):
		return errors.Join(first, ofNode)
	case errors.Is(first, errNotStopped):
		return errors.Join(ofNode, errNotStopped)
	}
	return ofNode
}

// CanRestart reports whether another start corrects an error of Run. If so, the member has stopped completely, and the
// same process may make another Member with the same settings and new listeners.
func CanRestart(err error) bool {
	if errors.Is(err, errNotStopped) || errors.Is(err, quorum.ErrNotEnded) {
		return false
	}
	return errors.Is(err, wire.ErrRestart) || errors.Is(err, follower.ErrAddedAgain)
}

// signalWhenServing closes ready when this member first serves clients.
func (m *Member) signalWhenServing(ctx context.Context) error {
	ticker := time.NewTicker(m.cfg.Tick / 20)
	defer ticker.Stop()
	for m.Role() == "" {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	close(m.incarnation.ready)
	m.log.Info("clients are served", "role", m.Role(), "leader", m.node.Status().LeaderID(), "after",
		time.Since(m.incarnation.startTime).Round(time.Millisecond))
	return nil
}

// Ready returns a channel that is closed when this member first serves clients.
func (m *Member) Ready() <-chan struct{} { return m.incarnation.ready }

// DiskID returns the id of this member's disk in raft.
func (m *Member) DiskID() disk.ID { return m.node.DiskID() }

// RaftConfiguration returns raft's latest configuration, sorted by id. It may not be committed.
func (m *Member) RaftConfiguration() []wire.Peer { return m.node.Status().ConfiguredMembers() }

// State returns the replicated state, for tests.
func (m *Member) State() *znode.State { return m.state }

// Role returns "leader", "follower", "observer", "standalone", or api.RoleReadOnly while there is no leader and
// only read-only clients are served. It returns "" while this member does not serve: before its first term,
// while its disk or apply hangs, while its state is damaged or disputed, or while there is no leader.
func (m *Member) Role() string {
	switch {
	case m.hangError() != nil || m.health.diskAway.Load() || m.node.Record().DamageReason() != "" || m.health.disputeReason() != "":
		return ""
	case m.terms.currentLeader.Load() != nil && m.cfg.isStandalone():
		return "standalone"
	case m.terms.currentLeader.Load() != nil:
		return "leader"
	case m.removalWatch.removedVersion() != 0:
		return ""
	case m.server.ReadOnly() && m.health.mayServeReadOnly():
		return api.RoleReadOnly
	case m.health.cutOffWatch.isCutOff() || m.node.Status().LeaderID() == 0 || m.node.Status().LeaderID() == m.cfg.ID || !m.applyProgress.announced.Load():
		return ""
	case m.isObserver():
		return "observer"
	}
	return "follower"
}

// servesAllClients reports whether this member serves, and not only in read-only mode, where its state may be old.
func (m *Member) servesAllClients() bool {
	role := m.Role()
	return role != "" && role != api.RoleReadOnly
}

// isObserver reports whether this member is an observer in the server list and has no vote in raft's configuration.
func (m *Member) isObserver() bool {
	s, listed := m.serverLists.addressesOf(m.cfg.ID)
	return listed && s.Observer && !slices.Contains(m.node.Status().VoterIDs(), m.cfg.ID)
}

// Health describes whether this member serves clients. It takes no lock that apply holds.
func (m *Member) Health() admin.Health { return source{m}.Health() }

// DamageReason returns the difference of this member's state from the others', or "" if no damage is known.
func (m *Member) DamageReason() string { return m.node.Record().DamageReason() }

// IsJoining reports whether this member takes part in no election, because it reads its data or is still catching up.
func (m *Member) IsJoining() bool { return m.node.IsJoining() }

// HasJoined reports whether this member takes part in elections whether or not it knows a leader, for tests.
func (m *Member) HasJoined() bool { return !m.node.IsJoining() && !m.node.Record().IsCopying() }

// isCatchingUp reports whether this member has read its data and is still catching up with the leader.
func (m *Member) isCatchingUp() bool { return !m.node.Status().IsReadingData() && m.node.IsJoining() }

// ReloadSecrets reloads the files with the members' secrets, keys and certificates. The log reports the
// changes. If a file cannot be used, the log has the reason, and the former keys stay in use.
func (m *Member) ReloadSecrets() {
	m.ports.trustGuard.RequestReload()
	m.serverKeys.reloadFiles()
	m.viewer.slow.exporter.ReloadFiles()
}

// Stats are counters since the start of this process.
type Stats struct {
	ResentTxns  uint64 // transactions sent again to a leader
	DroppedTxns uint64 // transactions of this member that apply dropped as duplicates
	CutOffs     uint64 // how often this member has been cut off
	Server      server.Stats
}

func (m *Member) Stats() Stats {
	return Stats{
		ResentTxns: m.follower.Stats().ResentTxns, DroppedTxns: m.applyProgress.droppedTxns.Load(),
		CutOffs: m.health.cutOffWatch.begun.Load(),
		Server:  m.server.Stats(),
	}
}
