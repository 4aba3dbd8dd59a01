package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Params are the parameters of a case. Their flags have the units, ranges and cases.
type Params struct {
	Case                 string
	Conns                int           // 0: the default of the case
	Window               int           // requests in flight on each connection
	Rate                 float64       // requests per second of all connections; 0: closed loop
	Size                 int           // bytes of a node's data
	Nodes                int           // nodes of the requests
	Reads                int           // percentage of reads in a mix
	Children             int           // of the node that is listed
	Ops                  int           // operations of a multi
	Duration             time.Duration // measured time
	Warmup               time.Duration // before the measured time
	Timeout              time.Duration // the session timeout to request
	HeldSessions         int           // sessions to keep alive
	EphemeralsPerSession int           // ephemeral nodes per session
	Watchers             int
	Watches              int  // of each session; 0: the default of the case
	Persistent           bool // watches that last, instead of those that are set again after each event
	Sources              int  // source addresses on loopback; 1: the kernel chooses
	SilentSessions       int
	ResumeRounds         int    // storms of the cases resume and storm
	MemberRole           string // the role of the members to connect to; "": any
	Storm                string // what happens to the sessions of a storm
	Hook                 string // a shell command
	KeepNodes            bool   // do not delete the nodes
}

// Defaults returns the default parameters.
func Defaults() Params {
	return Params{
		Window: 64, Size: 100, Nodes: 1000, Reads: 90, Children: 100, Ops: 10,
		Duration: 10 * time.Second, Warmup: 2 * time.Second, Timeout: 10 * time.Second,
		HeldSessions: 1000, EphemeralsPerSession: 10, Watchers: 1000, Sources: 1, SilentSessions: 100, ResumeRounds: 10, Storm: stormExpires,
	}
}

type benchCase struct {
	name         string
	defaultConns int
	opName       string // name of an op
	description  string
	run          func(*caseRun) (Result, error)
}

// benchCases returns all cases in the order of the help. It is a function to avoid an initialization cycle.
func benchCases() []benchCase {
	return []benchCase{
		{"get", 8, "request", "read a node's data", (*caseRun).runLoad},
		{"set", 8, "request", "write a node's data", (*caseRun).runLoad},
		{"create", 8, "request", "create nodes", (*caseRun).runLoad},
		{"mix", 8, "request", "get and set; --reads is the percentage of get", (*caseRun).runLoad},
		{"children", 8, "request", "list a node's children", (*caseRun).runLoad},
		{"multi", 8, "request", "a transaction of --ops sets", (*caseRun).runLoad},
		{"sessions", 32, "session", "open and close sessions, --conns at once", (*caseRun).runSessions},
		{
			"churn", 32, "session", "sessions that create one ephemeral node and close, --conns at once, or at most so many at a --rate",
			runChurn,
		},
		{"hold", 0, "ping", "--sessions that only ping, spread over several processes, while --hook runs if there is one", runHold},
		{"sync", 1, "sync", "sync, one after the other on each connection", (*caseRun).runSyncs},
		{"resume", 1000, "session", "--conns sessions lose their connections and come back at once, --storms times", (*caseRun).runResume},
		{
			"ephemerals", 16, "session", "sessions with --each ephemeral nodes: from close until an observer has heard of all",
			(*caseRun).runEphemerals,
		},
		{"watches", 0, "event", "--watchers sessions watch one node: from the write to the first and the last event", (*caseRun).runWatches},
		{
			"fanout", 0, "event", "--watchers sessions with --watches each on --nodes nodes, which are written at a --rate: from when a write was due",
			runFanOut,
		},
		{
			"firstreads", 1, "node", "create at one member, read at the next one as soon as that is acknowledged: the stale reads",
			(*caseRun).runFirstReads,
		},
		{"expiry", 0, "session", "--silent sessions fall silent at once, 3 times: how late, how far apart they expire", (*caseRun).runExpiry},
		{
			"storm", 5000, "write", "--conns sessions end or come back at once (--storm), --storms times, while one client of each member writes",
			(*caseRun).runStorm,
		},
		{
			"cachestorm", 1000, "client", "--conns clients that cache --watches nodes while --hook runs: until the last one is current again",
			runCacheStorm,
		},
		{
			"failover", 4, "request", "--conns writers and readers per member while --hook runs: gaps, sessions, writes lost",
			(*caseRun).runFailover,
		},
	}
}

