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

	"golang.org/x/sync/errgroup"

	"rollcall/internal/admission"
	"rollcall/internal/tokenproof"
	"rollcall/operator/api"
	"rollcall/operator/console"
	"rollcall/operator/view"
	"rollcall/zk/digest"
)

const (
	// maxHeaderBytes limits the headers of a request, in bytes. A password or a token is far
	// shorter.
	maxHeaderBytes = 16 << 10
	// headerTimeout limits the time in which a client sends the headers of a request.
	headerTimeout = 5 * time.Second
	// requestTimeout limits the time in which it sends all of a request. The longest is a node of 2 MiB.
	requestTimeout = 10 * time.Second
	// partTimeout and answerTime limit the time in which a client reads a part of a reply and all
	// of it, as for four-letter commands.
	partTimeout  = 10 * time.Second
	replyTimeout = time.Minute
	// partSize is the number of bytes of a reply that are sent at once.
	partSize = 32 << 10
	// maxLongReplies limits the long replies under way. They take processor time from the
	// clients, and each may hold a part of its text in memory.
	maxLongReplies = 4
	// maxPages is the same for the lists under /v1/. Each is a page, of about a megabyte at most, but waits
	// for members that do not answer. Another one waits up to placeTime, in which the places come free.
	maxPages    = 8
	slotTimeout = 2 * view.MaxDeadline
	// pagePause is the wait before a page that follows another one. Without it, an operator who lists all
	// sessions takes one and a half processors from the clients; 100,000 sessions have 100 pages.
	pagePause = 8 * time.Millisecond
	// shutdownTimeout is the longest that a member that stops waits for the replies that are under way.
	shutdownTimeout = time.Second
)

// HTTPSettings are the keys of the configuration for HTTP. If a field is zero, its default
// holds.
type HTTPSettings struct {
	// Addr is where the command listens for operators, host:port; "": nowhere. Port 0 stands for
	// any.
	Addr        string
	CommandURL  string        // path of ZooKeeper's commands; default "/commands"
	IdleTimeout time.Duration // after which a connection without a request is closed; default 30 s
	// MetricsAddr is where the command also serves /metrics, to everybody; "": nowhere.
	MetricsAddr string
	// BareMetrics leaves out the metrics of the Go runtime and of the process.
	BareMetrics bool
	TokenFile   string // file with the token of administrators; "": there is none
	// ReadTokenFile and MetricsTokenFile have tokens that only read, and that read nothing but metrics; "": there is none.
	ReadTokenFile, MetricsTokenFile string
	ForceHTTPS                      bool       // HTTPConfig.TLS alone is served
	UnifyPorts                      bool       // HTTPConfig.TLS is served beside plain connections, unless ForceHTTPS is set
	NeedClientAuth                  bool       // clients over TLS must show a certificate
	LocalReads                      LocalReads // what callers without credentials may read
	Hosts                           []string   // names for this member in the Host header, besides its own; "*": any
	NoSnapshots                     bool       // ZooKeeper's command snapshot is refused
	NoRestores                      bool       // ZooKeeper's command restore is refused
	// SnapshotInterval is the least time between two snapshots that the member sends, and between two restores that it takes; default
	// DefaultSnapshotInterval.
	SnapshotInterval time.Duration
}

// HTTPConfig configures an HTTP. A field without a default is required.
type HTTPConfig struct {
	HTTPSettings
	SuperDigest       string           // "super:" and the digest of the super user's password; "": there is none
	DigestAlg         digest.Algorithm // made that digest; default SHA1
	FourLetter        *FourLetterCommands
	Source            Source
	Operations        Operations
	ConfigKeys        []api.Setting                // every key of the configuration; nil: none is shown
	Log               Log                          // the log of this process; default: nobody can ask for it
	AuditLogger       *slog.Logger                 // what administrators do is logged here; default: Logger
	AuditLog          AuditLog                     // and is told here, too; nil: it is not
	AnonymousAccess   AnonymousAccess              // what callers without credentials may read
	TLS               *tls.Config                  // for HTTPS; nil: there is none
	SuperSubject      string                       // the subject of the super user's certificate; "": nobody is super by certificate
	HostNames         []string                     // host names by which clients may call this member, besides addresses and localhost
	CredentialLimiter *admission.CredentialLimiter // slows the addresses of wrong credentials; nil: none is slowed
	Logger            *slog.Logger                 // default: discard
}

