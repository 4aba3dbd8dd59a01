// Package server accepts the connections of clients and speaks ZooKeeper's protocol with them: handshake,
// order, reads, watches, replies, limits. It does not know which member leads. A request for the log is
// submitted to a Member and gets its reply when it is applied here.
//
// # Two parts of a connection
//
// Each connection is a conn and its stream.Stream. The stream reads frames and writes bytes, keeps the
// deadlines, counts memory and ends the connection. The conn is its owner: it serves each frame
// (conn.ServeFrame) and permits each write (conn.MaySend). A request that waits is a pooled record in its
// conn's queue, completed by apply.
//
// # Locks
//
// The order is: the tree's lock (znode.State), then the stream's lock, which is the connection's, then
// connectionTable.mu and those of package stream. Nothing blocks under any of them. Methods that apply calls
// under the tree's lock (SessionAttached, SessionClosed, StateRestored) say so.
//
// # Order on a connection
//
// Replies come in the order of the requests. A read and its watch are one step under the tree's read lock,
// and the reply is queued before that lock is released. Events are queued under the write lock. An event
// therefore never comes before the reply that set its watch, and never after a reply that shows its change.
//
// No event of a persistent watch is missed, in order, also between two connections: see replay.go, which has the
// argument in two lines.
//
// # Leases
//
// Every byte to a client with a session confirms that the session lives, so it is sent only while
// Member.IsVouched is true. Otherwise the stream's flusher holds the output, has the lease renewed, and
// closes the connection if that fails. The reply to the session's own closeSession, and everything queued
// before it, need no lease. A session of the read-only mode (readonly.go) is in no log, and has no lease and
// needs none.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/lockwatch"
	"rollcall/internal/stages"
	"rollcall/operator/audit"
	"rollcall/server/stream"
	"rollcall/server/tenant"
	"rollcall/zk/digest"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Limits bound the use by clients. In every field, 0 means the default.
type Limits struct {
	MaxBuffer      int // bytes of a request (jute.maxbuffer); default jute.DefaultMaxBuffer
	MaxClientConns int // connections of one address; default 60, negative: no limit
	MaxConns       int // connections; default and negative: as many as open files allow (see connLimit)
	MaxInFlight    int // unfinished requests of one connection; default 128: a few batches of the log
	// bytes of waiting requests and of unread replies and events, over all connections; default 256 MiB
	Budget int64
	// bytes of events and replies that a client leaves unread; default 16 MiB: some of the largest replies
	MaxUnread int
	// bytes of the path of a new node or of a watch; default 64 KiB: hundreds of times the longest paths of known clients
	MaxPath       int
	MaxACL        int                // entries of an access control list; default 1,000, as many as fit 64 KiB
	MaxIdentities int                // identities of a connection; default 64: ZooKeeper's clients have one or two
	Handshake     time.Duration      // from accepting a connection to its session; default 10 s, ZooKeeper's
	Throttle      admission.Throttle // of sessions that are opened and resumed; default: none

	RequestThrottle RequestThrottle
	Tenants         *tenant.Limiter // of groups of clients and of subtrees; default: one without limits
}

// Defaults of Config and Limits, also for the table of keys in package config.
const (
	DefaultMinTicks = 2 // shortest and longest session timeout, in ticks
	DefaultMaxTicks = 20

	DefaultMaxClientConns = 60
	DefaultMaxInFlight    = 128
	DefaultMaxUnread      = 16 << 20
	DefaultMaxPath        = 64 << 10
	DefaultMaxACL         = 1000
	DefaultMaxIdentities  = 64
	DefaultHandshake      = 10 * time.Second
)

const (
	defaultBudget = 256 << 20

	// maxBufferCeiling keeps a request well below the size of a log entry.
	maxBufferCeiling = 8 << 20
)

