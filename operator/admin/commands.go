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
	name         string
	aliases      []string
	access       accessClass
	content      contentKind
	needsServing bool // a member that serves no clients replies with an error
	longReply    bool // see endpoint
	help         string
	writeFields  func(a *adminServer, j *commandReply)
	// ownEndpoint returns the method, type of the body, timeout and handler of a command without writeFields.
	ownEndpoint func(a *adminServer) endpoint
}

// commandReply is the reply to a command. Its fields are ZooKeeper's, as are their types.
type commandReply struct {
	*jsonWriter
	stats   Stats // zero unless needsServing is set
	query   url.Values
	problem string // why there are no fields; "": there are
}

var commands = []command{
	{
		"configuration",
		[]string{"conf", "config"},
		readAccess, showsState, true, false, "what conf says",
		(*adminServer).writeConfiguration, nil,
	},
	{
		"connection_stat_reset",
		[]string{"crst"},
		changeAccess, contentUnstated, true, false,
		"resets the counters of connections", (*adminServer).resetConnections, nil,
	},
	{
		"connections",
		[]string{"cons"},
		readAccess, showsState, true, true,
		"its client connections; those over TLS are in `secure_connections`", (*adminServer).writeConnections, nil,
	},
	{"dirs", nil, readAccess, showsState, true, false, "bytes of the log and of all other files", (*adminServer).writeDirectorySizes, nil},
	{
		"dump", nil, readAccess, showsState, true, true,
		"the sessions, on a leader by the time when they expire, and their ephemeral nodes", (*adminServer).writeDump,
		nil,
	},
	{
		"environment",
		[]string{"env", "envi"},
		readAccess, showsState, false, false, "the environment of the process",
		(*adminServer).writeEnvironment, nil,
	},
	{
		"get_trace_mask",
		[]string{"gtmk"},
		readAccess, showsState, false, false, "the trace mask; nothing is traced",
		(*adminServer).writeTraceMask, nil,
	},
	{
		"hash", nil, readAccess, showsState, true, false, "an empty list; in ZooKeeper digests of its tree",
		(*adminServer).writeDigests, nil,
	},
	{
		"initial_configuration",
		[]string{"icfg"},
		readAccess, showsState, true, false,
		"null; in ZooKeeper the text of zoo.cfg", (*adminServer).writeInitialConfiguration, nil,
	},
	{
		"is_read_only",
		[]string{"isro"},
		readAccess, showsState, true, false, "whether it serves in read-only mode",
		(*adminServer).writeReadOnly, nil,
	},
	{
		"leader",
		[]string{"lead"},
		readAccess, showsState, true, false, "whether it leads, and which member does",
		(*adminServer).writeLeader, nil,
	},
	{
		"monitor",
		[]string{"mntr"},
		readAccess, showsState, true, false, "all metrics, without zk_",
		(*adminServer).writeMonitor, nil,
	},
	{
		"observer_connection_stat_reset",
		[]string{"orst"},
		changeAccess, contentUnstated, true, false,
		"has no effect", (*adminServer).writeNothing, nil,
	},
	{
		"observers",
		[]string{"obsr"},
		readAccess, showsState, true, false,
		"on a leader, the observers, and how many members without a vote have caught up",
		(*adminServer).writeObservers, nil,
	},
	{
		"restore",
		[]string{"rest"},
		changeAccess, contentUnstated, false, false,
		"writes the backup in the body into the ensemble, and deletes nodes that it lacks", nil, (*adminServer).restoreCommand,
	},
	{"ruok", nil, openAccess, contentUnstated, true, false, "no error, if it serves clients", (*adminServer).writeNothing, nil},
	{"server_stats", []string{"srvr"}, readAccess, showsState, true, false, "what srvr says", (*adminServer).writeServerStats, nil},
	{
		"set_trace_mask",
		[]string{"stmk"},
		changeAccess, contentUnstated, false, false,
		"sets the mask to the parameter traceMask", (*adminServer).setTraceMask, nil,
	},
	{
		"shed_connections",
		[]string{"shed"},
		changeAccess, contentUnstated, false, false,
		"closes a share of its client connections, oldest first",
		nil, (*adminServer).shedCommand,
	},
	{
		"snapshot",
		[]string{"snap"},
		changeAccess, contentUnstated, false, false,
		"a backup, as from `/v1/backup`, or with `streaming=false` a snapshot on its disk", nil, (*adminServer).snapshotCommand,
	},
	{
		"stat_reset",
		[]string{"srst"},
		changeAccess, contentUnstated, true, false, "resets the counters of the member",
		(*adminServer).resetStats, nil,
	},
	{"stats", []string{"stat"}, readAccess, showsState, true, true, "what stat says", (*adminServer).writeStats, nil},
	{
		"system_properties",
		[]string{"sysp"},
		readAccess, showsState, false, false,
		"Java's properties that mean something here", (*adminServer).writeSystemProperties, nil,
	},
	{"voting_view", nil, readAccess, showsState, true, false, "the servers of the list that vote", (*adminServer).writeVotingView, nil},
	{
		"watch_summary",
		[]string{"wchs"},
		readAccess, showsState, true, false,
		"how many watches its connections have", (*adminServer).writeWatchSummary, nil,
	},
	{"watches", []string{"wchc"}, readAccess, showsPaths, true, true, "their paths, by session", (*adminServer).writeWatches, nil},
	{
		"watches_by_path",
		[]string{"wchp"},
		readAccess, showsPaths, true, true, "their sessions, by path",
		(*adminServer).writeWatchesByPath, nil,
	},
	{
		"zabstate", nil, readAccess, showsState, false, false,
		"its addresses, and whether it takes part in an election", (*adminServer).writeZabState, nil,
	},
}

