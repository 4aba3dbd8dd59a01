package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/config"
	"rollcall/member"
	"rollcall/server/tenant"
)

// ensembleCfg is the zoo.cfg of an ensemble, to which each case adds one setting.
const ensembleCfg = "dataDir=DIR\ntickTime=2000\ninitLimit=10\nsyncLimit=5\nclientPort=2181\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n"

// prometheusCfg is ensembleCfg with a port for metrics.
const bucketCfg = ensembleCfg + "archive.to=s3://bucket\n"

const prometheusCfg = ensembleCfg + "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n"

// tlsCfg is ensembleCfg with a port for clients over TLS.
const tlsCfg = ensembleCfg + "secureClientPort=2281\nssl.keyStore.location=/key.pem\nssl.trustStore.location=/ca.pem\n"

// collectorCfg is ensembleCfg with a collector of OpenTelemetry.
const collectorCfg = ensembleCfg + "otlp.endpoint=https://collector.example\n"

// quorumKeysCfg is ensembleCfg with the keys that HTTPS needs.
const quorumKeysCfg = ensembleCfg + "ssl.quorum.keyStore.location=/key.pem\nssl.quorum.trustStore.location=/ca.pem\n"

// jaasFile has users of SASL in two sections.
const jaasFile = "Server{org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"b\";};" +
	"Users{org.apache.zookeeper.server.auth.DigestLoginModule required user_eve=\"e\" user_ann=\"a\";};"

// krb5Key names krb5.conf.
const krb5Key = "java.security.krb5.conf"

// kerberosCfg is ensembleCfg with Kerberos, whose keytab has one key of zookeeper/h@R.
const kerberosCfg = ensembleCfg + krb5Key + "=DIR/nokrb5\njava.security.auth.login.config=DIR/kerberos\n"

const kerberosFile = "Server{com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=\"DIR/keytab\" principal=\"zookeeper/h@R\";};"

// memberKerberosCfg is ensembleCfg with Kerberos between members.
const memberKerberosCfg = ensembleCfg + krb5Key + "=DIR/krb5\njava.security.auth.login.config=DIR/memberkerberos\nquorum.auth.learnerRequireSasl=true\nquorum.auth.enableSasl=true\n"

const memberKerberosFile = "QuorumServer{com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=\"DIR/keytab\" principal=\"zk/h@R\";};" +
	"QuorumLearner{com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=\"DIR/keytab2\" principal=\"learner/h@R\";};"

// keytab is a file with a key of the type aes256-cts-hmac-sha1-96.
const keytab = "\x05\x02\x00\x00\x00\x40\x00\x02\x00\x01R\x00\x09zookeeper\x00\x01h\x00\x00\x00\x01\x00\x00\x00\x00\x01\x00\x12\x00\x2012345678901234567890123456789012"

// settingCase lists the fields that a key changes in a member's configuration, with their new
// values. The key must not change any other field.
type settingCase struct {
	key, value string
	base       string // instead of ensembleCfg
	dynamic    string // the content of the file DIR/dynamic
	env        string // a variable
	want       string // lines "field value", sorted; DIR for the directory
}