func findCase(name string) (benchCase, bool) {
	for _, k := range benchCases() {
		if k.name == name {
			return k, true
		}
	}
	return benchCase{}, false
}

// Cases returns the name and the description of every case.
func Cases() [][2]string {
	var list [][2]string
	for _, k := range benchCases() {
		list = append(list, [2]string{k.name, k.description})
	}
	return list
}

// ParamFlag is a parameter as a flag (`--conns 8`) or as part of a case (`get:conns=8`).
type ParamFlag struct {
	Name, Usage string
	cases       []string // the cases that take it
	Set         func(p *Params, value string) error
}

// Limits of the parameters.
const (
	maxConns         = 100_000 // the limit on open files may be lower
	maxHeld          = 300_000 // maxKeepers processes with 20,000 open files each
	maxWatches       = 10_000  // of a session
	maxWindow        = 10_000
	maxRate          = 1_000_000
	maxSize          = 1_000_000 // with the rest of the request, below ZooKeeper's jute.maxbuffer
	maxNodes         = 1_000_000 // their names are kept in memory
	maxChildren      = 100_000
	maxOps           = 1_000
	maxStorms        = 10_000
	maxDuration      = 24 * time.Hour
	maxTimeout       = time.Hour
	maxInFlightBytes = 3 << 20 // below the 4 MiB above which package client makes a sender wait
	spareFiles       = 64      // open files other than connections
)

var (
	loadCases  = []string{"get", "set", "create", "mix", "children", "multi"}
	otherCases = []string{
		"sessions", "churn", "hold", "sync", "resume", "ephemerals", "watches", "fanout", "firstreads", "expiry", "storm", "cachestorm",
		"failover",
	}
	allCases = slices.Concat(loadCases, otherCases)
	// those end after so many storms
	timedCases = slices.DeleteFunc(slices.Clone(allCases),
		func(name string) bool {
			return slices.Contains([]string{"expiry", "resume", "storm", "cachestorm"}, name)
		})
)

