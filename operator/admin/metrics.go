package admin

import (
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"rollcall/internal/metrics"
)

// kind is the kind of a metric.
type kind int

const (
	gauge             kind = iota
	counter                // only grows, until a reset or a restart
	summary                // count, sum, min, max and mean of durations
	percentileSummary      // a summary with percentiles
)

func (k kind) String() string {
	return [...]string{"gauge", "counter", "summary", "summary with percentiles"}[k]
}

// metricScope selects the members that have a metric.
type metricScope int

const (
	allMembers metricScope = iota
	ensembleMembers
	leadersOnly
)

func (w metricScope) String() string { return [...]string{"all", "in an ensemble", "leader"}[w] }

// metric is one metric. Names are ZooKeeper's unless the help says otherwise.
type metric struct {
	name        string
	kind        kind
	unit        string // "": a plain number
	scope       metricScope
	hasDecimals bool // may have decimals
	help        string
	readValue   func(*Stats) float64         // of a gauge or counter
	readSummary func(*Stats) metrics.Summary // of a summary
}

// monitorMetrics lists all metrics of mntr. It omits metrics of ZooKeeper that this server cannot measure.
var monitorMetrics = []metric{
	{
		name: "avg_latency", unit: "ms", hasDecimals: true, help: "mean time from reading a request to queueing its reply",
		readValue: func(s *Stats) float64 { return milliseconds(s.Latency.Avg) },
	},
	{name: "min_latency", unit: "ms", help: "least such time", readValue: func(s *Stats) float64 { return milliseconds(s.Latency.Min) }},
	{name: "max_latency", unit: "ms", help: "greatest such time", readValue: func(s *Stats) float64 { return milliseconds(s.Latency.Max) }},
	{
		name: "packets_received", kind: counter, help: "frames and four-letter words",
		readValue: func(s *Stats) float64 { return float64(s.PacketsReceived) },
	},
	{
		name: "packets_sent", kind: counter, help: "replies, events and answers to four-letter words",
		readValue: func(s *Stats) float64 { return float64(s.PacketsSent) },
	},
	{
		name: "num_alive_connections", help: "client connections, including the one of this word",
		readValue: func(s *Stats) float64 { return float64(s.Connections) },
	},
	{
		name: "outstanding_requests", help: "requests that wait for the log, or for an earlier request that does",
		readValue: func(s *Stats) float64 { return float64(s.OutstandingRequests) },
	},
	{
		name: "znode_count", help: "nodes; the root counts twice, as in ZooKeeper",
		readValue: func(s *Stats) float64 { return float64(s.Nodes + 1) },
	},
	{name: "watch_count", help: "watches of this member's connections", readValue: func(s *Stats) float64 { return float64(s.Watches) }},
	{
		name: "ephemerals_count", help: "ephemeral nodes, including those of ended sessions that are not removed yet",
		readValue: func(s *Stats) float64 { return float64(s.Ephemerals) },
	},
	{
		name: "approximate_data_size", unit: "bytes", help: "all paths and data",
		readValue: func(s *Stats) float64 { return float64(s.DataSize) },
	},
	{
		name: "data_quota", unit: "bytes",
		help:      "dataQuota in this term; 0: there is none; not in ZooKeeper",
		readValue: func(s *Stats) float64 { return float64(s.DataQuota) },
	},
	{
		name: "data_quota_used", unit: "bytes",
		help:      "paths and data that count against it, also if there is none; not in ZooKeeper",
		readValue: func(s *Stats) float64 { return float64(s.DataUsed) },
	},
	{
		name:      "most_children_created",
		help:      "children ever created in one parent, the most of those up to 2147483647, where sequential names end unless longSequentialNames is set; not in ZooKeeper",
		readValue: func(s *Stats) float64 { return float64(s.MostCreated) },
	},
	{
		name: "long_sequential_names", help: "1: longSequentialNames holds in this term; not in ZooKeeper",
		readValue: func(s *Stats) float64 { return boolValue(s.LongNames) },
	},
	{
		name: "open_file_descriptor_count", help: "of this process, where the system reports it",
		readValue: func(s *Stats) float64 { return float64(s.OpenFiles) },
	},
	{
		name: "max_file_descriptor_count", help: "its limit, where the system reports it",
		readValue: func(s *Stats) float64 { return float64(s.MaxFiles) },
	},
	{name: "global_sessions", help: "sessions of the ensemble", readValue: func(s *Stats) float64 { return float64(s.Sessions) }},
	{name: "local_sessions", help: "always 0: there are none", readValue: alwaysZero},
	{name: "uptime", unit: "ms", help: "since the member was started", readValue: func(s *Stats) float64 { return milliseconds(s.Uptime) }},
	{
		name: "connection_drop_probability", hasDecimals: true,
		help:      "chance with which the connection throttle refuses a new session",
		readValue: func(s *Stats) float64 { return s.DropProbability },
	},
	{
		name:      "connection_token_deficit",
		help:      "tokens missing in the connection throttle's bucket; in ZooKeeper a summary",
		readValue: func(s *Stats) float64 { return float64(s.TokenDeficit) },
	},
	{
		name: "last_client_response_size", unit: "bytes", help: "last reply or event; -1 before the first",
		readValue: func(s *Stats) float64 { return float64(s.Responses.Last) },
	},
	{name: "min_client_response_size", unit: "bytes", help: "smallest", readValue: func(s *Stats) float64 { return float64(s.Responses.Min) }},
	{name: "max_client_response_size", unit: "bytes", help: "largest", readValue: func(s *Stats) float64 { return float64(s.Responses.Max) }},
	{
		name: "auth_failed_count", kind: counter, help: "connections ended because an auth request failed",
		readValue: func(s *Stats) float64 { return float64(s.AuthFailed) },
	},
	{
		name: "fsync_threshold_exceed_count", kind: counter, help: "writes of the log that took fsync.warningthresholdms or longer",
		readValue: func(s *Stats) float64 { return float64(s.SlowLogWrites) },
	},
	{
		name: "clock_jump", unit: "ms",
		help:      "jump of this member's wall clock within the last hour, backward if negative; not in ZooKeeper",
		readValue: func(s *Stats) float64 { return milliseconds(s.ClockJump) },
	},
	{
		name: "reaper_held", help: "1 if this member leads and removes no containers and TTL nodes, because its clock is not trusted; not in ZooKeeper",
		readValue: func(s *Stats) float64 { return boolValue(s.ReaperPaused) },
	},

	{
		name: "quorum_size", scope: ensembleMembers, help: "voting members of the server list",
		readValue: func(s *Stats) float64 { return float64(s.Voters) },
	},
	{
		name: "learners", scope: leadersOnly, help: "other members that are connected and answer",
		readValue: func(s *Stats) float64 { return float64(s.Learners) },
	},
	{
		name: "followers", scope: leadersOnly, help: "the same, under its name before 3.6",
		readValue: func(s *Stats) float64 { return float64(s.Learners) },
	},
	{
		name: "synced_followers", scope: leadersOnly,
		help:      "those that vote and have applied everything that was committed when they connected",
		readValue: func(s *Stats) float64 { return float64(s.SyncedFollowers) },
	},
	{name: "synced_non_voting_followers", scope: leadersOnly, help: "always 0: there are none", readValue: alwaysZero},
	{
		name: "synced_observers", scope: ensembleMembers,
		help:      "on a leader, members without a vote that have applied everything that was committed when they connected; elsewhere 0",
		readValue: func(s *Stats) float64 { return float64(s.SyncedObservers) },
	},
	{
		name: "pending_syncs", scope: leadersOnly, help: "sync requests that wait for proof that this member leads",
		readValue: func(s *Stats) float64 { return float64(s.SyncsAwaitingProof) },
	},
	{
		name: "leader_uptime", unit: "ms", scope: leadersOnly, help: "since this term opened",
		readValue: func(s *Stats) float64 { return milliseconds(s.LeaderUptime) },
	},
	{
		name: "clock_difference", unit: "ms", scope: leadersOnly,
		help:      "greatest difference from the clock of another connected member; not in ZooKeeper",
		readValue: func(s *Stats) float64 { return milliseconds(s.ClockDifference) },
	},
	{
		name: "last_proposal_size", unit: "bytes", scope: leadersOnly,
		help:      "last transaction proposed in this term, as encoded in the log; -1 before the first",
		readValue: func(s *Stats) float64 { return float64(s.Proposals.Last) },
	},
	{
		name: "min_proposal_size", unit: "bytes", scope: leadersOnly, help: "smallest",
		readValue: func(s *Stats) float64 { return float64(s.Proposals.Min) },
	},
	{
		name: "max_proposal_size", unit: "bytes", scope: leadersOnly, help: "largest",
		readValue: func(s *Stats) float64 { return float64(s.Proposals.Max) },
	},

	{
		name: "bytes_received_count", kind: counter, unit: "bytes", help: "of frames",
		readValue: func(s *Stats) float64 { return float64(s.BytesReceived) },
	},
	{
		name: "response_bytes", kind: counter, unit: "bytes", help: "of replies, without the lengths of frames",
		readValue: func(s *Stats) float64 { return float64(s.ReplyBytes) },
	},
	{
		name: "watch_bytes", kind: counter, unit: "bytes", help: "of events, likewise",
		readValue: func(s *Stats) float64 { return float64(s.EventBytes) },
	},
	{
		name: "connection_request_count", kind: counter, help: "requests for a session, new or resumed",
		readValue: func(s *Stats) float64 { return float64(s.Handshakes) },
	},
	{
		name: "connection_rejected", kind: counter, help: "connections refused because there were too many",
		readValue: func(s *Stats) float64 { return float64(s.RejectedConnections) },
	},
	{
		name: "sessionless_connections_expired", kind: counter, help: "connections ended because they had no session in time",
		readValue: func(s *Stats) float64 { return float64(s.ClosedSessionless) },
	},
	{
		name: "client_memory", unit: "bytes",
		help: "requests that wait, and unread replies and events, in steps of 16 KiB for each connection", readValue: func(s *Stats) float64 { return float64(s.ClientMemory) },
	},
	{
		name: "client_memory_limit", unit: "bytes", help: "limit of zk_client_memory; see clientMemoryLimit",
		readValue: func(s *Stats) float64 { return float64(s.ClientMemoryLimit) },
	},
	{
		name: "client_memory_dropped", kind: counter,
		help:      "connections closed because zk_client_memory had reached its limit",
		readValue: func(s *Stats) float64 { return float64(s.ClosedOverBudget) },
	},
	{
		name: "looking_count", kind: counter, help: "elections in which this member was a candidate",
		readValue: func(s *Stats) float64 { return float64(s.Candidacies) },
	},
	{
		name: "proposal_count", kind: counter, help: "transactions that this member proposed as leader",
		readValue: func(s *Stats) float64 { return float64(s.ProposedTransactions) },
	},
	{
		name: "commit_count", kind: counter, help: "those of them that were committed and applied here",
		readValue: func(s *Stats) float64 { return float64(s.CommittedTransactions) },
	},
	{
		name: "stale_sessions_expired", kind: counter, help: "sessions that this member expired as leader",
		readValue: func(s *Stats) float64 { return float64(s.ExpiredSessions) },
	},

	{
		name: "readlatency", kind: percentileSummary, unit: "ms",
		help:        "as avg_latency, for requests that change nothing, including pings",
		readSummary: func(s *Stats) metrics.Summary { return s.Reads },
	},
	{
		name: "updatelatency", kind: percentileSummary, unit: "ms", help: "the same, for requests that change something",
		readSummary: func(s *Stats) metrics.Summary { return s.Updates },
	},
	{
		name: "fsynctime", kind: summary, unit: "ms", help: "a write of the log, until it is on disk",
		readSummary: func(s *Stats) metrics.Summary { return s.LogWrites },
	},
	{
		name: "snapshottime", kind: summary, unit: "ms", help: "a snapshot, until it is on disk",
		readSummary: func(s *Stats) metrics.Summary { return s.Snapshots },
	},
	{
		name: "election_time", kind: summary, unit: "ms",
		help:        "time from losing the leader until this member knew the next one",
		readSummary: func(s *Stats) metrics.Summary { return s.Elections },
	},
}

