package admin

import (
	"fmt"
	"math"
	"net/http"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rollcall/internal/metrics"
)

// metricsCollector hands the metrics of mntr to Prometheus, under the names that they have there without zk_,
// as ZooKeeper's own provider has them.
type metricsCollector struct {
	fourLetter *FourLetterCommands
	source     Source
	descs      []*prometheus.Desc // of the rows of table
}

// counterOffsets keeps Prometheus's counters from falling when srst resets a member's counters.
type counterOffsets struct {
	scrapeTurn   chan struct{}      // capacity 1: the scrape or reset under way
	beforeResets map[string]float64 // by metric name
}

// withScrapeTurn runs f while no other scrape or reset runs.
func (t *counterOffsets) withScrapeTurn(f func()) {
	t.scrapeTurn <- struct{}{}
	defer func() { <-t.scrapeTurn }()
	f()
}

// resetCounters sets the member's counters to zero. Prometheus continues from their last values.
func (w *FourLetterCommands) resetCounters() {
	w.counterOffsets.withScrapeTurn(func() {
		s := w.source.Stats()
		for i := range monitorMetrics {
			switch m := &monitorMetrics[i]; {
			case m.kind >= summary:
				sum := m.readSummary(&s)
				w.counterOffsets.beforeResets[m.name+"_count"] += float64(sum.Count)
				w.counterOffsets.beforeResets[m.name+"_sum"] += milliseconds(sum.Sum)
			case m.kind == counter:
				w.counterOffsets.beforeResets[m.name] += m.readValue(&s)
			}
		}
		w.source.ResetStats()
	})
}

// newRegistry returns the metrics of /metrics: the table of mntr, the native metrics, and unless bare is set, the metrics
// of the Go runtime and of the process.
func newRegistry(words *FourLetterCommands, source Source, bare bool) (*prometheus.Registry, error) {
	c := &metricsCollector{fourLetter: words, source: source}
	for i := range monitorMetrics {
		help := monitorMetrics[i].help
		if monitorMetrics[i].unit != "" {
			help += " (" + monitorMetrics[i].unit + ")"
		}
		c.descs = append(c.descs, prometheus.NewDesc(monitorMetrics[i].name, help, nil, nil))
	}
	all := []prometheus.Collector{c, nativeMetrics{source, words.version}, newDiskSpaceReader(source)}
	if !bare {
		runtime := collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: schedulingMetrics})
		all = append(all, collectors.NewGoCollector(runtime),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	registry := prometheus.NewRegistry()
	for _, one := range all {
		if err := registry.Register(one); err != nil {
			return nil, fmt.Errorf("admin: metrics: %w", err)
		}
	}
	return registry, nil
}

// newMetricsHandler returns the handler of /metrics.
func newMetricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxLongReplies})
}

// Gatherer returns the metrics of /metrics.
func (h *HTTP) Gatherer() prometheus.Gatherer { return h.registry }

// schedulingMetrics selects histograms of the Go runtime: how long goroutines waited for a processor, and how
// long all of them were stopped.
var schedulingMetrics = regexp.MustCompile(`^/sched/(latencies|pauses/total/(gc|other)):seconds$`)

func (c *metricsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector. While the disk or apply hangs, it omits the table of mntr, because
// apply may hold the tree's lock.
func (c *metricsCollector) Collect(out chan<- prometheus.Metric) {
	if c.source.Health().Stalled != "" {
		return
	}
	c.fourLetter.counterOffsets.withScrapeTurn(func() {
		s := c.source.Stats()
		s.OpenFiles, s.MaxFiles = fileDescriptors()
		for i, d := range c.descs {
			if m := &monitorMetrics[i]; m.isReported(&s) {
				out <- m.promMetric(d, &s, c.fourLetter.counterOffsets.beforeResets)
			}
		}
	})
}

// promMetric returns the metric's value. beforeResets holds what was counted before the resets.
func (m *metric) promMetric(d *prometheus.Desc, s *Stats, before map[string]float64) prometheus.Metric {
	switch {
	case m.kind >= summary:
		sum := m.readSummary(s)
		count := sum.Count + uint64(before[m.name+"_count"])
		return prometheus.MustNewConstSummary(d, count, milliseconds(sum.Sum)+before[m.name+"_sum"], m.quantiles(&sum))
	case m.kind == counter:
		return prometheus.MustNewConstMetric(d, prometheus.CounterValue, m.readValue(s)+before[m.name])
	}
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, m.readValue(s))
}

// quantiles returns ZooKeeper's quantiles of a summary, and for percentileSummary also the quantiles of mntr. Without
// measurements they are NaN.
func (m *metric) quantiles(s *metrics.Summary) map[float64]float64 {
	q := map[float64]float64{0.5: milliseconds(s.P50)}
	if m.kind == percentileSummary {
		q[0.9], q[0.95], q[0.99], q[0.999] = milliseconds(s.P90), milliseconds(s.P95), milliseconds(s.P99),
			milliseconds(s.P999)
	}
	if s.Count == 0 {
		for at := range q {
			q[at] = math.NaN()
		}
	}
	return q
}