// ParamFlags lists all parameters.
func ParamFlags() []ParamFlag {
	return []ParamFlag{
		{
			"conns", "`number` of connections (default 8; sessions and churn 32, sync 1, resume and cachestorm 1000, storm 5000, ephemerals 16, " +
				"failover 4 of each kind on each member, firstreads 1 on each member)",
			slices.Concat(loadCases, []string{"sessions", "churn", "sync", "resume", "ephemerals", "firstreads", "storm", "cachestorm", "failover"}),
			intSetter("connections", 1, maxConns, func(p *Params) *int { return &p.Conns }),
		},
		{
			"window", "`number` of requests that each connection keeps under way (default 64)", loadCases,
			intSetter("requests", 1, maxWindow, func(p *Params) *int { return &p.Window }),
		},
		{"rate", "`number` of requests per second, of all connections, of sessions, or of writes; latency counts from its due time " +
			"(default: as fast as replies come; fanout 200)", slices.Concat(loadCases, []string{"churn", "fanout"}), setRate},
		{
			"size", "`bytes` of a node's data (default 100)", slices.Concat(loadCases, []string{"failover"}),
			intSetter("bytes", 0, maxSize, func(p *Params) *int { return &p.Size }),
		},
		{
			"nodes", "`number` of nodes that requests, or watches, are spread over (default 1000)",
			[]string{"get", "set", "mix", "multi", "fanout"},
			intSetter("nodes", 1, maxNodes, func(p *Params) *int { return &p.Nodes }),
		},
		{
			"reads", "`percent` of requests in a mix that are get (default 90)",
			[]string{"mix"},
			intSetter("percent", 0, 100, func(p *Params) *int { return &p.Reads }),
		},
		{
			"children", "`number` of children to list (default 100)",
			[]string{"children"},
			intSetter("children", 1, maxChildren, func(p *Params) *int { return &p.Children }),
		},
		{
			"ops", "`number` of operations of a multi (default 10)",
			[]string{"multi"},
			intSetter("operations", 1, maxOps, func(p *Params) *int { return &p.Ops }),
		},
		{
			"duration", "`time` that is measured (default 10s)", timedCases,
			durationSetter(10*time.Millisecond, maxDuration, func(p *Params) *time.Duration { return &p.Duration }),
		},
		{
			"warmup", "`time` before it (default 2s)", timedCases,
			durationSetter(0, maxDuration, func(p *Params) *time.Duration { return &p.Warmup }),
		},
		{
			"timeout", "session timeout to request, a `time` (default 10s)", allCases,
			durationSetter(100*time.Millisecond, maxTimeout, func(p *Params) *time.Duration { return &p.Timeout }),
		},
		{
			"sessions", "`number` of sessions to keep alive for the duration (default 1000)",
			[]string{"hold"},
			intSetter("sessions", 1, maxHeld, func(p *Params) *int { return &p.HeldSessions }),
		},
		{
			"each", "`number` of ephemeral nodes of each session (default 10)",
			[]string{"ephemerals", "storm"},
			intSetter("nodes", 0, maxOps, func(p *Params) *int { return &p.EphemeralsPerSession }),
		},
		{
			"watchers", "`number` of sessions that watch (default 1000)",
			[]string{"watches", "fanout"},
			intSetter("sessions", 1, maxConns, func(p *Params) *int { return &p.Watchers }),
		},
		{
			"watches", "`number` of nodes that each session watches (default 1; cachestorm 50)",
			[]string{"fanout", "cachestorm"},
			intSetter("watches", 1, maxWatches, func(p *Params) *int { return &p.Watches }),
		},
		{
			"persistent", "`true` for watches that last, which servers before ZooKeeper 3.6 do not have, or false for those that are set " +
				"again after each event (default false)", []string{"fanout"}, setPersistent,
		},
		{
			"sources", "`number` of addresses, from 127.0.0.2 on, from which connections to servers on loopback come; an address has " +
				"28,000 connections to a server at most, and maxClientCnxns counts for each (default 1: as the kernel chooses)", allCases,
			intSetter("addresses", 1, maxSources, func(p *Params) *int { return &p.Sources }),
		},
		{
			"silent", "`number` of sessions that go silent (default 100)",
			[]string{"expiry"},
			intSetter("sessions", 1, maxConns, func(p *Params) *int { return &p.SilentSessions }),
		},
		{
			"storms", "`number` of times that all sessions come back (default 10)",
			[]string{"resume", "storm"},
			intSetter("storms", 1, maxStorms, func(p *Params) *int { return &p.ResumeRounds }),
		},
		{
			"storm", "`what` happens to the sessions of a storm: expire (they fall silent, and their connections stay open; default), " +
				"vanish (their connections end, and they expire later), close or reconnect", []string{"storm"}, setStorm,
		},
		{"member", "the `role` leader, follower or observer: connect only to members of this role, which the reply to " +
			"srvr has", slices.Concat(loadCases, []string{"sync", "expiry", "churn", "hold", "fanout", "cachestorm"}), setMemberRole},
		{
			"hook", "shell `command` to run after a quarter of the duration; cachestorm runs it after a calm",
			[]string{"failover", "hold", "cachestorm"},
			func(p *Params, v string) error { p.Hook = v; return nil },
		},
	}
}

// intSetter parses a whole number within limits.
func intSetter(unit string, least, most int, field func(*Params) *int) func(*Params, string) error {
	return func(p *Params, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", value)
		}
		if n < least || n > most {
			return fmt.Errorf("%d %s; must be %d to %d", n, unit, least, most)
		}
		*field(p) = n
		return nil
	}
}

func durationSetter(least, most time.Duration, field func(*Params) *time.Duration) func(*Params, string) error {
	return func(p *Params, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 500ms, 10s or 2m", value)
		}
		if d < least || d > most {
			return fmt.Errorf("%v; must be %v to %v", d, least, most)
		}
		*field(p) = d
		return nil
	}
}

