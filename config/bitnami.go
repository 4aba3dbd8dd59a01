package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// bitnamiVariables are the variables of Bitnami's image of ZooKeeper that ZooKeeper's own image does not have, with the key that each
// sets, or the reason why it has no effect.
var bitnamiVariables = []struct {
	name, key, noEffect string
}{
	{name: "ZOO_PORT_NUMBER", key: "clientPort"},
	{name: "ZOO_PRE_ALLOC_SIZE", key: "preAllocSize"},
	{name: "ZOO_SNAPCOUNT", key: "snapCount"},
	{name: "ZOO_MAX_CNXNS", key: "maxCnxns"},
	{name: "ZOO_MIN_SESSION_TIMEOUT", key: "minSessionTimeout"},
	{name: "ZOO_MAX_SESSION_TIMEOUT", key: "maxSessionTimeout"},
	{name: "ZOO_RECONFIG_ENABLED", key: "reconfigEnabled"},
	{name: "ZOO_LISTEN_ALLIPS_ENABLED", key: "quorumListenOnAllIPs"},
	{name: "ZOO_AUTOPURGE_INTERVAL", key: "autopurge.purgeInterval"},
	{name: "ZOO_AUTOPURGE_RETAIN_COUNT", key: "autopurge.snapRetainCount"},
	{name: "ZOO_PROMETHEUS_METRICS_PORT_NUMBER", key: "metricsProvider.httpPort"},
	{name: "ZOO_ENABLE_ADMIN_SERVER", key: "admin.enableServer"},
	{name: "ZOO_ADMIN_SERVER_PORT_NUMBER", key: "admin.serverPort"},
	{name: "ZOO_HEAP_SIZE", noEffect: "there is no heap of Java; memoryLimit bounds the memory"},
	{name: "ZOO_LOG_LEVEL", noEffect: "set ROLLCALL_LOG_LEVEL"},
	{name: "ALLOW_ANONYMOUS_LOGIN", noEffect: "clients without an identity are served unless ZOO_CFG_EXTRA has enforce.auth.enabled=true and enforce.auth.schemes"},
}

// refusedVariables switch on what a member must not leave out in silence, unless they are clearly off. The value names the key.
var refusedVariables = map[string]string{
	"ZOO_ENABLE_AUTH": "write the users into a JAAS file, as in docs/security.md, and set SERVER_JVMFLAGS=-Djava.security.auth.login.config=FILE; " +
		"for logins alone also ZOO_CFG_EXTRA=sessionRequireClientSASLAuth=true",
	"ZOO_ENABLE_QUORUM_AUTH": "give all members the same file with a secret, and set ROLLCALL_ENSEMBLE_SECRET_FILE",
	"ZOO_TLS_CLIENT_ENABLE":  "set secureClientPort, ssl.keyStore.location and ssl.trustStore.location in ZOO_CFG_EXTRA",
	"ZOO_TLS_QUORUM_ENABLE":  "set sslQuorum=true, ssl.quorum.keyStore.location and ssl.quorum.trustStore.location in ZOO_CFG_EXTRA",
}

// isYes reports whether a value of Bitnami's switches is on.
func isYes(value string) bool {
	return slices.Contains([]string{"yes", "true", "1"}, strings.ToLower(value))
}

// isNo reports whether a value of Bitnami's switches is clearly off.
func isNo(value string) bool {
	return slices.Contains([]string{"", "no", "false", "0"}, strings.ToLower(strings.TrimSpace(value)))
}

// isBitnamis reports whether the variables are those of Bitnami's image.
func (e *environ) isBitnamis() bool {
	if e.values["ZOO_SERVER_ID"] != "" {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(e.values)), isBitnamiVariable)
}

func isBitnamiVariable(name string) bool {
	for _, v := range bitnamiVariables {
		if v.name == name {
			return true
		}
	}
	return refusedVariables[name] != "" || name == "ZOO_SERVER_ID" || name == "ZOO_ENABLE_PROMETHEUS_METRICS"
}

// bitnamiSettings returns the settings of the variables of Bitnami's image. Its error names a variable that is not translated, and what
// to write.
func (e *environ) bitnamiSettings() (list []setting, err error) {
	if !e.isBitnamis() {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(refusedVariables)) {
		if value := e.values[name]; !isNo(value) {
			return nil, fmt.Errorf("%s=%s: this variable of Bitnami's image is not served: %s", name, ShortText(value), refusedVariables[name])
		}
	}
	if e.values["ZOO_PORT_NUMBER"] == "" {
		list = append(list, setting{"clientPort", "2181", "ZOO_PORT_NUMBER"}) // its default; its server lines have no port
	}
	for _, v := range bitnamiVariables {
		switch value := strings.TrimSpace(e.values[v.name]); {
		case value == "":
		case v.key == "":
			e.warnings = append(e.warnings, Warning{Where: v.name, Text: "no effect: " + v.noEffect, NoEffect: v.name})
		case lookupKey(v.key).kind.allowed == boolean(nil).allowed:
			list = append(list, setting{v.key, fmt.Sprint(isYes(value)), v.name})
		default:
			list = append(list, setting{v.key, value, v.name})
		}
	}
	if isYes(strings.TrimSpace(e.values["ZOO_ENABLE_PROMETHEUS_METRICS"])) {
		list = append(list, setting{
			"metricsProvider.className", "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider", "ZOO_ENABLE_PROMETHEUS_METRICS",
		})
	}
	if dir := e.values["ZOO_DATA_DIR"]; !strings.HasPrefix(dir, "/bitnami") {
		e.warnings = append(e.warnings, Warning{Where: "ZOO_DATA_DIR", Text: "Bitnami's image has its data in /bitnami/zookeeper/data, and this " +
			"member has not: mount the volume at the directory that ZOO_DATA_DIR names. rollcall import takes over data of ZooKeeper"})
	}
	return list, nil
}

// bitnamiServers returns the server lines of Bitnami's ZOO_SERVERS: HOST:PORT:PORT or HOST:PORT:PORT::NUMBER, with commas, semicolons or
// blanks between them. Servers without a number are counted. It returns false if value is not written so.
func bitnamiServers(value string) (list []setting, isBitnamis bool, err error) {
	if strings.Contains(value, "=") {
		return nil, false, nil
	}
	servers := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",; \t\n", r) })
	if len(servers) == 0 {
		return nil, true, fmt.Errorf("ZOO_SERVERS: %s: names no server; leave it out for one server", ShortText(value))
	}
	for i, server := range servers {
		address, number, numbered := strings.Cut(server, "::")
		if !numbered {
			number = fmt.Sprint(i + 1)
		}
		if strings.Count(address, ":") != 2 {
			return nil, true, fmt.Errorf("ZOO_SERVERS: %s: must be server.N=HOST:PORT:PORT;PORT, or HOST:PORT:PORT::N as for Bitnami's image", ShortText(server))
		}
		if strings.HasPrefix(address, "0.0.0.0:") && len(servers) > 1 {
			return nil, true, fmt.Errorf("ZOO_SERVERS: %s: write the name of this member in place of 0.0.0.0, because all members have the same server lines, "+
				"and ZOO_LISTEN_ALLIPS_ENABLED=yes to listen on all addresses", ShortText(server))
		}
		list = append(list, setting{"server." + number, address, "ZOO_SERVERS"})
	}
	return list, true, nil
}
