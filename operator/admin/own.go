package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"rollcall/internal/metrics"
)

// nativeMetric is a metric under a name of Rollcall's own, which only Prometheus gets.
type nativeMetric struct {
	name  string // its unit is in its name
	kind  kind   // gauge, counter or histogram
	label string // "": it is one series
	help  string
	// One of the two is set. It returns the series by the values of the label; without a label, the one
	// under "".
	values  func(*Details) map[string]float64
	buckets func(*Details) map[string]metrics.Buckets
}

// nativeMetrics lists them all. None of them takes a lock that apply holds for long, so they are shown even while
// the disk or apply hangs.
var nativeMetrics = []nativeMetric{
	{name: "rollcall_serving", help: "1 if this member serves clients", values: one(func(d *Details) float64 { return flag(d.serves()) })},
	{name: "rollcall_leading", help: "1 if this member leads", values: one(func(d *Details) float64 { return flag(d.Role == "leader" || d.Role == "standalone") })},
	{name: "rollcall_leader_known", help: "1 if this member knows a leader", values: one(func(d *Details) float64 { return flag(d.HasLeader) })},
	{name: "rollcall_joining", help: "1 if this member catches up and takes part in no election", values: one(func(d *Details) float64 { return flag(d.Joining) })},
	{name: "rollcall_stalled", help: "1 if the disk or apply hangs, so that this member does not serve", values: one(func(d *Details) float64 { return flag(d.Stalled != "") })},
	{name: "rollcall_damaged", help: "1 if the state of this member is damaged, so that it no longer serves", values: one(func(d *Details) float64 { return flag(d.Damage != "") })},
	{name: "rollcall_memory_full", help: "1 if this member is short of memory, so that it refuses its clients' writes that add data", values: one(func(d *Details) float64 { return flag(d.NoMemory) })},
	{name: "rollcall_memory_used_bytes", help: "memory that the last run of the collector found in use", values: one(func(d *Details) float64 { return float64(d.MemoryUsed) })},
	{name: "rollcall_memory_limit_bytes", help: "how much may be in use before writes that add data are refused (memoryLimit); 0: there is no limit", values: one(func(d *Details) float64 { return float64(d.MemoryLimit) })},
	{name: "rollcall_build_info", label: "version", help: "always 1; the label is the version of the program", values: func(d *Details) map[string]float64 { return map[string]float64{d.Version: 1} }},
	{name: "rollcall_term", help: "raft's term, as this member knows it", values: one(func(d *Details) float64 { return float64(d.Term) })},
	{name: "rollcall_applied_index", help: "index of the last entry of the log that this member has applied", values: one(func(d *Details) float64 { return float64(d.Applied) })},
	{name: "rollcall_certificate_valid_seconds", label: "shown_to", help: "for how long the certificate that this member shows to other members or to clients is still valid; negative: it has expired", values: many(func(d *Details) map[string]int64 { return d.Certificates })},
	{name: "rollcall_clients", help: "sessions whose clients are connected to this member", values: one(func(d *Details) float64 { return float64(d.Clients) })},
	{name: "rollcall_read_only_clients", help: "clients with sessions of the read-only mode, which this member serves while it knows no leader (readonlymode.enabled)", values: one(func(d *Details) float64 { return float64(d.ReadOnlyClients) })},

	{name: "rollcall_request_seconds", kind: histogram, label: "class", help: "time from reading a request to queueing its reply", buckets: func(d *Details) map[string]metrics.Buckets { return d.Requests }},
	{name: "rollcall_fsync_seconds", kind: histogram, help: "a write of the log, until it is on disk", buckets: alone(func(d *Details) metrics.Buckets { return d.Fsyncs })},
	{name: "rollcall_entry_bytes", kind: histogram, help: "an entry that was written to the log, which holds one or many transactions", buckets: alone(func(d *Details) metrics.Buckets { return d.Entries })},
	{name: "rollcall_apply_seconds", kind: histogram, help: "applying an entry, with the wait until no read uses the tree", buckets: alone(func(d *Details) metrics.Buckets { return d.Applies })},
	{name: "rollcall_touch_flush_seconds", kind: histogram, help: "from when this member first sends a batch of touches until the leader's acknowledgement has taken effect", buckets: alone(func(d *Details) metrics.Buckets { return d.Flushes })},
	{name: "rollcall_reply_held_seconds", kind: histogram, help: "for how long a reply was held because the lease of its session was over, until the lease was renewed or the connection closed", buckets: alone(func(d *Details) metrics.Buckets { return d.Held })},
	{name: "rollcall_expiry_lateness_seconds", kind: histogram, help: "how long after its timeout a session expired, without the time for which the leader itself was paused; counted on the leader", buckets: alone(func(d *Details) metrics.Buckets { return d.Lateness })},
	{name: "rollcall_election_seconds", kind: histogram, help: "from when this member knew of no leader until it knew the next one", buckets: alone(func(d *Details) metrics.Buckets { return d.Elections })},
	{name: "rollcall_write_gap_seconds", kind: histogram, help: "for how long no write of this member's clients was applied around a change of leader, if one of them waited", buckets: alone(func(d *Details) metrics.Buckets { return d.WriteGaps })},

	{name: "rollcall_terms_led_total", kind: counter, help: "terms that this member has begun to lead; the sum over all members is how often the leader changed", values: one(func(d *Details) float64 { return float64(d.TermsLed) })},
	{name: "rollcall_leader_pauses_total", kind: counter, help: "steps of leading, one each half tick, that came more than a quarter tick late: the process was paused, or got no processor time", values: one(func(d *Details) float64 { return float64(d.Pauses) })},
	{name: "rollcall_sessions_opened_total", kind: counter, help: "sessions opened in the ensemble; each is counted on the member that leads, so add up all members", values: one(func(d *Details) float64 { return float64(d.Opened) })},
	{name: "rollcall_sessions_resumed_total", kind: counter, help: "sessions that a client resumed on a new connection; counted likewise", values: one(func(d *Details) float64 { return float64(d.Resumed) })},
	{name: "rollcall_sessions_ended_total", kind: counter, label: "reason", help: "sessions that ended; counted likewise", values: many(func(d *Details) map[string]uint64 { return d.Ended })},
	{name: "rollcall_vouching_cut_total", kind: counter, label: "reason", help: "connections closed because this member could not vouch for their sessions", values: many(func(d *Details) map[string]uint64 { return d.Cut })},
	{name: "rollcall_connections_ended_total", kind: counter, label: "reason", help: "client connections that ended or were refused", values: many(func(d *Details) map[string]uint64 { return d.Closed })},
	{name: "rollcall_member_connections_refused_total", kind: counter, label: "from", help: "new connections to the ports for members that were closed because they came faster than this member takes them", values: many(func(d *Details) map[string]uint64 { return d.TooFast })},
	{name: "rollcall_member_connections_corrupted_total", kind: counter, help: "connections between members that this member closed because bytes were changed on the way: a checksum did not match", values: one(func(d *Details) float64 { return float64(d.Corrupted) })},
	{name: "rollcall_watch_events_total", kind: counter, label: "type", help: "events that were sent to this member's clients because a watch fired", values: many(func(d *Details) map[string]uint64 { return d.Events })},
	{name: "rollcall_audit_lines_total", kind: counter, label: "outcome", help: "lines of the audit log that were written, or were lost because the disk did not take them in time; and changes that were rejected because their lines could not be written (audit.required)", values: many(func(d *Details) map[string]uint64 { return d.AuditLines })},
	{name: "rollcall_credentials_failed_total", kind: counter, label: "kind", help: "credentials of administrators and clients that were wrong, and certificates of clients that were missing or wrong", values: many(func(d *Details) map[string]uint64 { return d.Guesses })},
	{name: "rollcall_credentials_slowed_total", kind: counter, label: "outcome", help: "credentials that were checked later, or were rejected without a check, because too many from their address were wrong", values: many(func(d *Details) map[string]uint64 { return d.Slowed })},
	{name: "rollcall_backups_total", kind: counter, label: "outcome", help: "backups that this member has made by itself (backup.dir), or has failed to make", values: many(func(d *Details) map[string]uint64 { return d.Backups })},
	{name: "rollcall_writes_refused_total", kind: counter, help: "writes of this member's clients that were refused because it was short of memory", values: one(func(d *Details) float64 { return float64(d.Refused) })},
	{name: "rollcall_writes_resent_total", kind: counter, help: "writes that this member sent again because the leader, or the stream to it, had changed", values: one(func(d *Details) float64 { return float64(d.Resent) })},

	{name: "rollcall_queue_length", label: "queue", help: "what waits in a queue now", values: many(func(d *Details) map[string]int { return d.Queues })},
	{name: "rollcall_queue_bytes", label: "queue", help: "how many bytes it has", values: many(func(d *Details) map[string]int { return d.QueueBytes })},
	{name: "rollcall_disk_used_bytes", label: "files", help: "space that files of this member take", values: many(func(d *Details) map[string]int64 { return d.DiskUsed })},
	{name: "rollcall_disk_free_bytes", label: "files", help: "space that this member can still write where such files are", values: many(func(d *Details) map[string]int64 { return d.DiskFree })},
}

