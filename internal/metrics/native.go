package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Kind is the kind of a native metric, as Prometheus has it.
type Kind int

const (
	KindGauge     Kind = iota
	KindCounter        // only grows until a restart
	KindHistogram      // how many measurements did not exceed each of some bounds
)

func (k Kind) String() string { return [...]string{"gauge", "counter", "histogram"}[k] }

// Native is a metric under a name of Rollcall's own, which only Prometheus gets. The package that counts it
// declares it. It reads its values at each scrape; its functions must be safe for concurrent use and must not
// wait for a lock that apply may hold, so that it is shown even while the disk or apply hangs. It implements
// prometheus.Collector.
type Native struct {
	Name  string // its unit is in its name
	Kind  Kind
	Label string // "": one series
	Help  string
	// One of the two is set. It returns the series by the values of the label; without a label, the one under "".
	values  func() map[string]float64
	buckets func() map[string]Buckets
}

// number is the type of a value that a metric shows.
type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Gauge declares a metric with one series, which may rise and fall.
func Gauge[N number](name, help string, value func() N) Native {
	return Native{Name: name, Help: help, values: singleSeries(value)}
}

// BoolGauge declares a metric that is 1 while it is set, and otherwise 0.
func BoolGauge(name, help string, set func() bool) Native {
	return Gauge(name, help, func() int {
		if set() {
			return 1
		}
		return 0
	})
}

// GaugeBy declares a gauge with a series for each value of a label.
func GaugeBy[N number](name, label, help string, values func() map[string]N) Native {
	return Native{Name: name, Label: label, Help: help, values: labelledSeries(values)}
}

// Counter declares a metric with one series, which counts since the start of the process.
func Counter(name, help string, value func() uint64) Native {
	return Native{Name: name, Kind: KindCounter, Help: help, values: singleSeries(value)}
}

// CounterBy declares a counter with a series for each value of a label.
func CounterBy(name, label, help string, values func() map[string]uint64) Native {
	return Native{Name: name, Kind: KindCounter, Label: label, Help: help, values: labelledSeries(values)}
}

// Histogram declares a histogram with one series.
func Histogram(name, help string, buckets func() Buckets) Native {
	return Native{
		Name: name, Kind: KindHistogram, Help: help,
		buckets: func() map[string]Buckets { return map[string]Buckets{"": buckets()} },
	}
}

// HistogramBy declares a histogram with a series for each value of a label.
func HistogramBy(name, label, help string, buckets func() map[string]Buckets) Native {
	return Native{Name: name, Kind: KindHistogram, Label: label, Help: help, buckets: buckets}
}

func singleSeries[N number](value func() N) func() map[string]float64 {
	return func() map[string]float64 { return map[string]float64{"": float64(value())} }
}

func labelledSeries[N number](values func() map[string]N) func() map[string]float64 {
	return func() map[string]float64 {
		all := make(map[string]float64)
		for label, value := range values() {
			all[label] = float64(value)
		}
		return all
	}
}

// Values returns the present values of a gauge or a counter by the values of its label; without a label, the
// one under "".
func (m Native) Values() map[string]float64 { return m.values() }

func (m Native) desc() *prometheus.Desc {
	var labels []string
	if m.Label != "" {
		labels = []string{m.Label}
	}
	return prometheus.NewDesc(m.Name, m.Help, labels, nil)
}

// Describe implements prometheus.Collector.
func (m Native) Describe(out chan<- *prometheus.Desc) { out <- m.desc() }

// Collect implements prometheus.Collector.
func (m Native) Collect(out chan<- prometheus.Metric) {
	desc := m.desc()
	labels := func(value string) []string {
		if m.Label == "" {
			return nil
		}
		return []string{value}
	}
	if m.Kind == KindHistogram {
		for label, b := range m.buckets() {
			counts := make(map[float64]uint64, len(b.Bounds))
			for i, bound := range b.Bounds {
				counts[bound] = b.Counts[i]
			}
			out <- prometheus.MustNewConstHistogram(desc, b.Count, b.Sum, counts, labels(label)...)
		}
		return
	}
	kind := prometheus.GaugeValue
	if m.Kind == KindCounter {
		kind = prometheus.CounterValue
	}
	for label, value := range m.Values() {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels(label)...)
	}
}
