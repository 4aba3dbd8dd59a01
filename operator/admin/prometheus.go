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

// collector hands the metrics of mntr to Prometheus, under the names that they have there without zk_, as ZooKeeper's own
// provider has them.
type collector struct {
	words  *Words
	source Source
	descs  []*prometheus.Desc // of the rows of table
}

// lifetimeCounters makes counters that never fall of those that srst sets to zero.
type lifetimeCounters struct {
	turn   chan struct{}      // has room for one: the scrape or the reset that is under way
	before map[string]float64 // by name: how much was counted before the resets
}

func newTotals() lifetimeCounters {
	return lifetimeCounters{turn: make(chan struct{}, 1), before: make(map[string]float64)}
}

// alone runs f while no other scrape or reset does.
func (t *lifetimeCounters) alone(f func()) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	f()
}

// reset sets the counters of the member to zero. Prometheus goes on from their last values.
func (w *Words) reset() {
	w.totals.alone(func() {
		s := w.source.Stats()
		for i := range table {
			switch m := &table[i]; {
			case m.kind >= summary:
				sum := m.sum(&s)
				w.totals.before[m.name+"_count"] += float64(sum.Count)
				w.totals.before[m.name+"_sum"] += ms(sum.Sum)
			case m.kind == counter:
				w.totals.before[m.name] += m.value(&s)
			}
		}
		w.source.ResetStats()
	})
}

// newMetrics returns the handler of /metrics: the table of mntr, the native metrics, and unless bare is set, the metrics of the Go
// runtime and of the process.
func newMetrics(words *Words, source Source, bare bool) (http.Handler, error) {
	c := &collector{words: words, source: source}
	for i := range table {
		help := table[i].help
		if table[i].unit != "" {
			help += " (" + table[i].unit + ")"
		}
		c.descs = append(c.descs, prometheus.NewDesc(table[i].name, help, nil, nil))
	}
	all := []prometheus.Collector{c, nativeMetrics{source, words.version}, newDiskSpace(source)}
	if !bare {
		runtime := collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: pauses})
		all = append(all, collectors.NewGoCollector(runtime), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	registry := prometheus.NewRegistry()
	for _, one := range all {
		if err := registry.Register(one); err != nil {
			return nil, fmt.Errorf("admin: metrics: %w", err)
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxLong}), nil
}

// pauses selects the histograms of the Go runtime: for how long goroutines waited for a processor, and for
// how long the collector and others stopped all of them.
var pauses = regexp.MustCompile(`^/sched/(latencies|pauses/total/(gc|other)):seconds$`)

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector. While the member's disk or apply hangs, it leaves out the
// table of mntr, because apply may hold the tree's lock.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	if c.source.Health().Stalled != "" {
		return
	}
	c.words.totals.alone(func() {
		s := c.source.Stats()
		s.Files, s.MaxFiles = files()
		for i, d := range c.descs {
			if m := &table[i]; m.told(&s) {
				out <- m.prometheus(d, &s, c.words.totals.before)
			}
		}
	})
}

// prometheus returns the metric's value. before is the value that was counted before the resets.
func (m *metric) prometheus(d *prometheus.Desc, s *Stats, before map[string]float64) prometheus.Metric {
	switch {
	case m.kind >= summary:
		sum := m.sum(s)
		count := sum.Count + uint64(before[m.name+"_count"])
		return prometheus.MustNewConstSummary(d, count, ms(sum.Sum)+before[m.name+"_sum"], m.quantiles(&sum))
	case m.kind == counter:
		return prometheus.MustNewConstMetric(d, prometheus.CounterValue, m.value(s)+before[m.name])
	}
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, m.value(s))
}

// quantiles returns ZooKeeper's quantiles of a summary, and for one with percentiles also those of
// mntr. Without measurements they are no numbers.
func (m *metric) quantiles(s *metrics.Summary) map[float64]float64 {
	q := map[float64]float64{0.5: ms(s.P50)}
	if m.kind == detailed {
		q[0.9], q[0.95], q[0.99], q[0.999] = ms(s.P90), ms(s.P95), ms(s.P99), ms(s.P999)
	}
	if s.Count == 0 {
		for at := range q {
			q[at] = math.NaN()
		}
	}
	return q
}
