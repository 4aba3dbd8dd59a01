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

	"rollcall/operator/api"
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
	answer func(a *adminServer, j *jsonWriter, s *Stats, query url.Values) (why string)
	// own returns what an endpoint has that does not answer as the others: its method, the type of its body, its time, and serve. Then
	// answer is nil.
	own func(c *copies) endpoint
}

// commands are all of them, by name. Their fields and the types of these are ZooKeeper's.
var commands = []command{
	{"configuration", []string{"conf", "config"}, reads, showsState, true, false, "what conf says", (*adminServer).configuration, nil},
	{"connection_stat_reset", []string{"crst"}, changes, unstated, true, false, "sets the counters of the connections to zero", (*adminServer).resetConnections, nil},
	{"connections", []string{"cons"}, reads, showsState, true, true, "this member's client connections; those over TLS are in `secure_connections`", (*adminServer).connections, nil},
	{"dirs", nil, reads, showsState, true, false, "bytes of the log's files and of all others", (*adminServer).dirs, nil},
	{"dump", nil, reads, showsState, true, true, "the sessions by the time at which they expire (on a leader), and their ephemeral nodes", (*adminServer).dump, nil},
	{"environment", []string{"env", "envi"}, reads, showsState, false, false, "the environment of the process", (*adminServer).environment, nil},
	{"get_trace_mask", []string{"gtmk"}, reads, showsState, false, false, "the trace mask; nothing is traced", (*adminServer).traceMask, nil},
	{"hash", nil, reads, showsState, true, false, "an empty list, where ZooKeeper lists digests of its tree", (*adminServer).hash, nil},
	{"initial_configuration", []string{"icfg"}, reads, showsState, true, false, "null, where ZooKeeper shows the text of its zoo.cfg", (*adminServer).initialConfiguration, nil},
	{"is_read_only", []string{"isro"}, reads, showsState, true, false, "whether this member serves in read-only mode", (*adminServer).readOnly, nil},
	{"leader", []string{"lead"}, reads, showsState, true, false, "whether this member leads, and which one does", (*adminServer).leader, nil},
	{"monitor", []string{"mntr"}, reads, showsState, true, false, "all metrics, without the zk_ of mntr", (*adminServer).monitor, nil},
	{"observer_connection_stat_reset", []string{"orst"}, changes, unstated, true, false, "nothing: this member keeps no counters of its own for observers", (*adminServer).nothing, nil},
	{"observers", []string{"obsr"}, reads, showsState, true, false, "on a leader, the observers of the server list, and how many members without a vote have caught up", (*adminServer).observers, nil},
	{"restore", []string{"rest"}, changes, unstated, false, false, "writes the backup in the body, of the type `application/octet-stream`, into the ensemble, and deletes nodes that it lacks; at most one in `admin.rateLimiterIntervalInMS`", nil, (*copies).restoreCommand},
	{"ruok", nil, open, unstated, true, false, "no error, if this member serves clients", (*adminServer).nothing, nil},
	{"server_stats", []string{"srvr"}, reads, showsState, true, false, "what srvr says", (*adminServer).serverStats, nil},
	{"set_trace_mask", []string{"stmk"}, changes, unstated, false, false, "sets the trace mask to the parameter traceMask", (*adminServer).setTraceMask, nil},
	{"snapshot", []string{"snap"}, changes, unstated, false, false, "a backup, as `/v1/backup` sends it, or with the parameter `streaming=false` a snapshot on this member's disk, as with `/v1/snapshot`; at most one in `admin.rateLimiterIntervalInMS`", nil, (*copies).snapshotCommand},
	{"stat_reset", []string{"srst"}, changes, unstated, true, false, "sets the counters of the member to zero", (*adminServer).resetStats, nil},
	{"stats", []string{"stat"}, reads, showsState, true, true, "what stat says", (*adminServer).stats, nil},
	{"system_properties", []string{"sysp"}, reads, showsState, false, false, "those of Java's properties that mean something here", (*adminServer).systemProperties, nil},
	{"voting_view", nil, reads, showsState, true, false, "the servers of the list that vote", (*adminServer).votingView, nil},
	{"watch_summary", []string{"wchs"}, reads, showsState, true, false, "how many watches this member's connections have", (*adminServer).watchSummary, nil},
	{"watches", []string{"wchc"}, reads, showsPaths, true, true, "their paths, by session", (*adminServer).watches, nil},
	{"watches_by_path", []string{"wchp"}, reads, showsPaths, true, true, "their sessions, by path", (*adminServer).watchesByPath, nil},
	{"zabstate", nil, reads, showsState, false, false, "this member's addresses, and whether it takes part in an election", (*adminServer).zabState, nil},
}