// HTTP answers operators and programs over HTTP. Make one with NewHTTP. It is safe for concurrent
// use.
type HTTP struct {
	cfg         HTTPConfig
	log         *slog.Logger
	handler     http.Handler
	authorizer  *authorizer
	auditor     requestAuditor
	longReplies *longReplyLimiter
	metricsTurn chan struct{} // has room for one: figures for callers without credentials; a timer gives it back

	health   *healthProbes
	console  *console.Console
	metrics  http.Handler // of /metrics
	member   *memberAPI
	ensemble *ensembleAPI
	streams  *eventStreams
	members  *membersAPI
	nodes    *nodesAPI
	backups  *backupsAPI
	commands *adminServer
}

// Defaults of HTTPSettings, which are ZooKeeper's.
const (
	DefaultCommandURL  = "/commands"
	DefaultIdleTimeout = 30 * time.Second
)

// NewHTTP checks cfg, reads the token file and returns an HTTP. It opens no port.
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
	h := &HTTP{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), longReplies: newLongReplyLimiter(), metricsTurn: make(chan struct{}, 1)}
	h.auditor.processLog, h.auditor.auditLog = cmp.Or(cfg.AuditLogger, h.log), cfg.AuditLog
	var err error
	if h.authorizer, err = newAuthorizer(&cfg, h.log); err != nil {
		return nil, err
	}
	if h.metrics, err = newMetricsHandler(cfg.FourLetter, cfg.Source, cfg.BareMetrics); err != nil {
		return nil, err
	}
	if h.console, err = console.New(); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	h.health = &healthProbes{source: cfg.Source, authorizer: h.authorizer}
	h.member = &memberAPI{source: cfg.Source, authorizer: h.authorizer, settings: cfg.ConfigKeys, log: cfg.Log}
	h.ensemble = &ensembleAPI{ops: cfg.Operations}
	h.streams = newEventStreams(cfg.Operations, h.authorizer)
	h.members = &membersAPI{ops: cfg.Operations, source: cfg.Source}
	h.nodes = &nodesAPI{ops: cfg.Operations}
	h.backups = newBackupsAPI(&cfg, h.authorizer, h.log)
	h.commands = &adminServer{basePath: cfg.CommandURL, fourLetter: cfg.FourLetter, source: cfg.Source, authorizer: h.authorizer, backups: h.backups}
	h.handler = h.limitGuesses(h.guardedHandler(h.routes()))
	return h, nil
}

// Stop makes /readyz say that this member is about to stop. The endpoints are answered until the
// context of Serve ends.
func (h *HTTP) Stop() { h.health.stopping.Store(true) }

// Serve answers requests on l until ctx ends, and closes l. It then waits up to shutdownTime for
// the answers that are under way.
func (h *HTTP) Serve(ctx context.Context, l net.Listener) error {
	var g errgroup.Group
	g.Go(func() error { h.streams.run(ctx); return nil })
	g.Go(func() error { return h.serveListener(ctx, l, h.handler, h.cfg.TLS) })
	return g.Wait()
}

// ServeSocket does the same on a socket of this machine, beside Serve.
func (h *HTTP) ServeSocket(ctx context.Context, l net.Listener) error {
	return h.serveListener(ctx, l, h.handler, nil)
}

// ServeMetrics does the same with /metrics alone, for everybody who reaches l.
func (h *HTTP) ServeMetrics(ctx context.Context, l net.Listener) error {
	e := h.metricsRoute()
	e.access = openAccess
	return h.serveListener(ctx, l, h.limitGuesses(h.guardedHandler([]endpoint{e})), nil)
}

// serveListener serves handler, over TLS if config is not nil. Otherwise a connection may prove the token.
func (h *HTTP) serveListener(ctx context.Context, l net.Listener, handler http.Handler, config *tls.Config) error {
	if h.authorizer.credentials.adminToken.isSet && config == nil {
		proofs, err := tokenproof.NewListener(l, h.authorizer.credentials.proofKey)
		if err != nil {
			return err
		}
		proofs.OnRejected = h.rejectProof
		l = proofs
	}
	bounded := newBoundedListener(l, maxConns)
	listener, run := h.listenerFor(bounded, config)
	srv := &http.Server{
		Handler: handler, ConnState: bounded.connStateChanged, ConnContext: connContext,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: h.cfg.IdleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug), // what strangers send is not an operator's concern
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
		bounded.closeIdle() // Shutdown would wait for those that have sent nothing yet
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if srv.Shutdown(over) != nil {
			_ = srv.Close() // cuts off what is not answered yet
		}
		return nil
	})
	return g.Wait()
}
