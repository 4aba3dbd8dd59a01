package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"rollcall/internal/admission"
	"rollcall/internal/tokenproof"
	"rollcall/operator/api"
	"rollcall/operator/console"
	"rollcall/operator/past/served"
	"rollcall/operator/view"
	"rollcall/zk/digest"
)

const (
	// maxHeaderBytes limits the headers of a request. A password or a token is far shorter.
	maxHeaderBytes = 16 << 10
	// headerTimeout and requestTimeout limit the time to receive the headers and all of a request. The longest
	// is a node of 2 MiB.
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	// partTimeout and replyTimeout limit the time to send a part of a reply and all of it, as for four-letter
	// commands.
	partTimeout  = 10 * time.Second
	replyTimeout = time.Minute
	partSize     = 32 << 10
	// maxLongReplies limits concurrent long replies. They take processor time from the clients, and each may
	// hold a part of its text in memory.
	maxLongReplies = 4
	// maxPages is the limit for lists under /v1/. A page has about a megabyte at most, but may wait for members
	// that do not reply. Another request waits up to slotTimeout for a place.
	maxPages    = 8
	slotTimeout = 2 * view.MaxDeadline
	// pagePause is the wait before a page that follows another one. Without it, listing all sessions takes one
	// and a half processors from the clients: 100,000 sessions have 100 pages.
	pagePause = 8 * time.Millisecond
	// shutdownTimeout limits the wait for replies when the member stops.
	shutdownTimeout = time.Second
)

// HTTPSettings are the configuration keys for HTTP. A zero field stands for its default.
type HTTPSettings struct {
	// Addr is the address for operators, host:port; "": there is none. Port 0 stands for any.
	Addr        string
	CommandURL  string        // path of ZooKeeper's commands; default "/commands"
	IdleTimeout time.Duration // after which a connection without a request is closed; default 30 s
	// MetricsAddr is the address of /metrics without credentials; "": there is none.
	MetricsAddr string
	// BareMetrics omits the metrics of the Go runtime and of the process.
	BareMetrics bool
	TokenFile   string // file with the token of administrators; "": there is none
	// ReadTokenFile and MetricsTokenFile hold tokens for reading, and for reading metrics alone; "": there is
	// none.
	ReadTokenFile, MetricsTokenFile string
	ForceHTTPS                      bool // HTTPConfig.TLS alone is served
	// HTTPConfig.TLS is served beside plain connections, unless ForceHTTPS is set
	UnifyPorts     bool
	NeedClientAuth bool       // clients over TLS must show a certificate
	LocalReads     LocalReads // what callers without credentials may read
	Hosts          []string   // names for this member in the Host header, besides its own; "*": any
	// DistrustLoopback takes requests over loopback addresses for requests from another machine: a proxy on this
	// machine may have passed them on.
	DistrustLoopback bool
	NoSnapshots      bool // ZooKeeper's command snapshot is rejected
	NoRestores       bool // ZooKeeper's command restore is rejected
	// SnapshotInterval is the least time between two snapshots that the member sends, and between two restores.
	// The default is DefaultSnapshotInterval.
	SnapshotInterval time.Duration
}

// HTTPConfig configures an HTTP. A field without a default is required.
type HTTPConfig struct {
	HTTPSettings
	SuperDigest     string           // the super user's name, a colon, and the digest of the name and password; "": there is none
	DigestAlg       digest.Algorithm // made that digest; default SHA1
	FourLetter      *FourLetterCommands
	Source          Source
	Operations      Operations
	Past            *served.Server  // answers queries about the past; nil: the member has none
	ConfigKeys      []api.Setting   // every key of the configuration; nil: none is shown
	Log             Log             // the log of this process; nil: it cannot be read
	Limits          Limits          // limits for tenants; nil: there are none
	AuditLogger     *slog.Logger    // logs what administrators do; default: Logger
	AuditLog        AuditLog        // records it, too; nil: there is none
	AnonymousAccess AnonymousAccess // what callers without credentials may read
	TLS             *tls.Config     // for HTTPS; nil: there is none
	// AdmitHandshake returns an error if a TLS handshake with an address must not begin now; nil: all may
	AdmitHandshake func(remote net.Addr) error
	SuperSubject   string // subject of the super user's certificate; "": there is none
	// host names by which clients may call this member, besides addresses and localhost
	HostNames         []string
	CredentialLimiter *admission.CredentialLimiter // slows addresses that send wrong credentials; nil: none is slowed
	Logger            *slog.Logger                 // default: discard
}

// HTTP serves operators and programs over HTTP. Make one with NewHTTP. It is safe for concurrent use.
type HTTP struct {
	cfg         HTTPConfig
	log         *slog.Logger
	handler     http.Handler
	authorizer  *authorizer
	auditor     requestAuditor
	longReplies *longReplyLimiter
	metricsTurn chan struct{} // capacity 1: a metrics reply without credentials, and a pause after it

	health   *healthProbes
	console  *console.Console
	registry *prometheus.Registry
	metrics  http.Handler // of /metrics
	member   *memberAPI
	ensemble *ensembleAPI
	streams  *eventStreams
	members  *membersAPI
	nodes    *nodesAPI
	backups  *backupsAPI
	history  *historyAPI
	past     *pastAPI
	commands *adminServer
}

// Defaults of HTTPSettings, which are ZooKeeper's.
const (
	DefaultCommandURL  = "/commands"
	DefaultIdleTimeout = 30 * time.Second
)

