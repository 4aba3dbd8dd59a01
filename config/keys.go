package config

import (
	"fmt"
	"log/slog"
	"time"

	"rollcall/admin"
	"rollcall/follower"
	"rollcall/jute"
	"rollcall/leader"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/server"
)

// Bounds of the values. Those that only one kind of key has stand in its row.
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
	maxClientMemory = 1 << 40
	maxHandshake    = 60 * 60 * 1000
	minStall        = 100 // a disk that is only busy takes as long
	maxStall        = 60 * 60 * 1000
	maxPort         = 65535

	minMaxBuffer = 1024    // below that, a client cannot connect with a chroot and a long ACL
	maxMaxBuffer = 8 << 20 // a transaction is one log entry, and entries are far below the log's own limit

	// MinClientMemory is the least memory, in bytes, that clients may be given: four of the longest
	// requests by default. With less, one of them would wait for another.
	MinClientMemory = 4 << 20
)

// Why a group of keys is not served.
const (
	noHTTPS    = "HTTPS is not served yet"
	noRestore  = "snapshots are not sent or restored over HTTP yet"
	noTLS      = "TLS is not served yet: the key would suggest an encryption that is not there"
	noKeystore = "TLS is not served yet, and what would switch it on is refused"
	noSASL     = "SASL is not served yet: connections would go unauthenticated"
	noLocal    = "local sessions are not served yet"
	noWeights  = "a majority is counted by heads: hierarchical quorums are not served"
	noCache    = "there is no cache of responses: reads are answered from memory"
	ownPurge   = "old snapshots and log files are always removed"
	ownLog     = "the log store sizes its files itself"
)

