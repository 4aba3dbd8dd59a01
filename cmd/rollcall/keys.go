package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall/quorum/disk"
)

// key is one row of the table of all keys; docs/configuration.md shows the same rows.
type key struct {
	name     string // as in zoo.cfg; ".N" at the end stands for a number, ".*" for anything
	def      string // what holds without it, in the words of the docs
	status   status
	note     string // served: what it sets; else why it is not
	harmless string // value that asks for nothing beyond what Rollcall does: no warning, not refused; "*": every one
	secret   bool   // the value appears in no message
	read     reader // checks the value, and keeps it if it is served; nil: any text, not kept
}

type status int

const (
	served   status = iota
	noEffect        // accepted, with a warning
	refused         // to ignore it would make the ensemble less safe than its operator believes
)

func (s status) String() string {
	return [...]string{"served", "no effect", "refused"}[s]
}

// Limits of numbers in a configuration.
const (
	maxTickMillis   = 3_600_000 // an hour: 20 ticks still fit the 32 bits of a timeout on the wire
	maxMillis       = 1<<31 - 1 // timeouts are 32 bit on the wire
	maxTicks        = 100_000   // initLimit, syncLimit: times the longest tick, eleven years
	maxCount        = 1<<31 - 1 // Java's int
	maxInFlight     = 1_000_000 // more transactions in flight than the log takes in a second
	maxMultiOps     = 1_000_000 // operations of a multi: more than fit the longest request
	maxConnFlight   = 100_000   // requests of one connection: each may hold a frame
	minUnread       = 64 << 10
	maxUnread       = 1 << 30
	minClientMemory = 4 << 20 // four of the longest requests by default: with fewer, one would wait for another
	maxClientMemory = 1 << 40
	maxHandshake    = 60 * 60 * 1000
	minStall        = 100 // a disk that is only busy takes as long
	maxStall        = 60 * 60 * 1000
	maxPort         = 65535

	minMaxBuffer     = 1024    // below that, a client cannot connect with a chroot and a long ACL
	maxMaxBuffer     = 8 << 20 // a transaction is one log entry, and entries are far below the log's own limit
	defaultMaxBuffer = 1_048_575
)

// Why a group of keys is not served.
const (
	noAdmin    = "there is no AdminServer yet: nothing listens for HTTP"
	noMetrics  = "there is no metrics endpoint yet"
	noTLS      = "TLS is not served yet: the key would suggest an encryption that is not there"
	noKeystore = "TLS is not served yet, and what would switch it on is refused"
	noSASL     = "SASL is not served yet: connections would go unauthenticated"
	noLocal    = "local sessions are not served yet"
	noWeights  = "a majority is counted by heads: hierarchical quorums are not served"
	noCache    = "there is no cache of responses: reads are answered from memory"
	ownPurge   = "old snapshots and log files are always removed"
	ownLog     = "the log store sizes its files itself"
)