func alwaysZero(*Stats) float64 { return 0 }

func boolValue(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

// isReported reports whether a member with these Stats has the metric.
func (m *metric) isReported(s *Stats) bool {
	switch {
	case m.scope == leadersOnly && s.Role != "leader", m.scope == ensembleMembers && s.Role == "standalone":
		return false
	}
	return m.kind >= summary || m.unit == "bytes" || m.readValue(s) != unknownCount
}

// unknownCount stands for a number of file descriptors that the system does not report.
const unknownCount = -1

func (w *FourLetterCommands) mntr(p *textWriter, s *Stats, _ io.Reader) {
	put := func(name, value string) { p.printf("zk_%s\t%s\n", name, value) }
	w.eachMonitorValue(s, put, put)
}

// eachMonitorValue calls text for every line of mntr with a text, and then number for all others.
func (w *FourLetterCommands) eachMonitorValue(s *Stats, text, number func(name, value string)) {
	text("version", w.version)
	text("server_state", s.Role)
	switch s.Role {
	case "leader":
		text("peer_state", "leading - broadcast")
	case "follower":
		text("peer_state", "following - broadcast")
	case "observer":
		text("peer_state", "observing - broadcast")
	}
	s.OpenFiles, s.MaxFiles = fileDescriptors()
	for i := range monitorMetrics {
		if m := &monitorMetrics[i]; m.isReported(s) {
			m.eachLine(s, number)
		}
	}
}

func (m *metric) eachLine(s *Stats, put func(name, value string)) {
	if m.kind < summary {
		put(m.name, formatNumber(m.readValue(s), m.hasDecimals))
		return
	}
	sum := m.readSummary(s)
	put("avg_"+m.name, formatNumber(milliseconds(sum.Avg), true))
	put("min_"+m.name, formatNumber(milliseconds(sum.Min), false))
	put("max_"+m.name, formatNumber(milliseconds(sum.Max), false))
	put("cnt_"+m.name, strconv.FormatUint(sum.Count, 10))
	put("sum_"+m.name, formatNumber(milliseconds(sum.Sum), false))
	if m.kind == percentileSummary {
		put("p50_"+m.name, formatNumber(milliseconds(sum.P50), false))
		put("p95_"+m.name, formatNumber(milliseconds(sum.P95), false))
		put("p99_"+m.name, formatNumber(milliseconds(sum.P99), false))
		put("p999_"+m.name, formatNumber(milliseconds(sum.P999), false))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// formatNumber formats a whole number, or a number with one to four decimals.
func formatNumber(v float64, fraction bool) string {
	if !fraction {
		return strconv.FormatInt(int64(v), 10)
	}
	text := strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
