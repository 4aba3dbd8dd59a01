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

// connections lists the connections with everything known about them.
func (a *adminServer) connections(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.connectionList(j, false)
	return ""
}

// connectionList writes the fields with the connections: one with the plain ones, and one with those over
// TLS. brief leaves out what is known of their sessions.
func (a *adminServer) connectionList(j *jsonWriter, brief bool) {
	for _, list := range []struct {
		name   string
		secure bool
	}{{"connections", false}, {"secure_connections", true}} {
		j.values(list.name, func() {
			for c := range walk(j.p.walker, a.source.Connections()) {
				if j.p.err != nil {
					return // checked for each connection: this list may write nothing more that would fail again
				}
				if (c.TLS != "") != list.secure {
					continue
				}
				j.item()
				j.object(func() { j.connection(&c, brief) })
			}
		})
	}
}

func (j *jsonWriter) connection(c *clients.Connection, brief bool) {
	j.field("remote_socket_address", c.Addr)
	j.field("interest_ops", c.Interest())
	j.field("outstanding_requests", c.Queued)
	j.field("packets_received", c.Received)
	j.field("packets_sent", c.Sent)
	if brief {
		return
	}
	op, established := "NA", int64(0)
	if c.Replies > 0 {
		op = c.Op.Abbreviation()
	}
	if !c.Established.IsZero() {
		established = c.Established.UnixMilli()
	}
	j.field("session_id", int64(c.Session))
	j.field("last_operation", op)
	j.field("established", established)
	j.field("session_timeout", c.Timeout.Milliseconds())
	j.field("last_cxid", c.Xid)
	j.field("last_zxid", c.Zxid)
	j.field("last_response_time", c.Replied.Milliseconds())
	j.field("last_latency", c.LastLatency.Milliseconds())
	j.field("min_latency", c.MinLatency.Milliseconds())
	j.field("avg_latency", c.AvgLatency.Milliseconds())
	j.field("max_latency", c.MaxLatency.Milliseconds())
}

// dump shows the sessions by the time at which they expire, in ms since 1970, and their ephemeral
// nodes.
func (a *adminServer) dump(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.words.alone(func() {
		j.fields("expiry_time_to_session_ids", func() { a.expiries(j) })
	})
	j.fields("session_id_to_ephemeral_paths", func() { a.ephemerals(j) })
	return ""
}

// expiries collects the sessions of a leader by the time at which they expire. Other members do not
// know that time.
func (a *adminServer) expiries(j *jsonWriter) {
	all, leads := a.source.Expiries()
	if !leads {
		return
	}
	ends := map[int64][]jute.SessionID{}
	for id, at := range walkPairs(j.p.walker, all) {
		ends[at.UnixMilli()] = append(ends[at.UnixMilli()], id)
	}
	for _, at := range slices.Sorted(maps.Keys(ends)) {
		j.values(strconv.FormatInt(at, 10), func() {
			for _, id := range ends[at] {
				j.item()
				j.value(int64(id))
			}
		})
		if j.p.err != nil {
			return
		}
	}
}

// ephemerals writes the paths of each session. The source yields them together.
func (a *adminServer) ephemerals(j *jsonWriter) {
	j.grouped(func(yield func(string, func()) bool) {
		for owner, path := range j.paths.ephemerals(walkPairs(j.p.walker, a.source.Ephemerals())) {
			if !yield(strconv.FormatInt(int64(owner), 10), func() { j.value(path) }) {
				return
			}
		}
	})
}

// grouped writes a list for each key. The pairs of one key come together.
func (j *jsonWriter) grouped(all func(yield func(key string, value func()) bool)) {
	last, began := "", false
	for key, value := range all {
		if !began || key != last {
			if began {
				j.endList()
			}
			j.name(key)
			j.beginList()
			last, began = key, true
		}
		j.item()
		if value(); j.p.err != nil {
			break
		}
	}
	if began {
		j.endList()
	}
}

func (a *adminServer) watchSummary(j *jsonWriter, s *Stats, _ url.Values) string {
	j.field("num_connections", s.Watching)
	j.field("num_paths", s.WatchedPaths)
	j.field("num_total_watches", s.DataWatches)
	return ""
}

func (a *adminServer) watches(j *jsonWriter, _ *Stats, _ url.Values) string {
	j.fields("session_id_to_watched_paths", func() {
		for id, paths := range j.paths.watches(walkPairs(j.p.walker, a.source.Watches())) {
			j.values(strconv.FormatInt(int64(id), 10), func() {
				for _, path := range paths {
					j.item()
					j.value(path)
				}
			})
			if j.p.err != nil {
				return
			}
		}
	})
	return ""
}

func (a *adminServer) watchesByPath(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.words.alone(func() {
		all := watchesByPath(j.paths.watches(walkPairs(j.p.walker, a.source.Watches())))
		j.fields("path_to_session_ids", func() {
			j.grouped(func(yield func(string, func()) bool) {
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

func (a *adminServer) serverStats(j *jsonWriter, s *Stats, _ url.Values) string {
	data, log, err := a.source.DiskUsage()
	if err != nil {
		data, log = 0, 0 // as ZooKeeper
	}
	j.field("version", a.words.version)
	j.field("read_only", s.Role == api.ReadOnly)
	j.fields("server_stats", func() {
		j.field("packets_sent", s.Sent)
		j.field("packets_received", s.Received)
		j.field("fsync_threshold_exceed_count", s.SlowWrites)
		j.spread("client_response_stats", s.Responses)
		j.field("data_dir_size", data)
		j.field("log_dir_size", log)
		j.field("provider_null", false)
		j.field("server_state", s.Role)
		j.field("last_processed_zxid", s.Zxid)
		j.field("outstanding_requests", s.Outstanding)
		j.number("avg_latency", number(ms(s.Latency.Avg), true))
		j.field("max_latency", s.Latency.Max.Milliseconds())
		j.field("min_latency", s.Latency.Min.Milliseconds())
		j.field("num_alive_client_connections", s.Connections)
		j.field("uptime", s.Up.Milliseconds())
		j.field("auth_failed_count", s.AuthFailed)
		j.field("non_mtlsremote_conn_count", 0)
		j.field("non_mtlslocal_conn_count", 0)
	})
	j.spread("client_response", s.Responses)
	if s.Role == "leader" {
		j.spread("proposal_stats", s.Proposals)
	}
	j.field("node_count", s.Nodes+1) // ZooKeeper counts the root twice
	return ""
}

func (j *jsonWriter) spread(name string, s metrics.Spread) {
	j.fields(name, func() {
		j.field("last_buffer_size", s.Last)
		j.field("min_buffer_size", s.Min)
		j.field("max_buffer_size", s.Max)
	})
}

// stats is server_stats with the list of connections.
func (a *adminServer) stats(j *jsonWriter, s *Stats, query url.Values) string {
	why := a.serverStats(j, s, query)
	a.connectionList(j, true)
	return why
}
