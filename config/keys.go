package config

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"rollcall/follower"
	"rollcall/internal/admission"
	"rollcall/internal/keystore"
	"rollcall/internal/serverlist"
	"rollcall/leader"
	"rollcall/operator/admin"
	"rollcall/operator/archive"
	"rollcall/operator/archive/location"
	"rollcall/operator/audit"
	"rollcall/operator/backup"
	"rollcall/operator/otlp"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
	"rollcall/quorum/readlease"
	"rollcall/server"
	"rollcall/zk/digest"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Bounds of the values. Those that only one kind of key has stand in its row.
const (
	maxTickMillis = 3_600_000 // an hour: 20 ticks still fit the 32 bits of a timeout on the wire
	maxMillis     = 1<<31 - 1 // timeouts are 32 bit on the wire
	maxTicks      = 100_000   // initLimit, syncLimit: times the longest tick, eleven years
	maxCount      = 1<<31 - 1 // Java's int
	maxInFlight   = 1_000_000 // more transactions in flight than the log takes in a second
	maxPath       = 1 << 20   // bytes of a path: as long as a request by default
	maxACL        = 10_000    // entries of a list: the text of that many fits a request
	maxIdentities = 1000      // of a connection: as many as 4 KiB have room for
	// maxSelfJoinVoters limits members.voters: each write waits for a majority of the voters, and seven survive three losses.
	maxSelfJoinVoters = 7

	maxConnInFlight = 100_000  // requests of one connection: each may hold a frame
	maxWeight       = 1000     // tokens of one session: weights compare the costs of sessions
	maxWatchHistory = 1 << 30  // bytes: millions of changes; snapshots contain them
	maxSize         = 1 << 50  // bytes: far more than fits any memory
	minMemoryLimit  = 64 << 20 // bytes: a member without data uses a third of that
	// maxMemoryPercent is the share that the garbage collector gets as its limit: above it, it would run all the time.
	maxMemoryPercent = 90
	minDataQuota     = 1 << 20 // bytes: a smaller one is more likely a number without its unit
	minFraction      = 1e-6    // added to a chance, or taken from it: less would have no effect for days
	minUnread        = 64 << 10
	maxUnread        = 1 << 30
	maxClientMemory  = 1 << 40
	maxHandshake     = 60 * 60 * 1000
	minReadLease     = 10
	defaultReadLease = 100 // several round trips in a LAN
	minFailover      = 100 // ms: heartbeats of a leader come up to 33 ms apart then, and a busy process is not much faster
	maxFailover      = 60_000
	minStall         = 100 // a disk that is only busy takes as long
	maxStall         = 60 * 60 * 1000
	maxSlowTime      = 60 * 60 * 1000
	maxPort          = 65535
	minHistory       = 1 << 20 // bytes: a smaller one is more likely a number without its unit
	maxHistoryHours  = 10 * 366 * 24
	maxArchiveEvery  = 24 * 60 * 60 // s: if all machines are destroyed, the writes of up to this time are lost

	minAuditFile  = 64 << 10 // a few chunks of lines
	maxAuditFile  = 1 << 40
	maxAuditFiles = 1000 // each rotation renames all of them

	minBackupEvery = 60_000                    // ms: a backup of a large state takes about as long
	maxBackupEvery = 366 * 24 * 60 * 60 * 1000 // ms: a year
	maxBackups     = 10_000                    // files in one directory

	minMetricsInterval = 1000           // ms: to gather all metrics takes some milliseconds of a processor
	maxMetricsInterval = 60 * 60 * 1000 // ms: later ones would show nothing of an incident

	minMaxBuffer = 64      // a client's first request fits
	maxMaxBuffer = 8 << 20 // a transaction is one log entry, and entries are far below the log's own limit

	// DefaultMemoryPercent is the share of the memory above which writes that add data are rejected. The garbage
	// collector keeps everything within tuning.CollectorShare, and needs the room between the two: with
	// less, it would take a large part of the processor time.
	DefaultMemoryPercent = 75

	// MinClientMemory is the least memory, in bytes, that clients may be given: four of the longest
	// requests by default. With less, one of them would wait for another.
	MinClientMemory = 4 << 20
)

// The reasons why groups of keys are not served.
const (
	otherMemberLogin = "no version of ZooKeeper reads it, though some pages have quorum.auth.server.loginContext and learner.loginContext; " +
		"they are server.saslLoginContext and learner.saslLoginContext"
	noLocalSessions = "every session is global, and costs less than a local one of ZooKeeper (docs/deviations.md): it lives on at other members"
	noQuorumWeights = "a majority is counted by heads: hierarchical quorums are not served"
	noResponseCache = "there is no cache of responses: reads are served from memory"
	likeSlowRequest = "as slowRequestThreshold"
	purgesItself    = "old snapshots and log files are always removed"
	sizesLogItself  = "the log store sizes its files itself"
)

// keys is every key that Rollcall knows. The order is that of docs/configuration.md. `go test
// ./config -run TestConfigurationDocs -update` writes its tables.
var keys = slices.Concat(mainKeys, javaKeys())

