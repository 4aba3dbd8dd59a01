package observing_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"rollcall/client"
	"rollcall/integration/observing"
)

var _ client.Observer = (*observing.Metrics)(nil)

// failures are the errors of three calls: one succeeds, one fails, and one gets no reply.
var failures = []error{
	nil, &client.Error{Err: client.ErrNoNode}, &client.Error{Err: client.ErrConnectionLost, Unanswered: true},
}

func observe(o client.Observer) {
	for _, err := range failures {
		_, end := o.Begin(context.Background(), "setData", "/node")
		end(client.Outcome{Err: err})
	}
}

// Each call is counted once, with its outcome.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := observing.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	observe(m)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	got := map[string]uint64{}
	for _, metric := range families[0].GetMetric() {
		got[metric.GetLabel()[1].GetValue()] = metric.GetHistogram().GetSampleCount()
	}
	for _, outcome := range []string{"ok", "failed", "unknown"} {
		if got[outcome] != 1 {
			t.Errorf("the outcomes are %v, want one each of ok, failed and unknown", got)
		}
	}
}