// adminServer serves the commands of ZooKeeper's AdminServer.
type adminServer struct {
	basePath   string
	fourLetter *FourLetterCommands
	source     Source
	ops        Operations
	authorizer *authorizer
	backups    *backupsAPI
}

// routes returns a row for each command and each of its aliases, and last the list, which also serves unknown commands.
func (a *adminServer) routes() (all []endpoint) {
	for i := range commands {
		c := &commands[i]
		e := endpoint{
			method: http.MethodGet, path: a.basePath + "/" + c.name, access: c.access, content: c.content,
			longReply: c.longReply, help: c.help,
		}
		e.serve = func(w http.ResponseWriter, r *http.Request) { a.serveCommand(w, r, c) }
		if c.access == changeAccess {
			e.method, e.action = http.MethodPost, c.name
		}
		if c.longReply {
			e.timeout = longReplyTimeout
		}
		e.oneAtATime = c.name == "monitor" || c.name == "watch_summary"
		if c.ownEndpoint != nil {
			own := c.ownEndpoint(a)
			e.method, e.contentType, e.timeout, e.serve = own.method, own.contentType, own.timeout, own.serve
		}
		all = append(all, e)
		for _, name := range c.aliases {
			e.path, e.isAlias = a.basePath+"/"+name, true
			all = append(all, e)
		}
	}
	return append(all,
		endpoint{
			method: "GET", path: a.basePath, access: readAccess, content: showsState, help: "the commands, as links",
			serve: a.serveCommandList,
		},
		endpoint{
			method: "GET", path: a.basePath + "/", access: readAccess, content: showsState, isAlias: true,
			help: "the answer to an unknown command", serve: a.serveUnknownCommand,
		})
}

// serveCommandList writes the commands as links, as ZooKeeper does.
func (a *adminServer) serveCommandList(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p := &textWriter{w: w}
	for i := range commands {
		p.printf("<a href=\"%s/%s\">%s</a>\n<br/>\n", a.basePath, commands[i].name, commands[i].name)
	}
}

// serveUnknownCommand handles requests for an unknown command, or with GET for one that needs POST.
func (a *adminServer) serveUnknownCommand(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, a.basePath+"/")
	if name == "" {
		a.serveCommandList(w, r)
		return
	}
	status, why := http.StatusOK, "Unknown command: "+name
	for i := range commands {
		if c := &commands[i]; c.name == name || slices.Contains(c.aliases, name) {
			w.Header().Set("Allow", http.MethodPost)
			status, name, why = http.StatusMethodNotAllowed, c.name, "this command changes the member: send it with POST"
		}
	}
	writeCommand(w, status, name, problemWriter(why))
}

