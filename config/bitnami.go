package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall/quorum/trust"
	"rollcall/zk/sasl"
)

// bitnamiVariables are the variables of Bitnami's image of ZooKeeper that ZooKeeper's own image does not have, with the key that each
// sets, or the reason why it has no effect.
var bitnamiVariables = []struct {
	name, key, noEffect string
	with                string // the variable that switches it on; "": it always counts
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
	{name: "ZOO_TLS_PORT_NUMBER", key: "secureClientPort", with: "ZOO_TLS_CLIENT_ENABLE"},
	{name: "ZOO_TLS_CLIENT_KEYSTORE_FILE", key: "ssl.keyStore.location", with: "ZOO_TLS_CLIENT_ENABLE"},
	{name: "ZOO_TLS_CLIENT_KEYSTORE_PASSWORD", key: "ssl.keyStore.password", with: "ZOO_TLS_CLIENT_ENABLE"},
	{name: "ZOO_TLS_CLIENT_TRUSTSTORE_FILE", key: "ssl.trustStore.location", with: "ZOO_TLS_CLIENT_ENABLE"},
	{name: "ZOO_TLS_CLIENT_TRUSTSTORE_PASSWORD", key: "ssl.trustStore.password", with: "ZOO_TLS_CLIENT_ENABLE"},
	{name: "ZOO_TLS_CLIENT_AUTH", key: "ssl.clientAuth", with: "ZOO_TLS_CLIENT_ENABLE"},
	{name: "ZOO_TLS_QUORUM_ENABLE", key: "sslQuorum"},
	{name: "ZOO_TLS_QUORUM_KEYSTORE_FILE", key: "ssl.quorum.keyStore.location", with: "ZOO_TLS_QUORUM_ENABLE"},
	{name: "ZOO_TLS_QUORUM_KEYSTORE_PASSWORD", key: "ssl.quorum.keyStore.password", with: "ZOO_TLS_QUORUM_ENABLE"},
	{name: "ZOO_TLS_QUORUM_TRUSTSTORE_FILE", key: "ssl.quorum.trustStore.location", with: "ZOO_TLS_QUORUM_ENABLE"},
	{name: "ZOO_TLS_QUORUM_TRUSTSTORE_PASSWORD", key: "ssl.quorum.trustStore.password", with: "ZOO_TLS_QUORUM_ENABLE"},
	{name: "ZOO_TLS_QUORUM_CLIENT_AUTH", key: "ssl.quorum.clientAuth", with: "ZOO_TLS_QUORUM_ENABLE"},
	{name: "ZOO_CLIENT_USER", noEffect: "a server needs no user of its own"},
	{name: "ZOO_CLIENT_PASSWORD", noEffect: "a server needs no user of its own"},
	{name: "ZOO_HEAP_SIZE", noEffect: "there is no heap of Java; memoryLimit bounds the memory"},
	{name: "ZOO_LOG_LEVEL", noEffect: "set ROLLCALL_LOG_LEVEL"},
	{name: "ALLOW_ANONYMOUS_LOGIN", noEffect: "clients without an identity are served unless ZOO_CFG_EXTRA has enforce.auth.enabled=true and enforce.auth.schemes"},
}

const (
	// usersVariable and passwordsVariable have the users of SASL and their passwords, in the same order.
	usersVariable, passwordsVariable = "ZOO_SERVER_USERS", "ZOO_SERVER_PASSWORDS"

	// quorumAuthVariable makes members log in to each other. The next two have the users of all members and their passwords, in the same
	// order, and the last two the user of this member.
	quorumAuthVariable                           = "ZOO_ENABLE_QUORUM_AUTH"
	memberUsersVariable, memberPasswordsVariable = "ZOO_QUORUM_SERVER_USERS", "ZOO_QUORUM_SERVER_PASSWORDS"
	learnerUserVariable, learnerPasswordVariable = "ZOO_QUORUM_LEARNER_USER", "ZOO_QUORUM_LEARNER_PASSWORD"
)

