// Package member assembles one member of an ensemble from the packages below it:
//
//   - quorum, the log;
//   - znode, the replicated state;
//   - follower, which runs for the member's whole life;
//   - leader, for each term that this member leads;
//   - server, for its clients.
//
// The command and the tests both use this assembly. Types of this package hold the member's ports, server lists, drains, backups and
// service state. The package changes the replicated state only through the log.
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
	"rollcall/internal/keystore"
	"rollcall/internal/monotonic"
	"rollcall/leader"
	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/operator/audit"
	"rollcall/operator/logs"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
	"rollcall/server"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Server is one member as it stands in a server list.
type Server struct {
	ID   uint32 // 1 to 255
	Grpc string // host:port between members, server.N's second field
	Raft string // host:port of the log, server.N's third field

	Observer bool // it does not vote
}

// Network is how a member connects to other members, listens for them and finds the addresses of their hosts. The default
// is TCP, and the system's resolver.
type Network struct {
	Listen func(addr string) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	Lookup wire.LookupFunc
}

// Config is what a Member is built from. A field without a default is required.
type Config struct {
	config.Settings // what keys of zoo.cfg set; Dir is not needed with Stores

	ID      uint32
	Servers []Server // every voting member; if there is only one it opens no port for members

	Clients      net.Listener  // where clients connect; Run closes it; default: nowhere
	Secure       net.Listener  // where clients connect over TLS; Run closes it; default: nowhere
	Operators    net.Listener  // where HTTP is served; Run closes it; default: nowhere
	Collectors   net.Listener  // where /metrics alone is served, to everybody; likewise
	Drain        time.Duration // how long a graceful stop may take to close client connections; default: at once
	EnsembleText []byte        // content of /zookeeper/config; nil: standalone
	Keys         []config.Key  // every key of the configuration, for operators; nil: none is shown

	Version string    // this program's version, for srvr; default "dev"
	Built   time.Time // date of the commit that it was built from

	Memory  *admission.MemoryLimiter // of this process; default: no limit
	Network Network                  // default TCP
	Bind    func(addr string) string // advertised address → the one to listen on; default the same
	Stores  *disk.Stores             // default: files in Dir
	Now     func() time.Time         // wall clock; default time.Now
	Events  func(Event)              // called for each event in the ensemble, on the member that leads, by one goroutine
	Lines   io.Writer                // where audit lines go that no file gets; default: standard output
	Log     *logs.Log                // operators can ask for it over HTTP; default: they cannot
	Logger  *slog.Logger             // default: that of Log, or discard

	// Monotonic counts the timeouts and the leases of sessions; raft counts by package time. Default: monotonic.System.
	Monotonic monotonic.Clock

	// The following are for tests that check what a member does. Hooks are called after the
	// member's own hooks. Wrap wraps the member as its connections see it, and WrapLog wraps
	// the log as a term of leading sees it.
	Hooks   znode.Hooks                       // default: none
	Wrap    func(server.Member) server.Member // default: no wrapping
	WrapLog func(leader.Log) leader.Log       // default: no wrapping
}