// keys is every key that Rollcall knows of. The order is that of the docs.
var keys = []key{
	{
		name: "dataDir", def: "required", note: "folder of `myid`, and of this member's data in its subfolder `rollcall`; all else in it is left alone",
		read: folder(func(d *draft) *string { return &d.DataDir }),
	},
	{
		name: "dataLogDir", def: "dataDir", note: "folder of the log, in its subfolder `rollcall`; neither folder may be the subfolder `rollcall` of the other one",
		read: folder(func(d *draft) *string { return &d.DataLogDir }),
	},
	{
		name: "clientPort", def: "that of this server's line", note: "port for clients; 0: the system chooses one",
		read: number(0, maxPort, func(d *draft) *int { return &d.clientPort }),
	},
	{
		name: "clientPortAddress", def: "all interfaces", note: "address for clients; only with clientPort",
		read: host(func(d *draft) *string { return &d.clientHost }),
	},
	{
		name: "tickTime", def: "3000", note: "one tick, in ms",
		read: millis(1, maxTickMillis, func(d *draft) *time.Duration { return &d.Tick }),
	},
	{
		name: "initLimit", def: "required in an ensemble", status: noEffect, harmless: "*", note: "must be there, as for ZooKeeper; a member takes as long to catch up as it needs",
		read: number(0, maxTicks, func(d *draft) *int { return &d.InitLimit }),
	},
	{
		name: "syncLimit", def: "required in an ensemble", note: "ticks after which a leader cuts off a silent member, or hands over if it cannot do its work, and after which a member that cannot reach the leader closes its clients' connections",
		read: number(0, maxTicks, func(d *draft) *int { return &d.SyncLimit }),
	},
	{
		name: "minSessionTimeout", def: "2 ticks", note: "shortest session timeout granted, in ms; -1: the default",
		read: timeout(func(d *draft) *time.Duration { return &d.MinSessionTimeout }),
	},
	{
		name: "maxSessionTimeout", def: "20 ticks", note: "longest session timeout granted, in ms; -1: the default",
		read: timeout(func(d *draft) *time.Duration { return &d.MaxSessionTimeout }),
	},
	{
		name: "maxClientCnxns", def: "60", note: "connections per client address; 0: no limit",
		read: number(0, maxCount, func(d *draft) *int { return &d.MaxClientCnxns }),
	},
	{
		name: "maxCnxns", def: "0", note: "connections of all clients; 0: no limit",
		read: number(0, maxCount, func(d *draft) *int { return &d.MaxCnxns }),
	},
	{
		name: "jute.maxbuffer", def: "1048575", note: "longest request, in bytes, 1024 to 8388608; decimal, or hexadecimal with 0x",
		read: maxBuffer,
	},
	{
		name: "globalOutstandingLimit", def: "1000", note: "writes of a member's clients in flight, over all connections",
		read: number(1, maxInFlight, func(d *draft) *int { return &d.GlobalOutstandingLimit }),
	},
	{
		name: "connectionOutstandingLimit", def: "128", note: "Rollcall's own: requests of one connection read and not answered; past it the connection is not read",
		read: number(1, maxConnFlight, func(d *draft) *int { return &d.ConnOutstandingLimit }),
	},
	{
		name: "connectionUnreadLimit", def: "16777216", note: "Rollcall's own: bytes of events and replies that a client may leave unread, 65536 to 1073741824; past it the connection is closed",
		read: number(minUnread, maxUnread, func(d *draft) *int { return &d.ConnUnreadLimit }),
	},
	{
		name: "multiOperationLimit", def: "10000", note: "Rollcall's own: operations of one multi, 1 to 1000000; past it the connection is closed, as for a request that is too long",
		read: number(1, maxMultiOps, func(d *draft) *int { return &d.MultiOperationLimit }),
	},
	{
		name: "clientMemoryLimit", def: "an eighth of the memory", note: "Rollcall's own: bytes of requests that wait, and of replies and events that clients leave unread, for all connections together, 4194304 to 1099511627776; when they are spent, large requests wait, and the connections that hold most are closed",
		read: number(minClientMemory, maxClientMemory, func(d *draft) *int { return &d.ClientMemoryLimit }),
	},
	{
		name: "handshakeTimeout", def: "10000", note: "Rollcall's own: ms from accepting a connection to its session, waiting for a leader included; a session waits for a leader for at most a third of its timeout",
		read: millis(1, maxHandshake, func(d *draft) *time.Duration { return &d.HandshakeTimeout }),
	},
	{
		name: "readConsistency", def: "sequential", note: "Rollcall's own: sequential, as in ZooKeeper: a read may be stale, unless a sync stands before it; linearizable: no read is, and each waits for the leader",
		read: choice("linearizable", "sequential", func(d *draft) *bool { return &d.Linearizable }),
	},
	{
		name: "snapCount", def: "100000", note: "log entries between two snapshots",
		read: number(2, maxCount, func(d *draft) *int { return &d.SnapCount }),
	},
	{
		name: "logStore", def: "that of the folder; wal for a new one", note: "Rollcall's own: what the log is kept in, boltdb or wal; a folder keeps its kind, and a member with another one does not start ([storage.md](storage.md))",
		read: logStore,
	},
	{
		name: "storeStallLimit", def: "3000", note: "Rollcall's own: ms that writing or applying the log may hang before a leader gives up, and any member closes its clients' connections, 100 to 3600000",
		read: millis(minStall, maxStall, func(d *draft) *time.Duration { return &d.StoreStallLimit }),
	},
	{
		name: "4lw.commands.whitelist", def: "srvr", note: "four-letter words served, comma separated; `*`: all; srvr always is",
		read: whitelist,
	},
	{
		name: "skipACL", def: "no", note: "yes: ACLs are not checked; the leader's counts",
		read: yesNo(func(d *draft) *bool { return &d.SkipACL }),
	},
	{
		name: "extendedTypesEnabled", def: "false", note: "true: nodes with a TTL can be created, and myid 255 is refused; the leader's counts",
		read: boolean(func(d *draft) *bool { return &d.ExtendedTypes }),
	},
	{
		name: "enforceQuota", def: "false", note: "true: a write past a hard limit of a quota is refused; the leader's counts",
		read: boolean(func(d *draft) *bool { return &d.EnforceQuota }),
	},
	{
		name: "znode.container.checkIntervalMs", def: "60000", note: "ms between two looks for containers and nodes with a TTL that are to be removed; the leader's counts. None is removed while the leader's clock is not trusted ([clocks.md](clocks.md))",
		read: millis(1, maxMillis, func(d *draft) *time.Duration { return &d.Reaping.Interval }),
	},
	{
		name: "znode.container.maxPerMinute", def: "10000", note: "how many of them are removed in a minute at most; the leader's counts",
		read: number(1, maxCount, func(d *draft) *int { return &d.Reaping.PerMinute }),
	},
	{
		name: "znode.container.maxNeverUsedIntervalMs", def: "0", note: "ms after its last change that an empty container which never had a child is removed, too, 0: never; the leader's counts",
		read: millis(0, maxMillis, func(d *draft) *time.Duration { return &d.Reaping.NeverUsed }),
	},
	{
		name: "DigestAuthenticationProvider.superDigest", def: "none", secret: true, note: "`super:` and the digest of the super user's password",
		read: superDigest,
	},
	{
		name: "server.N", def: "none: standalone", note: "one line per member: `host:quorumPort:electionPort[:participant][;[clientHost:]clientPort]`, N from 1 to 255; observers are refused",
		read: serverLine,
	},
	{
		name: "standaloneEnabled", def: "true", note: "false: one server line is an ensemble of one",
		read: boolean(func(d *draft) *bool { return &d.standaloneEnabled }),
	},
	{
		name: "dynamicConfigFile", def: "none", note: "file of the server lines; read at the start, never written",
		read: folder(func(d *draft) *string { return &d.dynamicFile }),
	},
	{
		name: "quorumListenOnAllIPs", def: "false", note: "listen for other members on all interfaces, not only on the address of this server's line",
		read: boolean(func(d *draft) *bool { return &d.ListenOnAllIPs }),
	},

	{name: "peerType", def: "participant", status: refused, harmless: "participant", note: "observers are not served yet, and a voter in an observer's place would count"},
	{name: "group.N", def: "none", status: refused, note: noWeights},
	{name: "weight.N", def: "1", status: refused, harmless: "1", note: noWeights},
	{name: "electionAlg", def: "3", status: refused, harmless: "3", note: "members elect by raft; ZooKeeper refuses other values too"},
	{name: "localSessionsEnabled", def: "false", status: refused, harmless: "false", note: noLocal, read: boolean(nil)},
	{name: "localSessionsUpgradingEnabled", def: "false", status: noEffect, harmless: "false", note: noLocal, read: boolean(nil)},
	{name: "multiAddress.enabled", def: "false", status: refused, harmless: "false", note: "a server line takes one address", read: boolean(nil)},
	{name: "reconfigEnabled", def: "false", status: noEffect, harmless: "false", note: "reconfig requests are refused with -123: the server lines say who the members are", read: boolean(nil)},
	{name: "readonlymode.enabled", def: "false", status: noEffect, harmless: "false", note: "read-only mode is not served yet", read: boolean(nil)},
	{name: "leaderServes", def: "yes", status: noEffect, harmless: "yes", note: "the leader takes clients, too", read: yesNo(nil)},
	{name: "syncEnabled", def: "true", status: noEffect, harmless: "true", note: "observers are not served yet", read: boolean(nil)},
	{name: "observerMasterPort", def: "0", status: noEffect, harmless: "0", note: "observers are not served yet", read: number(0, maxPort, nil)},
	{name: "connectToLearnerMasterLimit", def: "0", status: noEffect, harmless: "0", note: "members try to connect until they succeed"},
	{name: "cnxTimeout", def: "5", status: noEffect, note: "the limit for connecting to a member follows from the tick"},
	{name: "clientPortListenBacklog", def: "-1", status: noEffect, harmless: "-1", note: "the system's limit holds"},
	{name: "tcpKeepAlive", def: "false", status: noEffect, harmless: "true", note: "keep-alive is always on", read: boolean(nil)},
	{name: "clientTcpKeepAlive", def: "false", status: noEffect, harmless: "true", note: "keep-alive is always on", read: boolean(nil)},
	{name: "forceSync", def: "yes", status: noEffect, harmless: "yes", note: "the log is always on disk before it is acknowledged", read: yesNo(nil)},
	{name: "fsync.warningthresholdms", def: "1000", status: noEffect, note: "not served yet"},
	{name: "preAllocSize", def: "65536", status: noEffect, note: ownLog},
	{name: "snapSizeLimitInKb", def: "4194304", status: noEffect, note: "a snapshot is due after snapCount entries or 512 MiB of log"},
	{name: "autopurge.snapRetainCount", def: "3", status: noEffect, note: ownPurge},
	{name: "autopurge.purgeInterval", def: "0", status: noEffect, note: ownPurge},
	{name: "maxResponseCacheSize", def: "400", status: noEffect, harmless: "0", note: noCache},
	{name: "maxGetChildrenResponseCacheSize", def: "400", status: noEffect, harmless: "0", note: noCache},
	{name: "audit.enable", def: "false", status: noEffect, harmless: "false", note: "there is no audit log yet", read: boolean(nil)},

	{name: "DigestAuthenticationProvider.enabled", def: "true", status: refused, harmless: "true", note: "the digest scheme cannot be switched off yet", read: boolean(nil)},
	{name: "DigestAuthenticationProvider.digestAlg", def: "SHA1", status: refused, harmless: "SHA1", note: "digests are SHA1 as yet: those in ACLs would never match"},
	{name: "authProvider.*", def: "none", status: noEffect, note: "Java classes cannot be loaded; the schemes are world, auth, digest, ip and super"},
	{name: "sessionRequireClientSASLAuth", def: "false", status: refused, harmless: "false", note: noSASL, read: boolean(nil)},
	{name: "allowSaslFailedClients", def: "false", status: noEffect, harmless: "false", note: "SASL is not served yet", read: boolean(nil)},
	{name: "enforce.auth.enabled", def: "false", status: refused, harmless: "false", note: "not served yet: clients would stay unauthenticated", read: boolean(nil)},
	{name: "enforce.auth.schemes", def: "none", status: noEffect, note: "enforce.auth.enabled is refused"},
	{name: "quorum.auth.enableSasl", def: "false", status: refused, harmless: "false", note: noSASL, read: boolean(nil)},
	{name: "quorum.auth.serverRequireSasl", def: "false", status: refused, harmless: "false", note: noSASL, read: boolean(nil)},
	{name: "quorum.auth.learnerRequireSasl", def: "false", status: refused, harmless: "false", note: noSASL, read: boolean(nil)},
	{name: "quorum.auth.*", def: "none", status: noEffect, note: "quorum.auth.enableSasl is refused"},

	{name: "secureClientPort", def: "none", status: refused, note: noTLS},
	{name: "secureClientPortAddress", def: "none", status: refused, note: noTLS},
	{name: "sslQuorum", def: "false", status: refused, harmless: "false", note: noTLS, read: boolean(nil)},
	{name: "portUnification", def: "false", status: refused, harmless: "false", note: noTLS, read: boolean(nil)},
	{name: "ssl.quorum.*", def: "none", status: noEffect, note: noKeystore, secret: true},
	{name: "ssl.*", def: "none", status: noEffect, note: noKeystore, secret: true},

	{name: "admin.enableServer", def: "true", status: noEffect, harmless: "false", note: noAdmin, read: boolean(func(d *draft) *bool { return &d.Admin.Enable })},
	{name: "admin.serverAddress", def: "127.0.0.1", status: noEffect, note: noAdmin, read: host(func(d *draft) *string { return &d.Admin.Host })},
	{name: "admin.serverPort", def: "8080", status: noEffect, note: noAdmin, read: number(0, maxPort, func(d *draft) *int { return &d.Admin.Port })},
	{name: "admin.commandURL", def: "/commands", status: noEffect, note: noAdmin, read: commandURL},
	{name: "admin.idleTimeout", def: "30000", status: noEffect, note: noAdmin, read: millis(1, maxMillis, func(d *draft) *time.Duration { return &d.Admin.IdleTimeout })},
	{name: "admin.forceHttps", def: "false", status: noEffect, harmless: "false", note: noAdmin, read: boolean(nil)},
	{name: "admin.portUnification", def: "false", status: noEffect, harmless: "false", note: noAdmin, read: boolean(nil)},
	{name: "admin.needClientAuth", def: "false", status: noEffect, harmless: "false", note: noAdmin, read: boolean(nil)},
	{name: "admin.snapshot.enabled", def: "true", status: noEffect, harmless: "false", note: noAdmin, read: boolean(nil)},
	{name: "admin.restore.enabled", def: "true", status: noEffect, harmless: "false", note: noAdmin, read: boolean(nil)},
	{name: "admin.rateLimiterIntervalInMS", def: "300000", status: noEffect, note: noAdmin},
	{name: "metricsProvider.className", def: "none", status: noEffect, note: noMetrics},
	{name: "metricsProvider.httpHost", def: "none", status: noEffect, note: noMetrics},
	{name: "metricsProvider.httpPort", def: "7000", status: noEffect, note: noMetrics},
	{name: "metricsProvider.exportJvmInfo", def: "true", status: noEffect, harmless: "false", note: noMetrics, read: boolean(nil)},
	{name: "metricsProvider.*", def: "none", status: noEffect, note: noMetrics},
}