// serveCommand serves one of ZooKeeper's commands. As in ZooKeeper, the status is 200 even for an error.
func (a *adminServer) serveCommand(w http.ResponseWriter, r *http.Request, c *command) {
	var stats Stats
	if c.needsServing && a.source.Health().Role != "" {
		stats = a.source.Stats()
	}
	if c.needsServing && stats.Role == "" {
		writeCommand(w, http.StatusOK, c.name, problemWriter(strings.TrimSuffix(notServing, "\n")))
		return
	}
	writeCommand(w, http.StatusOK, c.name, func(j *commandReply) {
		j.paths, j.stats, j.query = a.authorizer.pathFilterFor(r), stats, r.URL.Query()
		if c.longReply {
			j.out.pacing = a.fourLetter.pacer.beginAfterPause()
			defer j.out.pacing.end()
		}
		c.writeFields(a, j)
	})
}

// writeCommand writes the reply to a command: its fields, its name and the error.
func writeCommand(w http.ResponseWriter, status int, name string, writeFields func(*commandReply)) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := bufio.NewWriterSize(w, partSize)
	j := &commandReply{jsonWriter: &jsonWriter{out: &textWriter{w: out}}}
	j.object(func() {
		writeFields(j)
		j.field("command", name)
		if j.problem == "" {
			j.field("error", nil)
		} else {
			recordFailure(w, &Failure{Status: http.StatusOK, Text: j.problem}) // a status as ZooKeeper's
			j.field("error", j.problem)
		}
	})
	_ = out.Flush() // a client that left needs no reply
}

func problemWriter(text string) func(*commandReply) {
	return func(j *commandReply) { j.problem = text }
}

func (a *adminServer) writeNothing(*commandReply) {}

// configurationFields maps the lines of conf that ZooKeeper shows over HTTP to its names for them.
var configurationFields = map[string]string{
	"clientPort": "client_port", "dataDir": "data_dir", "dataLogDir": "data_log_dir", "tickTime": "tick_time",
	"maxClientCnxns": "max_client_cnxns", "minSessionTimeout": "min_session_timeout",
	"maxSessionTimeout": "max_session_timeout",
	"serverId":          "server_id", "clientPortListenBacklog": "client_port_listen_backlog",
}

func (a *adminServer) writeConfiguration(j *commandReply) {
	lines, _ := a.source.Settings(0, 0)
	for _, line := range lines {
		name, shown := configurationFields[line.Name]
		switch _, err := strconv.Atoi(line.Value); {
		case !shown:
		case err == nil:
			j.numberField(name, line.Value)
		default:
			j.field(name, line.Value)
		}
	}
}

func (a *adminServer) resetConnections(*commandReply) {
	a.source.ResetConnections()
}

func (a *adminServer) resetStats(*commandReply) {
	a.fourLetter.resetCounters()
}

func (a *adminServer) writeDirectorySizes(j *commandReply) {
	data, log, err := a.source.DiskUsage()
	if err != nil {
		j.problem = fmt.Sprintf("the data directory cannot be read: %v", err)
		return
	}
	j.field("datadir_size", data)
	j.field("logdir_size", log)
}

func (a *adminServer) writeEnvironment(j *commandReply) {
	a.fourLetter.eachProperty(func(name, value string) { j.field(name, value) })
}

func (a *adminServer) writeSystemProperties(j *commandReply) {
	a.fourLetter.eachProperty(func(name, value string) {
		kind, rest, _ := strings.Cut(name, ".")
		if isProperty := kind == "java" || kind == "os" || kind == "user"; isProperty && value != unsetProperty &&
			!strings.HasPrefix(rest, "memory.") {
			j.field(name, value)
		}
	})
}

func (a *adminServer) writeTraceMask(j *commandReply) {
	j.field("tracemask", a.fourLetter.traceMask.Load())
}

func (a *adminServer) setTraceMask(j *commandReply) {
	mask, err := strconv.ParseInt(j.query.Get("traceMask"), 10, 64)
	if err != nil {
		j.problem = "setTraceMask requires long traceMask argument"
		if j.query.Has("traceMask") {
			j.problem += ", got " + j.query.Get("traceMask")
		}
		return
	}
	a.fourLetter.traceMask.Store(mask)
	a.writeTraceMask(j)
}