var settingCases = []settingCase{
	{key: "dataDir", value: "DIR/other", want: "Dir DIR/other\nLogDir DIR/other"},
	{key: "dataLogDir", value: "DIR/log", want: "LogDir DIR/log"},
	{key: "clientPort", value: "2999", want: "clients 0.0.0.0:2999"},
	{key: "clientPortAddress", value: "127.0.0.7", want: "clients 127.0.0.7:2181"},
	{key: "tickTime", value: "700", want: "MaxTimeout 14s\nMinTimeout 1.4s\nTick 700ms"},
	{key: "failover", value: "WAN", want: "HeartbeatTimeout 1s"},
	{key: "failover", value: "450", want: "HeartbeatTimeout 450ms"},
	{key: "initLimit", value: "17", want: "InitLimit 17"},
	{key: "syncLimit", value: "7", want: "SyncLimit 7"},
	{key: "minSessionTimeout", value: "1234", want: "MinTimeout 1.234s"},
	{key: "maxSessionTimeout", value: "61234", want: "MaxTimeout 1m1.234s"},
	{key: "maxClientCnxns", value: "11", want: "Limits.MaxClientConns 11"},
	{key: "maxClientCnxns", value: "0", want: "Limits.MaxClientConns -1"},
	{key: "maxCnxns", value: "12", want: "Limits.MaxConns 12"},
	{key: "connection_throttle_tokens", value: "31", want: "Limits.Throttle.Tokens 31"},
	{key: "connection_throttle_fill_time", value: "32", want: "Limits.Throttle.FillTime 32ms"},
	{key: "connection_throttle_fill_count", value: "33", want: "Limits.Throttle.FillCount 33"},
	{key: "connection_throttle_freeze_time", value: "34", want: "Limits.Throttle.Freeze 34ms"},
	{key: "connection_throttle_drop_increase", value: "0.35", want: "Limits.Throttle.Increase 0.35"},
	{key: "connection_throttle_drop_decrease", value: "0.36", want: "Limits.Throttle.Decrease 0.36"},
	{key: "connection_throttle_decrease_ratio", value: "0.37", want: "Limits.Throttle.Ratio 0.37"},
	{key: "connection_throttle_weight_enabled", value: "true", want: "Limits.Throttle.Weighted true"},
	{key: "connection_throttle_global_session_weight", value: "38", want: "Limits.Throttle.GlobalWeight 38"},
	{key: "connection_throttle_renew_session_weight", value: "39", want: "Limits.Throttle.RenewWeight 39"},
	{key: "request_throttle_max_requests", value: "40", want: "Limits.RequestThrottle.MaxRequests 40"},
	{key: "request_throttle_stall_time", value: "41", want: "Limits.RequestThrottle.StallTime 41ms"},
	{key: "request_throttle_drop_stale", value: "false", want: "Limits.RequestThrottle.KeepStale true"},
	{key: "request_stale_latency_check", value: "true", want: "Limits.RequestThrottle.LatencyCheck true"},
	{key: "request_stale_connection_check", value: "false", want: "Limits.RequestThrottle.NoConnectionCheck true"},
	{key: "throttled_op_wait_time", value: "42", want: "Limits.RequestThrottle.OpWait 42ms"},
	{key: "limit.batch", value: "subtree /batch requests=5", want: "Limits.Tenants [batch: subtree /batch requests=5]"},
	{key: "jute.maxbuffer", value: "0x1234", want: "Limits.MaxBuffer 4660"},
	{key: "globalOutstandingLimit", value: "13", want: "MaxInFlight 13"},
	{key: "connectionOutstandingLimit", value: "14", want: "Limits.MaxInFlight 14"},
	{key: "connectionUnreadLimit", value: "70000", want: "Limits.MaxUnread 70000"},
	{key: "watches.history.bytes", value: "3M", want: "WatchHistory 3145728"},
	{key: "watches.history.bytes", value: "0", want: "WatchHistory -1"},
	{key: "pathLengthLimit", value: "2048", want: "Limits.MaxPath 2048"},
	{key: "aclEntryLimit", value: "12", want: "Limits.MaxACL 12"},
	{key: "identityLimit", value: "3", want: "Limits.MaxIdentities 3"},
	{key: "clientMemoryLimit", value: "5000000", want: "Limits.Budget 5000000"},
	{key: "slowRequestThreshold", value: "250", want: "Slow.Request 250ms"},
	{key: "slowReadThreshold", value: "251", want: "Slow.Read 251ms"},
	{key: "slowWriteThreshold", value: "252", want: "Slow.Write 252ms"},
	{key: "slowSessionThreshold", value: "253", want: "Slow.Session 253ms"},
	{key: "fsync.warningthresholdms", value: "60", want: "Slow.Sync 60ms"},
	{key: "memoryLimit", value: "300M", want: "memory {314572800 0}"},
	{key: "memoryLimit", value: "33%", want: "memory {0 33}"},
	{key: "handshakeTimeout", value: "1500", want: "Limits.Handshake 1.5s"},
	{key: "nio.sessionlessCnxnTimeout", value: "1500", want: "Limits.Handshake 1.5s"},
	{
		key: "weight.3", value: "0",
		want: "EnsembleText server.1=a:2888:3888:participant|server.2=b:2888:3888:participant|server.3=c:2888:3888:observer|version=0\n" +
			"Servers [{1 a:2888 a:3888 false} {2 b:2888 b:3888 false} {3 c:2888 c:3888 true}]",
	},
	{key: "ensembleAuthName", value: "blue, green", want: "Login.EnsembleNames [blue green]"},
	{key: "superUser.x", value: "bob", want: "Login.SuperUsers [bob]"},
	{key: "ssl.quorum.clientAuth", value: "none", want: ""},
	{key: "readConsistency", value: "linearizable", want: "LinearizableReads true\nRules.ReadLeaseMs 100"},
	{key: "readLease", value: "70", want: ""},
	{key: "readLease", value: "70", base: ensembleCfg + "readConsistency=linearizable\n", want: "Rules.ReadLeaseMs 70"},
	{key: "readonlymode.enabled", value: "true", want: "ReadOnlyMode true"},
	{key: "snapCount", value: "16", want: "SnapCount 16"},
	{key: "history.bytes", value: "3M", want: "History.Bytes 3145728"},
	{key: "history.hours", value: "5", want: "History.Age 5h0m0s"},
	{key: "archive.to", value: "DIR/archive", want: "Archive.To DIR/archive"},
	{key: "archive.seconds", value: "5", base: bucketCfg, want: "Archive.Interval 5s"},
	{key: "archive.endpoint", value: "https://s3.example", base: bucketCfg, want: "Archive.Endpoint https://s3.example"},
	{key: "archive.region", value: "eu-central-1", base: bucketCfg, want: "Archive.Region eu-central-1"},
	{key: "archive.credentialsFile", value: "DIR/credentials", base: bucketCfg, want: "Archive.CredentialsFile DIR/credentials"},
	{key: "storeStallLimit", value: "1700", want: "StoreStallLimit 1.7s"},
	{key: "4lw.commands.whitelist", value: "ruok, mntr", want: "CommandWhitelist [ruok mntr]"},
	{key: "otlp.endpoint", value: "http://127.0.0.1:4318/x", want: "OTLP.Endpoint http://127.0.0.1:4318/x"},
	{key: "otlp.headersFile", value: "DIR/headers", base: collectorCfg, want: "OTLP.HeadersFile DIR/headers"},
	{key: "otlp.trustStore.location", value: "DIR/ca.pem", base: collectorCfg, want: "OTLP.TrustFile DIR/ca.pem"},
	{key: "otlp.keyStore.location", value: "DIR/key.pem", base: collectorCfg, want: "OTLP.KeyFile DIR/key.pem"},
	{key: "otlp.traces", value: "false", base: collectorCfg, want: "OTLP.NoTraces true"},
	{key: "otlp.metrics", value: "false", base: collectorCfg, want: "OTLP.NoMetrics true"},
	{key: "otlp.metricsInterval", value: "15000", base: collectorCfg, want: "OTLP.MetricsInterval 15s"},
	{key: "autoRebalance", value: "7", want: "AutoRebalance 7"},
	{key: "members.join", value: "auto", base: ensembleCfg + "ensembleSecretFile=DIR/secret\n", want: "SelfJoin.Auto true"},
	{key: "members.line", value: "h-{id}:2888:3888;2181", base: ensembleCfg + "ensembleSecretFile=DIR/secret\nmembers.join=auto\n", want: ""},
	{key: "members.join.hosts", value: "*.m", base: ensembleCfg + "ensembleSecretFile=DIR/secret\nmembers.join=auto\n", want: "SelfJoin.Hosts [*.m]"},
	{key: "members.voters", value: "3", base: ensembleCfg + "ensembleSecretFile=DIR/secret\nmembers.join=auto\n", want: "SelfJoin.Voters 3"},
	{key: "logFormat", value: "json", want: "log {JSON:true Level:INFO}"},
	{key: "logLevel", value: "warn", want: "log {JSON:false Level:WARN}"},
	{key: "audit.enable", value: "true", want: "Audit.Enable true\nAudit.File DIR/audit/audit.log\nAudit.OwnDirectory true"},
	{key: "audit.required", value: "true", base: ensembleCfg + "audit.enable=true\n", want: "Audit.Required true"},
	{key: "audit.format", value: "zookeeper", want: "Audit.ZooKeeperFormat true"},
	{key: "audit.file", value: "DIR/lines", want: "Audit.File DIR/lines"},
	{key: "audit.file", value: "DIR/lines", base: ensembleCfg + "audit.enable=true\n", want: "Audit.File DIR/lines\nAudit.OwnDirectory false"},
	{key: "audit.file", value: "-", base: ensembleCfg + "audit.enable=true\n", want: "Audit.File \nAudit.OwnDirectory false"},
	{key: "audit.fileSize", value: "70000", want: "Audit.MaxFileSize 70000"},
	{key: "audit.files", value: "3", want: "Audit.KeptFiles 3"},
	{key: "backup.dir", value: "DIR/backups", want: "Backup.Dir DIR/backups"},
	{key: "backup.every", value: "3600000", want: "Backup.Interval 1h0m0s"},
	{key: "backup.keep", value: "3", want: "Backup.KeptFiles 3"},
	{key: "skipACL", value: "yes", want: "Rules.SkipACL true"},
	{key: "extendedTypesEnabled", value: "true", want: "Rules.TTLNodes true"},
	{key: "enforceQuota", value: "true", want: "Rules.EnforceQuota true"},
	{key: "dataQuota", value: "3g", want: "Rules.DataQuota 3221225472"},
	{key: "longSequentialNames", value: "true", want: "Rules.LongNames true"},
	{key: "letAnySaslUserDoX", value: "alice", want: "Rules.AnySASLUser alice"},
	{key: "znode.container.checkIntervalMs", value: "1800", want: "Reaping.Interval 1.8s"},
	{key: "znode.container.maxPerMinute", value: "19", want: "Reaping.PerMinute 19"},
	{key: "znode.container.maxNeverUsedIntervalMs", value: "2100", want: "Reaping.NeverUsed 2.1s"},
	{key: "admin.enableServer", value: "false", want: "HTTP.Addr "},
	{key: "admin.serverAddress", value: "10.0.0.5", want: "HTTP.Addr 10.0.0.5:8080"},
	{key: "admin.serverPort", value: "22", want: "HTTP.Addr 127.0.0.1:22"},
	{key: "admin.commandURL", value: "/zk/commands", want: "HTTP.CommandURL /zk/commands"},
	{key: "admin.idleTimeout", value: "2300", want: "HTTP.IdleTimeout 2.3s"},
	{key: "admin.forceHttps", value: "true", base: quorumKeysCfg, want: "HTTP.ForceHTTPS true"},
	{key: "admin.portUnification", value: "true", base: quorumKeysCfg, want: "HTTP.UnifyPorts true"},
	{key: "admin.needClientAuth", value: "true", base: quorumKeysCfg + "admin.forceHttps=true\n", want: "HTTP.NeedClientAuth true"},
	{key: "admin.readTokenFile", value: "DIR/token", want: "HTTP.ReadTokenFile DIR/token"},
	{key: "admin.metricsTokenFile", value: "DIR/token", want: "HTTP.MetricsTokenFile DIR/token"},
	{key: "admin.localReads", value: "none", want: "HTTP.LocalReads 1"},
	{key: "admin.localReads", value: "Data", want: "HTTP.LocalReads 2"},
	{key: "admin.loopbackTrust", value: "false", want: "HTTP.DistrustLoopback true"},
	{key: "admin.hosts", value: "zoo.example, zoo2.example", want: "HTTP.Hosts [zoo.example zoo2.example]"},
	{key: "metricsProvider.className", value: "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider", want: "HTTP.MetricsAddr 0.0.0.0:7000"},
	{key: "metricsProvider.httpHost", value: "::1", base: prometheusCfg, want: "HTTP.MetricsAddr [::1]:7000"},
	{key: "metricsProvider.httpPort", value: "7001", base: prometheusCfg, want: "HTTP.MetricsAddr 0.0.0.0:7001"},
	{key: "metricsProvider.exportJvmInfo", value: "false", want: "HTTP.BareMetrics true"},
	{key: "admin.snapshot.enabled", value: "false", want: "HTTP.NoSnapshots true"},
	{key: "admin.restore.enabled", value: "false", want: "HTTP.NoRestores true"},
	{key: "admin.rateLimiterIntervalInMS", value: "60000", want: "HTTP.SnapshotInterval 1m0s"},
	{key: "admin.tokenFile", value: "DIR/token", want: "HTTP.TokenFile DIR/token"},
	{key: "DigestAuthenticationProvider.superDigest", value: "super:abc=", want: "SuperDigest super:abc="},
	{key: "DigestAuthenticationProvider.digestAlg", value: "sha256", want: "Digest SHA-256"},
	{key: "DigestAuthenticationProvider.enabled", value: "false", want: "NoDigest true"},
	{key: "DigestAuthenticationProvider.superDigestPath", value: "DIR/digest", want: "SuperDigest super:abc="},
	{
		key: "server.4", value: "d:2000:3000:participant;127.0.0.1:2185",
		want: "EnsembleText server.1=a:2888:3888:participant|server.2=b:2888:3888:participant|server.3=c:2888:3888:participant|server.4=d:2000:3000:participant;127.0.0.1:2185|version=0\n" +
			"Servers [{1 a:2888 a:3888 false} {2 b:2888 b:3888 false} {3 c:2888 c:3888 false} {4 d:2000 d:3000 false}]",
	},
	{
		key: "standaloneEnabled", value: "false", base: "dataDir=DIR\ninitLimit=10\nsyncLimit=5\nclientPort=2181\nserver.1=a:2888:3888\n",
		want: "EnsembleText server.1=a:2888:3888:participant|version=0\nServers [{1 a:2888 a:3888 false}]",
	},
	{
		key: "dynamicConfigFile", value: "DIR/dynamic", base: "dataDir=DIR\ninitLimit=10\nsyncLimit=5\nclientPort=2181\n",
		dynamic: "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n",
		want: "EnsembleText server.1=a:1:2:participant|server.2=b:1:2:participant|server.3=c:1:2:participant|version=0\n" +
			"Servers [{1 a:1 a:2 false} {2 b:1 b:2 false} {3 c:1 c:2 false}]",
	},
	{
		key: "serverIdFromHostname", value: "true", base: "dataDir=DIR/empty\nclientPort=2181\n", env: "HOSTNAME=rollcall-6.members",
		want: "ID 7\nServers [{7 standalone:1 standalone:2 false}]",
	},
	{key: "ensembleSecretFile", value: "DIR/secret", want: "Trust.SecretFile DIR/secret"},
	{key: "sslQuorum", value: "true", base: ensembleCfg + "ssl.quorum.keyStore.location=a\nssl.quorum.trustStore.location=b\n", want: "Trust.ShowCertificates true"},
	{key: "ssl.quorum.keyStore.location", value: "DIR/own.pem", want: "Trust.Certificates.KeyStore.Location DIR/own.pem"},
	{key: "ssl.quorum.keyStore.password", value: "p1", want: "Trust.Certificates.KeyStore.Password p1"},
	{key: "ssl.quorum.keyStore.passwordPath", value: "DIR/digest", want: "Trust.Certificates.KeyStore.Password super:abc="},
	{key: "ssl.quorum.keyStore.type", value: "pkcs12", want: "Trust.Certificates.KeyStore.Type PKCS12"},
	{key: "ssl.quorum.trustStore.location", value: "DIR/ca.pem", want: "Trust.Certificates.TrustStore.Location DIR/ca.pem"},
	{key: "ssl.quorum.trustStore.password", value: "p3", want: "Trust.Certificates.TrustStore.Password p3"},
	{key: "ssl.quorum.trustStore.passwordPath", value: "DIR/digest", want: "Trust.Certificates.TrustStore.Password super:abc="},
	{key: "ssl.quorum.trustStore.type", value: "JKS", want: "Trust.Certificates.TrustStore.Type JKS"},
	{key: "ssl.quorum.hostnameVerification", value: "false", want: "Trust.Certificates.AnyHost true"},
	{key: "ssl.quorum.crl", value: "true", want: "Trust.Certificates.CheckRevocation true"},
	{key: "ssl.quorum.ocsp", value: "true", want: "Trust.Certificates.AskResponders true"},
	{key: "ssl.quorum.crl.location", value: "DIR/crl.pem", want: "Trust.Certificates.RevocationFile DIR/crl.pem"},
	{key: "portUnification", value: "true", want: "Trust.AcceptPlain true"},
	{key: "java.security.auth.login.config", value: "DIR/jaas", want: "Rules.SASL true"},
	{
		key: "quorum.auth.enableSasl", value: "true", base: ensembleCfg + "java.security.auth.login.config=DIR/jaas\n",
		want: "Trust.AcceptPlain true\nTrust.MemberLogin.File DIR/jaas\nTrust.MemberLogin.LearnerSection QuorumLearner\nTrust.MemberLogin.ServerSection QuorumServer",
	},
	{
		key: "quorum.auth.serverRequireSasl", value: "true", want: "Trust.AcceptPlain false",
		base: ensembleCfg + "java.security.auth.login.config=DIR/jaas\nquorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n",
	},
	{
		key: "quorum.auth.learnerRequireSasl", value: "true", want: "",
		base: ensembleCfg + "java.security.auth.login.config=DIR/jaas\nquorum.auth.enableSasl=true\n",
	},
	{
		key: "quorum.auth.server.saslLoginContext", value: "S", want: "Trust.MemberLogin.ServerSection S",
		base: ensembleCfg + "java.security.auth.login.config=DIR/jaas\nquorum.auth.enableSasl=true\n",
	},
	{
		key: "quorum.auth.learner.saslLoginContext", value: "L", want: "Trust.MemberLogin.LearnerSection L",
		base: ensembleCfg + "java.security.auth.login.config=DIR/jaas\nquorum.auth.enableSasl=true\n",
	},
	{key: "quorum.auth.kerberos.servicePrincipal", value: "zk/_HOST", base: memberKerberosCfg, want: "Trust.Kerberos.DialedName zk/_HOST"},
	{
		key: "quorum.auth.enableSasl", value: "true",
		base: ensembleCfg + krb5Key + "=DIR/krb5\njava.security.auth.login.config=DIR/memberkerberos\n",
		want: "Trust.AcceptPlain true\nTrust.Kerberos.ClockSkew 1m0s\nTrust.Kerberos.Dialed.Keytab DIR/keytab\nTrust.Kerberos.Dialed.Principal.Name zk/h\n" +
			"Trust.Kerberos.Dialed.Principal.Realm R\nTrust.Kerberos.DialedName zkquorum/localhost\nTrust.Kerberos.Dialing.Keytab DIR/keytab2\n" +
			"Trust.Kerberos.Dialing.Principal.Name learner/h\nTrust.Kerberos.Dialing.Principal.Realm R\nTrust.Kerberos.Krb5Conf DIR/krb5",
	},
	{key: "java.security.auth.login.config", value: "DIR/jaas", base: ensembleCfg + "sasl.serverconfig=Users\n", want: "Rules.SASL true"},
	{key: "sasl.serverconfig", value: "Users", base: ensembleCfg + "java.security.auth.login.config=DIR/jaas\n", want: ""},
	{key: "kerberos.removeHostFromPrincipal", value: "true", want: "Login.Kerberos.RemoveHost true"},
	{key: "kerberos.removeRealmFromPrincipal", value: "true", want: "Login.Kerberos.RemoveRealm true"},
	{key: "security.auth_to_local", value: "RULE:[1:$1]", want: "Login.Kerberos.Rules RULE:[1:$1]"},
	{key: krb5Key, value: "DIR/krb5", base: kerberosCfg, want: "Login.Kerberos.ClockSkew 1m0s\nLogin.Kerberos.DefaultRealm D"},
	{key: "requireKerberosConfig", value: "true", base: kerberosCfg + krb5Key + "=DIR/krb5\n", want: ""},
	{
		key: "java.security.auth.login.config", value: "DIR/kerberos", base: ensembleCfg + krb5Key + "=DIR/nokrb5\n",
		want: "Login.Kerberos.DefaultRealm R\nLogin.Kerberos.KeytabFile DIR/keytab\nLogin.Kerberos.Principal zookeeper/h@R\nRules.SASL true",
	},
	{key: "superUser", value: "bob", want: "Login.SuperUsers [bob]"},
	{key: "sessionRequireClientSASLAuth", value: "true", base: ensembleCfg + "java.security.auth.login.config=DIR/jaas\n", want: "Login.Schemes [sasl]"},
	{key: "allowSaslFailedClients", value: "true", want: "Login.KeepFailed true"},
	{key: "enforce.auth.enabled", value: "true", base: ensembleCfg + "enforce.auth.schemes=digest, x509\n", want: "Login.Schemes [digest x509]"},
	{key: "enforce.auth.schemes", value: "sasl,digest", base: ensembleCfg + "enforce.auth.enabled=true\nenforce.auth.schemes=ip\n", want: "Login.Schemes [sasl digest]"},
	{key: "reconfigEnabled", value: "true", want: "Rules.Reconfig true"},
	{key: "peerType", value: "observer", want: ""},
	{key: "quorumListenOnAllIPs", value: "true", want: "BindAddress :2888"},
	{key: "secureClientPort", value: "2282", base: tlsCfg, want: "secure 0.0.0.0:2282"},
	{key: "secureClientPortAddress", value: "127.0.0.7", base: tlsCfg, want: "secure 127.0.0.7:2281"},
	{key: "client.portUnification", value: "true", base: tlsCfg, want: "ClientTLS.UnifiedPort true"},
	{key: "ssl.keyStore.location", value: "DIR/key.pem", base: tlsCfg, want: "ClientTLS.Key.Location DIR/key.pem"},
	{key: "ssl.keyStore.password", value: "hush", base: tlsCfg, want: "ClientTLS.Key.Password hush"},
	{key: "ssl.keyStore.passwordPath", value: "DIR/digest", base: tlsCfg, want: "ClientTLS.Key.Password super:abc="},
	{key: "ssl.keyStore.type", value: "pkcs12", base: tlsCfg, want: "ClientTLS.Key.Type PKCS12"},
	{key: "ssl.trustStore.location", value: "DIR/ca.pem", base: tlsCfg, want: "ClientTLS.Trust.Location DIR/ca.pem"},
	{key: "ssl.trustStore.password", value: "hush", base: tlsCfg, want: "ClientTLS.Trust.Password hush"},
	{key: "ssl.trustStore.passwordPath", value: "DIR/digest", base: tlsCfg, want: "ClientTLS.Trust.Password super:abc="},
	{key: "ssl.trustStore.type", value: "JKS", base: tlsCfg, want: "ClientTLS.Trust.Type JKS"},
	{key: "ssl.clientAuth", value: "Want", base: tlsCfg, want: "ClientTLS.Terms.Auth 1"},
	{key: "ssl.clientAuth", value: "none", base: tlsCfg, want: "ClientTLS.Terms.Auth 2\nRules.X509 false"},
	{key: "ssl.protocol", value: "TLSv1.2", base: tlsCfg, want: "ClientTLS.Terms.Max 771\nClientTLS.Terms.Min 771"},
	{key: "ssl.enabledProtocols", value: "TLSv1.3", base: tlsCfg, want: "ClientTLS.Terms.Max 772\nClientTLS.Terms.Min 772"},
	{key: "ssl.ciphersuites", value: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256", base: tlsCfg, want: "ClientTLS.Terms.Ciphers [49195]"},
	{key: "ssl.crl", value: "true", base: tlsCfg, want: "ClientTLS.CRL true"},
	{key: "ssl.crl.location", value: "DIR/crl.pem", base: tlsCfg, want: "ClientTLS.CRLs DIR/crl.pem"},
	{key: "ssl.ocsp", value: "true", base: tlsCfg, want: "ClientTLS.OCSP true"},
	{key: "ssl.clientHostnameVerification", value: "true", base: tlsCfg, want: "ClientTLS.VerifyHost true"},
	{key: "ssl.allowReverseDnsLookup", value: "true", base: tlsCfg, want: "ClientTLS.ReverseDNS true"},
	{key: "ssl.hostnameVerification", value: "false", base: tlsCfg + "ssl.clientHostnameVerification=true\n", want: "ClientTLS.VerifyHost false"},
	{key: "ssl.authProvider", value: "X509", base: tlsCfg, want: ""},
	{key: "ssl.handshakeDetectionTimeoutMillis", value: "1234", base: tlsCfg, want: "ClientTLS.DetectTimeout 1.234s"},
	{key: "netty.server.outstandingHandshake.limit", value: "250", base: tlsCfg, want: "ClientTLS.MaxHandshakes 250"},
	{key: "client.certReload", value: "false", base: tlsCfg, want: "ClientTLS.CertReload false"},
	{key: "X509AuthenticationProvider.superUser", value: "CN=root,O=Ops", base: tlsCfg, want: "SuperSubject CN=root,O=Ops"},
	{key: "-new-ensemble", want: "NewEnsemble true"},
	{key: "-myid", value: "2", want: "ID 2"},
}

// given lists the fields of member.Config that no key sets.
var given = strings.Fields("ClientListener SecureListener Memory OperatorListener MetricsListener DrainTime Version BuildTime Network Stores Now Monotonic OnEvent AuditOutput Log Logger Hooks WrapMember WrapLog Login.Users Trust.MemberLogin.Given")

// Every key that is served sets fields of a member's configuration. Every field there is set by
// some key, except those in given.
func TestEveryKeyReachesTheMember(t *testing.T) {
	covered := map[string]bool{}
	for _, key := range config.ServedKeys() {
		stem := strings.TrimRight(key, "N*")
		if !slices.ContainsFunc(settingCases, func(c settingCase) bool { return c.key == key || stem != key && strings.HasPrefix(c.key, stem) }) {
			t.Errorf("%s is served, but has no row in settingCases", key)
		}
	}
	for _, tt := range settingCases {
		t.Run(tt.key+" "+tt.value, func(t *testing.T) {
			base, line, args := tt.base, tt.key+"="+tt.value, []string(nil)
			if base == "" {
				base = ensembleCfg
			}
			if strings.HasPrefix(tt.key, "-") {
				args, line = []string{strings.TrimSuffix(tt.key+"="+tt.value, "=")}, ""
			}
			dir, at := inDir(t, map[string]string{"myid": "1", "dynamic": tt.dynamic, "digest": "super:abc=\n", "jaas": jaasFile, "kerberos": kerberosFile, "memberkerberos": memberKerberosFile, "keytab": keytab, "nokrb5": "", "krb5": "[libdefaults]\ndefault_realm=D\nclockskew=60\n", "before": base, "after": base + line + "\n"})
			other := filepath.Join(dir, "other")
			if err := errors.Join(os.Mkdir(other, 0o700), os.WriteFile(filepath.Join(other, "myid"), []byte("1"), 0o600)); err != nil {
				t.Fatal(err)
			}
			before := settingsIn(t, tt.env, at("DIR/before"))
			after := settingsIn(t, tt.env, at("DIR/after"), args...)
			var changed []string
			for name, value := range after {
				covered[name] = covered[name] || value != before[name]
				if value != before[name] {
					changed = append(changed, name+" "+strings.ReplaceAll(strings.ReplaceAll(value, dir, "DIR"), "\n", "|"))
				}
			}
			slices.Sort(changed)
			if got := strings.Join(changed, "\n"); got != tt.want {
				t.Errorf("changes\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	_, at := inDir(t, map[string]string{"myid": "1", "cfg": ensembleCfg})
	for name := range settingsIn(t, "", at("DIR/cfg")) {
		if covered[name] == slices.Contains(given, name) {
			t.Errorf("member.Config.%s: some key changes it: %t; given says the opposite", name, covered[name])
		}
	}
}

// settingsIn returns the fields of the member's configuration that a file and args lead to, by
// name. "clients" is the address for clients, and "log" what the log is opened with.
func settingsIn(t *testing.T, env, file string, args ...string) map[string]string {
	t.Helper()
	cfg, _, err := config.Load(file, []string{env}, parseFlags(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	return settingsOf(cfg)
}

func settingsOf(cfg config.Config) map[string]string {
	all := map[string]string{"clients": cfg.ClientAddr, "secure": cfg.SecureAddr, "log": fmt.Sprintf("%+v", cfg.Log), "memory": fmt.Sprint(cfg.Memory)}
	flattenSettings(all, "", reflect.ValueOf(memberConfig(cfg, nil)))
	all["BindAddress"] = cfg.BindAddress("host:2888")
	delete(all, "ConfigKeys") // these say where each value is from
	return all
}

func flattenSettings(all map[string]string, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		name, f := prefix+v.Type().Field(i).Name, v.Field(i)
		if v.Type().Field(i).Anonymous {
			flattenSettings(all, prefix, f)
			continue
		}
		switch x := f.Interface().(type) {
		case time.Time:
			all[name] = x.String()
		case []byte:
			all[name] = string(x)
		case member.Network:
			all[name] = ""
		case *tenant.Limiter:
			all[name] = limitTexts(x)
		default:
			switch f.Kind() {
			case reflect.Struct:
				flattenSettings(all, name+".", f)
			case reflect.Func, reflect.Pointer, reflect.Interface:
				all[name] = ""
			default:
				all[name] = fmt.Sprint(x)
			}
		}
	}
}

// limitTexts returns the limits of tenants in one line.
func limitTexts(l *tenant.Limiter) string {
	texts := []string{}
	for _, r := range l.Rules() {
		texts = append(texts, r.Name+": "+r.String())
	}
	return fmt.Sprint(texts)
}

// inDir writes files into the new directory dir, and replaces DIR in their texts by its path, except in keys and
// certificates, which have any letters. at does the same with another text.
func inDir(t *testing.T, files map[string]string) (dir string, at func(string) string) {
	t.Helper()
	dir = t.TempDir()
	at = func(text string) string { return strings.ReplaceAll(text, "DIR", dir) }
	for name, text := range files {
		if !strings.HasPrefix(text, "-----BEGIN ") {
			text = at(text)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, at
}

// parseFlags parses args as a command does.
func parseFlags(t *testing.T, args ...string) config.Flags {
	t.Helper()
	var flags config.Flags
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	flags.Register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}