// NewHTTP checks cfg, reads the token files and returns an HTTP. It opens no port.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	if cfg.FourLetter == nil || cfg.Source == nil || cfg.Operations == nil {
		return nil, errors.New("admin: Words, Source and Operations are required")
	}
	cfg.CommandURL = cmp.Or(cfg.CommandURL, DefaultCommandURL)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, DefaultIdleTimeout)
	cfg.SnapshotInterval = cmp.Or(cfg.SnapshotInterval, DefaultSnapshotInterval)
	if err := CheckCommandURL(cfg.CommandURL); err != nil {
		return nil, fmt.Errorf("admin: commandURL %q: %w", cfg.CommandURL, err)
	}
	h := &HTTP{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		longReplies: &longReplyLimiter{
			longReplies: make(chan struct{}, maxLongReplies), pages: make(chan struct{}, maxPages),
			administratorPages: make(chan struct{}, maxPages),
		}, metricsTurn: make(chan struct{}, 1),
	}
	h.auditor.processLog, h.auditor.auditLog = cmp.Or(cfg.AuditLogger, h.log), cfg.AuditLog
	h.cfg.TLS = limitHandshakes(cfg.TLS, cfg.AdmitHandshake)
	var err error
	if h.authorizer, err = newAuthorizer(&cfg, h.log); err != nil {
		return nil, err
	}
	if h.registry, err = newRegistry(cfg.FourLetter, cfg.Source, cfg.BareMetrics); err != nil {
		return nil, err
	}
	h.metrics = newMetricsHandler(h.registry)
	if h.console, err = console.New(); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	h.health = &healthProbes{source: cfg.Source, authorizer: h.authorizer}
	h.member = &memberAPI{source: cfg.Source, authorizer: h.authorizer, settings: cfg.ConfigKeys, log: cfg.Log, limits: cfg.Limits}
	h.ensemble = &ensembleAPI{queries: cfg.Operations, killer: cfg.Operations}
	h.streams = newEventStreams(cfg.Operations, h.authorizer, func() bool { return h.health.failureIfRemoved() != nil })
	h.members = &membersAPI{ops: cfg.Operations, source: cfg.Source}
	h.nodes = &nodesAPI{ops: cfg.Operations}
	h.backups = newBackupsAPI(&cfg, h.authorizer, h.log)
	h.history = &historyAPI{ops: cfg.Operations, source: cfg.Source, authorizer: h.authorizer, log: h.log, slots: make(chan struct{}, maxHistoryFiles), followers: make(chan struct{}, maxHistoryFollowers)}
	h.past = &pastAPI{
		server: cfg.Past, authorizer: h.authorizer, memberRemoved: func() bool { return h.health.failureIfRemoved() != nil }, log: h.log,
	}
	h.commands = &adminServer{
		basePath: cfg.CommandURL, fourLetter: cfg.FourLetter, source: cfg.Source, ops: cfg.Operations,
		authorizer: h.authorizer, backups: h.backups,
	}
	h.handler = h.limitGuesses(h.guardedHandler(h.routes()))
	return h, nil
}

// FailReadyz makes /readyz report that this member is about to stop. Endpoints work until the context of Serve ends.
func (h *HTTP) FailReadyz() { h.health.stopping.Store(true) }

// Serve serves l until ctx ends, and closes it. It then waits up to shutdownTimeout for replies under way.
func (h *HTTP) Serve(ctx context.Context, l net.Listener) error {
	var g errgroup.Group
	g.Go(func() error { h.streams.run(ctx); return nil })
	g.Go(func() error { return h.serveListener(ctx, l, h.handler, h.cfg.TLS) })
	return g.Wait()
}

// ServeSocket serves a local socket likewise, beside Serve.
func (h *HTTP) ServeSocket(ctx context.Context, l net.Listener) error {
	return h.serveListener(ctx, l, h.handler, nil)
}

// ServeMetrics serves /metrics alone likewise, to every caller who reaches l.
func (h *HTTP) ServeMetrics(ctx context.Context, l net.Listener) error {
	e := h.metricsRoute()
	e.access = openAccess
	return h.serveListener(ctx, l, h.limitGuesses(h.guardedHandler([]endpoint{e})), nil)
}

// serveListener serves handler, over TLS if config is not nil. On plain connections callers may prove the token.
func (h *HTTP) serveListener(ctx context.Context, l net.Listener, handler http.Handler, config *tls.Config) error {
	if h.authorizer.credentials.adminToken.isSet && config == nil {
		proofs, err := tokenproof.NewListener(l, h.authorizer.credentials.proofKey)
		if err != nil {
			return err
		}
		proofs.OnRejected = h.recordWrongProof
		l = proofs
	}
	bounded := newBoundedListener(l, maxConns)
	listener, run := h.listenerFor(bounded, config)
	srv := &http.Server{
		Handler: handler, ConnState: bounded.connStateChanged, ConnContext: connContext,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: h.cfg.IdleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		// what strangers send is not an operator's concern
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	var g errgroup.Group
	g.Go(func() error { run(ctx); return nil })
	g.Go(func() error {
		if err := srv.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			h.log.Warn("no longer serving HTTP; clients are not affected", "addr", l.Addr().String(), "err", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		bounded.closeIdle() // Shutdown would wait for connections without a request
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if srv.Shutdown(over) != nil {
			_ = srv.Close() // cuts off replies under way
		}
		return nil
	})
	return g.Wait()
}
