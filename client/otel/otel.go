// Package otel makes spans and metrics of OpenTelemetry of the calls of a Client.
//
//	telemetry, err := otel.New(otel.Config{})
//	if err != nil {
//		return err
//	}
//	cfg := client.Config{}
//	telemetry.Observe(&cfg)
//	c, err := client.Dial(ctx, "h1:2181,h2:2181", cfg)
//
// It needs only the API of OpenTelemetry. The program brings an SDK, with the exporters and the sampling that it wants;
// without one, nothing is recorded.
//
// # Spans
//
// Each call is a span of the kind client, a child of the span in the call's context. Its name is the operation, such as
// getData. What happens to the session while a call waits is an event of its span.
//
// # Metrics
//
// zookeeper.client.call.duration is a histogram of the calls by operation and error, in seconds.
// zookeeper.client.session.changes counts the changes of sessions by their new state. zookeeper.client.session.age is the
// age of the session, in seconds, while there is one, and zookeeper.client.session.duration a histogram of the ages at
// which sessions have ended.
package otel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"rollcall/client"
	"rollcall/zk/jute"
)

// scope is the name of the instrumentation.
const scope = "rollcall/client/otel"

// maxPath limits the bytes of a path in a span. A member limits those of its spans to as many.
const maxPath = 256

// Config configures a Telemetry. The zero value uses the program's global providers.
type Config struct {
	TracerProvider trace.TracerProvider // nil: the global one
	MeterProvider  metric.MeterProvider // nil: the global one
	NoPaths        bool                 // spans have no paths
}

// Telemetry observes one Client at a time: make one with New for each, or for each client.Keep. It lasts as long as the
// meter. It is safe for concurrent use.
type Telemetry struct {
	tracer  trace.Tracer
	noPaths bool

	calls, durations metric.Float64Histogram
	changes          metric.Int64Counter

	mu       sync.Mutex
	underWay map[trace.Span]struct{} // of calls, for events
	began    time.Time               // when the session was first connected; zero: there is none
}

// New returns a Telemetry. The error is the meter's.
func New(cfg Config) (*Telemetry, error) {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = api.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = api.GetMeterProvider()
	}
	t := &Telemetry{tracer: cfg.TracerProvider.Tracer(scope), noPaths: cfg.NoPaths, underWay: map[trace.Span]struct{}{}}
	meter := cfg.MeterProvider.Meter(scope)
	var errs [5]error
	// The bounds reach from a read of a server nearby to a call that waits for another leader.
	t.calls, errs[0] = meter.Float64Histogram("zookeeper.client.call.duration", metric.WithUnit("s"),
		metric.WithDescription("the time from a call to its return"),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10))
	t.durations, errs[1] = meter.Float64Histogram("zookeeper.client.session.duration", metric.WithUnit("s"),
		metric.WithDescription("the age at which a session has ended"),
		metric.WithExplicitBucketBoundaries(1, 10, 60, 600, 3600, 6*3600, 24*3600, 7*24*3600))
	t.changes, errs[2] = meter.Int64Counter("zookeeper.client.session.changes",
		metric.WithDescription("changes of a session's state"))
	var age metric.Float64ObservableGauge
	age, errs[3] = meter.Float64ObservableGauge("zookeeper.client.session.age", metric.WithUnit("s"),
		metric.WithDescription("the age of a session"))
	_, errs[4] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if since := t.sessionBegan(); !since.IsZero() {
			o.ObserveFloat64(age, time.Since(since).Seconds())
		}
		return nil
	}, age)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("otel: %w", err)
	}
	return t, nil
}

// Observe sets the Observer of a Config, and has its OnState called after the Telemetry has seen a change. Call it once,
// before Dial.
func (t *Telemetry) Observe(cfg *client.Config) {
	next := cfg.OnState
	cfg.Observer = t
	cfg.OnState = func(change client.StateChange) {
		t.stateChanged(change)
		if next != nil {
			next(change)
		}
	}
}

