package config

import (
	"archive/zip"
	"encoding/binary"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

// known lists every key that ZooKeeper's operators may know: the keys of zoo.cfg, of the
// AdminServer and of the metrics provider, those that are Java properties, and some that others' files have and
// nobody reads.
var known = strings.Fields(`
dataDir dataLogDir clientPort clientPortAddress secureClientPort secureClientPortAddress clientPortListenBacklog
tickTime initLimit syncLimit connectToLearnerMasterLimit minSessionTimeout maxSessionTimeout maxClientCnxns maxCnxns
server.1 server.255 group.1 weight.1 peerType standaloneEnabled reconfigEnabled dynamicConfigFile electionAlg leaderServes
localSessionsEnabled localSessionsUpgradingEnabled autopurge.snapRetainCount autopurge.purgeInterval syncEnabled
quorumListenOnAllIPs 4lw.commands.whitelist snapCount snapSizeLimitInKb preAllocSize globalOutstandingLimit
extendedTypesEnabled enforceQuota skipACL DigestAuthenticationProvider.superDigest DigestAuthenticationProvider.enabled
DigestAuthenticationProvider.digestAlg authProvider.1 authProvider.sasl sessionRequireClientSASLAuth enforce.auth.enabled
enforce.auth.schemes allowSaslFailedClients sasl.serverconfig superUser SASLAuthenticationProvider.superPassword
kerberos.removeHostFromPrincipal java.security.auth.login.config serverCnxnFactory forceSync fsync.warningthresholdms cnxTimeout sslQuorum portUnification
ssl.keyStore.location ssl.keyStore.password ssl.keyStore.passwordPath ssl.keyStore.type ssl.trustStore.location ssl.trustStore.password
ssl.trustStore.passwordPath ssl.trustStore.type ssl.protocol ssl.enabledProtocols ssl.ciphersuites ssl.context.supplier.class
ssl.hostnameVerification ssl.clientHostnameVerification ssl.allowReverseDnsLookup ssl.quorum.allowReverseDnsLookup ssl.crl ssl.ocsp ssl.clientAuth ssl.handshakeDetectionTimeoutMillis ssl.authProvider
ssl.sslProvider client.portUnification client.certReload netty.server.outstandingHandshake.limit X509AuthenticationProvider.superUser
ssl.quorum.keyStore.location
sslQuorumReloadCertFiles ssl.quorum.clientAuth ssl.quorum.protocol ssl.quorum.enabledProtocols ssl.quorum.ciphersuites
ssl.quorum.ocsp ssl.quorum.clientHostnameVerification ssl.quorum.context.supplier.class
multiAddress.enabled observerMasterPort audit.enable audit.impl.class
maxResponseCacheSize maxGetChildrenResponseCacheSize tcpKeepAlive clientTcpKeepAlive quorum.auth.enableSasl
quorum.auth.serverRequireSasl quorum.auth.learnerRequireSasl quorum.auth.learner.saslLoginContext quorum.auth.server.saslLoginContext quorum.auth.kerberos.servicePrincipal
jute.maxbuffer znode.container.checkIntervalMs znode.container.maxPerMinute znode.container.maxNeverUsedIntervalMs
readonlymode.enabled connection_throttle_tokens connection_throttle_fill_time connection_throttle_fill_count
connection_throttle_freeze_time connection_throttle_drop_increase connection_throttle_drop_decrease
connection_throttle_decrease_ratio connection_throttle_weight_enabled connection_throttle_global_session_weight
connection_throttle_local_session_weight connection_throttle_renew_session_weight
admin.enableServer admin.serverAddress admin.serverPort admin.commandURL admin.idleTimeout admin.forceHttps
admin.portUnification admin.needClientAuth admin.snapshot.enabled admin.restore.enabled admin.rateLimiterIntervalInMS
metricsProvider.className metricsProvider.httpHost metricsProvider.httpPort metricsProvider.exportJvmInfo metricsProvider.numWorkerThreads
multiAddress.reachabilityCheckEnabled multiAddress.reachabilityCheckTimeoutMs quorum.cnxn.threads.size jvm.pause.monitor
jvm.pause.warn-threshold.ms jvm.pause.info-threshold.ms jvm.pause.sleep.time.ms nio.numSelectorThreads nio.numWorkerThreads
nio.sessionlessCnxnTimeout nio.directBufferBytes nio.shutdownTimeout netty.advancedFlowControl.enabled
netty.server.earlyDropSecureConnectionHandshakes commitProcessor.numWorkerThreads commitProcessor.maxReadBatchSize
commitProcessor.maxCommitBatchSize commitProcessor.shutdownTimeout intBufferStartingSizeBytes learner.asyncSending
learner.closeSocketAsync leader.closeSocketAsync leader.ackLoggingFrequency skipLearnerRequestToNextProcessor
follower.skipLearnerRequestToNextProcessor forward_learner_requests_to_commit_processor_disabled follower.nodelay leader.nodelay
admin.httpVersion jute.maxbuffer.extrasize leader.maxTimeToWaitForEpoch leader.maxConcurrentSnapSyncs leader.maxConcurrentDiffSyncs
leaderConnectDelayDuringRetryMs fastleader.minNotificationInterval fastleader.maxNotificationInterval quorumCnxnTimeoutMs
electionPortBindRetry observer.reconnectDelayMs observer.election.DelayMs observer.syncEnabled observerMaster.sizeLimit forceSnapshotSync
snapshotSizeFactor commitLogCount watchManagerName watcherCleanThreadsNum watcherCleanThreshold watcherCleanIntervalInSeconds
maxInProcessingDeadWatchers bitHashCacheSize flushDelay maxWriteQueuePollTime maxBatchSize txnLogSizeLimitInKb
snapshot.compression.method serializeLastProcessedZxid.enabled closeSessionTxn.enabled request_throttle_max_requests
request_throttle_stall_time request_throttle_drop_stale request_stale_latency_check request_stale_connection_check
request_throttler.shutdownTimeout throttled_op_wait_time largeRequestMaxBytes largeRequestThreshold pathStats.enabled pathStats.delay
pathStats.initialDelay pathStats.maxDepth pathStats.sampleRate pathStats.slotCapacity pathStats.slotDuration pathStats.topPathMax
messageTracker.Enabled messageTracker.BufferSize jmx.log4j.disable jmx.log4j.mbean digest.enabled snapshot.trust.empty
datadir.autocreate db.autocreate requireKerberosConfig security.auth_to_local kinit kerberos.canonicalizeHostNames kerberos.minReLoginTimeMs quorum.auth.learner.loginContext quorum.auth.server.loginContext letAnySaslUserDoX
sasl.client sasl.client.username sasl.client.canonicalize.hostname sasl.clientconfig server.principal server.realm client.secure
clientCnxnSocket disableAutoWatchReset request.timeout shuffleDnsResponse connectionMaxTokens connectionTokenFillTime connectionTokenFillCount
connectionFreezeTime connectionDropIncrease connectionDropDecrease connectionDecreaseRatio requestThrottleLimit
requestThrottleStallTime requestThrottleDropStale requestStaleLatencyCheck requestStaleConnectionCheck throttledOpWaitTime
advancedFlowControlEnabled enableEagerACLCheck ensembleAuthName emulate353TTLNodes requireClientAuthScheme jaasLoginRenew peerport leaderport superUser.2 testingonly.initialZxid controllerPort fips-mode ssl.sslProvider
`)

func TestEveryKeyIsKnown(t *testing.T) {
	used := make(map[string]bool)
	for _, name := range known {
		for _, spelling := range []string{name, "zookeeper." + name} {
			k := lookupKey(canonicalName(spelling))
			if k == nil {
				t.Errorf("%s is not in the table", spelling)
				continue
			}
			used[k.name] = true
		}
	}
	for _, k := range keys {
		if !used[k.name] && k.status != served && k.name != "logStore" { // earlier builds had that one
			t.Errorf("%s is in the table, but ZooKeeper has no such key", k.name)
		}
	}
	if k := lookupKey("serverOther"); k != nil {
		t.Errorf("serverOther is mistaken for %s", k.name)
	}
}

// Every property that the program of ZooKeeper reads, as its classes spell them, is in the table.
func TestKeysOfTheProgram(t *testing.T) {
	needs.Check(t, needs.ZooKeeper)
	jar, err := zip.OpenReader("/usr/share/java/zookeeper.jar")
	if err != nil {
		t.Fatal(err)
	}
	defer jar.Close()
	others := []string{ // that begin so, and are no keys
		"zookeeper.version", "zookeeper.configuration", "zookeeper.ssl.", "zookeeper.ssl.quorum.", "zookeeper.authProvider.",
	}
	constant := regexp.MustCompile(`(?s)\x01(..)((?:zookeeper|readonlymode|jute|znode|fsync|follower|leader|quorum|jvm|multiAddress|metricsProvider|autopurge)\.[A-Za-z0-9_.-]+)`)
	found := map[string]bool{}
	for _, f := range jar.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		class, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constant.FindAllSubmatch(class, -1) {
			if length := int(binary.BigEndian.Uint16(m[1])); length <= len(m[2]) {
				found[string(m[2][:length])] = true
			}
		}
	}
	for name := range found {
		if lookupKey(canonicalName(name)) == nil && !slices.Contains(others, name) {
			t.Errorf("%s is not in the table", name)
		}
	}
	if len(found) < 150 {
		t.Errorf("%d properties; the pattern no longer finds them", len(found))
	}
}