// canonical is a key as the table has it: every key of zoo.cfg may carry the prefix of
// ZooKeeper's Java properties.
func canonical(name string) string { return strings.TrimPrefix(name, "zookeeper.") }

// lookup finds the row of a canonical key, by its name or else by the first pattern
// that fits; nil: unknown.
func lookup(name string) *key {
	var pattern *key
	for i := range keys {
		k := &keys[i]
		if k.name == name {
			return k
		}
		stem, ok := strings.CutSuffix(k.name, ".*")
		if !ok {
			stem, ok = strings.CutSuffix(k.name, ".N")
		}
		if ok && pattern == nil && strings.HasPrefix(name, stem+".") {
			pattern = k
		}
	}
	return pattern
}

// accept checks s and, if its key is served, keeps its value in d. It returns the
// warning that s earns, if any.
func (k *key) accept(d *draft, s setting) (warning string, err error) {
	if k.read != nil {
		if err := k.read(d, s); err != nil {
			return "", k.blame(s, err.Error())
		}
	}
	if k.status == served || k.harmless == "*" || k.harmless != "" && strings.EqualFold(k.harmless, s.value) {
		return "", nil
	}
	if k.status == noEffect {
		return brief(s.key) + " has no effect: " + k.note, nil
	}
	if k.harmless != "" {
		return "", k.blame(s, fmt.Sprintf("refused: %s; allowed is %s", k.note, k.harmless))
	}
	return "", k.blame(s, fmt.Sprintf("refused: %s; leave it out", k.note))
}