// switches are the variables that switch others on.
var switches = []string{"ZOO_TLS_CLIENT_ENABLE", "ZOO_TLS_QUORUM_ENABLE", "ZOO_ENABLE_AUTH", quorumAuthVariable}

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
	return slices.Contains(switches, name) || slices.Contains([]string{
		"ZOO_SERVER_ID", "ZOO_ENABLE_PROMETHEUS_METRICS", usersVariable, passwordsVariable, memberUsersVariable, memberPasswordsVariable,
		learnerUserVariable, learnerPasswordVariable,
	}, name)
}

// bitnamiSettings returns the settings of the variables of Bitnami's image. Its error names a variable that is not translated, and what
// to write.
func (e *environ) bitnamiSettings() (list []setting, err error) {
	if !e.isBitnamis() {
		return nil, nil
	}
	var failed []error
	for _, name := range switches {
		if value := e.values[name]; !isNo(value) && !isYes(value) {
			failed = append(failed, fmt.Errorf("%s=%s: must be yes, true or 1, or no, false or 0", name, ShortText(value)))
		}
	}
	failed = append(failed, e.readBitnamiUsers(), e.readMemberUsers())
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	if isYes(e.values["ZOO_TLS_CLIENT_ENABLE"]) && e.values["ZOO_TLS_PORT_NUMBER"] == "" {
		list = append(list, setting{"secureClientPort", "3181", "ZOO_TLS_PORT_NUMBER"}) // its default
	}
	if e.values["ZOO_PORT_NUMBER"] == "" {
		list = append(list, setting{"clientPort", "2181", "ZOO_PORT_NUMBER"}) // its default; its server lines have no port
	}
	for _, v := range bitnamiVariables {
		switch value := strings.TrimSpace(e.values[v.name]); {
		case value == "", v.with != "" && !isYes(e.values[v.with]):
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

// readBitnamiUsers reads the users of ZOO_ENABLE_AUTH=yes.
func (e *environ) readBitnamiUsers() error {
	if !isYes(e.values["ZOO_ENABLE_AUTH"]) {
		return nil
	}
	users, err := e.readUserPairs("ZOO_ENABLE_AUTH", usersVariable, passwordsVariable)
	e.users = users
	return err
}

// readMemberUsers reads the users of ZOO_ENABLE_QUORUM_AUTH=yes.
func (e *environ) readMemberUsers() error {
	if !isYes(e.values[quorumAuthVariable]) {
		return nil
	}
	users, err := e.readUserPairs(quorumAuthVariable, memberUsersVariable, memberPasswordsVariable)
	if err != nil {
		return err
	}
	given := &trust.MemberUsers{
		Passwords: users, Name: e.values[learnerUserVariable], Password: e.values[learnerPasswordVariable], From: memberUsersVariable,
	}
	if given.Name == "" || given.Password == "" {
		return fmt.Errorf("%s=yes needs the user of this member; set %s and %s to one of %s with its password", quorumAuthVariable,
			learnerUserVariable, learnerPasswordVariable, memberUsersVariable)
	}
	if err := given.Check(); err != nil {
		return fmt.Errorf("%s and %s: %w", learnerUserVariable, learnerPasswordVariable, err)
	}
	e.memberUsers = given
	return nil
}

// readUserPairs reads users and their passwords, which a switch needs.
func (e *environ) readUserPairs(needing, usersName, passwordsName string) (users map[string]string, err error) {
	separated := func(name string) []string {
		return strings.FieldsFunc(e.values[name], func(r rune) bool { return strings.ContainsRune(",; \t\n", r) })
	}
	names, passwords := separated(usersName), separated(passwordsName)
	if len(names) == 0 || len(names) != len(passwords) {
		return nil, fmt.Errorf("%s=yes needs users: %s has %d names, and %s %d passwords; give each user one, with commas between them",
			needing, usersName, len(names), passwordsName, len(passwords))
	}
	users = map[string]string{}
	for i, name := range names {
		if _, duplicate := users[name]; duplicate || !sasl.ValidUserName(name) {
			return nil, fmt.Errorf("%s: %s: each name must stand there once, and have 1 to %d bytes, with at most one @ and no / after it", usersName,
				ShortText(name), sasl.MaxUserName)
		}
		users[name] = passwords[i]
	}
	return users, nil
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