// Config configures a Server. A field without a default is required.
type Config struct {
	Member                 Member
	State                  *znode.State
	Tick                   time.Duration
	MinTimeout, MaxTimeout time.Duration // bounds of granted session timeouts; default 2 and 20 ticks
	// random first number of connections, so that numbers are unique over members and their restarts
	ConnBase     uint64
	Limits       Limits
	SuperDigest  string                   // user, colon, and the base64 of a hash; "": no super user
	Digest       digest.Algorithm         // hashes passwords in the scheme digest; default SHA1
	NoDigest     bool                     // disables the scheme digest
	SuperSubject string                   // the super user's subject in a client certificate; "": none
	TLS          TLS                      // default: clients cannot connect over TLS
	Login        Login                    // SASL logins and required identities; default: none
	Memory       *admission.MemoryLimiter // default: no limit
	Commands     Commands                 // four-letter commands; default: none
	// no read is stale, unless its client chooses otherwise; default: reads may be stale
	LinearizableReads bool
	// of clients' operations that are not in the ensemble's log; nil: none
	Audit             *audit.Log
	CredentialLimiter *admission.CredentialLimiter // slows addresses after wrong credentials; nil: never
	Stages            *stages.Recorder             // keeps slow requests; default: none is kept
	Logger            *slog.Logger                 // default: discard

	// EnsembleID returns the id of the ensemble, which clients see at jute.HistoryPath; nil: zeros. It is called under the
	// locks of a connection and of the tree.
	EnsembleID func() [32]byte

	// MembersInSync reports whether the members of the ensemble match the present list, or match it as nearly
	// as they can now. changed is closed when that may have changed. By default, replies to reconfigs do not
	// wait for it. It is called without any lock.
	MembersInSync func() (done bool, changed <-chan struct{})
}

// Server serves clients. Safe for concurrent use.
type Server struct {
	cfg            Config
	log            *slog.Logger
	stats          counters
	streamConfig   stream.Config       // shared by all streams
	longReadTurn   *admission.FairTurn // of a long read
	estimateTurn   *admission.FairTurn // of the estimate of a multiRead with many operations
	setWatchesTurn *admission.FairTurn // of a part of a long setWatches
	replayRest     restDebt
	missedSweep    missedSweep
	throttle       *admission.SessionThrottle

	limiter         *tenant.Limiter
	requestThrottle *requestThrottle // nil: there is none
	held            heldRequests

	createSlots      *admission.Slots
	tls              *tlsAcceptor // nil: no TLS
	authenticator    *authenticator
	acceptFailureLog *admission.LogLimiter
	faultLog         *faultLog
	operations       *operationTable
	writeLimits      WriteLimits

	conns     *connectionTable
	unflushed unflushed
	obstacles obstacles
	readOnly  atomic.Bool // see BeginReadOnly
}