// keys is every key that Rollcall knows. The order is that of docs/configuration.md. `go test
// ./config -run TestConfigurationDocs -update` writes its tables.
var keys = []key{
	{
		name: "dataDir", env: variable{1, "ZOO_DATA_DIR", "/data"}, flag: option{"data", "`folder` of this member's data (dataDir)"},
		kind: filePath(func(d *draft) *string { return &d.Dir }), unset: "required",
		doc: "folder of `myid`, and of this member's data in its subfolder `rollcall`; Rollcall leaves everything else in it alone",
	},
	{
		name: "dataLogDir", env: variable{line: 2, name: "ZOO_DATA_LOG_DIR"},
		kind: filePath(func(d *draft) *string { return &d.LogDir }), unset: "dataDir",
		doc: "folder of the log, which is in its subfolder `rollcall`; neither of the two folders may be the subfolder `rollcall` of the other",
	},
	{
		name: "clientPort", kind: number(0, maxPort, func(d *draft) *int { return &d.clientPort }), unset: "that of this member's server line",
		doc: "port for clients; 0: the system chooses one",
	},
	{
		name: "clientPortAddress", kind: host(func(d *draft) *string { return &d.clientHost }), unset: "all interfaces",
		doc: "address for clients; needs clientPort",
	},
	{
		name: "tickTime", env: variable{3, "ZOO_TICK_TIME", "2000"}, flag: option{"tick", "tickTime in `ms`"},
		kind: millis(1, maxTickMillis, func(d *draft) *time.Duration { return &d.Tick }), def: "3000",
		risk: riskOfTick,
		doc:  "one tick, in ms",
	},
	{
		name: "initLimit", env: variable{4, "ZOO_INIT_LIMIT", "5"}, status: noEffect, harmless: "*",
		kind: number(0, maxTicks, func(d *draft) *int { return &d.InitLimit }), unset: "required in an ensemble",
		doc: "must be set, as for ZooKeeper, but a member takes as long to catch up as it needs",
	},
	{
		name: "syncLimit", env: variable{5, "ZOO_SYNC_LIMIT", "2"},
		kind: number(0, maxTicks, func(d *draft) *int { return &d.SyncLimit }), unset: "required in an ensemble",
		doc: "ticks. After so long a leader cuts off a silent member, a leader that cannot do its work hands over, and a member that cannot reach the leader closes its clients' connections",
	},
	{
		name: "minSessionTimeout", kind: timeout(func(d *draft) *time.Duration { return &d.MinTimeout }), unset: fmt.Sprint(server.DefaultMinTicks, " ticks"),
		risk: riskOfMinTimeout,
		doc:  "shortest session timeout granted, in ms; -1: the default",
	},
	{
		name: "maxSessionTimeout", kind: timeout(func(d *draft) *time.Duration { return &d.MaxTimeout }), unset: fmt.Sprint(server.DefaultMaxTicks, " ticks"),
		doc: "longest session timeout granted, in ms; -1: the default",
	},
	{
		name: "maxClientCnxns", env: variable{8, "ZOO_MAX_CLIENT_CNXNS", "60"},
		kind: limit(maxCount, func(d *draft) *int { return &d.Limits.MaxClientConns }), def: text(server.DefaultMaxClientConns),
		risk: riskOfConnections,
		doc:  "connections per client address; 0: no limit",
	},
	{
		name: "maxCnxns", kind: limit(maxCount, func(d *draft) *int { return &d.Limits.MaxConns }), def: "0",
		doc: "connections of all clients; 0: no limit",
	},
	{
		name: "jute.maxbuffer", kind: bytesOrHex(minMaxBuffer, maxMaxBuffer, func(d *draft) *int { return &d.Limits.MaxBuffer }), def: text(jute.DefaultMaxBuffer),
		risk: riskOfBuffer,
		doc:  "longest request, in bytes; decimal, or hexadecimal with 0x",
	},
	{
		name: "globalOutstandingLimit", kind: number(1, maxInFlight, func(d *draft) *int { return &d.InFlight }), def: text(follower.DefaultMaxInFlight),
		doc: "writes of a member's clients in flight, over all connections",
	},
	{
		name: "connectionOutstandingLimit", kind: number(1, maxConnFlight, func(d *draft) *int { return &d.Limits.MaxInFlight }), def: text(server.DefaultMaxInFlight),
		doc: "Rollcall's own: requests of one connection that are read and not yet answered; beyond that the connection is not read",
	},
	{
		name: "connectionUnreadLimit", kind: number(minUnread, maxUnread, func(d *draft) *int { return &d.Limits.MaxUnread }), def: text(server.DefaultMaxUnread),
		doc: "Rollcall's own: bytes of events and replies that a client may leave unread; beyond that its connection is closed",
	},
	{
		name: "multiOperationLimit", kind: number(1, maxMultiOps, func(d *draft) *int { return &d.Limits.MaxMultiOps }), def: text(server.DefaultMaxMultiOps),
		doc: "Rollcall's own: operations of one multi; beyond that the connection is closed, as for a request that is too long",
	},
	{
		name: "clientMemoryLimit", kind: number(MinClientMemory, maxClientMemory, func(d *draft) *int64 { return &d.Limits.Budget }), unset: "an eighth of the memory",
		doc: "Rollcall's own: bytes for all connections together, of requests that wait and of replies and events that clients leave unread. When they are used up, large requests wait, and the connections that hold the most are closed",
	},
	{
		name: "handshakeTimeout", kind: millis(1, maxHandshake, func(d *draft) *time.Duration { return &d.Limits.Handshake }), def: text(server.DefaultHandshake),
		doc: "Rollcall's own: ms from accepting a connection to its session, including the wait for a leader, which takes at most a third of the session's timeout",
	},
	{
		name: "readConsistency", kind: choice("linearizable", "sequential", func(d *draft) *bool { return &d.LinearizableReads }), def: "sequential",
		doc: "Rollcall's own. sequential: a read may be stale unless it follows a sync, as in ZooKeeper. linearizable: no read is stale, and each waits for the leader",
	},
	{
		name: "snapCount", kind: number(2, maxCount, func(d *draft) *uint64 { return &d.SnapCount }), def: text(quorum.DefaultSnapshotEvery),
		doc: "log entries between two snapshots",
	},
	{
		name: "logStore", kind: logKind(func(d *draft) *disk.LogKind { return &d.LogKind }), unset: fmt.Sprintf("that of the folder; %s for a new one", disk.DefaultLogKind),
		doc: "Rollcall's own: what the log is kept in. A folder keeps its kind, and a member that is told another one does not start ([storage.md](storage.md))",
	},
	{
		name: "storeStallLimit", kind: millis(minStall, maxStall, func(d *draft) *time.Duration { return &d.StoreStallLimit }), def: text(disk.DefaultStallLimit),
		doc: "Rollcall's own: ms that writing or applying the log may hang. After that a leader gives up, and any member closes its clients' connections",
	},
	{
		name: "4lw.commands.whitelist", env: variable{line: 11, name: "ZOO_4LW_COMMANDS_WHITELIST"},
		kind: words(func(d *draft) *[]string { return &d.Whitelist }), def: "srvr",
		doc: "four-letter commands that are answered; `*`: all; srvr always is",
	},
	{
		name: "admin.enableServer", env: variable{10, "ZOO_ADMINSERVER_ENABLED", "true"},
		kind: boolean(func(d *draft) *bool { return &d.adminEnabled }), def: "true",
		doc: "true: operators are served over HTTP ([admin.md](admin.md))",
	},
	{
		name: "admin.serverAddress", kind: host(func(d *draft) *string { return &d.adminHost }), def: "127.0.0.1",
		risk: riskOfAddress,
		doc:  "address for HTTP; for other machines than this one, set another address, and admin.tokenFile or DigestAuthenticationProvider.superDigest",
	},
	{
		name: "admin.serverPort", kind: number(0, maxPort, func(d *draft) *int { return &d.adminPort }), def: "8080",
		doc: "port for HTTP; 0: the system chooses one. If the port is in use, the member warns and runs without HTTP",
	},
	{
		name: "admin.commandURL", kind: urlPath(func(d *draft) *string { return &d.HTTP.CommandURL }), def: admin.DefaultCommandURL,
		doc: "path of ZooKeeper's AdminServer commands",
	},
	{
		name: "admin.idleTimeout", kind: millis(1, maxMillis, func(d *draft) *time.Duration { return &d.HTTP.IdleTimeout }), def: text(admin.DefaultIdleTimeout),
		doc: "ms after which an HTTP connection without a request is closed",
	},
	{
		name: "admin.tokenFile", kind: filePath(func(d *draft) *string { return &d.HTTP.TokenFile }), unset: "none",
		doc: "Rollcall's own: file with a token of 16 to 4096 bytes, which administrators send as `Authorization: Bearer TOKEN`. It is read at the start; others must not be able to read it (chmod 600)",
	},
	{
		name: "metricsProvider.className", kind: metricsProvider(func(d *draft) *bool { return &d.metricsEnabled }), unset: "none",
		risk: riskOfMetrics,
		doc:  "Prometheus's: /metrics is also served at metricsProvider.httpPort, to everybody who reaches it. The others: nothing besides admin.serverPort",
	},
	{
		name: "metricsProvider.httpHost", kind: host(func(d *draft) *string { return &d.metricsHost }), def: allHosts,
		doc: "address of that port",
	},
	{
		name: "metricsProvider.httpPort", kind: number(0, maxPort, func(d *draft) *int { return &d.metricsPort }), def: "7000",
		doc: "0: the system chooses a port. If it is in use, the member warns and runs without it",
	},
	{
		name: "metricsProvider.exportJvmInfo", kind: choice("false", "true", func(d *draft) *bool { return &d.HTTP.BareMetrics }), def: "true",
		doc: "false: /metrics leaves out the metrics of the Go runtime and of the process",
	},
	{
		name: "logFormat", env: variable{line: 20, name: "ROLLCALL_LOG_FORMAT"}, flag: option{"log-format", "format of the log: text or json (logFormat)"},
		kind: choice("json", "text", func(d *draft) *bool { return &d.Log.JSON }), def: "text",
		doc: "Rollcall's own: a line of the log is text, or a JSON object ([logs.md](logs.md))",
	},
	{
		name: "logLevel", env: variable{line: 21, name: "ROLLCALL_LOG_LEVEL"}, flag: option{"log-level", "`level` from which on events are logged: debug, info, warn or error (logLevel)"},
		kind: logLevel(func(d *draft) *slog.Level { return &d.Log.Level }), def: "info",
		doc: "Rollcall's own: events of this level and of higher ones are in the log. A running member reads it again at SIGHUP ([logs.md](logs.md))",
	},
	{
		name: "skipACL", kind: yesNo(func(d *draft) *bool { return &d.Rules.SkipACL }), def: "no",
		risk: riskOfACL,
		doc:  "yes: ACLs are not checked; the leader's value counts",
	},
	{
		name: "extendedTypesEnabled", kind: boolean(func(d *draft) *bool { return &d.Rules.TTLNodes }), def: "false",
		doc: "true: nodes with a TTL can be created, and myid 255 is refused; the leader's value counts",
	},
	{
		name: "enforceQuota", kind: boolean(func(d *draft) *bool { return &d.Rules.EnforceQuota }), def: "false",
		doc: "true: a write beyond a hard limit of a quota is refused; the leader's value counts",
	},
	{
		name: "znode.container.checkIntervalMs", kind: millis(1, maxMillis, func(d *draft) *time.Duration { return &d.Reaping.Interval }), def: text(leader.DefaultReapInterval),
		doc: "ms between two searches for containers and nodes with a TTL that are due for removal; the leader's value counts. While the leader's clock is not trusted, none is removed ([clocks.md](clocks.md))",
	},
	{
		name: "znode.container.maxPerMinute", kind: number(1, maxCount, func(d *draft) *int { return &d.Reaping.PerMinute }), def: text(leader.DefaultReapPerMinute),
		doc: "most of them that are removed in a minute; the leader's value counts",
	},
	{
		name: "znode.container.maxNeverUsedIntervalMs", kind: millis(0, maxMillis, func(d *draft) *time.Duration { return &d.Reaping.NeverUsed }), def: "0",
		doc: "ms after its last change that an empty container which never had a child is removed, too; 0: never; the leader's value counts",
	},
	{
		name: "DigestAuthenticationProvider.superDigest", secret: true, kind: superDigest(func(d *draft) *string { return &d.SuperDigest }), unset: "none",
		doc: "`super:` and the digest of the super user's password",
	},
	{
		name: "server.N", kind: serverLine(), unset: "none: standalone",
		doc: "one line per member, N from 1 to 255; observers are refused",
	},
	{
		name: "serverIdFromHostname", env: variable{line: 22, name: "ROLLCALL_ID_FROM_HOSTNAME"},
		kind: boolean(func(d *draft) *bool { return &d.idFromHost }), def: "false",
		doc: "Rollcall's own. true: the name of the machine ends in a dash and a number from 0 to 254, as in a StatefulSet of Kubernetes, and this member's number is one more. It is written to `myid`, and a `myid` with another number is an error",
	},
	{
		name: "standaloneEnabled", env: variable{9, "ZOO_STANDALONE_ENABLED", "true"},
		kind: boolean(func(d *draft) *bool { return &d.standaloneEnabled }), def: "true",
		doc: "false: one server line is an ensemble of one",
	},
	{
		name: "dynamicConfigFile", kind: filePath(func(d *draft) *string { return &d.dynamicFile }), unset: "none",
		doc: "file with the server lines; it is read at the start and never written",
	},
	{
		name: "quorumListenOnAllIPs", kind: boolean(func(d *draft) *bool { return &d.ListenOnAllIPs }), def: "false",
		doc: "true: listen for other members on all interfaces, not only on the address of this member's server line",
	},

	{name: "peerType", def: "participant", status: refused, harmless: "participant", doc: "observers are not served yet, and a voter in an observer's place would count"},
	{name: "group.N", unset: "none", status: refused, doc: noWeights},
	{name: "weight.N", def: "1", status: refused, harmless: "1", doc: noWeights},
	{name: "electionAlg", def: "3", status: refused, harmless: "3", doc: "members elect by raft; ZooKeeper refuses other values too"},
	{name: "localSessionsEnabled", def: "false", status: refused, harmless: "false", doc: noLocal, kind: boolean(nil)},
	{name: "localSessionsUpgradingEnabled", def: "false", status: noEffect, harmless: "false", doc: noLocal, kind: boolean(nil)},
	{name: "multiAddress.enabled", def: "false", status: refused, harmless: "false", doc: "a server line takes one address", kind: boolean(nil)},
	{name: "reconfigEnabled", def: "false", status: noEffect, harmless: "false", doc: "reconfig requests are refused with -123: the server lines say who the members are", kind: boolean(nil)},
	{name: "readonlymode.enabled", def: "false", status: noEffect, harmless: "false", doc: "read-only mode is not served yet", kind: boolean(nil)},
	{name: "leaderServes", def: "yes", status: noEffect, harmless: "yes", doc: "the leader takes clients, too", kind: yesNo(nil)},
	{name: "syncEnabled", def: "true", status: noEffect, harmless: "true", doc: "observers are not served yet", kind: boolean(nil)},
	{name: "observerMasterPort", def: "0", status: noEffect, harmless: "0", doc: "observers are not served yet", kind: number[int](0, maxPort, nil)},
	{name: "connectToLearnerMasterLimit", def: "0", status: noEffect, harmless: "0", doc: "members try to connect until they succeed"},
	{name: "cnxTimeout", def: "5", status: noEffect, doc: "the limit for connecting to a member follows from the tick"},
	{name: "clientPortListenBacklog", def: "-1", status: noEffect, harmless: "-1", doc: "the system's limit holds"},
	{name: "tcpKeepAlive", def: "false", status: noEffect, harmless: "true", doc: "keep-alive is always on", kind: boolean(nil)},
	{name: "clientTcpKeepAlive", def: "false", status: noEffect, harmless: "true", doc: "keep-alive is always on", kind: boolean(nil)},
	{name: "forceSync", def: "yes", status: noEffect, harmless: "yes", doc: "the log is always on disk before it is acknowledged", kind: yesNo(nil)},
	{name: "fsync.warningthresholdms", def: "1000", status: noEffect, doc: "not served yet"},
	{name: "preAllocSize", def: "65536", status: noEffect, doc: ownLog},
	{name: "snapSizeLimitInKb", def: "4194304", status: noEffect, doc: "a snapshot is due after snapCount entries or 512 MiB of log"},
	{name: "autopurge.snapRetainCount", env: variable{6, "ZOO_AUTOPURGE_SNAPRETAINCOUNT", ""}, def: "3", status: noEffect, doc: ownPurge},
	{name: "autopurge.purgeInterval", env: variable{7, "ZOO_AUTOPURGE_PURGEINTERVAL", ""}, def: "0", status: noEffect, doc: ownPurge},
	{name: "maxResponseCacheSize", def: "400", status: noEffect, harmless: "0", doc: noCache},
	{name: "maxGetChildrenResponseCacheSize", def: "400", status: noEffect, harmless: "0", doc: noCache},
	{name: "audit.enable", def: "false", status: noEffect, harmless: "false", doc: "what operators change is always in the log; what clients do is not", kind: boolean(nil)},

	{name: "DigestAuthenticationProvider.enabled", def: "true", status: refused, harmless: "true", doc: "the digest scheme cannot be switched off yet", kind: boolean(nil)},
	{name: "DigestAuthenticationProvider.digestAlg", def: "SHA1", status: refused, harmless: "SHA1", doc: "digests are SHA1 as yet: those in ACLs would never match"},
	{name: "authProvider.*", unset: "none", status: noEffect, doc: "Java classes cannot be loaded; the schemes are world, auth, digest, ip and super", secret: true},
	{name: "sessionRequireClientSASLAuth", def: "false", status: refused, harmless: "false", doc: noSASL, kind: boolean(nil)},
	{name: "allowSaslFailedClients", def: "false", status: noEffect, harmless: "false", doc: "SASL is not served yet", kind: boolean(nil)},
	{name: "enforce.auth.enabled", def: "false", status: refused, harmless: "false", doc: "not served yet: clients would stay unauthenticated", kind: boolean(nil)},
	{name: "enforce.auth.schemes", unset: "none", status: noEffect, doc: "enforce.auth.enabled is refused"},
	{name: "quorum.auth.enableSasl", def: "false", status: refused, harmless: "false", doc: noSASL, kind: boolean(nil)},
	{name: "quorum.auth.serverRequireSasl", def: "false", status: refused, harmless: "false", doc: noSASL, kind: boolean(nil)},
	{name: "quorum.auth.learnerRequireSasl", def: "false", status: refused, harmless: "false", doc: noSASL, kind: boolean(nil)},
	{name: "quorum.auth.*", unset: "none", status: noEffect, doc: "quorum.auth.enableSasl is refused", secret: true},

	{name: "secureClientPort", unset: "none", status: refused, doc: noTLS},
	{name: "secureClientPortAddress", unset: "none", status: refused, doc: noTLS},
	{name: "sslQuorum", def: "false", status: refused, harmless: "false", doc: noTLS, kind: boolean(nil)},
	{name: "portUnification", def: "false", status: refused, harmless: "false", doc: noTLS, kind: boolean(nil)},
	{name: "ssl.quorum.*", unset: "none", status: noEffect, doc: noKeystore, secret: true},
	{name: "ssl.*", unset: "none", status: noEffect, doc: noKeystore, secret: true},

	{name: "admin.forceHttps", def: "false", status: noEffect, harmless: "false", doc: noHTTPS, kind: boolean(nil)},
	{name: "admin.portUnification", def: "false", status: noEffect, harmless: "false", doc: noHTTPS, kind: boolean(nil)},
	{name: "admin.needClientAuth", def: "false", status: noEffect, harmless: "false", doc: noHTTPS, kind: boolean(nil)},
	{name: "admin.snapshot.enabled", def: "true", status: noEffect, harmless: "false", doc: noRestore, kind: boolean(nil)},
	{name: "admin.restore.enabled", def: "true", status: noEffect, harmless: "false", doc: noRestore, kind: boolean(nil)},
	{name: "admin.rateLimiterIntervalInMS", def: "300000", status: noEffect, doc: noRestore},
	{name: "metricsProvider.*", unset: "none", status: noEffect, doc: "of ZooKeeper's providers alone", secret: true},
}
