package admin

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"rollcall/api"
)

// command is one of ZooKeeper's AdminServer commands.
type command struct {
	name    string
	aliases []string
	class   class
	shows   content
	serving bool // answered only by a member that serves
	long    bool // see endpoint
	help    string
	// answer writes the fields of the answer, or returns why there are none. stats is filled in only
	// if serving is set.
	answer func(h *HTTP, j *pretty, s *Stats, query url.Values) (why string)
	// own is what an endpoint has that does not answer as the others: its method, the type of its body, its time, and serve. Then answer is nil.
	own *endpoint
}

// commands are all of them, by name. Their fields and the types of these are ZooKeeper's.
var commands = []command{
	{"configuration", []string{"conf", "config"}, reads, showsState, true, false, "what conf says", (*HTTP).configuration, nil},
	{"connection_stat_reset", []string{"crst"}, changes, unstated, true, false, "sets the counters of the connections to zero", (*HTTP).resetConnections, nil},
	{"connections", []string{"cons"}, reads, showsState, true, true, "this member's client connections; those over TLS are in `secure_connections`", (*HTTP).connections, nil},
	{"dirs", nil, reads, showsState, true, false, "bytes of the log's files and of all others", (*HTTP).dirs, nil},
	{"dump", nil, reads, showsState, true, true, "the sessions by the time at which they expire (on a leader), and their ephemeral nodes", (*HTTP).dump, nil},
	{"environment", []string{"env", "envi"}, reads, showsState, false, false, "the environment of the process", (*HTTP).environment, nil},
	{"get_trace_mask", []string{"gtmk"}, reads, showsState, false, false, "the trace mask; nothing is traced", (*HTTP).traceMask, nil},
	{"hash", nil, reads, showsState, true, false, "an empty list, where ZooKeeper lists digests of its tree", (*HTTP).hash, nil},
	{"initial_configuration", []string{"icfg"}, reads, showsState, true, false, "null, where ZooKeeper shows the text of its zoo.cfg", (*HTTP).initialConfiguration, nil},
	{"is_read_only", []string{"isro"}, reads, showsState, true, false, "whether this member serves in read-only mode", (*HTTP).readOnly, nil},
	{"leader", []string{"lead"}, reads, showsState, true, false, "whether this member leads, and which one does", (*HTTP).leader, nil},
	{"monitor", []string{"mntr"}, reads, showsState, true, false, "all metrics, without the zk_ of mntr", (*HTTP).monitor, nil},
	{"observer_connection_stat_reset", []string{"orst"}, changes, unstated, true, false, "nothing: this member keeps no counters of its own for observers", (*HTTP).nothing, nil},
	{"observers", []string{"obsr"}, reads, showsState, true, false, "on a leader, the observers of the server list, and how many members without a vote have caught up", (*HTTP).observers, nil},
	{"restore", []string{"rest"}, changes, unstated, false, false, "writes the backup in the body, of the type `application/octet-stream`, into the ensemble, and deletes nodes that it lacks; at most one in `admin.rateLimiterIntervalInMS`", nil, &restoreCommand},
	{"ruok", nil, open, unstated, true, false, "no error, if this member serves clients", (*HTTP).nothing, nil},
	{"server_stats", []string{"srvr"}, reads, showsState, true, false, "what srvr says", (*HTTP).serverStats, nil},
	{"set_trace_mask", []string{"stmk"}, changes, unstated, false, false, "sets the trace mask to the parameter traceMask", (*HTTP).setTraceMask, nil},
	{"snapshot", []string{"snap"}, changes, unstated, false, false, "a backup, as `/v1/backup` sends it, or with the parameter `streaming=false` a snapshot on this member's disk, as with `/v1/snapshot`; at most one in `admin.rateLimiterIntervalInMS`", nil, &snapshotCommand},
	{"stat_reset", []string{"srst"}, changes, unstated, true, false, "sets the counters of the member to zero", (*HTTP).resetStats, nil},
	{"stats", []string{"stat"}, reads, showsState, true, true, "what stat says", (*HTTP).stats, nil},
	{"system_properties", []string{"sysp"}, reads, showsState, false, false, "those of Java's properties that mean something here", (*HTTP).systemProperties, nil},
	{"voting_view", nil, reads, showsState, true, false, "the servers of the list that vote", (*HTTP).votingView, nil},
	{"watch_summary", []string{"wchs"}, reads, showsState, true, false, "how many watches this member's connections have", (*HTTP).watchSummary, nil},
	{"watches", []string{"wchc"}, reads, showsPaths, true, true, "their paths, by session", (*HTTP).watches, nil},
	{"watches_by_path", []string{"wchp"}, reads, showsPaths, true, true, "their sessions, by path", (*HTTP).watchesByPath, nil},
	{"zabstate", nil, reads, showsState, false, false, "this member's addresses, and whether it takes part in an election", (*HTTP).zabState, nil},
}