// New checks cfg and returns an idle Server.
func New(cfg Config) (*Server, error) {
	cfg.MinTimeout = cmp.Or(cfg.MinTimeout, DefaultMinTicks*cfg.Tick)
	cfg.MaxTimeout = cmp.Or(cfg.MaxTimeout, DefaultMaxTicks*cfg.Tick)
	l := &cfg.Limits
	l.MaxBuffer = cmp.Or(l.MaxBuffer, jute.DefaultMaxBuffer)
	l.MaxClientConns = cmp.Or(l.MaxClientConns, DefaultMaxClientConns)
	l.MaxInFlight = cmp.Or(l.MaxInFlight, DefaultMaxInFlight)
	l.Budget = cmp.Or(l.Budget, defaultBudget)
	l.MaxUnread = cmp.Or(l.MaxUnread, DefaultMaxUnread)
	l.MaxPath = cmp.Or(l.MaxPath, DefaultMaxPath)
	l.MaxACL = cmp.Or(l.MaxACL, DefaultMaxACL)
	l.MaxIdentities = cmp.Or(l.MaxIdentities, DefaultMaxIdentities)
	l.Handshake = cmp.Or(l.Handshake, DefaultHandshake)
	switch {
	case cfg.Member == nil || cfg.State == nil:
		return nil, errors.New("server: Member and State are required")
	case cfg.Tick <= 0:
		return nil, fmt.Errorf("server: tick %v is not positive", cfg.Tick)
	case cfg.MinTimeout < time.Millisecond || cfg.MinTimeout > cfg.MaxTimeout:
		return nil, fmt.Errorf("server: session timeouts from %v to %v are impossible", cfg.MinTimeout, cfg.MaxTimeout)
	case l.MaxBuffer < minMaxBuffer || l.MaxBuffer > maxBufferCeiling:
		return nil, fmt.Errorf("server: jute.maxbuffer %d is not within %d and %d", l.MaxBuffer, minMaxBuffer,
			maxBufferCeiling)
	case l.MaxInFlight < 0 || l.MaxUnread < 0 || l.MaxPath < 0 || l.MaxACL < 0 ||
		l.MaxIdentities < 0 || l.Budget < 0 || l.Handshake < 0:
		return nil, fmt.Errorf("server: negative limit: %+v", *l)
	}
	if err := l.Throttle.SetDefaultsAndCheck(); err != nil {
		return nil, err
	}
	if err := l.RequestThrottle.setDefaultsAndCheck(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:              cfg,
		log:              cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("component", "server"),
		conns:            newConnectionTable(&cfg),
		longReadTurn:     admission.NewFairTurn(maxShortSteps),
		estimateTurn:     admission.NewFairTurn(0), // none takes longer than a few slices of a long read
		setWatchesTurn:   admission.NewFairTurn(0), // the parts cost about the same: none is short
		throttle:         admission.NewSessionThrottle(l.Throttle, time.Now()),
		createSlots:      admission.NewCreateSlots(),
		acceptFailureLog: admission.NewLogLimiter(),
		limiter:          cmp.Or(l.Tenants, new(tenant.Limiter)),
		requestThrottle:  newRequestThrottle(l.RequestThrottle),

		operations: newOperationTable(),
	}
	s.faultLog = newFaultLog(s.log)
	s.stats.startedAt = time.Now()
	s.limiter.OnChange(s.updateTenancies)
	s.writeLimits = WriteLimits{&s.cfg.Limits, cfg.Memory, cfg.State}
	var err error
	if s.authenticator, err = newAuthenticator(&s.cfg, s.log); err != nil {
		return nil, err
	}
	if s.tls, err = newTLSAcceptor(cfg.TLS); err != nil {
		return nil, err
	}
	s.streamConfig = stream.Config{
		Tick: cfg.Tick, HandshakeTimeout: l.Handshake, MaxFirstFrame: min(maxFirstFrame, l.MaxBuffer), MaxFrame: l.MaxBuffer,
		MaxInFlight: l.MaxInFlight, MaxUnread: l.MaxUnread,
		Budget: stream.NewBudget(l.Budget, s.conns.streams, s.log), BytesIn: &s.stats.bytesIn, Logger: s.log,
	}
	return s, nil
}

// updateTenancies has all connections counted by the present limits of tenants. Requests that wait are looked at again.
func (s *Server) updateTenancies() {
	for part := range s.conns.partsFrom(0) {
		for _, c := range part {
			clientTenants{c}.updateTable()
		}
	}
	s.held.wakeAll()
}

// sinceStart returns the time since the start of the server, which never goes back.
func (s *Server) sinceStart(now time.Time) time.Duration { return now.Sub(s.stats.startedAt) }

// Limits returns the limits in force, with defaults filled in.
func (s *Server) Limits() Limits { return s.cfg.Limits }

// Timeouts returns the shortest and the longest session timeout that is granted.
func (s *Server) Timeouts() (least, most time.Duration) { return s.cfg.MinTimeout, s.cfg.MaxTimeout }