// one is for a metric that is one series.
func one(value func(*Details) float64) func(*Details) map[string]float64 {
	return func(d *Details) map[string]float64 { return map[string]float64{"": value(d)} }
}

// alone is for a histogram that is one series.
func alone(value func(*Details) metrics.Buckets) func(*Details) map[string]metrics.Buckets {
	return func(d *Details) map[string]metrics.Buckets { return map[string]metrics.Buckets{"": value(d)} }
}

// many is for a metric with a label.
func many[N int | int64 | uint64](values func(*Details) map[string]N) func(*Details) map[string]float64 {
	return func(d *Details) map[string]float64 {
		all := make(map[string]float64)
		for label, value := range values(d) {
			all[label] = float64(value)
		}
		return all
	}
}

// desc returns the metric's description for Prometheus.
func (m *nativeMetric) desc() *prometheus.Desc {
	var labels []string
	if m.label != "" {
		labels = []string{m.label}
	}
	return prometheus.NewDesc(m.name, m.help, labels, nil)
}

// collect sends the metric's series.
func (m *nativeMetric) collect(out chan<- prometheus.Metric, desc *prometheus.Desc, d *Details) {
	labels := func(value string) []string {
		if m.label == "" {
			return nil
		}
		return []string{value}
	}
	if m.kind == histogram {
		for label, b := range m.buckets(d) {
			counts := make(map[float64]uint64, len(b.Bounds))
			for i, bound := range b.Bounds {
				counts[bound] = b.Counts[i]
			}
			out <- prometheus.MustNewConstHistogram(desc, b.Count, b.Sum, counts, labels(label)...)
		}
		return
	}
	kind := prometheus.GaugeValue
	if m.kind == counter {
		kind = prometheus.CounterValue
	}
	for label, value := range m.values(d) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels(label)...)
	}
}