// adminServer answers the commands of ZooKeeper's AdminServer.
type adminServer struct {
	url        string // the path that theirs begin with
	words      *Words
	source     Source
	authorizer *authorizer
	copies     *copies
}

// routes returns a row for each command and for each of its aliases. The row of the commands' list is the last one; it also answers
// unknown commands.
func (a *adminServer) routes() (all []endpoint) {
	for i := range commands {
		c := &commands[i]
		e := endpoint{method: http.MethodGet, path: a.url + "/" + c.name, class: c.class, shows: c.shows, long: c.long, help: c.help}
		e.serve = func(w http.ResponseWriter, r *http.Request) { a.command(w, r, c) }
		if c.class == changes {
			e.method, e.action = http.MethodPost, c.name
		}
		if c.long {
			e.timeout = longTime
		}
		e.oneAtATime = c.name == "monitor" || c.name == "watch_summary"
		if c.own != nil {
			own := c.own(a.copies)
			e.method, e.contentType, e.timeout, e.serve = own.method, own.contentType, own.timeout, own.serve
		}
		all = append(all, e)
		for _, name := range c.aliases {
			e.path, e.alias = a.url+"/"+name, true
			all = append(all, e)
		}
	}
	return append(all,
		endpoint{method: "GET", path: a.url, class: reads, shows: showsState, help: "the commands, as links", serve: a.list},
		endpoint{method: "GET", path: a.url + "/", class: reads, shows: showsState, alias: true, help: "the answer to an unknown command", serve: a.unknown})
}

// list shows the commands as links, as ZooKeeper does.
func (a *adminServer) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p := &textWriter{w: w}
	for i := range commands {
		p.printf("<a href=\"%s/%s\">%s</a>\n<br/>\n", a.url, commands[i].name, commands[i].name)
	}
}

// unknown answers a request for a command that does not exist, or that GET must not reach.
func (a *adminServer) unknown(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, a.url+"/")
	if name == "" {
		a.list(w, r)
		return
	}
	status, why := http.StatusOK, "Unknown command: "+name
	for i := range commands {
		if c := &commands[i]; c.name == name || slices.Contains(c.aliases, name) {
			w.Header().Set("Allow", http.MethodPost)
			status, name, why = http.StatusMethodNotAllowed, c.name, "this command changes the member: send it with POST"
		}
	}
	writeCommand(w, status, name, func(*jsonWriter) string { return why })
}

// command answers one of ZooKeeper's commands. As in ZooKeeper the status is 200 also if there is
// an error.
func (a *adminServer) command(w http.ResponseWriter, r *http.Request, c *command) {
	var stats Stats
	if c.serving {
		if a.source.Health().Role == "" || a.serving(&stats) == "" {
			writeCommand(w, http.StatusOK, c.name, func(*jsonWriter) string { return strings.TrimSuffix(notServing, "\n") })
			return
		}
	}
	writeCommand(w, http.StatusOK, c.name, func(j *jsonWriter) string {
		j.paths = a.authorizer.pathFilterFor(r)
		if c.long {
			j.p.walker = a.words.pace.enter()
			defer j.p.walker.leave()
		}
		return c.answer(a, j, &stats, r.URL.Query())
	})
}

// serving fills in s and returns the member's role.
func (a *adminServer) serving(s *Stats) string {
	*s = a.source.Stats()
	return s.Role
}