// Serve accepts connections from l and serves them until ctx ends or l fails. If ctx ends, it returns nil. It
// closes l. When it returns, all goroutines of its connections have ended. It may run for several listeners
// at once. Connections are plain; they may speak TLS if TLS.Unified is set.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serveListener(ctx, &listener{Listener: l})
}

// ServeTLS is Serve for connections that speak TLS. It needs Config.TLS.
func (s *Server) ServeTLS(ctx context.Context, l net.Listener) error {
	if s.tls == nil {
		return errors.New("server: there are no keys for TLS")
	}
	return s.serveListener(ctx, &listener{Listener: l, speaksTLS: true})
}

func (s *Server) serveListener(ctx context.Context, l *listener) error {
	if !s.tls.mayServeTLS(l) {
		var err error
		if l.acceptor, err = stream.NewAcceptor(l.Listener); err != nil {
			s.log.Info("connections begin with a goroutine each", "addr", l.Addr(), "err", err)
		}
	}
	stop := context.AfterFunc(ctx, l.close) // Accept returns its error
	defer stop()
	l.streams.Config = &s.streamConfig
	err := acceptAll(ctx, func() error { return s.acceptOne(l) }, s.logAcceptFailure)
	l.close() // no-op unless accept failed
	s.conns.dropMatching(shutdown, func(c *conn) bool { return c.listener == l })
	l.openConns.Wait()
	l.streams.Close()
	if len(s.conns.all()) == 0 {
		s.streamConfig.Budget.AwaitManager() // no connection holds or waits for anything
	}
	return err
}

// logAcceptFailure logs that accept has failed after a success. While descriptors are short, each freed one
// lets one client in, and the next accept fails again.
func (s *Server) logAcceptFailure(err error) {
	if unlogged, due := s.acceptFailureLog.AllowLine(time.Now()); due {
		s.log.Warn("accept failed, trying again", "err", err, "unlogged", unlogged)
	}
}

// acceptOne waits for a connection, and has it served unless a limit rejects it.
func (s *Server) acceptOne(l *listener) error {
	if l.acceptor != nil {
		return s.acceptForLoop(l)
	}
	sock, err := l.Accept()
	if err != nil {
		return err // accept logs it, or returns it with its context
	}
	c := newConn(s, sock.RemoteAddr(), l)
	c.stream.Init(sock, &l.streams, c)
	if !s.admitConn(c) {
		_ = sock.Close() // nothing was sent
		return nil
	}
	go c.runReader(sock)
	return nil
}

func (s *Server) acceptForLoop(l *listener) error {
	sock, err := l.acceptor.Accept()
	if err != nil {
		return err // as in acceptOne
	}
	c := newConn(s, sock.Addr, l)
	c.stream.InitAccepted(sock, &l.streams, c)
	if !s.admitConn(c) {
		sock.Close()
		return nil
	}
	c.stream.DropAfter(s.cfg.Limits.Handshake, handshakeLate)
	c.stream.Start()
	return nil
}

// admitConn reports whether a new connection is within the limits. If so, it counts until StreamEnded.
func (s *Server) admitConn(c *conn) bool {
	why, ok := s.conns.admitAndNumber(c)
	if !ok {
		s.stats.endedByReason[why].Add(1)
		return false
	}
	c.listener.openConns.Add(1)
	return true
}

// DropConnection closes the session's local connection, if it has the number conn, and sends nothing more. A
// newer connection, which the client has opened meanwhile, stays open. DropConnection never blocks, and may
// be called with or without the tree's lock.
func (s *Server) DropConnection(id jute.SessionID, conn uint64, why error) {
	if c := s.conns.carrierOf(id); c != nil && c.uniqueNumber == conn {
		s.log.Debug("connection cut", "session", id, "err", why)
		c.stream.Drop(droppedByMember)
	}
}

// DropAll closes every connection and sends nothing more, because this member cannot serve at the moment. It
// closes the sockets itself: readers and loops may be waiting for the tree's lock while apply hangs with it.
// The caller must not hold that lock.
func (s *Server) DropAll() {
	for _, c := range s.conns.all() {
		c.stream.HangUp(droppedByMember)
	}
}