// blame is an error about s that says where it stands.
func (k *key) blame(s setting, what string) error {
	if k.secret {
		return fmt.Errorf("%s: %s: %s", s.where, brief(s.key), what)
	}
	return fmt.Errorf("%s: %s=%s: %s", s.where, brief(s.key), brief(s.value), what)
}

// brief cuts a value to what fits a line of a log.
func brief(value string) string {
	const most = 80
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, value)
}

// reader checks a value. Its error says what is allowed.
type reader func(d *draft, s setting) error

// The readers of the usual kinds take where in a draft the value goes; nil: nowhere.

func boolean(field func(*draft) *bool) reader {
	return choice("true", "false", field)
}

func yesNo(field func(*draft) *bool) reader {
	return choice("yes", "no", field)
}

func choice(yes, no string, field func(*draft) *bool) reader {
	return func(d *draft, s setting) error {
		is := strings.EqualFold(s.value, yes)
		if !is && !strings.EqualFold(s.value, no) {
			return fmt.Errorf("allowed is %s or %s", yes, no)
		}
		if field != nil {
			*field(d) = is
		}
		return nil
	}
}

func logStore(d *draft, s setting) error {
	kind := disk.LogKind(strings.ToLower(s.value))
	if !kind.Known() {
		return fmt.Errorf("allowed is %s or %s", disk.LogBolt, disk.LogWAL)
	}
	d.LogKind = kind
	return nil
}