// mainKeys are the keys that are served, and those whose values need a reason of their own.
var mainKeys = []key{
	{
		name: "dataDir", env: variable{1, "ZOO_DATA_DIR", "/data"},
		flag: flagOption{"data", "`directory` of this member's data (dataDir)"},
		kind: filePath(func(d *rawConfig) *string { return &d.config.Dir }), unset: "required",
		doc: "directory of `myid`, and of the member's data in its subdirectory `rollcall`. Rollcall leaves everything" +
			" else in it alone",
	},
	{
		name: "dataLogDir", env: variable{line: 2, name: "ZOO_DATA_LOG_DIR"},
		kind: filePath(func(d *rawConfig) *string { return &d.config.LogDir }), unset: "dataDir",
		doc: "directory of the log, in its subdirectory `rollcall`",
	},
	{
		name: "clientPort", kind: wholeNumber(0, maxPort, func(d *rawConfig) *int { return &d.clientListener.port }),
		unset: "that of this member's server line",
		doc:   "port for clients; 0: the system chooses one",
	},
	{
		name: "clientPortAddress", kind: hostName(func(d *rawConfig) *string { return &d.clientListener.host }),
		unset: "all interfaces",
		doc:   "address for clients; needs clientPort",
	},
	{
		name: "tickTime", env: variable{3, "ZOO_TICK_TIME", "2000"}, flag: flagOption{"tick", "tickTime in `ms`"},
		kind: millis(1, maxTickMillis, func(d *rawConfig) *time.Duration { return &d.config.Tick }), def: "3000",
		riskOf: riskOfTick,
		doc:    "one tick, in ms",
	},
	{
		name: "initLimit", env: variable{4, "ZOO_INIT_LIMIT", "5"}, status: noEffect, harmlessValue: "*",
		kind: wholeNumber(0, maxTicks, func(d *rawConfig) *int { return &d.config.InitLimit }), unset: "required in an ensemble",
		doc: "must be set, as for ZooKeeper, but a member takes as long to catch up as it needs",
	},
	{
		name: "syncLimit", env: variable{5, "ZOO_SYNC_LIMIT", "2"},
		kind: wholeNumber(0, maxTicks, func(d *rawConfig) *int { return &d.config.SyncLimit }), unset: "required in an ensemble",
		doc: "ticks after which a leader cuts off a silent member, a leader that cannot do its work hands over, and a " +
			"member that cannot reach the leader closes its clients' connections",
	},
	{
		name: "failover", kind: failoverTime(func(d *rawConfig) *time.Duration { return &d.config.HeartbeatTimeout }), def: "normal",
		riskOf: riskOfFailover,
		doc: "Own: ms by which a member judges that its leader is silent; fast: 150, normal: 300, wan: 1000. A leader may pause " +
			"for 4/3 of it, and for up to twice as long where pauses are usual. Set the same on all members " +
			"([sessions.md](sessions.md#a-leader-that-is-silent)). `normal` suffices for links of up to 50 ms each way",
	},
	{
		name: "minSessionTimeout", kind: sessionTimeout(func(d *rawConfig) *time.Duration { return &d.config.MinTimeout }),
		unset:  fmt.Sprint(server.DefaultMinTicks, " ticks"),
		riskOf: riskOfMinTimeout,
		doc:    "shortest session timeout granted, in ms",
	},
	{
		name: "maxSessionTimeout", kind: sessionTimeout(func(d *rawConfig) *time.Duration { return &d.config.MaxTimeout }),
		unset: fmt.Sprint(server.DefaultMaxTicks, " ticks"),
		doc:   "longest session timeout granted, in ms",
	},
	{
		name: "maxClientCnxns", env: variable{8, "ZOO_MAX_CLIENT_CNXNS", "60"},
		kind:   limitOrNone(maxCount, func(d *rawConfig) *int { return &d.config.Limits.MaxClientConns }),
		def:    valueText(server.DefaultMaxClientConns),
		riskOf: riskOfConnections,
		doc:    "connections per client address; 0: no limit",
	},
	{
		name: "maxCnxns", kind: limitOrNone(maxCount, func(d *rawConfig) *int { return &d.config.Limits.MaxConns }), def: "0",
		doc: "connections of all clients; 0: as many as leave the member a quarter of its open files, or 2,048 of them",
	},
	{
		name: "connection_throttle_tokens",
		kind: wholeNumber(0, maxCount, func(d *rawConfig) *int { return &d.config.Limits.Throttle.Tokens }), def: "0",
		doc: "capacity of the [connection throttle's](limits.md#connection-throttle) bucket of tokens; 0: no throttle",
	},
	{
		name: "connection_throttle_fill_time",
		kind: millis(1, maxMillis, func(d *rawConfig) *time.Duration { return &d.config.Limits.Throttle.FillTime }),
		def:  valueText(admission.DefaultFillTime),
		doc:  "ms after which tokens are added, again and again",
	},
	{
		name: "connection_throttle_fill_count",
		kind: wholeNumber(1, maxCount, func(d *rawConfig) *int { return &d.config.Limits.Throttle.FillCount }),
		def:  valueText(admission.DefaultFillCount),
		doc:  "tokens that are added each time",
	},
	{
		name: "connection_throttle_freeze_time",
		kind: sessionTimeout(func(d *rawConfig) *time.Duration { return &d.config.Limits.Throttle.Freeze }), def: "-1",
		doc: "least ms between two changes of the probability with which new sessions are rejected at random; -1: none is",
	},
	{
		name: "connection_throttle_drop_increase",
		kind: fraction(minFraction, func(d *rawConfig) *float64 { return &d.config.Limits.Throttle.Increase }),
		def:  valueText(admission.DefaultIncrease),
		doc:  "added to that probability when the bucket is empty",
	},
	{
		name: "connection_throttle_drop_decrease",
		kind: fraction(minFraction, func(d *rawConfig) *float64 { return &d.config.Limits.Throttle.Decrease }),
		def:  valueText(admission.DefaultDecrease),
		doc:  "taken from it when few tokens are missing",
	},
	{
		name: "connection_throttle_decrease_ratio",
		kind: fraction(0, func(d *rawConfig) *float64 { return &d.config.Limits.Throttle.Ratio }), def: "0",
		doc: "share of the bucket that may be missing then",
	},
	{
		name: "connection_throttle_weight_enabled",
		kind: boolean(func(d *rawConfig) *bool { return &d.config.Limits.Throttle.Weighted }), def: "false",
		doc: "true: sessions take as many tokens as the next two keys say, and the keys above count new sessions",
	},
	{
		name: "connection_throttle_global_session_weight",
		kind: wholeNumber(1, maxWeight, func(d *rawConfig) *int { return &d.config.Limits.Throttle.GlobalWeight }),
		def:  valueText(admission.DefaultGlobalWeight),
		doc:  "tokens of a new session",
	},
	{
		name: "connection_throttle_renew_session_weight",
		kind: wholeNumber(1, maxWeight, func(d *rawConfig) *int { return &d.config.Limits.Throttle.RenewWeight }),
		def:  valueText(admission.DefaultRenewWeight),
		doc:  "tokens of a session that is resumed",
	},
	{
		name: "request_throttle_max_requests",
		kind: wholeNumber(0, maxCount, func(d *rawConfig) *int { return &d.config.Limits.RequestThrottle.MaxRequests }), def: "0",
		doc: "requests of all clients of this member that may [wait for the log](limits.md#throttle-of-requests) at a time; 0: no throttle",
	},
	{
		name: "request_throttle_stall_time",
		kind: millis(1, maxMillis, func(d *rawConfig) *time.Duration { return &d.config.Limits.RequestThrottle.StallTime }),
		def:  valueText(server.DefaultStallTime),
		doc:  "ms after which a request that waits for its turn is looked at again",
	},
	{
		name: "request_throttle_drop_stale",
		kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.Limits.RequestThrottle.KeepStale }), def: "true",
		doc: "stale requests, as the next two keys say, are dropped with their connection while they wait for their turn",
	},
	{
		name: "request_stale_latency_check",
		kind: boolean(func(d *rawConfig) *bool { return &d.config.Limits.RequestThrottle.LatencyCheck }), def: "false",
		doc: "true: a request that has waited longer than its session's timeout is stale",
	},
	{
		name: "request_stale_connection_check",
		kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.Limits.RequestThrottle.NoConnectionCheck }), def: "true",
		doc: "a request whose client has closed the connection is stale",
	},
	{
		name: "throttled_op_wait_time",
		kind: millis(0, maxMillis, func(d *rawConfig) *time.Duration { return &d.config.Limits.RequestThrottle.OpWait }), def: "0",
		doc: "a request that has waited longer for its turn, in ms, gets the code -127 (throttled operation) and is not served; 0: none",
	},
	{
		name: "limit.*", kind: tenantLimit(), unset: "none",
		doc: "Own. A [limit of tenants](limits.md#limits-for-tenants), with a name of your choice after the dot: " +
			"`limit.batch=subtree /batch requests=500 bytes=2M`. It can be changed at run time",
	},
	{
		name: "jute.maxbuffer", kind: requestLimit(minMaxBuffer, maxMaxBuffer,
			func(d *rawConfig) *int { return &d.config.Limits.MaxBuffer }), def: valueText(jute.DefaultMaxBuffer),
		riskOf: riskOfBuffer,
		doc:    "longest request, in bytes; decimal, or hexadecimal with 0x",
	},
	{
		name: "globalOutstandingLimit", kind: wholeNumber(1, maxInFlight, func(d *rawConfig) *int { return &d.config.MaxInFlight }),
		def: valueText(follower.DefaultMaxInFlight),
		doc: "writes of a member's clients in flight, over all connections",
	},
	{
		name: "connectionOutstandingLimit",
		kind: wholeNumber(1, maxConnInFlight, func(d *rawConfig) *int { return &d.config.Limits.MaxInFlight }),
		def:  valueText(server.DefaultMaxInFlight),
		doc:  "Own: requests of one connection that wait for a reply. Beyond that it is not read",
	},
	{
		name: "connectionUnreadLimit",
		kind: wholeNumber(minUnread, maxUnread, func(d *rawConfig) *int { return &d.config.Limits.MaxUnread }),
		def:  valueText(server.DefaultMaxUnread),
		doc:  "Own: bytes of events and replies that a client may leave unread. Beyond that its connection is closed",
	},
	{
		name: "watches.history.bytes",
		kind: sizeOrNone(znode.MinChangeHistory, maxWatchHistory, func(d *rawConfig) *int64 { return &d.config.WatchHistory }),
		def:  sizeText(DefaultWatchHistory),
		doc: "Own: memory for the latest changes of nodes, from which a client that sets its persistent watches again gets " +
			"[the events that they have missed](sessions.md#watches-of-a-client-that-comes-back). A change takes its path and about 10 bytes. " +
			"0: none are kept, and such events are lost, as in ZooKeeper",
	},
	{
		name: "pathLengthLimit", kind: wholeNumber(1<<10, maxPath, func(d *rawConfig) *int { return &d.config.Limits.MaxPath }),
		def: valueText(server.DefaultMaxPath),
		doc: "Own: bytes of the path of a new node or a watch. A longer one is rejected with -8 (bad arguments). A " +
			"path has at most 128 levels, and 64 KiB only with a few",
	},
	{
		name: "aclEntryLimit", kind: wholeNumber(1, maxACL, func(d *rawConfig) *int { return &d.config.Limits.MaxACL }),
		def: valueText(server.DefaultMaxACL),
		doc: "Own: entries of an access control list, counted after `auth` stands for the client's identities. A " +
			"longer one is rejected with -114 (invalid ACL)",
	},
	{
		name: "identityLimit", kind: wholeNumber(1, maxIdentities,
			func(d *rawConfig) *int { return &d.config.Limits.MaxIdentities }), def: valueText(server.DefaultMaxIdentities),
		doc: "Own: identities of one connection, its address among them. One more gets -115 (authentication failed), " +
			"and the connection is closed. Together they have at most 4 KiB",
	},
	{
		name: "clientMemoryLimit", kind: wholeNumber(MinClientMemory, maxClientMemory,
			func(d *rawConfig) *int64 { return &d.config.Limits.Budget }), unset: "an eighth of the memory",
		doc: "Own: bytes for all connections together: waiting requests, unread replies and events, and watches, which" +
			" may take half. When they are used up, large requests wait, and the connections that hold the most are " +
			"closed",
	},
	{
		name: "memoryLimit", kind: memoryLimit(func(d *rawConfig) *MemoryLimit { return &d.config.Memory }),
		def: valueText(DefaultMemoryPercent) + "%",
		doc: "Own: memory in use above which this member rejects [writes that add data](limits.md#memory) with -1 " +
			"(system error). A percentage is that of the machine's or the cgroup's memory, or of GOMEMLIMIT; 0: no " +
			"limit",
	},
	{
		name: "handshakeTimeout", kind: millis(1, maxHandshake,
			func(d *rawConfig) *time.Duration { return &d.config.Limits.Handshake }), def: valueText(server.DefaultHandshake),
		doc: "Own: ms from accepting a connection to its session. The wait for a leader takes at most a third of the " +
			"session's timeout",
	},
	{
		name: "nio.sessionlessCnxnTimeout", kind: millis(1, maxHandshake,
			func(d *rawConfig) *time.Duration { return &d.sessionlessTimeout }), unset: "that of handshakeTimeout",
		doc: "ZooKeeper's name of handshakeTimeout, which wins over it",
	},
	{
		name: "readConsistency", kind: eitherWord("linearizable", "sequential",
			func(d *rawConfig) *bool { return &d.config.LinearizableReads }), def: "sequential",
		doc: "Own. sequential: a read may be stale unless it follows a sync, as in ZooKeeper. linearizable: no read is" +
			" stale; members read [by leases](sessions.md#reads-that-are-never-stale) that the leader grants, if it has this value, too",
	},
	{
		name: "readLease", kind: wholeNumber(minReadLease, int64(readlease.MaxLease/time.Millisecond),
			func(d *rawConfig) *uint64 { return &d.config.Rules.ReadLeaseMs }), def: valueText(defaultReadLease),
		doc: "Own: milliseconds of a lease for reads, with readConsistency=linearizable. After a voter is lost, writes wait for up to 1.25 of " +
			"it, once. It should be longer than four round trips between members",
	},
	{
		name: readOnlyKey, kind: boolean(func(d *rawConfig) *bool { return &d.config.ReadOnlyMode }), def: "false",
		doc: "true: while no leader is known, clients that ask for a read-only server get " +
			"[sessions that only read](sessions.md#read-only-mode), and isro is enabled. Not with readConsistency=linearizable",
	},
	{
		name: "snapCount", kind: wholeNumber(2, maxCount, func(d *rawConfig) *uint64 { return &d.config.SnapCount }),
		def: valueText(quorum.DefaultSnapshotEvery),
		doc: "log entries between two snapshots",
	},
	{name: "logStore", unset: "none", status: refused, doc: "the log has one format"},
	{
		name: "history.bytes", kind: byteSize(minHistory, maxSize, func(d *rawConfig) *int64 { return &d.config.History.Bytes }),
		def: valueText(history.DefaultBytes),
		doc: "Own: bytes of log and snapshots [kept of the past](history.md), after compression; 0: nothing is kept, and what was kept " +
			"is removed",
	},
	{
		name: "history.hours", kind: wholeUnits(time.Hour, 1, maxHistoryHours, func(d *rawConfig) *time.Duration { return &d.config.History.Age }),
		def: valueText(int(history.DefaultAge / time.Hour)),
		doc: "Own: hours for which the past is kept, if history.bytes has room for it",
	},
	{
		name: archiveKey,
		kind: archiveLocation(func(d *rawConfig) *string { return &d.config.Archive.To }), unset: "none",
		doc: "Own: [archive](archive.md) off the machine, to which the leader sends the log and snapshots: a directory, such as " +
			"`/mnt/archive`, which must exist, or `s3://bucket/prefix`. All members have the same one",
	},
	{
		name: "archive.seconds", kind: wholeUnits(time.Second, 1, maxArchiveEvery, func(d *rawConfig) *time.Duration { return &d.config.Archive.Interval }),
		def: valueText(int(archive.DefaultInterval / time.Second)),
		doc: "Own: seconds from one round of sending to the next: so much of the log is not in the archive yet",
	},
	{
		name: "archive.endpoint", kind: archiveEndpoint(func(d *rawConfig) *string { return &d.config.Archive.Endpoint }),
		unset: "Amazon's", riskOf: riskOfArchive,
		doc: "Own: URL of the service that has the bucket, such as `https://s3.example:9000`",
	},
	{
		name: "archive.region", kind: regionName(func(d *rawConfig) *string { return &d.config.Archive.Region }),
		unset: "the service is asked for it",
		doc:   "Own: region of the bucket",
	},
	{
		name: location.CredentialsKey, kind: filePath(func(d *rawConfig) *string { return &d.config.Archive.CredentialsFile }),
		unset: "the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or else the role of the machine",
		doc: "Own: file with the [credentials](archive.md#a-bucket) for the bucket, as Amazon's tools have it. It is read again each minute. " +
			"A file that others may read is rejected (chmod 600)",
	},
	{
		name: "storeStallLimit", kind: millis(minStall, maxStall,
			func(d *rawConfig) *time.Duration { return &d.config.StoreStallLimit }), def: valueText(DefaultStallLimit),
		doc: "Own: ms that applying the log may hang, or writing it while no majority of disks has it either. After that a leader " +
			"gives up, and any member closes its clients' connections. A member whose own disk alone hangs does so after ten times that",
	},
	{
		name: "slowRequestThreshold", kind: slowTime(func(d *rawConfig) *time.Duration { return &d.config.Slow.Request }),
		unset: "100, or a tenth of tickTime if that is more",
		doc: "Own: ms that a client's request takes before `rollcall slow` [shows where its time " +
			"went](admin.md#slow-requests)",
	},
	{
		name: "slowReadThreshold", kind: slowTime(func(d *rawConfig) *time.Duration { return &d.config.Slow.Read }),
		unset: likeSlowRequest, doc: "Own: the same for reads, watches, syncs and logins",
	},
	{
		name: "slowWriteThreshold", kind: slowTime(func(d *rawConfig) *time.Duration { return &d.config.Slow.Write }),
		unset: likeSlowRequest, doc: "Own: the same for writes, creates and multis",
	},
	{
		name: "slowSessionThreshold", kind: slowTime(func(d *rawConfig) *time.Duration { return &d.config.Slow.Session }),
		unset: likeSlowRequest, doc: "Own: the same for pings, and for openings, resumptions and ends of sessions",
	},
	{
		name: "fsync.warningthresholdms", kind: slowTime(func(d *rawConfig) *time.Duration { return &d.config.Slow.Sync }),
		def: valueText(disk.DefaultSlowSync),
		doc: "ms after which a write to the log leaves a line `slow sync`. `rollcall slow` shows it with the requests " +
			"that were under way",
	},
	{
		name: "4lw.commands.whitelist", env: variable{line: 11, name: "ZOO_4LW_COMMANDS_WHITELIST"},
		kind: commaList(func(d *rawConfig) *[]string { return &d.config.CommandWhitelist }), def: "srvr",
		doc: "enabled four-letter commands; `*`: all. srvr always is",
	},
	{
		name: "admin.enableServer", env: variable{10, "ZOO_ADMINSERVER_ENABLED", "true"},
		kind: boolean(func(d *rawConfig) *bool { return &d.adminListener.enabled }), def: "true",
		doc: "true: operators are served [over HTTP](admin.md)",
	},
	{
		name: "admin.serverAddress", kind: hostName(func(d *rawConfig) *string { return &d.adminListener.host }),
		def:    "127.0.0.1",
		riskOf: riskOfAddress,
		doc:    "address for HTTP. For other machines, also set admin.tokenFile or DigestAuthenticationProvider.superDigest",
	},
	{
		name: "admin.serverPort", kind: wholeNumber(0, maxPort, func(d *rawConfig) *int { return &d.adminListener.port }),
		def: "8080",
		doc: "port for HTTP; 0: the system chooses one. If it is in use, the member warns and runs without HTTP",
	},
	{
		name: "admin.commandURL", kind: urlPath(func(d *rawConfig) *string { return &d.config.HTTP.CommandURL }),
		def: admin.DefaultCommandURL,
		doc: "path of ZooKeeper's AdminServer commands",
	},
	{
		name: "admin.idleTimeout", kind: millis(1, maxMillis,
			func(d *rawConfig) *time.Duration { return &d.config.HTTP.IdleTimeout }), def: valueText(admin.DefaultIdleTimeout),
		doc: "ms after which an idle HTTP connection is closed",
	},
	{
		name: "admin.snapshot.enabled",
		kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.HTTP.NoSnapshots }), def: "true",
		doc: "false: the AdminServer command snapshot is rejected. `rollcall backup` still works",
	},
	{
		name: "admin.restore.enabled",
		kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.HTTP.NoRestores }), def: "true",
		doc: "false: the AdminServer command restore is rejected. `rollcall backup restore` still works",
	},
	{
		name: "admin.rateLimiterIntervalInMS",
		kind: millis(1, maxMillis, func(d *rawConfig) *time.Duration { return &d.config.HTTP.SnapshotInterval }),
		def:  valueText(admin.DefaultSnapshotInterval),
		doc:  "least ms between two snapshot commands of a member, and between two restore commands",
	},
	{
		name: "admin.tokenFile", kind: filePath(func(d *rawConfig) *string { return &d.config.HTTP.TokenFile }), unset: "none",
		doc: "Own: file with the token of [administrators](admin.md#credentials), 16 to 4096 bytes, read at the start." +
			" A file that others may read is rejected (chmod 600)",
	},
	{
		name: "admin.forceHttps", kind: boolean(func(d *rawConfig) *bool { return &d.config.HTTP.ForceHTTPS }), def: "false",
		doc: "true: only HTTPS is served at admin.serverPort, with the files of ssl.quorum.keyStore and " +
			"ssl.quorum.trustStore; wins over admin.portUnification",
	},
	{
		name: "admin.portUnification", kind: boolean(func(d *rawConfig) *bool { return &d.config.HTTP.UnifyPorts }), def: "false",
		doc: "true: HTTPS and plain HTTP are served at admin.serverPort",
	},
	{
		name: "admin.needClientAuth", kind: boolean(func(d *rawConfig) *bool { return &d.config.HTTP.NeedClientAuth }), def: "false",
		doc: "true: over HTTPS, a client must show a certificate that ssl.quorum.trustStore accepts. Otherwise it may",
	},
	{
		name: "admin.readTokenFile", kind: filePath(func(d *rawConfig) *string { return &d.config.HTTP.ReadTokenFile }),
		unset: "none",
		doc:   "Own: file with a token that reads and changes nothing",
	},
	{
		name: "admin.metricsTokenFile", kind: filePath(func(d *rawConfig) *string { return &d.config.HTTP.MetricsTokenFile }),
		unset: "none",
		doc:   "Own: file with a token that reads only /metrics",
	},
	{
		name: "admin.localReads", kind: localReads(func(d *rawConfig) *admin.LocalReads { return &d.config.HTTP.LocalReads }),
		def:    "state",
		riskOf: riskOfLocalReads,
		doc: "Own: what HTTP on the member's machine and four-letter commands [show without " +
			"credentials](admin.md#what-is-shown-without-credentials)",
	},
	{
		name: "admin.hosts", kind: commaList(func(d *rawConfig) *[]string { return &d.config.HTTP.Hosts }), unset: "none",
		doc: "Own: further names that the [Host header](admin.md#requests-of-web-pages) of a request without " +
			"credentials may have; `*`: any",
	},
	{
		name: loopbackTrustKey, kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.HTTP.DistrustLoopback }),
		def: "true",
		doc: "Own: false: over HTTP, only requests at the socket in dataDir are from the member's machine, and not those over " +
			"loopback, which [a proxy](admin.md#proxies-on-the-members-machine) may have passed on",
	},
	{
		name: "metricsProvider.className",
		kind: metricsProvider(func(d *rawConfig) *bool { return &d.metricsListener.enabled }), unset: "none",
		riskOf: riskOfMetrics,
		doc: "Prometheus's: /metrics is also served at metricsProvider.httpPort, to everybody who reaches it. The " +
			"others: only at admin.serverPort",
	},
	{
		name: "metricsProvider.httpHost", kind: hostName(func(d *rawConfig) *string { return &d.metricsListener.host }),
		def: serverlist.AllHosts,
		doc: "address of that port",
	},
	{
		name: "metricsProvider.httpPort",
		kind: wholeNumber(0, maxPort, func(d *rawConfig) *int { return &d.metricsListener.port }), def: "7000",
		doc: "0: the system chooses a port. If it is in use, the member warns and runs without it",
	},
	{
		name: "metricsProvider.exportJvmInfo",
		kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.HTTP.BareMetrics }), def: "true",
		doc: "false: /metrics leaves out those of the Go runtime and the process",
	},
	{
		name: endpointKey, env: variable{line: 24, name: "ROLLCALL_OTLP_ENDPOINT"},
		kind: collectorURL(func(d *rawConfig) *string { return &d.config.OTLP.Endpoint }), unset: "none",
		riskOf: riskOfEndpoint,
		doc: "Own: URL of a collector of OpenTelemetry that takes OTLP over HTTP, such as `http://127.0.0.1:4318`. The member " +
			"[sends it](otlp.md) slow requests as traces, with the paths of their nodes, and its metrics",
	},
	{
		name: "otlp.headersFile", kind: filePath(func(d *rawConfig) *string { return &d.config.OTLP.HeadersFile }), unset: "none",
		doc: "Own: file with [headers](otlp.md#headers) for these requests, such as a token, one on a line. It is read again for each " +
			"request. A file that others may read is rejected (chmod 600)",
	},
	{
		name: "otlp.trustStore.location", kind: filePath(func(d *rawConfig) *string { return &d.config.OTLP.TrustFile }),
		unset: "those of the system",
		doc:   "Own: file with the authorities of the collector's certificate, in PEM. It is reloaded when it changes and at SIGHUP",
	},
	{
		name: "otlp.keyStore.location", kind: filePath(func(d *rawConfig) *string { return &d.config.OTLP.KeyFile }), unset: "none",
		doc: "Own: file with a private key and its certificate for the collector, in PEM. It is reloaded likewise",
	},
	{
		name: "otlp.traces", kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.OTLP.NoTraces }), def: "true",
		doc: "Own: false: no slow requests are sent, and so no paths",
	},
	{
		name: "otlp.metrics", kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.OTLP.NoMetrics }), def: "true",
		doc: "Own: false: no metrics are sent",
	},
	{
		name: "otlp.metricsInterval", kind: millis(minMetricsInterval, maxMetricsInterval,
			func(d *rawConfig) *time.Duration { return &d.config.OTLP.MetricsInterval }), def: valueText(otlp.DefaultMetricsInterval),
		doc: "Own: ms from one request with metrics to the next",
	},
	{
		name: "autoRebalance", kind: wholeNumber(0, admin.MaxRebalanceRate,
			func(d *rawConfig) *int { return &d.config.AutoRebalance }), def: "0",
		doc: "Own: while the leader has this key, members with clearly more clients than their share close that many " +
			"connections in a second ([members.md](members.md#rebalancing-the-clients)); 0: none",
	},
	{
		name: "members.join", kind: eitherWord("auto", "off", func(d *rawConfig) *bool { return &d.config.SelfJoin.Auto }), def: "off",
		doc: "Own: auto: this member asks to come into the ensemble if the list of servers does not have it, and lets others in " +
			"while it leads ([members.md](members.md#members-that-come-by-themselves))",
	},
	{
		name: "members.join.hosts", kind: hostPatterns(func(d *rawConfig) *[]string { return &d.config.SelfJoin.Hosts }), unset: "any",
		doc: "Own: with `members.join=auto`, the hosts from which members may come. Required with " +
			"[certificates](security.md#certificates-of-members): only one for such a host lets a new member in",
	},
	{
		name: "members.voters", kind: oddNumber(1, maxSelfJoinVoters, func(d *rawConfig) *int { return &d.config.SelfJoin.Voters }), def: "5",
		doc: "Own: with `members.join=auto`, the leader gives votes to members that came by themselves up to this number of voters",
	},
	{
		name: "members.line", kind: memberLinePattern(func(d *rawConfig) *memberLine { return &d.own.line }), unset: "none",
		doc: "Own: with `members.join=auto`, the server line of this member, without `server.N=`, if its number is above those of all server " +
			"lines. `{id}` stands for its number, and `{ordinal}` for one less. Such a member never begins an ensemble",
	},
	{
		name: "logFormat", env: variable{line: 20, name: "ROLLCALL_LOG_FORMAT"},
		flag: flagOption{"log-format", "format of the log: text or json (logFormat)"},
		kind: eitherWord("json", "text", func(d *rawConfig) *bool { return &d.config.Log.JSON }), def: "text",
		doc: "Own: format of the [log's](logs.md) lines",
	},
	{
		name: "logLevel", env: variable{line: 21, name: "ROLLCALL_LOG_LEVEL"},
		flag: flagOption{"log-level", "`level` from which on events are logged: debug, info, warn or error (logLevel)"},
		kind: logLevel(func(d *rawConfig) *slog.Level { return &d.config.Log.Level }), def: "info",
		doc: "Own: least level of events in the log. A running member reads it again at SIGHUP",
	},
	{
		name: "audit.enable", kind: boolean(func(d *rawConfig) *bool { return &d.config.Audit.Enable }), def: "false",
		doc: "true: there is an [audit log](audit.md)",
	},
	{
		name: "audit.required", kind: boolean(func(d *rawConfig) *bool { return &d.config.Audit.Required }), def: "false",
		doc: "Own: true: no change without a [line on the disk](audit.md#no-change-without-a-line). Needs audit.enable",
	},
	{
		name: "audit.format", kind: eitherWord("zookeeper", "json",
			func(d *rawConfig) *bool { return &d.config.Audit.ZooKeeperFormat }), def: "json",
		doc: "Own: lines as JSON objects, or as in ZooKeeper's audit log",
	},
	{
		name: "audit.file", kind: auditFile(), unset: "`audit/audit.log` in dataDir",
		doc: "Own: file of the audit log, one for each member. `-` is standard output",
	},
	{
		name: "audit.fileSize", kind: wholeNumber(minAuditFile, maxAuditFile,
			func(d *rawConfig) *int64 { return &d.config.Audit.MaxFileSize }), def: valueText(audit.DefaultMaxFileSize),
		doc: "Own: bytes at which that file is renamed to audit.file.1, and a new one begins",
	},
	{
		name: "audit.files", kind: wholeNumber(1, maxAuditFiles, func(d *rawConfig) *int { return &d.config.Audit.KeptFiles }),
		def: valueText(audit.DefaultKeptFiles),
		doc: "Own: old files of the audit log that are kept",
	},
	{
		name: "backup.dir", kind: filePath(func(d *rawConfig) *string { return &d.config.Backup.Dir }), unset: "no backups are made",
		doc: "Own: directory for this member's [regular backups](backup.md#regular-backups). It must exist; members " +
			"may share it",
	},
	{
		name: "backup.every", kind: millis(minBackupEvery, maxBackupEvery,
			func(d *rawConfig) *time.Duration { return &d.config.Backup.Interval }), def: valueText(backup.DefaultInterval),
		doc: "Own: ms from one of these backups to the next",
	},
	{
		name: "backup.keep", kind: wholeNumber(1, maxBackups, func(d *rawConfig) *int { return &d.config.Backup.KeptFiles }),
		def: valueText(backup.DefaultKeptFiles),
		doc: "Own: number of these backups that are kept",
	},
	{
		name: "skipACL", kind: yesNo(func(d *rawConfig) *bool { return &d.config.Rules.SkipACL }), def: "no",
		riskOf: riskOfACL,
		doc:    "yes: ACLs are not checked; the leader's value counts",
	},
	{
		name: "extendedTypesEnabled", kind: boolean(func(d *rawConfig) *bool { return &d.config.Rules.TTLNodes }), def: "false",
		doc: "true: nodes with a TTL can be created, and myid 255 is rejected; the leader's value counts",
	},
	{
		name: "enforceQuota", kind: boolean(func(d *rawConfig) *bool { return &d.config.Rules.EnforceQuota }), def: "false",
		doc: "true: a write beyond a hard limit of a quota is rejected; the leader's value counts",
	},
	{
		name: "dataQuota", kind: byteSize(minDataQuota, maxSize, func(d *rawConfig) *uint64 { return &d.config.Rules.DataQuota }),
		def: "0",
		doc: "Own: bytes of all paths, data and access control lists. A write that would exceed this " +
			"[quota](limits.md#quota-of-all-data) is rejected with -1 (system error); 0: no quota; the leader's value" +
			" counts",
	},
	{
		name: "longSequentialNames", kind: boolean(func(d *rawConfig) *bool { return &d.config.Rules.LongNames }), def: "false",
		doc: "Own. true: the numbers of [sequential names](runbooks.md#sequential-names-are-used-up) go on after 2147483647; " +
			"the leader's value counts, from the beginning of its term",
	},
	{
		name: jaasKey, kind: filePath(func(d *rawConfig) *string { return &d.loginKeys.jaasFile }), unset: "none",
		doc: "JAAS file with the users who may [log in by SASL](security.md#passwords-and-sasl), or with the principal and the keytab of " +
			"[Kerberos](security.md#kerberos); also as `-D` in SERVER_JVMFLAGS. Its users are read again at SIGHUP",
	},
	{
		name: "sasl.serverconfig", kind: nonEmptyText("a name",
			func(d *rawConfig) *string { return &d.loginKeys.jaasSection }), def: "Server",
		doc: "section of the JAAS file for clients",
	},
	{
		name: "superUser", kind: superUser(), unset: "none",
		doc: "user of SASL who becomes the super user",
	},
	{name: "superUser.N", kind: superUser(), unset: "none", doc: "one more such user. N is any text"},
	{
		name: "kerberos.removeHostFromPrincipal", kind: boolean(func(d *rawConfig) *bool { return &d.config.Login.Kerberos.RemoveHost }), def: "false",
		doc: "true: the name of a client of [Kerberos](security.md#kerberos) is without the host of its principal",
	},
	{
		name: "kerberos.removeRealmFromPrincipal", kind: boolean(func(d *rawConfig) *bool { return &d.config.Login.Kerberos.RemoveRealm }), def: "false",
		doc: "true: the name of a client of Kerberos is without the realm of its principal",
	},
	{
		name: "security.auth_to_local", kind: kerberosRules(), def: "DEFAULT",
		doc: "[rules](security.md#kerberos) that make the name of a client of Kerberos of its principal",
	},
	{
		name: krb5Key, kind: filePath(func(d *rawConfig) *string { return &d.loginKeys.krb5File }), unset: krb5File + ", if there is one",
		doc: "file with default_realm and clockskew of Kerberos; also as `-D` in SERVER_JVMFLAGS. Files that it includes are not read",
	},
	{
		name: "requireKerberosConfig", kind: boolean(func(d *rawConfig) *bool { return &d.loginKeys.requireRealm }), def: "false",
		doc: "true: Kerberos needs default_realm in that file. Otherwise the realm of the principal in the JAAS file is the default",
	},
	{
		name: "sessionRequireClientSASLAuth", kind: boolean(func(d *rawConfig) *bool { return &d.loginKeys.requireSASL }),
		def: "false",
		doc: "true: a client is served only after a login by SASL. Other requests get -124, and the connection is closed",
	},
	{
		name: "allowSaslFailedClients", kind: boolean(func(d *rawConfig) *bool { return &d.config.Login.KeepFailed }), def: "false",
		riskOf: riskOfFailedClients,
		doc:    "true: a client whose login by SASL fails stays connected without an identity, unless SASL is required",
	},
	{
		name: "enforce.auth.enabled", kind: boolean(func(d *rawConfig) *bool { return &d.loginKeys.enforceAuth }),
		def: "false",
		doc: "true: a client is served only after it has proved an identity of one of enforce.auth.schemes",
	},
	{
		name: "enforce.auth.schemes", kind: authSchemes(func(d *rawConfig) *[]string { return &d.loginKeys.acceptedSchemes }),
		unset:  "none",
		riskOf: riskOfSchemes,
		doc:    "these schemes. sessionRequireClientSASLAuth=true wins over both keys",
	},
	{
		name: "znode.container.checkIntervalMs",
		kind: millis(1, maxMillis, func(d *rawConfig) *time.Duration { return &d.config.Reaping.Interval }),
		def:  valueText(leader.DefaultReapInterval),
		doc: "ms between two searches for containers and TTL nodes to remove; the leader's value counts. None is " +
			"removed while the leader's [clock](clocks.md) is not trusted",
	},
	{
		name: "znode.container.maxPerMinute",
		kind: wholeNumber(1, maxCount, func(d *rawConfig) *int { return &d.config.Reaping.PerMinute }),
		def:  valueText(leader.DefaultReapPerMinute),
		doc:  "most of them that are removed in a minute; the leader's value counts",
	},
	{
		name: "znode.container.maxNeverUsedIntervalMs",
		kind: millis(0, maxMillis, func(d *rawConfig) *time.Duration { return &d.config.Reaping.NeverUsed }), def: "0",
		doc: "ms after which a container that never had a child is removed, too; 0: never; the leader's value counts",
	},
	{
		name: "DigestAuthenticationProvider.enabled",
		kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.NoDigest }), def: "true",
		doc: "false: nobody can authenticate with a password in the scheme digest, the super user neither",
	},
	{
		name: "DigestAuthenticationProvider.digestAlg",
		kind: digestAlg(func(d *rawConfig) *digest.Algorithm { return &d.config.Digest }), def: "SHA1",
		doc: "hash of [passwords](security.md#passwords) in the scheme digest. Set the same on all members. Digests in" +
			" ACLs stay as they are",
	},
	{
		name: "DigestAuthenticationProvider.superDigest", isSecret: true,
		kind: superDigest(func(d *rawConfig) *string { return &d.config.SuperDigest }), unset: "none",
		doc: "name of the super user, often `super`, a colon, and the digest of that name and password",
	},
	{
		name: "DigestAuthenticationProvider.superDigestPath", unset: "none",
		kind: secretFile("DigestAuthenticationProvider.superDigest",
			superDigest(func(d *rawConfig) *string { return &d.config.SuperDigest })),
		doc: "Own: file whose first line is that value",
	},
	{
		name: "secureClientPort", kind: wholeNumber(0, maxPort, func(d *rawConfig) *int { return &d.secureListener.port }),
		unset: "none",
		doc: "port for clients [over TLS](security.md#clients); needs ssl.keyStore.location and, unless " +
			"ssl.clientAuth=none, ssl.trustStore.location; 0: the system chooses one",
	},
	{
		name: "secureClientPortAddress", kind: hostName(func(d *rawConfig) *string { return &d.secureListener.host }),
		unset: "all interfaces",
		doc:   "address for clients over TLS; needs secureClientPort",
	},
	{
		name: "client.portUnification", kind: boolean(func(d *rawConfig) *bool { return &d.config.ClientTLS.UnifiedPort }),
		def: "false",
		doc: "true: clientPort takes TLS, too",
	},
	{
		name: "ssl.keyStore.location", kind: filePath(func(d *rawConfig) *string { return &d.config.ClientTLS.Key.Location }),
		unset: "none",
		doc:   "file with the private key, its certificate and the chain to an authority, for clients",
	},
	{
		name: "ssl.keyStore.password",
		kind: nonEmptyText("text", func(d *rawConfig) *string { return &d.config.ClientTLS.Key.Password }), unset: "none",
		isSecret: true,
		doc:      "password of that file",
	},
	{
		name: "ssl.keyStore.passwordPath", unset: "none",
		kind: secretFile("ssl.keyStore.password",
			nonEmptyText("text", func(d *rawConfig) *string { return &d.config.ClientTLS.Key.Password })),
		doc: "file whose first line is the password",
	},
	{
		name: "ssl.keyStore.type", kind: storeType(func(d *rawConfig) *string { return &d.config.ClientTLS.Key.Type }),
		unset: "by the file's extension: .pem, .p12, .pfx or .jks",
		doc:   "format of the file. PKCS12 and JKS are told apart by content, as in Java",
	},
	{
		name: "ssl.trustStore.location", kind: filePath(func(d *rawConfig) *string { return &d.config.ClientTLS.Trust.Location }),
		unset: "none",
		doc:   "file with the authorities of clients' certificates",
	},
	{
		name: "ssl.trustStore.password",
		kind: nonEmptyText("text", func(d *rawConfig) *string { return &d.config.ClientTLS.Trust.Password }), unset: "none",
		isSecret: true,
		doc:      "password of that file",
	},
	{
		name: "ssl.trustStore.passwordPath", unset: "none",
		kind: secretFile("ssl.trustStore.password",
			nonEmptyText("text", func(d *rawConfig) *string { return &d.config.ClientTLS.Trust.Password })),
		doc: "file whose first line is the password",
	},
	{
		name: "ssl.trustStore.type", kind: storeType(func(d *rawConfig) *string { return &d.config.ClientTLS.Trust.Type }),
		unset: "by the file's extension",
		doc:   "format of the file",
	},
	{
		name: "ssl.clientAuth", kind: clientAuth(func(d *rawConfig) *keystore.ClientAuth { return &d.config.ClientTLS.Terms.Auth }),
		def: "need",
		doc: "need: a client over TLS must show a certificate; want: it may; none: it is not asked. The subject is an " +
			"identity of the scheme x509",
	},
	{
		name: "ssl.protocol", kind: tlsProtocols(func(d *rawConfig) *keystore.ServerTerms { return &d.config.ClientTLS.Terms }),
		unset: "TLSv1.2,TLSv1.3",
		doc:   "versions of TLS for clients, unless ssl.enabledProtocols is set",
	},
	{
		name: "ssl.enabledProtocols", kind: tlsProtocols(func(d *rawConfig) *keystore.ServerTerms { return &d.enabledProtocols }), unset: "as ssl.protocol",
		doc: "versions of TLS for clients",
	},
	{
		name: "ssl.ciphersuites", kind: cipherSuites(func(d *rawConfig) *[]uint16 { return &d.config.ClientTLS.Terms.Ciphers }),
		unset: "those that Go chooses",
		doc:   "cipher suites of TLS 1.2, by Java's names. Those of TLS 1.3 are always allowed",
	},
	{
		name: "ssl.crl", kind: boolean(func(d *rawConfig) *bool { return &d.config.ClientTLS.CRL }), def: "false",
		doc: "true: a client's certificate is accepted only if a current list of its issuer in ssl.crl.location does " +
			"not have it",
	},
	{
		name: "ssl.crl.location", kind: filePath(func(d *rawConfig) *string { return &d.config.ClientTLS.CRLs }), unset: "none",
		doc: "Own: file with lists of revoked certificates, in PEM or DER",
	},
	{
		name: "ssl.ocsp", kind: boolean(func(d *rawConfig) *bool { return &d.config.ClientTLS.OCSP }), def: "false",
		doc: "true: a client's certificate is accepted only if [the responders](security.md#revoked-certificates) of it and its authorities say " +
			"that it is not revoked",
	},
	{
		name: "ssl.clientHostnameVerification", kind: boolean(func(d *rawConfig) *bool { return &d.config.ClientTLS.VerifyHost }), def: "false",
		doc: "true: a client's certificate must be for the address that it connects from",
	},
	{
		name: "ssl.allowReverseDnsLookup", kind: boolean(func(d *rawConfig) *bool { return &d.config.ClientTLS.ReverseDNS }), def: "false",
		doc: "true: with ssl.clientHostnameVerification, it may be for a name that DNS has for that address, if the name has the address, too",
	},
	{
		name: "ssl.hostnameVerification", kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.hostsUnverified }), def: "true",
		doc: "false: ssl.clientHostnameVerification has no effect, as in ZooKeeper",
	},
	{
		name: "ssl.authProvider", kind: onlyWord("x509"), def: "x509",
		doc: "what makes an identity of a client's certificate",
	},
	{
		name: "ssl.handshakeDetectionTimeoutMillis",
		kind: millis(1, maxHandshake, func(d *rawConfig) *time.Duration { return &d.config.ClientTLS.DetectTimeout }),
		def:  valueText(server.DefaultDetection),
		doc:  "with client.portUnification, ms that a client may take for its first byte",
	},
	{
		name: "netty.server.outstandingHandshake.limit",
		kind: wholeNumber(1, maxCount, func(d *rawConfig) *int { return &d.config.ClientTLS.MaxHandshakes }),
		def:  valueText(server.DefaultHandshakes),
		doc: "TLS handshakes under way. Above it, a new client replaces the one whose first message has been " +
			"incomplete for longest, or is rejected",
	},
	{
		name: "client.certReload", kind: boolean(func(d *rawConfig) *bool { return &d.config.ClientTLS.CertReload }), def: "true",
		doc: "files with keys and certificates for clients are reloaded when they change, and not only at SIGHUP",
	},
	{
		name: "X509AuthenticationProvider.superUser",
		kind: nonEmptyText("text", func(d *rawConfig) *string { return &d.config.SuperSubject }), unset: "none",
		doc: "subject of the certificate whose owner is super, as in an ACL: `CN=admin,O=Example`",
	},
	{
		name: "server.N", kind: serverLine(), unset: "none: standalone",
		doc: "one line per member, N from 1 to 255. An observer has no vote",
	},
	{
		name: "serverIdFromHostname", env: variable{line: 22, name: "ROLLCALL_ID_FROM_HOSTNAME"},
		kind: boolean(func(d *rawConfig) *bool { return &d.idFromHost }), def: "false",
		doc: "Own. true: the machine's name ends in a dash and a number from 0 to 254, as in a StatefulSet, and this " +
			"member's number is one more. It is written to `myid`, which must not have another one",
	},
	{
		name: "standaloneEnabled", env: variable{9, "ZOO_STANDALONE_ENABLED", "true"},
		kind: boolean(func(d *rawConfig) *bool { return &d.standaloneEnabled }), def: "true",
		doc: "false: one server line is an ensemble of one",
	},
	{
		name: "peerType", kind: eitherWord("observer", "participant", func(d *rawConfig) *bool { return &d.own.isObserver }),
		def: "participant",
		doc: "participant: this member votes; observer: it does not. If its server line differs, that counts, and the " +
			"member warns",
	},
	{
		name: "reconfigEnabled", kind: boolean(func(d *rawConfig) *bool { return &d.config.Rules.Reconfig }), def: "false",
		doc: "true: clients that may write `/zookeeper/config` can change the list of servers (`reconfig`). The " +
			"leader's value counts, from the beginning of its term. Operators always can",
	},
	{
		name: "dynamicConfigFile", kind: filePath(func(d *rawConfig) *string { return &d.dynamicFile }), unset: "none",
		doc: "file with the server lines, and nothing else; then zoo.cfg has none. It is never written",
	},
	{
		name: "quorumListenOnAllIPs", kind: boolean(func(d *rawConfig) *bool { return &d.config.ListenOnAllIPs }), def: "false",
		doc: "true: listen for other members on all interfaces, not only on the address of this member's server line",
	},
	{
		name: "ensembleSecretFile", env: variable{line: 23, name: "ROLLCALL_ENSEMBLE_SECRET_FILE"},
		kind: filePath(func(d *rawConfig) *string { return &d.config.Trust.SecretFile }), unset: "none",
		doc: "Own: file with the [secret](security.md#members) of 16 to 1024 characters that all members share; two " +
			"secrets, one on a line, during a rotation. It is reloaded when it changes and at SIGHUP",
	},
	{
		name: "sslQuorum", kind: boolean(func(d *rawConfig) *bool { return &d.config.Trust.ShowCertificates }), def: "false",
		doc: "true: members show each other [certificates](security.md#certificates-of-members). Needs " +
			"ssl.quorum.keyStore.location and ssl.quorum.trustStore.location",
	},
	{
		name: "ssl.quorum.keyStore.location",
		kind: filePath(func(d *rawConfig) *string { return &d.config.Trust.Certificates.KeyStore.Location }), unset: "none",
		doc: "file with this member's private key, its certificate and the chain to an authority. It is reloaded when " +
			"it changes and at SIGHUP",
	},
	{
		name:  "ssl.quorum.keyStore.password",
		kind:  nonEmptyText("text", func(d *rawConfig) *string { return &d.config.Trust.Certificates.KeyStore.Password }),
		unset: "none", isSecret: true,
		doc: "password of that file",
	},
	{
		name: "ssl.quorum.keyStore.passwordPath", unset: "none",
		kind: secretFile("ssl.quorum.keyStore.password",
			nonEmptyText("text", func(d *rawConfig) *string { return &d.config.Trust.Certificates.KeyStore.Password })),
		doc: "file whose first line is the password",
	},
	{
		name:  "ssl.quorum.keyStore.type",
		kind:  storeType(func(d *rawConfig) *string { return &d.config.Trust.Certificates.KeyStore.Type }),
		unset: "by the file's extension",
		doc:   "format of that file",
	},
	{
		name: "ssl.quorum.trustStore.location",
		kind: filePath(func(d *rawConfig) *string { return &d.config.Trust.Certificates.TrustStore.Location }), unset: "none",
		doc: "file with the authorities of the members' certificates. It is reloaded when it changes and at SIGHUP",
	},
	{
		name:  "ssl.quorum.trustStore.password",
		kind:  nonEmptyText("text", func(d *rawConfig) *string { return &d.config.Trust.Certificates.TrustStore.Password }),
		unset: "none", isSecret: true,
		doc: "password of that file",
	},
	{
		name: "ssl.quorum.trustStore.passwordPath", unset: "none",
		kind: secretFile("ssl.quorum.trustStore.password",
			nonEmptyText("text", func(d *rawConfig) *string { return &d.config.Trust.Certificates.TrustStore.Password })),
		doc: "file whose first line is the password",
	},
	{
		name:  "ssl.quorum.trustStore.type",
		kind:  storeType(func(d *rawConfig) *string { return &d.config.Trust.Certificates.TrustStore.Type }),
		unset: "by the file's extension",
		doc:   "format of that file",
	},
	{
		name: "ssl.quorum.hostnameVerification",
		kind: eitherWord("false", "true", func(d *rawConfig) *bool { return &d.config.Trust.Certificates.AnyHost }), def: "true",
		riskOf: riskOfAnyHost,
		doc:    "false: a member's certificate need not be for its host",
	},
	{
		name: "ssl.quorum.crl", kind: boolean(func(d *rawConfig) *bool { return &d.config.Trust.Certificates.CheckRevocation }),
		def: "false",
		doc: "true: a member's certificate is accepted only if a current list of its issuer in ssl.quorum.crl.location" +
			" does not have it",
	},
	{
		name: "ssl.quorum.crl.location",
		kind: filePath(func(d *rawConfig) *string { return &d.config.Trust.Certificates.RevocationFile }), unset: "none",
		doc: "Own: file with lists of revoked certificates, in PEM or DER",
	},
	{
		name: "ssl.quorum.ocsp", kind: boolean(func(d *rawConfig) *bool { return &d.config.Trust.Certificates.AskResponders }), def: "false",
		doc: "true: a member's certificate is accepted only if [the responders](security.md#revoked-certificates) of it and its authorities say " +
			"that it is not revoked",
	},
	{
		name: "portUnification", kind: boolean(func(d *rawConfig) *bool { return &d.config.Trust.AcceptPlain }), def: "false",
		riskOf: riskOfPlainMembers,
		doc: "true: plain connections between members are accepted and opened beside TLS, while members are " +
			"[moved](security.md#move-an-ensemble-while-it-runs) to a secret or certificates",
	},

	{name: "group.N", unset: "none", status: refused, doc: noQuorumWeights},
	{
		name: "weight.N", kind: weight(), unset: "1",
		doc: "0: server N is an observer, whatever its line says. Other weights than 1 are refused: " + noQuorumWeights,
	},
	{name: "electionAlg", def: "3", status: refused, harmlessValue: "3", doc: "members elect by raft; ZooKeeper rejects other values too"},
	{name: "connection_throttle_local_session_weight", def: "1", status: noEffect, harmlessValue: "*", doc: noLocalSessions},
	{name: "localSessionsEnabled", def: "false", status: noEffect, harmlessValue: "false", doc: noLocalSessions, kind: boolean(nil)},
	{name: "localSessionsUpgradingEnabled", def: "false", status: noEffect, harmlessValue: "false", doc: noLocalSessions, kind: boolean(nil)},
	{
		name: "multiAddress.enabled", def: "false", status: refused, harmlessValue: "false",
		doc:  "a server line takes one address, by which the others know the member: write a name that moves with the network, or join the links (bonding)",
		kind: boolean(nil),
	},
	{name: "leaderServes", def: "yes", status: noEffect, harmlessValue: "yes", doc: "the leader takes clients, too", kind: yesNo(nil)},
	{
		name: "syncEnabled", def: "true", status: noEffect, harmlessValue: "true",
		doc: "observers keep the log and snapshots on disk, as all members do", kind: boolean(nil),
	},
	{
		name: "observerMasterPort", def: "0", status: noEffect, harmlessValue: "0",
		doc: "observers get the log from the leader", kind: wholeNumber[int](0, maxPort, nil),
	},
	{name: "connectToLearnerMasterLimit", def: "0", status: noEffect, harmlessValue: "0", doc: "members try to connect until they succeed"},
	{name: "cnxTimeout", def: "5", status: noEffect, doc: "the limit for connecting to a member follows from the tick"},
	{name: "clientPortListenBacklog", def: "-1", status: noEffect, harmlessValue: "-1", doc: "the system's limit holds"},
	{name: "tcpKeepAlive", def: "false", status: noEffect, harmlessValue: "true", doc: "keep-alive is always on", kind: boolean(nil)},
	{name: "clientTcpKeepAlive", def: "false", status: noEffect, harmlessValue: "true", doc: "keep-alive is always on", kind: boolean(nil)},
	{
		name: "serverCnxnFactory", unset: "none", status: noEffect, harmlessValue: "*",
		doc: "one kind of connections serves TLS, too",
	},
	{
		name: "forceSync", def: "yes", status: noEffect, harmlessValue: "yes",
		doc: "the log is always on disk before it is acknowledged", kind: yesNo(nil),
	},
	{name: "preAllocSize", def: "65536", status: noEffect, doc: sizesLogItself},
	{name: "snapSizeLimitInKb", def: "4194304", status: noEffect, doc: "a snapshot is due after snapCount entries or 512 MiB of log"},
	{name: "autopurge.snapRetainCount", env: variable{6, "ZOO_AUTOPURGE_SNAPRETAINCOUNT", ""}, def: "3", status: noEffect, doc: purgesItself},
	{name: "autopurge.purgeInterval", env: variable{7, "ZOO_AUTOPURGE_PURGEINTERVAL", ""}, def: "0", status: noEffect, doc: purgesItself},
	{name: "maxResponseCacheSize", def: "400", status: noEffect, harmlessValue: "0", doc: noResponseCache},
	{name: "maxGetChildrenResponseCacheSize", def: "400", status: noEffect, harmlessValue: "0", doc: noResponseCache},
	{
		name: "audit.impl.class", unset: "none", status: noEffect,
		doc: "Java classes cannot be loaded; see audit.format and audit.file",
	},

	{
		name: "authProvider.*", unset: "none", status: noEffect,
		doc:      "Java classes cannot be loaded; the schemes are world, auth, digest, ip, sasl, x509 and super",
		isSecret: true,
	},
	{
		name: "SASLAuthenticationProvider.superPassword", unset: "none", status: noEffect,
		doc: "the password of the user super is in the JAAS file, as all others", isSecret: true,
	},
	{
		name: "kerberos.*", unset: "none", status: noEffect, isSecret: true,
		doc: "it is about how ZooKeeper's members log in again, or look up the hosts in principals: here tickets are always renewed, and a " +
			"principal has the host of the server line",
	},
	{
		name: "quorum.auth.enableSasl", kind: boolean(func(d *rawConfig) *bool { return &d.memberLogin.enabled }), def: "false",
		doc: "true: the [users in the JAAS file](security.md#the-login-of-zookeepers-members) are the secret that members share, in place of ensembleSecretFile. With keytabs " +
			"in their place, members prove themselves by [Kerberos](security.md#kerberos-between-members)",
	},
	{
		name: "quorum.auth.serverRequireSasl", kind: boolean(func(d *rawConfig) *bool { return &d.memberLogin.serverRequires }), def: "false",
		doc: "false: plain connections between members are accepted and opened, too, as with portUnification",
	},
	{
		name: "quorum.auth.learnerRequireSasl", kind: boolean(func(d *rawConfig) *bool { return &d.memberLogin.learnerRequires }), def: "false",
		doc: "true is needed with quorum.auth.serverRequireSasl=true, as in ZooKeeper",
	},
	{
		name: "quorum.auth.server.saslLoginContext", kind: nonEmptyText("a name", func(d *rawConfig) *string { return &d.memberLogin.serverSection }),
		def: "QuorumServer", doc: "section of the JAAS file with the users of all members, or with the principal and keytab of this member for being dialed",
	},
	{
		name: "quorum.auth.learner.saslLoginContext", kind: nonEmptyText("a name", func(d *rawConfig) *string { return &d.memberLogin.learnerSection }),
		def: "QuorumLearner", doc: "section of the JAAS file with this member's user, which must be one of the users in the other section, or with the principal and the keytab with which this member dials",
	},
	{
		name: servicePrincipalKey, kind: nonEmptyText("a principal", func(d *rawConfig) *string { return &d.memberLogin.servicePrincipal }),
		def: "zkquorum/localhost", doc: "principal of a member that is dialed; `_HOST` stands for its host in the server line",
	},
	{name: "quorum.auth.*", unset: "none", status: noEffect, doc: otherMemberLogin, isSecret: true},

	{
		name: "sslQuorumReloadCertFiles", def: "true", status: noEffect, harmlessValue: "true",
		doc:  "files with certificates and secrets of members are always reloaded when they change, and at SIGHUP",
		kind: boolean(nil),
	},
	{
		name: "ssl.quorum.clientAuth", kind: eitherWord("none", "need", func(d *rawConfig) *bool { return &d.quorumClientsUnproved }),
		def: "need", doc: "members always prove themselves to each other, so none is allowed only without TLS between members",
	},
	{name: "ssl.quorum.protocol", def: "TLSv1.3", status: noEffect, harmlessValue: "TLSv1.3", doc: "members always speak TLS 1.3"},
	{name: "ssl.quorum.enabledProtocols", def: "TLSv1.3", status: noEffect, harmlessValue: "TLSv1.3", doc: "members always speak TLS 1.3"},
	{
		name: "ssl.quorum.ciphersuites", unset: "those of TLS 1.3", status: noEffect,
		doc: "members always speak TLS 1.3, all of whose suites are safe",
	},
	{
		name: "ssl.quorum.clientHostnameVerification", def: "true", status: refused, harmlessValue: "true",
		doc: "ssl.quorum.hostnameVerification counts for both ends of a connection", kind: boolean(nil),
	},
	{
		name: "ssl.quorum.allowReverseDnsLookup", def: "true", status: noEffect, harmlessValue: "*", kind: boolean(nil),
		doc: "members compare certificates with the hosts of the server list, and look up no name of an address",
	},
	{
		name: "ssl.quorum.*", unset: "none", status: noEffect,
		doc: "no such key is known, or it selects one of Java's libraries", isSecret: true,
	},
	{name: "ssl.context.supplier.class", unset: "none", status: refused, doc: "Java classes cannot be loaded"},
	{name: "ssl.*", unset: "none", status: noEffect, doc: "no such key is known, or it selects one of Java's libraries", isSecret: true},

	{name: "metricsProvider.*", unset: "none", status: noEffect, doc: "of ZooKeeper's providers alone", isSecret: true},
}
