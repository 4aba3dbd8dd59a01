package admin

import (
	"maps"
	"slices"
	"strconv"

	"rollcall/internal/metrics"
	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// writeConnections lists the connections in full.
func (a *adminServer) writeConnections(j *commandReply) {
	a.writeConnectionLists(j.jsonWriter, false)
}

// writeConnectionLists writes two fields: the plain connections, and those over TLS. brief omits their sessions.
func (a *adminServer) writeConnectionLists(j *jsonWriter, brief bool) {
	for _, list := range []struct {
		name   string
		secure bool
	}{{"connections", false}, {"secure_connections", true}} {
		j.listField(list.name, func() {
			for c := range paced(j.out.pacing, a.source.Connections()) {
				if j.out.err != nil {
					return // checked for each connection, because this list may write nothing more that would fail
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

// writeDump writes the sessions by expiry time, in ms since 1970, and their ephemeral nodes.
func (a *adminServer) writeDump(j *commandReply) {
	a.fourLetter.withLongReplyTurn(func() {
		j.objectField("expiry_time_to_session_ids", func() { a.writeExpiries(j.jsonWriter) })
	})
	j.objectField("session_id_to_ephemeral_paths", func() { a.writeEphemerals(j.jsonWriter) })
}

// writeExpiries writes the sessions by expiry time, which only the leader knows.
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

func (a *adminServer) writeEphemerals(j *jsonWriter) {
	j.groupedLists(func(yield func(string, func()) bool) {
		for owner, path := range j.paths.filterEphemerals(pacedPairs(j.out.pacing, a.source.Ephemerals())) {
			if !yield(strconv.FormatInt(int64(owner), 10), func() { j.value(path) }) {
				return
			}
		}
	})
}

// groupedLists writes a list for each key. The pairs of one key must be adjacent.
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

func (a *adminServer) writeWatchSummary(j *commandReply) {
	j.field("num_connections", j.stats.WatchingConnections)
	j.field("num_paths", j.stats.WatchedPaths)
	j.field("num_total_watches", j.stats.DataWatches)
}

func (a *adminServer) writeWatches(j *commandReply) {
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
}

func (a *adminServer) writeWatchesByPath(j *commandReply) {
	a.fourLetter.withLongReplyTurn(func() {
		all := watchesByPath(j.paths.filterWatches(pacedPairs(j.out.pacing, a.source.Watches())))
		j.objectField("path_to_session_ids", func() {
			j.groupedLists(func(yield func(string, func()) bool) {
				for _, o := range all {
					if !yield(o.key, func() { j.value(int64(o.value)) }) {
						return
					}
				}
			})
		})
	})
}

func (a *adminServer) writeServerStats(j *commandReply) {
	data, log, err := a.source.DiskUsage()
	if err != nil {
		data, log = 0, 0 // as ZooKeeper
	}
	j.field("version", a.fourLetter.version)
	j.field("read_only", j.stats.Role == api.RoleReadOnly)
	j.objectField("server_stats", func() {
		j.field("packets_sent", j.stats.PacketsSent)
		j.field("packets_received", j.stats.PacketsReceived)
		j.field("fsync_threshold_exceed_count", j.stats.SlowLogWrites)
		j.spreadField("client_response_stats", j.stats.Responses)
		j.field("data_dir_size", data)
		j.field("log_dir_size", log)
		j.field("provider_null", false)
		j.field("server_state", j.stats.Role)
		j.field("last_processed_zxid", j.stats.Zxid)
		j.field("outstanding_requests", j.stats.OutstandingRequests)
		j.numberField("avg_latency", formatNumber(milliseconds(j.stats.Latency.Avg), true))
		j.field("max_latency", j.stats.Latency.Max.Milliseconds())
		j.field("min_latency", j.stats.Latency.Min.Milliseconds())
		j.field("num_alive_client_connections", j.stats.Connections)
		j.field("uptime", j.stats.Uptime.Milliseconds())
		j.field("auth_failed_count", j.stats.AuthFailed)
		j.field("non_mtlsremote_conn_count", 0)
		j.field("non_mtlslocal_conn_count", 0)
	})
	j.spreadField("client_response", j.stats.Responses)
	if j.stats.Role == "leader" {
		j.spreadField("proposal_stats", j.stats.Proposals)
	}
	j.field("node_count", j.stats.Nodes+1) // ZooKeeper counts the root twice
}

func (j *jsonWriter) spreadField(name string, s metrics.Spread) {
	j.objectField(name, func() {
		j.field("last_buffer_size", s.Last)
		j.field("min_buffer_size", s.Min)
		j.field("max_buffer_size", s.Max)
	})
}

func (a *adminServer) writeStats(j *commandReply) {
	a.writeServerStats(j)
	a.writeConnectionLists(j.jsonWriter, true)
}