// complete checks cfg and fills in the defaults.
func (c *Config) complete() error {
	switch {
	case c.ID < 1 || c.ID > 255:
		return fmt.Errorf("member: id %d is not between 1 and 255", c.ID)
	case c.Tick <= 0:
		return fmt.Errorf("member: tick %v is not positive", c.Tick)
	case c.Reaping.Interval < 0 || c.Reaping.PerMinute < 0 || c.Reaping.NeverUsed < 0:
		return errors.New("member: a limit of the reaper is negative")
	case c.InitLimit < 0 || c.SyncLimit < 0 || c.InFlight < 0 || c.Drain < 0 || c.StoreStallLimit < 0 || c.Heartbeat < 0:
		return errors.New("member: a limit is negative")
	case !slices.ContainsFunc(c.Servers, func(s Server) bool { return s.ID == c.ID }):
		return fmt.Errorf("member: this member, %d, is not in the server list", c.ID)
	}
	c.InitLimit = cmp.Or(c.InitLimit, defaultInitLimit)
	c.SyncLimit = cmp.Or(c.SyncLimit, config.DefaultSyncLimit)
	c.Heartbeat = cmp.Or(c.Heartbeat, config.DefaultHeartbeat)
	c.StoreStallLimit = cmp.Or(c.StoreStallLimit, config.DefaultStallLimit)
	c.Version = cmp.Or(c.Version, "dev")
	if c.Logger == nil && c.Log != nil {
		c.Logger = c.Log.Logger()
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Network.Listen == nil {
		c.Network.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	if c.Network.Dial == nil {
		c.Network.Dial = wire.DialTCP
	}
	if c.Network.Lookup == nil {
		c.Network.Lookup = wire.LookupSystem
	}
	if c.Bind == nil {
		c.Bind = func(addr string) string { return addr }
	}
	if c.Hooks == nil {
		c.Hooks = deaf{}
	}
	if c.Wrap == nil {
		c.Wrap = func(m server.Member) server.Member { return m }
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

// alone reports whether the member is a standalone server, which no other ever joins.
func (c *Config) alone() bool { return c.EnsembleText == nil && len(c.Servers) == 1 }

// self returns the member as it is configured: it listens there, wherever the others look for it.
func (c *Config) self() Server {
	i := slices.IndexFunc(c.Servers, func(s Server) bool { return s.ID == c.ID })
	return c.Servers[i] // complete has checked it
}

// answeredWords returns the four-letter words that are answered. In read-only mode clients ask with isro whether
// another member has a leader, so that it is always answered then, as in ZooKeeper.
func (c *Config) answeredWords() []string {
	if !c.ReadOnlyMode {
		return c.Whitelist
	}
	return append(slices.Clone(c.Whitelist), "isro")
}

// anonymous says what callers without credentials may read.
func (c *Config) anonymous() admin.Anonymous {
	certificates := c.Clients == nil && c.Secure != nil && c.ClientTLS.Terms.Auth == keystore.NeedCertificate
	return admin.Anonymous{Reads: c.HTTP.LocalReads, Proven: len(c.Login.Schemes) > 0 || certificates}
}

// defaultInitLimit is in ZooKeeper's sample configuration.
const defaultInitLimit = 10

// Member is one running member. Make one with New; Run it once.
type Member struct {
	cfg         Config
	log         *slog.Logger
	clock       *leader.Clock // wall clock
	incarnation incarnation

	state      *znode.State
	node       *quorum.Node
	follower   *follower.Follower
	server     *server.Server
	keys       serverKeys
	terms      *terms
	peers      *peers
	audit      *audit.Log // nil: there is none
	guesses    *admission.CredentialLimiter
	hellos     *helloClient
	http       *admin.HTTP
	viewer     viewer
	ports      ports
	lists      *serverLists
	removal    *removalWatch
	events     *eventQueue
	drain      *drain
	health     *health
	backups    *backups
	rebalancer rebalancer

	applied applyProgress
}

// incarnation is this process as a run of the member.
type incarnation struct {
	number  uint64
	started time.Time
	ready   chan struct{} // closed once it serves clients
	ending  atomic.Bool   // Run has been told to stop
	socket  net.Listener  // where Run serves HTTP, too; nil: none
}

// New checks cfg, opens the data directory and the member ports and assembles the member. It starts
// nothing. The caller must call Run, which releases what New opened. If New returns an error,
// its listeners are still open.
func New(cfg Config) (*Member, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := &Member{
		cfg: cfg, clock: leader.NewClock(cfg.Now),
		incarnation: incarnation{number: random(), started: time.Now(), ready: make(chan struct{})},
		events:      newEventQueue(),
	}
	m.applied.quotaWarnings = quotaWarnings{events: m.events, self: cfg.ID}
	m.log = slog.New(calm{cfg.Logger.Handler(), &m.incarnation.ending}).With("member", cfg.ID)
	m.guesses = admission.NewCredentialLimiter(m.log)
	var err error
	if m.audit, err = audit.Open(m.auditConfig()); err != nil {
		return nil, err
	}
	if err := m.assemble(); err != nil {
		m.audit.Close()
		return nil, err
	}
	return m, nil
}

// assemble makes the packages below, and opens what they need.
func (m *Member) assemble() (err error) {
	m.terms = newTerms(m)
	m.peers = newPeers(m.cfg.Tick, m.dialMember)
	m.lists = newServerLists(&m.cfg, wire.NewBook(m.cfg.ID, raftPeers(m.cfg.Servers)), m.peers.moved, m.log)
	m.viewer = newViewer(m)
	m.state = znode.New(znode.Config{Self: m.cfg.ID, Hooks: hooks{m}, EnsembleText: m.cfg.EnsembleText})
	if m.keys, err = openServerKeys(&m.cfg, m.log); err != nil {
		return err
	}
	if m.follower, err = follower.New(m.followerConfig()); err != nil {
		return err
	}
	words, err := admin.NewWords(m.wordsConfig())
	if err != nil {
		return err
	}
	if m.viewer.collector, err = m.viewer.newCollector(); err != nil {
		return err
	}
	m.rebalancer.m, m.rebalancer.look, m.rebalancer.ask = m, m.viewer.collector.Status, m.rebalancer.send
	if m.http, err = admin.NewHTTP(m.httpConfig(words)); err != nil {
		return err
	}
	if m.server, err = server.New(m.serverConfig(words)); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		m.ports.close()
		return err
	}
	return nil
}

// open opens the ports for members, then the data directory.
func (m *Member) open() (err error) {
	if m.ports, err = openPorts(&m.cfg, m.lists.book, m.log); err != nil {
		return err
	}
	m.ports.warnOfExposure(m.log)
	m.ports.book.OnEnsemble(m.peers.renew)
	if m.node, err = quorum.Open(m.quorumConfig()); err != nil {
		return err
	}
	m.assembleOverLog()
	if err := m.lists.recall(m.node); err != nil {
		return errors.Join(err, m.node.Close())
	}
	return nil
}

// assembleOverLog makes the parts that need the log.
func (m *Member) assembleOverLog() {
	m.hellos = &helloClient{
		cfg: &m.cfg, ports: &m.ports, peers: m.peers, lists: m.lists, node: m.node,
		digests: &digestWarnings{own: m.cfg.digestAlgorithm(), log: m.log},
	}
	m.removal = &removalWatch{
		self: m.cfg.ID, tick: m.cfg.Tick, lists: m.lists, hellos: m.hellos, node: m.node, server: m.server,
		disputed: func() bool { return m.health.disputed() != "" }, log: m.log,
	}
	m.health = &health{
		cfg: &m.cfg, node: m.node, server: m.server, terms: m.terms, removal: m.removal, applied: &m.applied, log: m.log,
		damage: make(chan string, 1),
	}
	m.drain = &drain{cfg: &m.cfg, node: m.node, server: m.server, http: m.http, log: m.log, begun: make(chan struct{})}
	m.backups = &backups{
		cfg: &m.cfg, clock: m.clock, state: m.state, follower: m.follower, lists: m.lists, health: m.Health,
		damaged: func(err error) { m.health.reportDamage(err.Error()) }, log: m.log,
	}
}

func (m *Member) followerConfig() follower.Config {
	return follower.Config{
		Self: m.cfg.ID, Boot: m.incarnation.number, Tick: m.cfg.Tick, State: m.state, Clients: cutter{m},
		LeaderClient: m.terms.leaderAt,
		ProbeMember:  func(ctx context.Context, id uint32) error { return m.hellos.probe(ctx, id) },
		SyncLimit:    m.cfg.SyncLimit,
		RaftTerm:     func() uint64 { return m.node.Status().Term() },
		RaftLeader:   func() uint32 { return m.node.Status().LeaderID() },
		IsJoining:    func() bool { return m.node.Joining() },
		DiskID:       func() uint64 { return uint64(m.node.DiskID()) },
		WallClock:    m.clock.Now,
		Monotonic:    m.cfg.Monotonic,
		VoterIDs:     func() []uint32 { return votersOf(m.node) }, FetchStateHashes: m.peers.marks,
		OnDamage: func(why string) { m.health.reportDamage(why) }, OnDivergence: func(why string) { m.health.reportDispute(why) },
		MaxInFlight: m.cfg.InFlight, Logger: m.log,
	}
}

// cutter implements follower.Clients. It looks up the server late, because that is made after the
// follower.
type cutter struct{ m *Member }

func (c cutter) DropConnection(id jute.SessionID, conn uint64, why error) {
	c.m.server.DropConnection(id, conn, why)
}

func (m *Member) serverConfig(words *admin.Words) server.Config {
	return server.Config{
		Member: m.cfg.Wrap(m.follower), State: m.state,
		Tick: m.cfg.Tick, MinTimeout: m.cfg.MinTimeout, MaxTimeout: m.cfg.MaxTimeout,
		TLS: m.keys.clientTLS(m.cfg.ClientTLS), SuperSubject: m.cfg.SuperSubject,
		ConnBase: random(), Limits: m.cfg.Limits, SuperDigest: m.cfg.SuperDigest, Digest: m.cfg.Digest, NoDigest: m.cfg.NoDigest, Login: m.cfg.Login, LinearizableReads: m.cfg.LinearizableReads,
		Memory:   m.cfg.Memory,
		Commands: words, Audit: m.audit, CredentialLimiter: m.guesses, Logger: m.log,
		MembersInSync: func() (bool, <-chan struct{}) { return m.applied.clientReconfig.followed(m.node) },
	}
}

func (m *Member) auditConfig() audit.Config {
	return audit.Config{Settings: m.cfg.Audit, Member: m.cfg.ID, Out: m.cfg.Lines, Logger: m.log}
}

func (m *Member) wordsConfig() admin.WordsConfig {
	return admin.WordsConfig{Whitelist: m.cfg.answeredWords(), Version: m.cfg.Version, Built: m.cfg.Built, Source: source{m}, Anonymous: m.cfg.anonymous()}
}

func (m *Member) httpConfig(words *admin.Words) admin.HTTPConfig {
	cfg := admin.HTTPConfig{HTTPSettings: m.cfg.HTTP, SuperDigest: m.cfg.SuperDigest, Digest: m.cfg.Digest, Words: words, Source: source{m}, Operations: operations{m.viewer.collector, m}, Keys: settingRows(m.cfg.Keys), Acts: m.audit, Anonymous: m.cfg.anonymous(), Guesses: m.guesses, TLS: m.keys.operatorTLS(&m.cfg), Super: m.cfg.SuperSubject, Logger: m.log}
	if m.cfg.Log != nil {
		cfg.Log, cfg.Audit = m.cfg.Log, m.cfg.Log.Always().With("member", m.cfg.ID)
	}
	if name, err := os.Hostname(); err == nil {
		cfg.Names = append(cfg.Names, name)
	}
	for _, addr := range []string{m.cfg.HTTP.Addr, m.cfg.self().Grpc} {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.Names = append(cfg.Names, host)
		}
	}
	return cfg
}

// ServeHere makes Run serve HTTP on l, too, which is a socket in the data directory, and close it. The caller calls it before Run.
func (m *Member) ServeHere(l net.Listener) { m.incarnation.socket = l }

// Run serves until ctx ends or this member cannot continue, and returns the reason in the second
// case. When ctx ends it first hands leadership over and closes its clients' connections.
func (m *Member) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	m.audit.Start()
	g, inner := errgroup.WithContext(inner)
	var inUse atomic.Bool // raft still uses the stores
	g.Go(func() error {
		err := m.node.Run(inner)
		inUse.Store(errors.Is(err, quorum.ErrNotEnded))
		return err
	})
	g.Go(func() error { return m.follower.Run(inner) })
	g.Go(func() error { return m.terms.run(inner) })
	g.Go(func() error { return m.terms.newcomers.loop(inner, m.hellos) })
	if m.cfg.Clients != nil {
		g.Go(func() error { return m.server.Serve(inner, m.cfg.Clients) })
	}
	if m.cfg.Secure != nil {
		g.Go(func() error { return m.server.ServeTLS(inner, m.cfg.Secure) })
	}
	g.Go(func() error { return m.lists.run(inner, m.node) })
	g.Go(func() error { return m.keys.watch(inner) })
	g.Go(func() error { return m.events.run(inner, m.cfg.Events, m.log) })
	g.Go(func() error { return m.announceReady(inner) })
	g.Go(func() error { return m.health.stallLoop(inner) })
	g.Go(func() error { return m.health.damageLoop(inner) })
	g.Go(func() error { return m.health.disputeLoop(inner) })
	g.Go(func() error { return m.drain.yieldLoop(inner) })
	g.Go(func() error { return m.health.readOnlyLoop(inner) })
	g.Go(func() error { return m.removal.run(inner) })
	g.Go(func() error { return m.backups.run(inner) })
	g.Go(func() error { return m.rebalancer.loop(inner) })
	g.Go(func() error { return m.ports.guard.Run(inner) })
	g.Go(func() error { return m.ports.hello.Door().Run(inner, m.cfg.Network.Lookup) })
	if m.cfg.Operators != nil {
		g.Go(func() error { return m.http.Serve(inner, m.cfg.Operators) })
	}
	if m.incarnation.socket != nil {
		g.Go(func() error { return m.http.ServeSocket(inner, m.incarnation.socket) })
	}
	if m.cfg.Collectors != nil {
		g.Go(func() error { return m.http.ServeMetrics(inner, m.cfg.Collectors) })
	}
	if !m.cfg.alone() {
		g.Go(func() error { return m.removal.askWithoutLeader(inner) })
	}
	m.serveMembers(inner, g)
	g.Go(func() error {
		select {
		case <-inner.Done(): // something failed
		case <-ctx.Done():
			m.incarnation.ending.Store(true)
			m.drain.leave(inner)
		}
		stop()
		return nil
	})
	err := awaitEnd(inner, g)
	if inUse.Load() && !errors.Is(err, quorum.ErrNotEnded) { // it was not the first error
		err = errors.Join(err, quorum.ErrNotEnded)
	}
	if !m.audit.Close() && err != nil { // what ends without an error is not started again
		err = errors.Join(err, errNotEnded)
	}
	m.peers.close()
	m.ports.close()
	return err
}

// endTimeout is how long the member's goroutines may take to end. raft's end is limited to 10 s (quorum.stopTimeout),
// and nothing else takes long, except for a goroutine that a disk holds up.
const endTimeout = 15 * time.Second

var errNotEnded = errors.New("member: a part of this member did not stop in time, probably because its disk hangs; it ends with the process")

// awaitEnd waits until the goroutines of g have ended, or ctx has ended and endTimeout is over: one that hangs in a
// disk ends only with the process.
func awaitEnd(ctx context.Context, g *errgroup.Group) error {
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
	case <-time.After(endTimeout):
	}
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) {
		return errors.Join(why, errNotEnded)
	}
	return errNotEnded
}

