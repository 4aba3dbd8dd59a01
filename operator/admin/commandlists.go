package admin

import (
	"maps"
	"net/url"
	"slices"
	"strconv"

	"rollcall/internal/metrics"
	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// writeConnections lists the connections with everything known about them.
func (a *adminServer) writeConnections(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.writeConnectionLists(j, false)
	return ""
}

// writeConnectionLists writes the fields with the connections: one with the plain ones, and one with those over
// TLS. brief leaves out what is known of their sessions.
func (a *adminServer) writeConnectionLists(j *jsonWriter, brief bool) {
	for _, list := range []struct {
		name   string
		secure bool
	}{{"connections", false}, {"secure_connections", true}} {
		j.listField(list.name, func() {
			for c := range paced(j.out.pacing, a.source.Connections()) {
				if j.out.err != nil {
					return // checked for each connection: this list may write nothing more that would fail again
				}
				if (c.TLS != "") != list.secure {
					continue
				}
				j.beginItem()
				j.object(func() { j.connectionFields(&c, brief) })
			}
		})
	}
}

func (j *jsonWriter) connectionFields(c *clients.Connection, brief bool) {
	j.field("remote_socket_address", c.RemoteAddr)
	j.field("interest_ops", c.InterestOps())
	j.field("outstanding_requests", c.QueuedRequests)
	j.field("packets_received", c.PacketsReceived)
	j.field("packets_sent", c.PacketsSent)
	if brief {
		return
	}
	op, established := "NA", int64(0)
	if c.ReplyCount > 0 {
		op = c.LastOp.Abbreviation()
	}
	if !c.EstablishedAt.IsZero() {
		established = c.EstablishedAt.UnixMilli()
	}
	j.field("session_id", int64(c.Session))
	j.field("last_operation", op)
	j.field("established", established)
	j.field("session_timeout", c.Timeout.Milliseconds())
	j.field("last_cxid", c.LastXid)
	j.field("last_zxid", c.LastZxid)
	j.field("last_response_time", c.LastReply.Milliseconds())
	j.field("last_latency", c.LastLatency.Milliseconds())
	j.field("min_latency", c.MinLatency.Milliseconds())
	j.field("avg_latency", c.AvgLatency.Milliseconds())
	j.field("max_latency", c.MaxLatency.Milliseconds())
}

// writeDump shows the sessions by the time at which they expire, in ms since 1970, and their ephemeral
// nodes.
func (a *adminServer) writeDump(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.fourLetter.runExclusively(func() {
		j.objectField("expiry_time_to_session_ids", func() { a.writeExpiries(j) })
	})
	j.objectField("session_id_to_ephemeral_paths", func() { a.writeEphemerals(j) })
	return ""
}

// writeExpiries collects the sessions of a leader by the time at which they expire. Other members do not
// know that time.
func (a *adminServer) writeExpiries(j *jsonWriter) {
	all, leads := a.source.Expiries()
	if !leads {
		return
	}
	ends := map[int64][]jute.SessionID{}
	for id, at := range pacedPairs(j.out.pacing, all) {
		ends[at.UnixMilli()] = append(ends[at.UnixMilli()], id)
	}
	for _, at := range slices.Sorted(maps.Keys(ends)) {
		j.listField(strconv.FormatInt(at, 10), func() {
			for _, id := range ends[at] {
				j.beginItem()
				j.value(int64(id))
			}
		})
		if j.out.err != nil {
			return
		}
	}
}

// writeEphemerals writes the paths of each session. The source yields them together.
func (a *adminServer) writeEphemerals(j *jsonWriter) {
	j.groupedLists(func(yield func(string, func()) bool) {
		for owner, path := range j.paths.filterEphemerals(pacedPairs(j.out.pacing, a.source.Ephemerals())) {
			if !yield(strconv.FormatInt(int64(owner), 10), func() { j.value(path) }) {
				return
			}
		}
	})
}

// groupedLists writes a list for each key. The pairs of one key come together.
func (j *jsonWriter) groupedLists(all func(yield func(key string, value func()) bool)) {
	last, began := "", false
	for key, value := range all {
		if !began || key != last {
			if began {
				j.endList()
			}
			j.beginField(key)
			j.beginList()
			last, began = key, true
		}
		j.beginItem()
		if value(); j.out.err != nil {
			break
		}
	}
	if began {
		j.endList()
	}
}

func (a *adminServer) writeWatchSummary(j *jsonWriter, s *Stats, _ url.Values) string {
	j.field("num_connections", s.WatchingConnections)
	j.field("num_paths", s.WatchedPaths)
	j.field("num_total_watches", s.DataWatches)
	return ""
}

func (a *adminServer) writeWatches(j *jsonWriter, _ *Stats, _ url.Values) string {
	j.objectField("session_id_to_watched_paths", func() {
		for id, paths := range j.paths.filterWatches(pacedPairs(j.out.pacing, a.source.Watches())) {
			j.listField(strconv.FormatInt(int64(id), 10), func() {
				for _, path := range paths {
					j.beginItem()
					j.value(path)
				}
			})
			if j.out.err != nil {
				return
			}
		}
	})
	return ""
}

func (a *adminServer) writeWatchesByPath(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.fourLetter.runExclusively(func() {
		all := watchesByPath(j.paths.filterWatches(pacedPairs(j.out.pacing, a.source.Watches())))
		j.objectField("path_to_session_ids", func() {
			j.groupedLists(func(yield func(string, func()) bool) {
				for _, o := range all {
					if !yield(o.path, func() { j.value(int64(o.id)) }) {
						return
					}
				}
			})
		})
	})
	return ""
}

func (a *adminServer) writeServerStats(j *jsonWriter, s *Stats, _ url.Values) string {
	data, log, err := a.source.DiskUsage()
	if err != nil {
		data, log = 0, 0 // as ZooKeeper
	}
	j.field("version", a.fourLetter.version)
	j.field("read_only", s.Role == api.RoleReadOnly)
	j.objectField("server_stats", func() {
		j.field("packets_sent", s.PacketsSent)
		j.field("packets_received", s.PacketsReceived)
		j.field("fsync_threshold_exceed_count", s.SlowLogWrites)
		j.spreadField("client_response_stats", s.Responses)
		j.field("data_dir_size", data)
		j.field("log_dir_size", log)
		j.field("provider_null", false)
		j.field("server_state", s.Role)
		j.field("last_processed_zxid", s.Zxid)
		j.field("outstanding_requests", s.OutstandingRequests)
		j.numberField("avg_latency", formatNumber(milliseconds(s.Latency.Avg), true))
		j.field("max_latency", s.Latency.Max.Milliseconds())
		j.field("min_latency", s.Latency.Min.Milliseconds())
		j.field("num_alive_client_connections", s.Connections)
		j.field("uptime", s.Uptime.Milliseconds())
		j.field("auth_failed_count", s.AuthFailed)
		j.field("non_mtlsremote_conn_count", 0)
		j.field("non_mtlslocal_conn_count", 0)
	})
	j.spreadField("client_response", s.Responses)
	if s.Role == "leader" {
		j.spreadField("proposal_stats", s.Proposals)
	}
	j.field("node_count", s.Nodes+1) // ZooKeeper counts the root twice
	return ""
}

func (j *jsonWriter) spreadField(name string, s metrics.Spread) {
	j.objectField(name, func() {
		j.field("last_buffer_size", s.Last)
		j.field("min_buffer_size", s.Min)
		j.field("max_buffer_size", s.Max)
	})
}

// writeStats is server_stats with the list of connections.
func (a *adminServer) writeStats(j *jsonWriter, s *Stats, query url.Values) string {
	why := a.writeServerStats(j, s, query)
	a.writeConnectionLists(j, true)
	return why
}
