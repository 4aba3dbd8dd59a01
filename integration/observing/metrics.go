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
func (m *Metrics) Begin(ctx context.Context, op, _ string) (context.Context, func(error)) {
	begun := time.Now()
	return ctx, func(err error) {
		outcome := "ok"
		switch {
		case client.MayHaveHappened(err):
			outcome = "unknown" // no reply has come
		case err != nil:
			outcome = "failed"
		}
		m.seconds.WithLabelValues(op, outcome).Observe(time.Since(begun).Seconds())
	}
}