// writeCommand writes the answer to a command: the fields that answer writes, the command and the error.
func writeCommand(w http.ResponseWriter, status int, name string, answer func(*jsonWriter) string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := bufio.NewWriterSize(w, partSize)
	j := &jsonWriter{p: &textWriter{w: out}}
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

func (a *adminServer) nothing(*jsonWriter, *Stats, url.Values) string { return "" }

// configurationFields are the lines of conf that ZooKeeper shows by HTTP, with their names there.
var configurationFields = map[string]string{
	"clientPort": "client_port", "dataDir": "data_dir", "dataLogDir": "data_log_dir", "tickTime": "tick_time",
	"maxClientCnxns": "max_client_cnxns", "minSessionTimeout": "min_session_timeout", "maxSessionTimeout": "max_session_timeout",
	"serverId": "server_id", "clientPortListenBacklog": "client_port_listen_backlog",
}

func (a *adminServer) configuration(j *jsonWriter, _ *Stats, _ url.Values) string {
	lines, _ := a.source.Settings(0, 0)
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

func (a *adminServer) resetConnections(*jsonWriter, *Stats, url.Values) string {
	a.source.ResetConnections()
	return ""
}

func (a *adminServer) resetStats(*jsonWriter, *Stats, url.Values) string {
	a.words.reset()
	return ""
}

func (a *adminServer) dirs(j *jsonWriter, _ *Stats, _ url.Values) string {
	data, log, err := a.source.DiskUsage()
	if err != nil {
		return fmt.Sprintf("the data directory cannot be read: %v", err)
	}
	j.field("datadir_size", data)
	j.field("logdir_size", log)
	return ""
}

func (a *adminServer) environment(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.words.environment(func(name, value string) { j.field(name, value) })
	return ""
}

func (a *adminServer) systemProperties(j *jsonWriter, _ *Stats, _ url.Values) string {
	a.words.environment(func(name, value string) {
		kind, rest, _ := strings.Cut(name, ".")
		if isProperty := kind == "java" || kind == "os" || kind == "user"; isProperty && value != unset && !strings.HasPrefix(rest, "memory.") {
			j.field(name, value)
		}
	})
	return ""
}

func (a *adminServer) traceMask(j *jsonWriter, _ *Stats, _ url.Values) string {
	j.field("tracemask", a.words.mask.Load())
	return ""
}

func (a *adminServer) setTraceMask(j *jsonWriter, s *Stats, query url.Values) string {
	const need = "setTraceMask requires long traceMask argument"
	if !query.Has("traceMask") {
		return need
	}
	mask, err := strconv.ParseInt(query.Get("traceMask"), 10, 64)
	if err != nil {
		return need + ", got " + query.Get("traceMask")
	}
	a.words.mask.Store(mask)
	return a.traceMask(j, s, query)
}

func (a *adminServer) hash(j *jsonWriter, _ *Stats, _ url.Values) string {
	j.values("digests", func() {})
	return ""
}

// initialConfiguration shows nothing: a zoo.cfg may contain the digest of the super user.
func (a *adminServer) initialConfiguration(j *jsonWriter, _ *Stats, _ url.Values) string {
	j.field("initial_configuration", nil)
	return ""
}

func (a *adminServer) readOnly(j *jsonWriter, s *Stats, _ url.Values) string {
	j.field("read_only", s.Role == api.ReadOnly)
	return ""
}

func (a *adminServer) monitor(j *jsonWriter, s *Stats, _ url.Values) string {
	a.words.monitor(s, func(name, value string) { j.field(name, value) }, j.number)
	return ""
}

// observers lists the observers on a leader. Elsewhere the list is empty, as with ZooKeeper.
func (a *adminServer) observers(j *jsonWriter, s *Stats, _ url.Values) string {
	j.field("synced_observers", s.SyncedObservers)
	j.values("observers", func() {
		for _, peer := range a.source.Ensemble().Peers {
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

func (a *adminServer) leader(j *jsonWriter, s *Stats, _ url.Values) string {
	e := a.source.Ensemble()
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

func (a *adminServer) votingView(j *jsonWriter, _ *Stats, _ url.Values) string {
	j.fields("current_config", func() {
		for _, peer := range a.source.Ensemble().Peers {
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

func (a *adminServer) zabState(j *jsonWriter, _ *Stats, _ url.Values) string {
	e, health := a.source.Ensemble(), a.source.Health()
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
			zxid = a.source.Stats().Zxid
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
func (j *jsonWriter) address(addr string) {
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
