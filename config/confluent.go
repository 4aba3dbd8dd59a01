package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// confluentPrefix begins the names of the variables of Confluent's image. The rest is a key in capitals, with _ before each word.
const confluentPrefix = "ZOOKEEPER_"

// confluentMarks are the variables of which that image needs one.
var confluentMarks = []string{"ZOOKEEPER_CLIENT_PORT", "ZOOKEEPER_SECURE_CLIENT_PORT", "ZOOKEEPER_SERVER_ID", "ZOOKEEPER_SERVERS"}

// confluentsOwn are variables that are no keys.
var confluentsOwn = []string{"ZOOKEEPER_SERVER_ID", "ZOOKEEPER_SERVERS"}

// isConfluents reports whether the variables are those of Confluent's image.
func (e *environ) isConfluents() bool {
	return slices.ContainsFunc(confluentMarks, func(name string) bool { return e.values[name] != "" && !isOfKubernetes(name, e.values[name]) })
}

// isOfKubernetes reports whether Kubernetes sets a variable for a service called zookeeper.
func isOfKubernetes(name, value string) bool {
	return kubernetesName.MatchString(name) || kubernetesAddress.MatchString(value)
}

var (
	kubernetesName    = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_|$)|_PORT_[0-9]+_(TCP|UDP|SCTP)`)
	kubernetesAddress = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// confluentSettings returns the settings of the variables of Confluent's image, or nil if there are none.
func (e *environ) confluentSettings() (list []setting, err error) {
	if !e.isConfluents() {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		value := strings.TrimSpace(e.values[name])
		words, ok := strings.CutPrefix(name, confluentPrefix)
		if !ok || slices.Contains(confluentsOwn, name) || isOfKubernetes(name, value) {
			continue
		}
		key := keyOfWords(words)
		if key == "" {
			e.warnings = append(e.warnings, Warning{Where: ShortText(name), Text: "unknown variable: no key is written so"})
			continue
		}
		list = append(list, setting{key, value, name})
	}
	servers, err := confluentServers(e.values["ZOOKEEPER_SERVERS"])
	if err != nil {
		return nil, err
	}
	if e.values["ZOO_DATA_DIR"] == "" && e.values["ZOOKEEPER_DATA_DIR"] == "" {
		e.warnings = append(e.warnings, Warning{Where: "ZOOKEEPER_DATA_DIR", Text: "Confluent's image has its data in /var/lib/zookeeper/data, and this " +
			"member has not: mount the volume at the directory that ZOO_DATA_DIR names. rollcall import takes over data of ZooKeeper"})
	}
	return append(list, servers...), nil
}

// keyOfWords returns the key that a variable's words stand for, such as clientPort for CLIENT_PORT, or "".
func keyOfWords(words string) string {
	plain := func(name string) string { return strings.ToLower(strings.NewReplacer("_", "", ".", "").Replace(name)) }
	wanted, byPattern := plain(words), ""
	for i := range keys {
		name := keys[i].name
		stem, isAny := strings.CutSuffix(name, ".*")
		stem, isNumbered := strings.CutSuffix(stem, ".N")
		isPattern := isAny || isNumbered
		rest, fits := strings.CutPrefix(wanted, plain(stem))
		switch {
		case !isPattern && plain(name) == wanted:
			return name
		case isPattern && fits && rest != "" && byPattern == "" && (isAny || isNumber(rest)):
			byPattern = stem + "." + rest
		}
	}
	return byPattern
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

// confluentServers returns the server lines of ZOOKEEPER_SERVERS: HOST:PORT:PORT, with semicolons between them. They are counted.
func confluentServers(value string) (list []setting, err error) {
	servers := strings.FieldsFunc(value, func(r rune) bool { return r == ';' || r == ' ' })
	for i, server := range servers {
		if strings.HasPrefix(server, "0.0.0.0:") && len(servers) > 1 {
			return nil, fmt.Errorf("ZOOKEEPER_SERVERS: %s: write the name of this member in place of 0.0.0.0, because all members have the same server "+
				"lines, and ZOOKEEPER_QUORUM_LISTEN_ON_ALL_IPS=true to listen on all addresses", ShortText(server))
		}
		list = append(list, setting{fmt.Sprint("server.", i+1), server, "ZOOKEEPER_SERVERS"})
	}
	return list, nil
}

// setsKey reports whether one of the settings is of the key.
func setsKey(list []setting, key string) bool {
	return key != "" && slices.ContainsFunc(list, func(s setting) bool { return s.key == key })
}