func setRate(p *Params, value string) error {
	rate, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", value)
	}
	if !(rate >= 0.01 && rate <= maxRate) {
		return fmt.Errorf("%v requests per second; must be 0.01 to %d", rate, maxRate)
	}
	p.Rate = rate
	return nil
}

func setPersistent(p *Params, value string) error {
	if value != "true" && value != "false" {
		return fmt.Errorf("%q must be true or false", value)
	}
	p.Persistent = value == "true"
	return nil
}

func setStorm(p *Params, value string) error {
	switch value {
	case stormExpires, stormVanishes, stormCloses, stormResumes:
	default:
		return fmt.Errorf("%q is no storm; must be %s, %s, %s or %s", value, stormExpires, stormVanishes, stormCloses, stormResumes)
	}
	p.Storm = value
	return nil
}

// Roles for the parameter member.
const (
	memberLeader   = "leader"
	memberFollower = "follower"
	memberObserver = "observer"
)

func setMemberRole(p *Params, value string) error {
	switch value {
	case memberLeader, memberFollower, memberObserver:
	default:
		return fmt.Errorf("%q is no role; must be leader, follower or observer", value)
	}
	p.MemberRole = value
	return nil
}

// ParseCase parses a case of the command line, `get` or `get:conns=64,window=1`. Other parameters come from
// base.
func ParseCase(text string, base Params) (Params, error) {
	p := base
	name, rest, more := strings.Cut(text, ":")
	k, ok := findCase(name)
	if !ok {
		return p, fmt.Errorf("bench: unknown case %q; there are %s", name, strings.Join(allCases, ", "))
	}
	p.Case = name
	if more {
		for item := range strings.SplitSeq(rest, ",") {
			key, value, _ := strings.Cut(item, "=")
			if err := p.setParam(key, value); err != nil {
				return p, fmt.Errorf("bench: case %q: %w", text, err)
			}
		}
	}
	p.setDefaults(k)
	return p, p.checkLimits()
}

// updateRate is the default rate of fanout: issue trackers of large installations name such rates for thousands of watchers.
const updateRate = 200

// setDefaults sets what depends on the case.
func (p *Params) setDefaults(k benchCase) {
	p.Conns = cmp.Or(p.Conns, k.defaultConns)
	switch p.Case {
	case "fanout":
		p.Watches, p.Rate = cmp.Or(p.Watches, 1), cmp.Or(p.Rate, updateRate)
	case "cachestorm":
		p.Watches = cmp.Or(p.Watches, 50)
	}
}

func (p *Params) setParam(key, value string) error {
	for _, k := range ParamFlags() {
		if k.Name != key || key == "hook" { // a command may contain commas
			continue
		}
		if !slices.Contains(k.cases, p.Case) {
			return fmt.Errorf("%s does not take %s", p.Case, key)
		}
		if err := k.Set(p, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	}
	return fmt.Errorf("%q cannot be set for one case", key)
}

// AppliesTo reports whether a case has the parameter.
func (k ParamFlag) AppliesTo(name string) bool { return slices.Contains(k.cases, name) }

// checkLimits checks limits of several parameters together.
func (p *Params) checkLimits() error {
	if bytes := p.Ops * (p.Size + operationOverhead); p.Case == "multi" && bytes > maxSize {
		return fmt.Errorf("bench: a multi of %d operations of %d bytes is longer than a request may be", p.Ops, p.Size)
	}
	if bytes := p.Window * (p.Size + operationOverhead) * map[string]int{
		"set": 1, "create": 1, "mix": 1,
		"multi": p.Ops,
	}[p.Case]; bytes > maxInFlightBytes {
		return fmt.Errorf("bench: window %d: %d bytes in flight on each connection; must be at most %d", p.Window, bytes,
			maxInFlightBytes)
	}
	if p.Case == "ephemerals" && p.EphemeralsPerSession == 0 {
		return errors.New("bench: ephemerals needs sessions with at least 1 node")
	}
	if (p.Case == "failover" || p.Case == "cachestorm") && p.Hook == "" {
		return fmt.Errorf("bench: %s needs --hook, a command that breaks something", p.Case)
	}
	if p.Case == "fanout" && p.Watches > p.Nodes {
		return fmt.Errorf("bench: %d watches of a session on %d nodes; must be at most one on each", p.Watches, p.Nodes)
	}
	return nil
}

// operationOverhead is more than an operation takes besides its data.
const operationOverhead = 100

// connectionCount returns the number of connections that the case opens at once.
func (p *Params) connectionCount(servers int) int {
	switch p.Case {
	case "hold":
		return 0 // several processes share them
	case "fanout":
		return servers + 1 // and several processes share the others
	case "watches":
		return p.Watchers
	case "expiry":
		return p.SilentSessions
	case "failover":
		return 2 * p.Conns * servers
	case "firstreads":
		return p.Conns * servers
	case "storm", "cachestorm":
		return p.Conns + servers
	}
	return p.Conns
}

// checkOpenFiles returns an error if this process may not open enough connections for the case.
func (p *Params) checkOpenFiles(room, servers int) error {
	if n := p.connectionCount(servers); n > room {
		return fmt.Errorf("bench: %d connections, but this process may have %d files open, %d of them for other things "+
			"(ulimit -n)", n, room+spareFiles, spareFiles)
	}
	return nil
}

// connectionLimit returns the number of connections that this process may open.
func connectionLimit() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("bench: limit of open files: %w", err)
	}
	return max(int(min(limit.Cur, maxConns+spareFiles))-spareFiles, 1), nil
}

