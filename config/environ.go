package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"rollcall/quorum/trust"
)

// otherVariable is a variable that does not just set one key.
type otherVariable struct {
	variable
	effect string
}

var otherVariables = []otherVariable{
	{variable{12, "ZOO_SERVERS", "server.1=localhost:2888:3888;2181"}, "server lines with blanks between them"},
	{variable{line: 13, name: "ZOO_CFG_EXTRA"}, "more `key=value`, with blanks between them"},
	{
		variable{14, "ZOO_MY_ID", "1"},
		"number of this member, written to `myid` in dataDir unless that exists. With a zoo.cfg in ZOO_CONF_DIR it counts " +
			"too, but has no default",
	},
	{variable{15, "ZOO_CONF_DIR", "/conf"}, "directory of a zoo.cfg that wins over these variables"},
	{
		variable{line: 16, name: "JVMFLAGS"},
		"`-Dzookeeper.key=value`, `-Djute.maxbuffer=value` and `-Djava.security.auth.login.config=path` set what zoo.cfg " +
			"or the variables leave open; other Java options are ignored",
	},
	{variable{line: 17, name: "SERVER_JVMFLAGS"}, "as JVMFLAGS, which wins over it"},
	{variable{line: 18, name: "ZOO_LOG_DIR"}, noLogEffect},
	{variable{line: 19, name: "ZOO_LOG4J_PROP"}, noLogEffect},
}

const noLogEffect = "no effect: logs go to standard error"

// variableMeaning is a variable with the key that it sets, or else its effect.
type variableMeaning struct {
	variable
	key, effect string // one of them is ""
}

// allVariables returns all variables, in the order of the image's zoo.cfg.
func allVariables() []variableMeaning {
	var all []variableMeaning
	for _, k := range keys {
		if k.env.name != "" {
			all = append(all, variableMeaning{k.env, k.name, ""})
		}
	}
	for _, v := range otherVariables {
		all = append(all, variableMeaning{v.variable, "", v.effect})
	}
	slices.SortFunc(all, func(a, b variableMeaning) int { return cmp.Compare(a.line, b.line) })
	return all
}

type environ struct {
	values       map[string]string
	fileNamed    bool // the command line names a file, which replaces the variables
	isMainSource bool // there is no zoo.cfg, so variables that are not set have their defaults
	warnings     []Warning
	users        map[string]string  // of SASL, with their passwords; nil: the variables name none
	memberUsers  *trust.MemberUsers // by whom members log in to each other; nil: the variables name none
}

// readEnviron returns the variables in env, "NAME=value" each. An empty variable counts as unset.
func readEnviron(env []string) environ {
	e := environ{values: make(map[string]string)}
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			e.values[name] = value
		}
	}
	for _, name := range []string{"ZOO_SERVER_ID", "ZOOKEEPER_SERVER_ID"} { // as Bitnami's and Confluent's images call it
		if id := e.values[name]; id != "" && e.values["ZOO_MY_ID"] == "" {
			e.values["ZOO_MY_ID"] = id
		}
	}
	return e
}

func (e *environ) lookupVariable(name string) (value string, set bool) {
	value, set = e.values[name]
	return value, set
}

// mainSettings returns the settings of the main source, and its name for errors. The main source is file, the
// zoo.cfg in the configuration directory, or the variables.
func (e *environ) mainSettings(file string) (list []setting, name string, err error) {
	if file != "" {
		e.fileNamed = true
		list, err = readZooCfg(file)
		return list, file, withAdvice(err,
			"name a zoo.cfg that this user may read, or none to use the one in ZOO_CONF_DIR or the ZOO_ variables")
	}
	dir, _ := e.lookupVariable("ZOO_CONF_DIR")
	file = filepath.Join(cmp.Or(dir, "/conf"), "zoo.cfg")
	list, err = readZooCfg(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return list, file, withAdvice(err,
			"ZOO_CONF_DIR must name a directory with a zoo.cfg that this user may read, or with none")
	}
	e.isMainSource = true
	list, err = e.variableSettings()
	return list, "environment", err
}

// variableSettings returns the settings that the image would write into its zoo.cfg.
func (e *environ) variableSettings() ([]setting, error) {
	list, err := e.bitnamiSettings()
	if err != nil {
		return nil, err
	}
	confluents, err := e.confluentSettings()
	if err != nil {
		return nil, err
	}
	list = append(list, confluents...)
	for _, v := range allVariables() {
		value, set := e.lookupVariable(v.name)
		if !set {
			value = v.def
		}
		if !set && confluents != nil && (v.name == "ZOO_SERVERS" || setsKey(confluents, v.key)) {
			continue
		}
		if v.name == "ZOO_SERVERS" {
			servers, isBitnamis, err := bitnamiServers(value)
			if err != nil {
				return nil, err
			}
			if isBitnamis {
				list = append(list, servers...)
				continue
			}
		}
		switch {
		case value == "":
		case v.key != "":
			list = append(list, setting{v.key, strings.TrimSpace(value), v.name})
		case v.name == "ZOO_SERVERS", v.name == "ZOO_CFG_EXTRA":
			for field := range strings.FieldsSeq(value) {
				key, value, ok := strings.Cut(field, "=")
				if !ok {
					return nil, fmt.Errorf("%s: %s: must be key=value", v.name, ShortText(field))
				}
				list = append(list, setting{key, value, v.name})
			}
		case v.effect == noLogEffect:
			e.warnings = append(e.warnings, Warning{Where: v.name, Text: v.effect, NoEffect: v.name})
		}
	}
	e.warnUnknown()
	return list, nil
}

// warnUnknown warns of unknown variables named like the image's, except those that Kubernetes sets for a service
// called zoo.
func (e *environ) warnUnknown() {
	all := allVariables()
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		known := isBitnamiVariable(name) || slices.ContainsFunc(all, func(v variableMeaning) bool { return v.name == name })
		if strings.HasPrefix(name, "ZOO_") && !known && !strings.Contains(name, "_PORT") &&
			!strings.Contains(name, "_SERVICE_") {
			e.warnings = append(e.warnings, Warning{Where: ShortText(name), Text: "unknown variable"})
		}
	}
}

// javaSettings returns the settings given to the Java virtual machine. It ignores options that are not
// ZooKeeper's: heap sizes, logging, garbage collection.
func (e *environ) javaSettings() []setting {
	last := make(map[string]int) // key → place in list; Java takes the last one
	var list []setting
	names := []string{"SERVER_JVMFLAGS", "JVMFLAGS"}
	if e.isConfluents() {
		names = append(names, "KAFKA_OPTS")
	}
	for _, name := range names {
		flags, _ := e.lookupVariable(name)
		for field := range strings.FieldsSeq(flags) {
			property, ok := strings.CutPrefix(field, "-D")
			key, value, hasValue := strings.Cut(property, "=")
			if !ok || !hasValue || !strings.HasPrefix(key, "zookeeper.") && lookupKey(key) == nil {
				continue
			}
			s := setting{canonicalName(key), value, name}
			if i, ok := last[s.key]; ok {
				list[i] = s
				continue
			}
			last[s.key] = len(list)
			list = append(list, s)
		}
	}
	return list
}