func number(least, most int, field func(*draft) *int) reader {
	return func(d *draft, s setting) error {
		n, err := strconv.Atoi(s.value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("allowed is %d to %d", least, most)
		}
		if field != nil {
			*field(d) = n
		}
		return nil
	}
}

func millis(least, most int, field func(*draft) *time.Duration) reader {
	return func(d *draft, s setting) error {
		n, err := strconv.Atoi(s.value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("allowed is %d to %d (ms)", least, most)
		}
		*field(d) = time.Duration(n) * time.Millisecond
		return nil
	}
}

// timeout keeps 0 for ZooKeeper's -1, the default.
func timeout(field func(*draft) *time.Duration) reader {
	return func(d *draft, s setting) error {
		n, err := strconv.Atoi(s.value)
		if err != nil || n < 1 && n != -1 || n > maxMillis {
			return fmt.Errorf("allowed is 1 to %d (ms), or -1 for the default", maxMillis)
		}
		*field(d) = max(0, time.Duration(n)*time.Millisecond)
		return nil
	}
}

func folder(field func(*draft) *string) reader {
	return func(d *draft, s setting) error {
		if s.value == "" || strings.ContainsRune(s.value, 0) {
			return errors.New("allowed is a path")
		}
		*field(d) = s.value
		return nil
	}
}

