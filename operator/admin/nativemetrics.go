package admin

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"rollcall/internal/metrics"
)

// nativeMetrics collects the member's native metrics, and those about its health. None of them takes a lock
// that apply holds for long, so they are shown even while the disk or apply hangs.
type nativeMetrics struct {
	source  Source
	version string
}

// Describe implements prometheus.Collector. It describes nothing, because the member knows its metrics only
// once it is whole.
func (c nativeMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c nativeMetrics) Collect(out chan<- prometheus.Metric) {
	for _, m := range slices.Concat(c.healthMetrics(), c.source.NativeMetrics()) {
		m.Collect(out)
	}
}

func (c nativeMetrics) healthMetrics() []metrics.Native {
	health := c.source.Health()
	flag := func(name, help string, set func(Health) bool) metrics.Native {
		return metrics.BoolGauge(name, help, func() bool { return set(health) })
	}
	return []metrics.Native{
		flag("rollcall_serving", "1 if this member serves clients", Health.serves),
		flag("rollcall_leading", "1 if this member leads",
			func(h Health) bool { return h.Role == "leader" || h.Role == "standalone" }),
		flag("rollcall_leader_known", "1 if this member knows a leader", func(h Health) bool { return h.HasLeader }),
		flag("rollcall_joining", "1 if this member catches up and takes part in no election",
			func(h Health) bool { return h.Joining }),
		flag("rollcall_stalled", "1 if the disk or apply hangs, so that this member does not serve",
			func(h Health) bool { return h.Stalled != "" }),
		flag("rollcall_cut_off", "1 if this member has no contact with a leader, and the others may have one, so that it does not serve",
			func(h Health) bool { return h.CutOff != "" }),
		flag("rollcall_damaged", "1 if this member's state is damaged, so that it no longer serves",
			func(h Health) bool { return h.Damage != "" }),
		flag("rollcall_memory_full", "1 if this member refuses writes that add data, because it is short of memory", func(h Health) bool { return h.NoMemory }),
		metrics.GaugeBy("rollcall_build_info", "version", "always 1; the label is the version of the program",
			func() map[string]int { return map[string]int{c.version: 1} }),
	}
}