// RejectNew rejects new connections from now on. The present ones stay open.
func (s *Server) RejectNew() {
	s.conns.rejectNew()
}

// Draining reports whether RejectNew or Drain was called.
func (s *Server) Draining() bool {
	return s.conns.isRejectingNew()
}

// Drain rejects new connections from now on, and closes the present ones, spread evenly over a time, so that
// the clients do not all reach the other members at once. It returns the number of closed connections. If ctx
// ends it returns early, and Serve closes the rest.
func (s *Server) Drain(ctx context.Context, over time.Duration) (closed int) {
	s.RejectNew()
	return dropGradually(ctx, s.conns.all(), over, shutdown)
}

// CloseOldest closes n connections of clients with a session, or all if there are fewer, spread evenly over a
// time. It begins with the oldest, so that a client that has reconnected here is not closed again soon. It
// returns the number of closed connections. If ctx ends, it returns early.
func (s *Server) CloseOldest(ctx context.Context, n int, over time.Duration) (closed int) {
	conns := s.conns.withSession()
	return dropGradually(ctx, conns[:min(n, len(conns))], over, rebalanced)
}

// SessionAttached is called by apply, under the tree's lock, when a connection has taken a session over. It
// drops an older connection here.
func (s *Server) SessionAttached(session znode.Session, _ znode.SessionOwner) {
	if c := s.conns.carrierOf(session.ID); c != nil && c.uniqueNumber != session.Owner.Conn {
		c.stream.Drop(sessionMoved)
	}
}

// SessionClosed is called by apply, under the tree's lock, when a session has ended. It drops the session's
// connection, unless that connection requested the end and gets the reply.
func (s *Server) SessionClosed(session znode.Session, end znode.SessionEnd) {
	c := s.conns.carrierOf(session.ID)
	switch {
	case c == nil:
	case end.Reason == znode.ReasonClosed && session.Owner.Conn == c.uniqueNumber:
		c.noteCloseApplied()
	default:
		c.stream.Drop(sessionEnded)
	}
}

// SessionSwept is called by apply, under the tree's lock, when the last node of an ended session is gone. If
// the client requested the end here, it gets its reply.
func (s *Server) SessionSwept(id jute.SessionID) {
	if c := s.conns.carrierOf(id); c != nil {
		c.replyIfCloseApplied(s.cfg.State.Zxid())
	}
}

// FlushApplied sends the output of an applied entry: replies before events, because many clients may watch
// one node. Apply calls it after each entry, when it has released the tree's lock.
func (s *Server) FlushApplied() {
	if s.missedSweep.claimSweep(s.cfg.State.Watches().MissedPathCount()) {
		go s.dropAllMissed()
	}
	s.unflushed.flush()
}

// StateRestored is called by apply, under the tree's lock, when the state was replaced, with all watches.
// Every client has to connect again.
func (s *Server) StateRestored() {
	s.conns.dropMatching(stateRestored, func(*conn) bool { return true })
}

// Locks returns the locks that all connections share.
func (s *Server) Locks() []lockwatch.Lock {
	var throttle []lockwatch.Lock
	if s.requestThrottle != nil {
		throttle = []lockwatch.Lock{{Name: "server.requestThrottle.mu", Locker: &s.requestThrottle.mu}}
	}
	return slices.Concat(throttle, s.streamConfig.Budget.Locks(), s.longReadTurn.Locks(), s.estimateTurn.Locks(), s.setWatchesTurn.Locks(), []lockwatch.Lock{
		{Name: "server.connectionTable.mu", Locker: &s.conns.mu},
		{Name: "server.unflushed.mu", Locker: &s.unflushed.mu},
		{Name: "server.missedSweep.mu", Locker: &s.missedSweep.mu},
		{Name: "server.heldRequests.mu", Locker: &s.held.mu},
	})
}