// CanRestart reports whether an error of Run is corrected by another start. Nothing of the member runs any more, so the same process may make
// another Member, with the same settings and new listeners.
func CanRestart(err error) bool {
	if errors.Is(err, errNotEnded) || errors.Is(err, quorum.ErrNotEnded) {
		return false
	}
	return errors.Is(err, wire.ErrRestart) || errors.Is(err, follower.ErrAddedAgain)
}

// announceReady closes ready once this member serves for the first time.
func (m *Member) announceReady(ctx context.Context) error {
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
	m.log.Info("clients are served", "role", m.Role(), "leader", m.node.Status().LeaderID(), "after", time.Since(m.incarnation.started).Round(time.Millisecond))
	return nil
}

// Ready returns a channel that is closed once this member serves clients.
func (m *Member) Ready() <-chan struct{} { return m.incarnation.ready }

// Disk returns the id of this member's disk, by which raft knows it.
func (m *Member) Disk() disk.ID { return m.node.DiskID() }

// Configuration returns raft's latest configuration, by id. It may not be committed.
func (m *Member) Configuration() []wire.Peer { return m.node.Status().ConfiguredMembers() }

// State returns the replicated state, so that tests can compare members.
func (m *Member) State() *znode.State { return m.state }

// Role returns "leader", "follower", "observer", "standalone", or api.ReadOnly while no leader is known and only
// clients that ask for it are served. It returns "" while this member does not serve: before its first term, while
// its disk or apply hangs, once its state is damaged or while nobody knows whether it is, or while there
// is no leader.
func (m *Member) Role() string {
	switch {
	case m.node.StallError() != nil || m.node.Record().DamageReason() != "" || m.health.disputed() != "":
		return ""
	case m.terms.current.Load() != nil && m.cfg.alone():
		return "standalone"
	case m.terms.current.Load() != nil:
		return "leader"
	case m.removal.version() != 0:
		return ""
	case m.server.ReadOnly() && m.health.withoutLeader():
		return api.ReadOnly
	case m.node.Status().LeaderID() == 0 || m.node.Status().LeaderID() == m.cfg.ID || !m.applied.announced.Load():
		return ""
	case m.observes():
		return "observer"
	}
	return "follower"
}