func host(field func(*draft) *string) reader {
	return func(d *draft, s setting) error {
		h, err := parseHost(s.value)
		if err != nil {
			return err
		}
		*field(d) = h
		return nil
	}
}

func maxBuffer(d *draft, s setting) error {
	digits, base := s.value, 10
	if len(digits) > 2 && strings.EqualFold(digits[:2], "0x") {
		digits, base = digits[2:], 16
	}
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil || n < minMaxBuffer || n > maxMaxBuffer {
		return fmt.Errorf("allowed is %d to %d (bytes)", minMaxBuffer, maxMaxBuffer)
	}
	d.MaxBuffer = int(n)
	return nil
}

func whitelist(d *draft, s setting) error {
	d.Whitelist = nil
	for word := range strings.SplitSeq(s.value, ",") {
		if word = strings.TrimSpace(word); word != "" {
			d.Whitelist = append(d.Whitelist, word)
		}
	}
	return nil
}

func superDigest(d *draft, s setting) error {
	name, digest, _ := strings.Cut(s.value, ":")
	if name != "super" || digest == "" {
		return errors.New("allowed is super:<digest>")
	}
	d.SuperDigest = s.value
	return nil
}

func commandURL(d *draft, s setting) error {
	if !strings.HasPrefix(s.value, "/") {
		return errors.New("allowed is a path that begins with /")
	}
	d.Admin.URL = s.value
	return nil
}
