// Package otlp sends slow requests as traces, and a member's metrics, to a collector of OpenTelemetry.
//
// It speaks OTLP over HTTP with protobuf bodies, opens no port, and follows no redirect. A slow request is a trace: its
// first span is the request, and the others are its stages, which follow one another. The metrics are those of /metrics,
// under the same names.
//
// # Bounds
//
// A collector may hang, fail, or reply with anything. So traces wait in a queue of maxQueued, a request has sendTimeout, a
// reply is read up to maxReplyBytes, and a batch is sent at most maxTries times. What does not fit is dropped and counted.
// No caller of an Exporter waits: KeepSlow never blocks, and Run returns within flushTimeout after its context has ended.
//
// # Why not the SDK of OpenTelemetry
//
// The SDK starts spans before their ends are known, takes its errors and settings from the process and not from the
// member, and drops spans without a public count. Here a span is made when the request is over, and several members may
// be in one process. With the SDK, its two exporters and its bridge from Prometheus, the binary grew by 6.3 % and needed
// 84 packages more, of 18 modules; with the messages alone it grows by 0.9 %, and one module.
package otlp

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"rollcall/internal/admission"
	"rollcall/internal/metrics"
	"rollcall/internal/screentext"
	"rollcall/internal/stages"
)

// DefaultMetricsInterval is the time between two requests with metrics, as in the SDKs of OpenTelemetry.
const DefaultMetricsInterval = time.Minute

// flushTimeout limits the time for the last requests when the member stops. Nothing of the ensemble waits for them, and
// a collector that works needs a few milliseconds.
const flushTimeout = time.Second

// linePause is the least time between two lines about a collector that fails.
const linePause = time.Minute

// Settings are the configuration keys about the collector.
type Settings struct {
	Endpoint    string // the URL of the collector, to which /v1/traces and /v1/metrics are added; "": nothing is sent
	HeadersFile string // with headers for every request, such as a token; "": there are none
	// TrustFile has the authorities of the collector's certificate; "": those of the system. KeyFile has this member's
	// key and certificate; "": it shows none. Both are in PEM.
	TrustFile, KeyFile string
	NoTraces           bool
	NoMetrics          bool
	MetricsInterval    time.Duration // default DefaultMetricsInterval
}

// IsSet reports whether anything is sent.
func (s *Settings) IsSet() bool { return s.Endpoint != "" && !(s.NoTraces && s.NoMetrics) }

// Config configures an Exporter. A field without a default is required.
type Config struct {
	Settings
	Member     uint32
	InstanceID func() string // the name of this member among all: its ensemble and its number
	Version    string        // of the program
	Gatherer   prometheus.Gatherer
	StartTime  time.Time // since which counters count
	Now        func() time.Time
	Dial       func(ctx context.Context, addr string) (net.Conn, error) // default: TCP
	Logger     *slog.Logger
}

// Exporter sends what a member has recorded. Make one with New. A nil Exporter keeps nothing.
type Exporter struct {
	cfg    Config
	sender *sender
	queue  chan *stages.Slow
	lines  *admission.LogLimiter

	sent, dropped counts
}

// counts count spans and data points.
type counts struct{ spans, points atomic.Uint64 }

// New checks the files that cfg names, and returns an Exporter. If nothing is to be sent, the Exporter is nil.
func New(cfg Config) (*Exporter, error) {
	if !cfg.IsSet() {
		return nil, nil
	}
	cfg.MetricsInterval = cmp.Or(cfg.MetricsInterval, DefaultMetricsInterval)
	s, err := newSender(&cfg)
	if err != nil {
		return nil, err
	}
	return &Exporter{
		cfg: cfg, sender: s, queue: make(chan *stages.Slow, maxQueued), lines: admission.NewLogLimiterOf(linePause),
	}, nil
}

// Run sends until ctx ends, and then for at most flushTimeout what waits. It returns nil.
func (e *Exporter) Run(ctx context.Context) error {
	// Requests outlive ctx, so that the one under way and the last ones can end.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(flushTimeout):
			cancel()
		case <-requests.Done():
		}
	})
	defer stop()
	var g errgroup.Group
	g.Go(func() error { e.sender.watchFiles(ctx); return nil })
	if !e.cfg.NoTraces {
		g.Go(func() error { e.traceLoop(ctx, requests); return nil })
	}
	if !e.cfg.NoMetrics {
		g.Go(func() error { e.metricsLoop(ctx, requests); return nil })
	}
	err := g.Wait()
	e.sender.close()
	return err
}

// ReloadFiles reads the keys and certificates again, for a signal.
func (e *Exporter) ReloadFiles() {
	if e != nil && e.sender.keys != nil {
		e.sender.keys.ReloadAndLog()
	}
}

// NativeMetrics returns the metrics of the Exporter, or none if it is nil.
func (e *Exporter) NativeMetrics() []metrics.Native {
	if e == nil {
		return nil
	}
	values := func(c *counts) func() map[string]uint64 {
		return func() map[string]uint64 {
			return map[string]uint64{"spans": c.spans.Load(), "points": c.points.Load()}
		}
	}
	return []metrics.Native{
		metrics.CounterBy("rollcall_otlp_sent_total", "kind",
			"spans of slow requests and points of metrics that the collector has taken", values(&e.sent)),
		metrics.CounterBy("rollcall_otlp_dropped_total", "kind",
			"those that were dropped, because the collector rejected them, was too slow or did not reply", values(&e.dropped)),
	}
}

// logFailure logs that a request has failed, unless another line was logged less than linePause ago.
func (e *Exporter) logFailure(what string, err error) {
	if skipped, due := e.lines.AllowLine(time.Now()); due {
		text := err.Error()
		e.cfg.Logger.Warn("a request to the collector of OpenTelemetry failed", "what", what, "err", screentext.Escape(text[:min(len(text), maxShownError)]),
			"dropped_spans", e.dropped.spans.Load(), "dropped_points", e.dropped.points.Load(), "skipped", skipped)
	}
}