// servesAll reports whether this member serves all clients. What a member knows in read-only mode may be old.
func (m *Member) servesAll() bool {
	role := m.Role()
	return role != "" && role != api.ReadOnly
}

// observes reports whether this member is an observer by the list, and has no vote in raft's configuration.
func (m *Member) observes() bool {
	s, listed := m.lists.reach(m.cfg.ID)
	return listed && s.Observer && !slices.Contains(m.node.Status().VoterIDs(), m.cfg.ID)
}

// Health returns whether this member serves clients, or why not. It takes no lock that apply holds.
func (m *Member) Health() admin.Health { return source{m}.Health() }

// Damage returns why this member no longer serves: its state differs from that of the others. It
// returns "" if no damage is known.
func (m *Member) Damage() string { return m.node.Record().DamageReason() }

// Joining reports whether this member is still catching up and takes part in no election.
func (m *Member) Joining() bool { return m.node.Joining() }

// Reload makes the running member read its files again: the secrets that members share, and keys and
// certificates. The log reports what has changed, and why a file cannot be used; the former keys stay in use then.
func (m *Member) Reload() {
	m.ports.guard.Reload()
	m.keys.reload()
}

// Stats are counters since this process started.
type Stats struct {
	Resent  uint64 // transactions sent again to a leader
	Dropped uint64 // transactions of this member that apply dropped as duplicates
	Server  server.Stats
}

// Stats returns the present values.
func (m *Member) Stats() Stats {
	return Stats{Resent: m.follower.Stats().ResentTxns, Dropped: m.applied.dropped.Load(), Server: m.server.Stats()}
}
