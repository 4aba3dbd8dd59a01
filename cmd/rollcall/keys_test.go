package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// known is every key that ZooKeeper's operators may know: those of its zoo.cfg, of its
// AdminServer and metrics provider, and those that it takes as Java properties.
var known = strings.Fields(`
dataDir dataLogDir clientPort clientPortAddress secureClientPort secureClientPortAddress clientPortListenBacklog
tickTime initLimit syncLimit connectToLearnerMasterLimit minSessionTimeout maxSessionTimeout maxClientCnxns maxCnxns
server.1 server.255 group.1 weight.1 peerType standaloneEnabled reconfigEnabled dynamicConfigFile electionAlg leaderServes
localSessionsEnabled localSessionsUpgradingEnabled autopurge.snapRetainCount autopurge.purgeInterval syncEnabled
quorumListenOnAllIPs 4lw.commands.whitelist snapCount snapSizeLimitInKb preAllocSize globalOutstandingLimit
extendedTypesEnabled enforceQuota skipACL DigestAuthenticationProvider.superDigest DigestAuthenticationProvider.enabled
DigestAuthenticationProvider.digestAlg authProvider.1 authProvider.sasl sessionRequireClientSASLAuth enforce.auth.enabled
enforce.auth.schemes allowSaslFailedClients forceSync fsync.warningthresholdms cnxTimeout sslQuorum portUnification
ssl.keyStore.location ssl.clientAuth ssl.quorum.keyStore.location multiAddress.enabled observerMasterPort audit.enable
maxResponseCacheSize maxGetChildrenResponseCacheSize tcpKeepAlive clientTcpKeepAlive quorum.auth.enableSasl
quorum.auth.serverRequireSasl quorum.auth.learnerRequireSasl quorum.auth.learnerLoginContext quorum.auth.kerberos.servicePrincipal
jute.maxbuffer znode.container.checkIntervalMs znode.container.maxPerMinute znode.container.maxNeverUsedIntervalMs
readonlymode.enabled connectionOutstandingLimit connectionUnreadLimit multiOperationLimit clientMemoryLimit handshakeTimeout storeStallLimit logStore readConsistency
admin.enableServer admin.serverAddress admin.serverPort admin.commandURL admin.idleTimeout admin.forceHttps
admin.portUnification admin.needClientAuth admin.snapshot.enabled admin.restore.enabled admin.rateLimiterIntervalInMS
metricsProvider.className metricsProvider.httpHost metricsProvider.httpPort metricsProvider.exportJvmInfo metricsProvider.numWorkerThreads
`)

func TestEveryKeyIsKnown(t *testing.T) {
	used := make(map[string]bool)
	for _, name := range known {
		for _, spelling := range []string{name, "zookeeper." + name} {
			k := lookup(canonical(spelling))
			if k == nil {
				t.Errorf("%s is not in the table", spelling)
				continue
			}
			used[k.name] = true
		}
	}
	for _, k := range keys {
		if !used[k.name] {
			t.Errorf("%s is in the table, and not among the known keys", k.name)
		}
	}
	if k := lookup("serverCnxnFactory"); k != nil {
		t.Errorf("serverCnxnFactory is taken for %s", k.name)
	}
}

func TestKeysAreSound(t *testing.T) {
	seen := make(map[string]bool)
	for _, k := range keys {
		if seen[k.name] {
			t.Errorf("%s stands twice", k.name)
		}
		seen[k.name] = true
		if k.def == "" || k.note == "" {
			t.Errorf("%s: default %q, note %q", k.name, k.def, k.note)
		}
		if k.status == served && (k.read == nil || k.harmless != "") {
			t.Errorf("%s is served, and read by nobody or harmless", k.name)
		}
		if strings.ContainsAny(k.def+k.note, "|\n") {
			t.Errorf("%s: its row would break the docs' table", k.name)
		}
	}
	for _, v := range variables {
		if v.key != "" && lookup(v.key) == nil {
			t.Errorf("%s sets %s, which is not in the table", v.name, v.key)
		}
	}
}

// Every harmless value passes its own check without a word.
func TestHarmlessValues(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		if k.harmless == "" || k.harmless == "*" {
			continue
		}
		if warning, err := k.accept(&draft{}, setting{k.name, k.harmless, "here"}); warning != "" || err != nil {
			t.Errorf("%s=%s: %q, %v", k.name, k.harmless, warning, err)
		}
	}
}

// The tables of docs/configuration.md are those of the program, row by row.
func TestConfigurationDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	want := docRows()
	for _, row := range want {
		if !slices.Contains(rows, row) {
			t.Errorf("docs/configuration.md lacks\n%s", row)
		}
	}
	for _, row := range rows {
		if !slices.Contains(want, row) {
			t.Errorf("docs/configuration.md has, and the program has not\n%s", row)
		}
	}
	if !slices.Equal(rows, want) && !t.Failed() {
		t.Error("docs/configuration.md has the rows in another order, or twice")
	}
}

// docRows are the rows of all tables in the docs.
func docRows() (rows []string) {
	for _, k := range keys {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", k.name, k.def, k.status, k.note))
	}
	for _, v := range variables {
		sets, def := v.note, "none"
		if v.key != "" {
			sets = v.key
		}
		if v.def != "" {
			def = "`" + v.def + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", v.name, def, sets))
	}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	new(Flags).Register(fs)
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", strings.TrimSpace("-"+f.Name+" "+value), usage))
	})
	return rows
}
