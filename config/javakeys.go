package config

import "slices"

// The reasons why groups of keys of ZooKeeper's own parts have no effect.
const (
	ownThreads   = "it tunes ZooKeeper's threads, buffers or queues"
	ownElection  = "it tunes ZooKeeper's election or copying; see failover and syncLimit"
	ownWatches   = "it tunes ZooKeeper's table of watches"
	ownLog       = "it tunes ZooKeeper's log and snapshot files"
	ownThrottle  = "requests are bounded by connectionOutstandingLimit, globalOutstandingLimit and clientMemoryLimit"
	ownTracing   = "it is about ZooKeeper's own statistics"
	ownChecks    = "members always compare their states, and a lost disk does not vote"
	ofClients    = "it is read by ZooKeeper's Java client, not by a server"
	noKinit      = "it renews a cache of tickets, and a keytab needs none"
	ofNobody     = "no version of ZooKeeper reads it, though others' files have it"
	onlyInDocs   = "ZooKeeper's reference has this name, but no version reads it"
	onePerServer = "a server line takes one address, so none has to be chosen"
)

// javaKeys returns the rows of the keys that ZooKeeper 3.8 and 3.9 read, and that tune what Rollcall does not have. Their defaults do not
// matter here.
func javaKeys() []key {
	group := func(doc string, names ...string) (rows []key) {
		for _, name := range names {
			rows = append(rows, key{name: name, unset: "ZooKeeper's", status: noEffect, doc: doc})
		}
		return rows
	}
	return slices.Concat(
		group(ownThreads,
			"nio.numSelectorThreads", "nio.numWorkerThreads", "nio.directBufferBytes", "nio.shutdownTimeout",
			"netty.advancedFlowControl.enabled", "netty.server.earlyDropSecureConnectionHandshakes",
			"commitProcessor.numWorkerThreads", "commitProcessor.maxReadBatchSize", "commitProcessor.maxCommitBatchSize",
			"commitProcessor.shutdownTimeout", "intBufferStartingSizeBytes", "quorum.cnxn.threads.size",
			"learner.asyncSending", "learner.closeSocketAsync", "leader.closeSocketAsync", "leader.ackLoggingFrequency",
			"skipLearnerRequestToNextProcessor", "follower.skipLearnerRequestToNextProcessor",
			"forward_learner_requests_to_commit_processor_disabled", "follower.nodelay", "leader.nodelay", "admin.httpVersion",
			"jute.maxbuffer.extrasize"),
		group(ownElection,
			"leader.maxTimeToWaitForEpoch", "leader.maxConcurrentSnapSyncs", "leader.maxConcurrentDiffSyncs",
			"leaderConnectDelayDuringRetryMs", "fastleader.minNotificationInterval", "fastleader.maxNotificationInterval",
			"quorumCnxnTimeoutMs", "electionPortBindRetry", "observer.reconnectDelayMs", "observer.election.DelayMs",
			"observerMaster.sizeLimit", "forceSnapshotSync", "snapshotSizeFactor", "commitLogCount"),
		group(ownWatches,
			"watchManagerName", "watcherCleanThreadsNum", "watcherCleanThreshold", "watcherCleanIntervalInSeconds",
			"maxInProcessingDeadWatchers", "bitHashCacheSize"),
		group(ownLog,
			"flushDelay", "maxWriteQueuePollTime", "maxBatchSize", "txnLogSizeLimitInKb", "snapshot.compression.method",
			"serializeLastProcessedZxid.enabled", "closeSessionTxn.enabled"),
		group(ownThrottle,
			"request_throttler.shutdownTimeout", "largeRequestMaxBytes", "largeRequestThreshold"),
		group(ownTracing,
			"pathStats.enabled", "pathStats.delay", "pathStats.initialDelay", "pathStats.maxDepth", "pathStats.sampleRate",
			"pathStats.slotCapacity", "pathStats.slotDuration", "pathStats.topPathMax", "messageTracker.Enabled",
			"messageTracker.BufferSize", "jvm.pause.monitor", "jvm.pause.warn-threshold.ms", "jvm.pause.info-threshold.ms",
			"jvm.pause.sleep.time.ms", "jmx.log4j.disable", "jmx.log4j.mbean"),
		group(ownChecks, "digest.enabled", "snapshot.trust.empty", "datadir.autocreate", "db.autocreate"),
		group(onePerServer, "multiAddress.reachabilityCheckEnabled", "multiAddress.reachabilityCheckTimeoutMs"),
		group(ofNobody, "requireClientAuthScheme", "jaasLoginRenew", "peerport", "leaderport"),
		group(noKinit, "kinit"),
		group(ofClients,
			"sasl.client", "sasl.client.username", "sasl.client.canonicalize.hostname", "sasl.clientconfig", "server.principal",
			"server.realm", "client.secure", "clientCnxnSocket", "disableAutoWatchReset", "request.timeout",
			"shuffleDnsResponse"),
		group(onlyInDocs,
			"connectionMaxTokens", "connectionTokenFillTime", "connectionTokenFillCount", "connectionFreezeTime",
			"connectionDropIncrease", "connectionDropDecrease", "connectionDecreaseRatio", "requestThrottleLimit",
			"requestThrottleStallTime", "requestThrottleDropStale", "requestStaleLatencyCheck", "requestStaleConnectionCheck",
			"throttledOpWaitTime", "advancedFlowControlEnabled"),
		[]key{
			{
				name: "enableEagerACLCheck", def: "false", status: noEffect, harmlessValue: "false", kind: boolean(nil),
				doc: "the leader checks ACLs, in the order of the log",
			},
			{
				name: "ensembleAuthName", unset: "none", kind: commaList(func(d *rawConfig) *[]string { return &d.config.Login.EnsembleNames }),
				doc: "names of this ensemble. A client that gives another name in the scheme ensemble is closed, as one that " +
					"came to the wrong ensemble",
			},
			{
				name: "letAnySaslUserDoX", unset: "none", kind: anySASLUser(), riskOf: riskOfAnySASLUser,
				doc: "name of a user of SASL. Entries of this user in ACLs count for [all users of SASL](security.md#entries-for-all-users-of-sasl), " +
					"also for those who are made later; the leader's value counts, from the beginning of its term",
			},
			{
				name: "emulate353TTLNodes", def: "false", status: noEffect, harmlessValue: "false", kind: boolean(nil),
				doc: "it is about files in which ZooKeeper 3.5.3 wrote nodes with a TTL",
			},
			{
				name: "testingonly.initialZxid", unset: "none", status: refused,
				doc: "it is for ZooKeeper's own tests: the zxids of an ensemble go on from its log",
			},
			{
				name: "observer.syncEnabled", def: "true", status: noEffect, harmlessValue: "true", kind: boolean(nil),
				doc: "observers keep the log and snapshots on disk, as all members do",
			},
			{
				name: "controllerPort", unset: "none", status: noEffect,
				doc: "it is for ZooKeeper's own tests",
			},
			{
				name: "fips-mode", def: "true", status: noEffect, harmlessValue: "true", kind: boolean(nil),
				doc: "it is about Java's TLS. Go's own setting is the variable GODEBUG=fips140=on",
			},
		},
	)
}
