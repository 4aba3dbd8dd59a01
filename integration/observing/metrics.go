// Package observing has an observer of package client that makes metrics of Prometheus. It is an example to copy, in a
// module of its own, so that the client does not need Prometheus. rollcall/client/otel is the observer for OpenTelemetry.
package observing

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rollcall/client"
)

// Metrics measures the time of each call.
type Metrics struct{ seconds *prometheus.HistogramVec }

// NewMetrics registers the metric zookeeper_call_seconds, with the labels op and outcome.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "zookeeper_call_seconds",
		Help:    "The time from a call to its return.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8), // 0.5 ms to 8 s
	}, []string{"op", "outcome"})}
	return m, registry.Register(m.seconds)
}

// Begin implements client.Observer.
func (m *Metrics) Begin(ctx context.Context, op, _ string) (context.Context, func(client.Outcome)) {
	begun := time.Now()
	return ctx, func(out client.Outcome) {
		outcome := "ok"
		switch {
		case client.MayHaveHappened(out.Err):
			outcome = "unknown" // no reply has come
		case out.Err != nil:
			outcome = "failed"
		}
		m.seconds.WithLabelValues(op, outcome).Observe(time.Since(begun).Seconds())
	}
}