// list shows the commands as links, as ZooKeeper does.
func (h *HTTP) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p := &page{w: w}
	for i := range commands {
		p.printf("<a href=\"%s/%s\">%s</a>\n<br/>\n", h.cfg.CommandURL, commands[i].name, commands[i].name)
	}
}

// unknown answers a request for a command that does not exist, or that GET must not reach.
func (h *HTTP) unknown(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, h.cfg.CommandURL+"/")
	if name == "" {
		h.list(w, r)
		return
	}
	status, why := http.StatusOK, "Unknown command: "+name
	for i := range commands {
		if c := &commands[i]; c.name == name || slices.Contains(c.aliases, name) {
			w.Header().Set("Allow", http.MethodPost)
			status, name, why = http.StatusMethodNotAllowed, c.name, "this command changes the member: send it with POST"
		}
	}
	h.say(w, status, name, func(*pretty) string { return why })
}

// command answers one of ZooKeeper's commands. As in ZooKeeper the status is 200 also if there is
// an error.
func (h *HTTP) command(w http.ResponseWriter, r *http.Request, c *command) {
	var stats Stats
	if c.serving {
		if h.source.Health().Role == "" || h.serving(&stats) == "" {
			h.say(w, http.StatusOK, c.name, func(*pretty) string { return strings.TrimSuffix(notServing, "\n") })
			return
		}
	}
	h.say(w, http.StatusOK, c.name, func(j *pretty) string {
		j.paths = h.authorizer.pathsFor(r)
		if c.long {
			j.p.walker = h.words.pace.enter()
			defer j.p.walker.leave()
		}
		return c.answer(h, j, &stats, r.URL.Query())
	})
}

// serving fills in s and returns the member's role.
func (h *HTTP) serving(s *Stats) string {
	*s = h.source.Stats()
	return s.Role
}

// say writes the answer to a command: the fields that answer writes, the command and the error.
func (h *HTTP) say(w http.ResponseWriter, status int, name string, answer func(*pretty) string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := bufio.NewWriterSize(w, partSize)
	j := &pretty{p: &page{w: out}}
	j.object(func() {
		why := answer(j)
		j.field("command", name)
		if why == "" {
			j.field("error", nil)
		} else {
			noteOutcome(w, &Failure{Status: http.StatusOK, Text: why}) // a status as ZooKeeper's
			j.field("error", why)
		}
	})
	_ = out.Flush() // a client that left needs no answer
}

func (h *HTTP) nothing(*pretty, *Stats, url.Values) string { return "" }

// configurationFields are the lines of conf that ZooKeeper shows by HTTP, with their names there.
var configurationFields = map[string]string{
	"clientPort": "client_port", "dataDir": "data_dir", "dataLogDir": "data_log_dir", "tickTime": "tick_time",
	"maxClientCnxns": "max_client_cnxns", "minSessionTimeout": "min_session_timeout", "maxSessionTimeout": "max_session_timeout",
	"serverId": "server_id", "clientPortListenBacklog": "client_port_listen_backlog",
}

func (h *HTTP) configuration(j *pretty, _ *Stats, _ url.Values) string {
	lines, _ := h.source.Settings(0, 0)
	for _, line := range lines {
		name, shown := configurationFields[line.Name]
		switch _, err := strconv.Atoi(line.Value); {
		case !shown:
		case err == nil:
			j.number(name, line.Value)
		default:
			j.field(name, line.Value)
		}
	}
	return ""
}

func (h *HTTP) resetConnections(*pretty, *Stats, url.Values) string {
	h.source.ResetConnections()
	return ""
}

func (h *HTTP) resetStats(*pretty, *Stats, url.Values) string {
	h.words.reset()
	return ""
}

func (h *HTTP) dirs(j *pretty, _ *Stats, _ url.Values) string {
	data, log, err := h.source.DiskUsage()
	if err != nil {
		return fmt.Sprintf("the data folder cannot be read: %v", err)
	}
	j.field("datadir_size", data)
	j.field("logdir_size", log)
	return ""
}

func (h *HTTP) environment(j *pretty, _ *Stats, _ url.Values) string {
	h.words.environment(func(name, value string) { j.field(name, value) })
	return ""
}

func (h *HTTP) systemProperties(j *pretty, _ *Stats, _ url.Values) string {
	h.words.environment(func(name, value string) {
		kind, rest, _ := strings.Cut(name, ".")
		if isProperty := kind == "java" || kind == "os" || kind == "user"; isProperty && value != unset && !strings.HasPrefix(rest, "memory.") {
			j.field(name, value)
		}
	})
	return ""
}

func (h *HTTP) traceMask(j *pretty, _ *Stats, _ url.Values) string {
	j.field("tracemask", h.words.mask.Load())
	return ""
}