func (a *adminServer) writeDigests(j *commandReply) {
	j.listField("digests", func() {})
}

// writeInitialConfiguration shows nothing: a zoo.cfg may contain the digest of the super user.
func (a *adminServer) writeInitialConfiguration(j *commandReply) {
	j.field("initial_configuration", nil)
}

func (a *adminServer) writeReadOnly(j *commandReply) {
	j.field("read_only", j.stats.Role == api.RoleReadOnly)
}

func (a *adminServer) writeMonitor(j *commandReply) {
	a.fourLetter.eachMonitorValue(&j.stats, func(name, value string) { j.field(name, value) }, j.numberField)
}

// writeObservers lists the observers on a leader. Elsewhere the list is empty, as in ZooKeeper.
func (a *adminServer) writeObservers(j *commandReply) {
	j.field("synced_observers", j.stats.SyncedObservers)
	j.listField("observers", func() {
		for _, peer := range a.source.Ensemble().Peers {
			if j.stats.Role == "leader" && peer.IsObserver {
				j.beginItem()
				j.object(func() {
					j.field("remote_socket_address", peer.QuorumAddress)
					j.field("sid", peer.ID)
				})
			}
		}
	})
}

func (a *adminServer) writeLeader(j *commandReply) {
	e := a.source.Ensemble()
	if len(e.Peers) == 0 {
		j.problem = "server is not initialized" // as ZooKeeper says for a standalone server
		return
	}
	j.field("is_leader", j.stats.Role == "leader")
	j.field("leader_id", e.Leader)
	for _, peer := range e.Peers {
		if peer.ID == e.Leader {
			j.field("leader_ip", hostOf(peer.QuorumAddress))
		}
	}
}

func (a *adminServer) writeVotingView(j *commandReply) {
	j.objectField("current_config", func() {
		for _, peer := range a.source.Ensemble().Peers {
			if peer.IsObserver {
				continue
			}
			j.objectField(strconv.FormatUint(uint64(peer.ID), 10), func() {
				j.listField("server_addresses", func() { j.beginItem(); j.value(peer.QuorumAddress) })
				j.listField("election_addresses", func() { j.beginItem(); j.value(peer.ElectionAddress) })
				j.field("client_address", peer.ClientAddress)
				j.field("learner_type", "participant")
			})
		}
	})
}

func (a *adminServer) writeZabState(j *commandReply) {
	e, health := a.source.Ensemble(), a.source.Health()
	voting := false
	for _, peer := range e.Peers {
		if peer.ID == e.Self {
			voting = !peer.IsObserver
			j.field("myid", e.Self)
			j.field("is_leader", health.Role == "leader")
			j.objectField("quorum_address", func() { j.addressFields(peer.QuorumAddress) })
			j.objectField("election_address", func() { j.addressFields(peer.ElectionAddress) })
			j.field("client_address", peer.ClientAddress)
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
		case health.Joining, health.ReadsData:
			state = "synchronization"
		case health.Role == "", health.Role == api.RoleReadOnly:
			state = "election"
		default:
			state = "broadcast"
		}
	}
	j.field("zabstate", state)
}

// addressFields writes addr as ZooKeeper writes a set of addresses, of which it can reach some.
func (j *jsonWriter) addressFields(addr string) {
	one := func(name, value string) { j.listField(name, func() { j.beginItem(); j.value(value) }) }
	host, port := hostOf(addr), addr[strings.LastIndexByte(addr, ':')+1:]
	j.field("empty", false)
	one("all_addresses", addr)
	one("all_reachable_addresses", addr)
	j.field("one", addr)
	j.field("reachable_address", addr)
	one("wildcard_addresses", "0.0.0.0:"+port)
	j.listField("all_ports", func() { j.beginItem(); j.out.printf("%s", port) })
	one("all_host_strings", host)
	one("all_reachable_addresses_or_all", addr)
	j.field("reachable_or_one", addr)
}

// hostOf returns the host of a host:port, or addr itself if it has another form.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