// A name that only begins like a server line is none.
func TestServerPropertiesAreNoServers(t *testing.T) {
	for _, name := range []string{"server.principal", "server.realm"} {
		if k := lookupKey(name); k == nil || k.status != noEffect {
			t.Errorf("%s is %v", name, k)
		}
	}
}

// Every row is complete, and its default is a value that the key accepts.
func TestKeysAreSound(t *testing.T) {
	seen, flags, lines := make(map[string]bool), make(map[string]bool), make(map[int]string)
	for i := range keys {
		k := &keys[i]
		if seen[k.name] {
			t.Errorf("%s has two rows", k.name)
		}
		seen[k.name] = true
		if (k.def == "") == (k.unset == "") || k.doc == "" {
			t.Errorf("%s: default %q, unset %q, doc %q", k.name, k.def, k.unset, k.doc)
		}
		if k.status == served && (k.kind.parse == nil || k.harmlessValue != "") {
			t.Errorf("%s is served, but no kind parses it or it has a harmless value", k.name)
		}
		if (k.kind.parse == nil) != (k.kind.allowed == "") {
			t.Errorf("%s: its kind allows %q", k.name, k.kind.allowed)
		}
		if strings.ContainsAny(k.def+k.unset+k.kind.allowed+k.doc, "|\n") {
			t.Errorf("%s: its row would break the docs' table", k.name)
		}
		if err := k.parseAndStore(newRawConfig("", environ{}, Flags{}, nil), setting{key: k.name, value: k.def}); k.def != "" && err != nil {
			t.Errorf("%s: the default %s: %v", k.name, k.def, err)
		}
		if k.flag.name != "" && flags[k.flag.name] {
			t.Errorf("-%s has two keys", k.flag.name)
		}
		flags[k.flag.name] = true
	}
	for _, v := range allVariables() {
		if other := lines[v.line]; other != "" || v.line == 0 {
			t.Errorf("%s and %s have line %d", v.name, other, v.line)
		}
		lines[v.line] = v.name
	}
}

// Every harmless value passes its own check without a warning.
func TestHarmlessValues(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		if k.harmlessValue == "" || k.harmlessValue == "*" {
			continue
		}
		if warning, err := k.applySetting(&rawConfig{}, setting{k.name, k.harmlessValue, "here"}); warning != "" || err != nil {
			t.Errorf("%s=%s: %q, %v", k.name, k.harmlessValue, warning, err)
		}
	}
}