func (h *HTTP) setTraceMask(j *pretty, s *Stats, query url.Values) string {
	const need = "setTraceMask requires long traceMask argument"
	if !query.Has("traceMask") {
		return need
	}
	mask, err := strconv.ParseInt(query.Get("traceMask"), 10, 64)
	if err != nil {
		return need + ", got " + query.Get("traceMask")
	}
	h.words.mask.Store(mask)
	return h.traceMask(j, s, query)
}

func (h *HTTP) hash(j *pretty, _ *Stats, _ url.Values) string {
	j.values("digests", func() {})
	return ""
}

// initialConfiguration shows nothing: a zoo.cfg may contain the digest of the super user.
func (h *HTTP) initialConfiguration(j *pretty, _ *Stats, _ url.Values) string {
	j.field("initial_configuration", nil)
	return ""
}

func (h *HTTP) readOnly(j *pretty, s *Stats, _ url.Values) string {
	j.field("read_only", s.Role == api.ReadOnly)
	return ""
}

func (h *HTTP) monitor(j *pretty, s *Stats, _ url.Values) string {
	h.words.monitor(s, func(name, value string) { j.field(name, value) }, j.number)
	return ""
}

// observers lists the observers on a leader. Elsewhere the list is empty, as with ZooKeeper.
func (h *HTTP) observers(j *pretty, s *Stats, _ url.Values) string {
	j.field("synced_observers", s.SyncedObservers)
	j.values("observers", func() {
		for _, peer := range h.source.Ensemble().Peers {
			if s.Role == "leader" && peer.Observer {
				j.item()
				j.object(func() {
					j.field("remote_socket_address", peer.Quorum)
					j.field("sid", peer.ID)
				})
			}
		}
	})
	return ""
}

func (h *HTTP) leader(j *pretty, s *Stats, _ url.Values) string {
	e := h.source.Ensemble()
	if len(e.Peers) == 0 {
		return "server is not initialized" // ZooKeeper's answer for a standalone server
	}
	j.field("is_leader", s.Role == "leader")
	j.field("leader_id", e.Leader)
	for _, peer := range e.Peers {
		if peer.ID == e.Leader {
			j.field("leader_ip", hostOf(peer.Quorum))
		}
	}
	return ""
}

func (h *HTTP) votingView(j *pretty, _ *Stats, _ url.Values) string {
	j.fields("current_config", func() {
		for _, peer := range h.source.Ensemble().Peers {
			if peer.Observer {
				continue
			}
			j.fields(strconv.FormatUint(uint64(peer.ID), 10), func() {
				j.values("server_addresses", func() { j.item(); j.value(peer.Quorum) })
				j.values("election_addresses", func() { j.item(); j.value(peer.Election) })
				j.field("client_address", peer.Client)
				j.field("learner_type", "participant")
			})
		}
	})
	return ""
}

func (h *HTTP) zabState(j *pretty, _ *Stats, _ url.Values) string {
	e, health := h.source.Ensemble(), h.source.Health()
	voting := false
	for _, peer := range e.Peers {
		if peer.ID == e.Self {
			voting = !peer.Observer
			j.field("myid", e.Self)
			j.field("is_leader", health.Role == "leader")
			j.fields("quorum_address", func() { j.address(peer.Quorum) })
			j.fields("election_address", func() { j.address(peer.Election) })
			j.field("client_address", peer.Client)
		}
	}
	j.field("voting", voting)
	state := ""
	if len(e.Peers) > 0 {
		var zxid int64
		if health.Stalled == "" { // otherwise apply may hold the tree's lock
			zxid = h.source.Stats().Zxid
		}
		j.field("last_zxid", fmt.Sprintf("0x%x", uint64(zxid)))
		j.field("zab_epoch", zxid>>32)
		j.field("zab_counter", zxid&(1<<32-1))
		switch {
		case health.Joining:
			state = "synchronization"
		case health.Role == "", health.Role == api.ReadOnly:
			state = "election"
		default:
			state = "broadcast"
		}
	}
	j.field("zabstate", state)
	return ""
}

// address writes an address as ZooKeeper does, which may have several of them and tries which ones
// it reaches.
func (j *pretty) address(addr string) {
	one := func(name, value string) { j.values(name, func() { j.item(); j.value(value) }) }
	host, port := hostOf(addr), addr[strings.LastIndexByte(addr, ':')+1:]
	j.field("empty", false)
	one("all_addresses", addr)
	one("all_reachable_addresses", addr)
	j.field("one", addr)
	j.field("reachable_address", addr)
	one("wildcard_addresses", "0.0.0.0:"+port)
	j.values("all_ports", func() { j.item(); j.p.printf("%s", port) })
	one("all_host_strings", host)
	one("all_reachable_addresses_or_all", addr)
	j.field("reachable_or_one", addr)
}

// hostOf returns the host of a host:port, or all of it if it is none.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