// Begin implements client.Observer.
func (t *Telemetry) Begin(ctx context.Context, op, path string) (context.Context, func(client.Outcome)) {
	begun := time.Now()
	attributes := []attribute.KeyValue{attribute.String("zookeeper.operation", op)}
	if path != "" && !t.noPaths {
		attributes = append(attributes, attribute.String("zookeeper.path", shownPath(path)))
	}
	ctx, span := t.tracer.Start(ctx, op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	recorded := span.IsRecording()
	if recorded {
		t.mu.Lock()
		t.underWay[span] = struct{}{}
		t.mu.Unlock()
	}
	return ctx, func(out client.Outcome) {
		labels := []attribute.KeyValue{attribute.String("zookeeper.operation", op)}
		if out.Err != nil {
			labels = append(labels, attribute.String("error.type", errorType(out.Err)))
		}
		t.calls.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(labels...))
		if recorded {
			t.mu.Lock()
			delete(t.underWay, span)
			t.mu.Unlock()
			describe(span, out)
		}
		span.End()
	}
}

// describe adds the outcome of a call to its span.
func describe(span trace.Span, out client.Outcome) {
	attributes := []attribute.KeyValue{attribute.String("zookeeper.session.id", out.Session.String())}
	if out.Xid != 0 {
		attributes = append(attributes, attribute.Int64("zookeeper.xid", int64(out.Xid)))
	}
	if out.Zxid != 0 {
		attributes = append(attributes, attribute.String("zookeeper.zxid", fmt.Sprintf("%#x", int64(out.Zxid))))
	}
	if out.Requests > 1 {
		attributes = append(attributes, attribute.Int("zookeeper.requests", out.Requests))
	}
	if host, port, err := net.SplitHostPort(out.Server); err == nil {
		attributes = append(attributes, attribute.String("server.address", host))
		if number, err := strconv.Atoi(port); err == nil {
			attributes = append(attributes, attribute.Int("server.port", number))
		}
	}
	if out.Err != nil {
		attributes = append(attributes, attribute.String("error.type", errorType(out.Err)))
		span.SetStatus(codes.Error, errorType(out.Err)) // the error's text has the path
	}
	span.SetAttributes(attributes...)
}

// ownErrors are the errors that are no codes of servers, with their names in error.type.
var ownErrors = []struct {
	err  error
	name string
}{
	{context.DeadlineExceeded, "deadline_exceeded"},
	{context.Canceled, "canceled"},
	{client.ErrConnectionLost, "connection_lost"},
	{client.ErrSuspended, "suspended"},
	{client.ErrExpired, "expired"},
	{client.ErrClosed, "closed"},
	{client.ErrTooLong, "too_long"},
	{client.ErrProtocol, "protocol"},
}

// errorType returns a short name of an error: that of the server's code, such as no_node, or one of ownErrors. There are few,
// so metrics have few series.
func errorType(err error) string {
	for _, own := range ownErrors {
		if errors.Is(err, own.err) {
			return own.name
		}
	}
	if code, ok := errors.AsType[jute.Code](err); ok && !strings.HasPrefix(code.Error(), "code ") { // a server may send any number
		return strings.ReplaceAll(code.Error(), " ", "_")
	}
	return "other"
}

// shownPath returns the beginning of a path as valid UTF-8.
func shownPath(path string) string {
	return strings.ToValidUTF8(path[:min(len(path), maxPath)], "\uFFFD")
}

func (t *Telemetry) sessionBegan() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.began
}

// stateChanged counts a change, adds it to the spans of the calls that wait, and notes the beginning and the end of the
// session.
func (t *Telemetry) stateChanged(change client.StateChange) {
	state := attribute.String("zookeeper.session.state", change.State.String())
	t.changes.Add(context.Background(), 1, metric.WithAttributes(state))
	event := []attribute.KeyValue{state}
	if change.Server != "" {
		event = append(event, attribute.String("zookeeper.server", change.Server))
	}
	if change.Err != nil {
		event = append(event, attribute.String("error.type", errorType(change.Err)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for span := range t.underWay {
		span.AddEvent("zookeeper.session."+strings.ReplaceAll(change.State.String(), " ", "_"), trace.WithTimestamp(change.At),
			trace.WithAttributes(event...))
	}
	if change.State.IsConnected() && t.began.IsZero() {
		t.began = change.At
	}
	if change.State.IsFinal() && !t.began.IsZero() {
		t.durations.Record(context.Background(), change.At.Sub(t.began).Seconds(), metric.WithAttributes(state))
		t.began = time.Time{}
	}
}
