package metrics

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// collect returns the series of a metric by the value of its label.
func collect(t *testing.T, m Native) map[string]*dto.Metric {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != m.Name || families[0].GetHelp() != m.Help {
		t.Fatalf("%v, %v", families, err)
	}
	all := map[string]*dto.Metric{}
	for _, sample := range families[0].GetMetric() {
		label := ""
		for _, pair := range sample.GetLabel() {
			if pair.GetName() != m.Label {
				t.Errorf("%s has the label %s", m.Name, pair.GetName())
			}
			label = pair.GetValue()
		}
		all[label] = sample
	}
	return all
}

func TestNativeValues(t *testing.T) {
	two := func() map[string]uint64 { return map[string]uint64{"a": 3, "b": 4} }
	for _, tt := range []struct {
		metric  Native
		counter bool
		want    map[string]float64
	}{
		{Gauge("g", "gauge", func() int { return -2 }), false, map[string]float64{"": -2}},
		{BoolGauge("f", "flag", func() bool { return true }), false, map[string]float64{"": 1}},
		{BoolGauge("n", "no flag", func() bool { return false }), false, map[string]float64{"": 0}},
		{GaugeBy("gs", "of", "gauges", two), false, map[string]float64{"a": 3, "b": 4}},
		{Counter("c_total", "counter", func() uint64 { return 5 }), true, map[string]float64{"": 5}},
		{CounterBy("cs_total", "of", "counters", two), true, map[string]float64{"a": 3, "b": 4}},
	} {
		got := map[string]float64{}
		for label, sample := range collect(t, tt.metric) {
			if (sample.Counter != nil) != tt.counter {
				t.Errorf("%s is a counter: %t", tt.metric.Name, sample.Counter != nil)
			}
			got[label] = sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.metric.Name, got, tt.want)
		}
	}
}

func TestNativeHistogram(t *testing.T) {
	buckets := func() Buckets { return Buckets{Bounds: []float64{1, 2}, Counts: []uint64{3, 5}, Count: 7, Sum: 20} }
	for label, m := range map[string]Native{
		"":  Histogram("h_seconds", "one", buckets),
		"a": HistogramBy("hs_seconds", "of", "many", func() map[string]Buckets { return map[string]Buckets{"a": buckets()} }),
	} {
		got := collect(t, m)[label].GetHistogram()
		counts := map[float64]uint64{}
		for _, b := range got.GetBucket() {
			counts[b.GetUpperBound()] = b.GetCumulativeCount()
		}
		if got.GetSampleCount() != 7 || got.GetSampleSum() != 20 || !maps.Equal(counts, map[float64]uint64{1: 3, 2: 5}) {
			t.Errorf("%s: %v", m.Name, got)
		}
	}
}
