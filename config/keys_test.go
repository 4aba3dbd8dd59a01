package config

import (
	"strings"
	"testing"
)

// known lists every key that ZooKeeper's operators may know: the keys of zoo.cfg, of the
// AdminServer and of the metrics provider, and those that are Java properties.
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
ssl.hostnameVerification ssl.clientHostnameVerification ssl.crl ssl.ocsp ssl.clientAuth ssl.handshakeDetectionTimeoutMillis ssl.authProvider
ssl.sslProvider client.portUnification client.certReload netty.server.outstandingHandshake.limit X509AuthenticationProvider.superUser
ssl.quorum.keyStore.location
sslQuorumReloadCertFiles ssl.quorum.clientAuth ssl.quorum.protocol ssl.quorum.enabledProtocols ssl.quorum.ciphersuites
ssl.quorum.ocsp ssl.quorum.clientHostnameVerification ssl.quorum.context.supplier.class
multiAddress.enabled observerMasterPort audit.enable audit.impl.class
maxResponseCacheSize maxGetChildrenResponseCacheSize tcpKeepAlive clientTcpKeepAlive quorum.auth.enableSasl
quorum.auth.serverRequireSasl quorum.auth.learnerRequireSasl quorum.auth.learnerLoginContext quorum.auth.kerberos.servicePrincipal
jute.maxbuffer znode.container.checkIntervalMs znode.container.maxPerMinute znode.container.maxNeverUsedIntervalMs
readonlymode.enabled connection_throttle_tokens connection_throttle_fill_time connection_throttle_fill_count
connection_throttle_freeze_time connection_throttle_drop_increase connection_throttle_drop_decrease
connection_throttle_decrease_ratio connection_throttle_weight_enabled connection_throttle_global_session_weight
connection_throttle_local_session_weight connection_throttle_renew_session_weight
admin.enableServer admin.serverAddress admin.serverPort admin.commandURL admin.idleTimeout admin.forceHttps
admin.portUnification admin.needClientAuth admin.snapshot.enabled admin.restore.enabled admin.rateLimiterIntervalInMS
metricsProvider.className metricsProvider.httpHost metricsProvider.httpPort metricsProvider.exportJvmInfo metricsProvider.numWorkerThreads
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
		if !used[k.name] && k.status != served {
			t.Errorf("%s is in the table, but ZooKeeper has no such key", k.name)
		}
	}
	if k := lookupKey("serverOther"); k != nil {
		t.Errorf("serverOther is mistaken for %s", k.name)
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