// String returns the case as in a report's row.
func (p *Params) String() string {
	s := p.Case
	switch p.Case {
	case "sessions":
		return fmt.Sprintf("sessions %d at once", p.Conns)
	case "churn":
		return fmt.Sprintf("churn %d at once", p.Conns) + p.suffix()
	case "hold":
		return fmt.Sprintf("hold %d", p.HeldSessions) + p.suffix()
	case "resume":
		return fmt.Sprintf("resume %d at once, %d times", p.Conns, p.ResumeRounds)
	case "ephemerals":
		return fmt.Sprintf("ephemerals %d at once, %d each", p.Conns, p.EphemeralsPerSession)
	case "watches":
		return fmt.Sprintf("watches %d", p.Watchers)
	case "fanout":
		kind := ""
		if p.Persistent {
			kind = " persistent"
		}
		return fmt.Sprintf("fanout %dx%d%s on %d nodes", p.Watchers, p.Watches, kind, p.Nodes) + p.suffix()
	case "firstreads":
		return fmt.Sprintf("firstreads %d at once", p.Conns)
	case "expiry":
		s = fmt.Sprintf("expiry %d", p.SilentSessions)
		if p.MemberRole != "" {
			s += " on " + p.MemberRole
		}
		return s
	case "storm":
		return fmt.Sprintf("storm %d that %s, %d each, %d times", p.Conns, p.Storm, p.EphemeralsPerSession, p.ResumeRounds)
	case "cachestorm":
		return fmt.Sprintf("cachestorm %d of %d nodes", p.Conns, p.Watches) + p.suffix()
	case "failover":
		return fmt.Sprintf("failover %d per member", p.Conns)
	case "mix":
		s += fmt.Sprintf(" %d/%d", p.Reads, 100-p.Reads)
	case "children":
		s += fmt.Sprintf(" of %d", p.Children)
	case "multi":
		s += fmt.Sprintf(" of %d", p.Ops)
	}
	switch p.Case {
	case "sync":
		s += fmt.Sprintf(" %dx1", p.Conns)
	case "children":
		s += fmt.Sprintf(" %dx%d", p.Conns, p.Window)
	default:
		s += fmt.Sprintf(" %dx%d %d B", p.Conns, p.Window, p.Size)
	}
	return s + p.suffix()
}

// suffix returns the members and the rate of a case that has both.
func (p *Params) suffix() (s string) {
	if p.MemberRole != "" {
		s += " on " + p.MemberRole
	}
	if p.Rate > 0 {
		s += fmt.Sprintf(" at %v/s", p.Rate)
	}
	return s
}
