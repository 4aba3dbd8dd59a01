package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// variable is one row of the table of variables; docs/configuration.md shows the same.
// They are those of ZooKeeper's official Docker image.
type variable struct {
	name string
	def  string // value when it is unset or empty, if no zoo.cfg is found; "" for none
	key  string // key of zoo.cfg that it sets; "" for those with a meaning of their own
	note string // for those
}

// The order is that of the lines which the image writes into its zoo.cfg.
var variables = []variable{
	{name: "ZOO_DATA_DIR", def: "/data", key: "dataDir"},
	{name: "ZOO_DATA_LOG_DIR", key: "dataLogDir"},
	{name: "ZOO_TICK_TIME", def: "2000", key: "tickTime"},
	{name: "ZOO_INIT_LIMIT", def: "5", key: "initLimit"},
	{name: "ZOO_SYNC_LIMIT", def: "2", key: "syncLimit"},
	{name: "ZOO_AUTOPURGE_SNAPRETAINCOUNT", key: "autopurge.snapRetainCount"},
	{name: "ZOO_AUTOPURGE_PURGEINTERVAL", key: "autopurge.purgeInterval"},
	{name: "ZOO_MAX_CLIENT_CNXNS", def: "60", key: "maxClientCnxns"},
	{name: "ZOO_STANDALONE_ENABLED", def: "true", key: "standaloneEnabled"},
	{name: "ZOO_ADMINSERVER_ENABLED", key: "admin.enableServer"},
	{name: "ZOO_4LW_COMMANDS_WHITELIST", key: "4lw.commands.whitelist"},
	{name: "ZOO_SERVERS", def: "server.1=localhost:2888:3888;2181", note: "server lines, parted by blanks"},
	{name: "ZOO_CFG_EXTRA", note: "more `key=value`, parted by blanks"},
	{name: "ZOO_MY_ID", def: "1", note: "number of this member, written to `myid` in dataDir unless that exists; looked at with the zoo.cfg of ZOO_CONF_DIR, too, but then without a default"},
	{name: "ZOO_CONF_DIR", def: "/conf", note: "folder of a zoo.cfg that wins over these variables"},
	{name: "JVMFLAGS", note: "`-Dzookeeper.key=value` and `-Djute.maxbuffer=value` fill in what zoo.cfg or the variables leave open; other Java options are passed over"},
	{name: "SERVER_JVMFLAGS", note: "as JVMFLAGS, which wins over it"},
	{name: "ZOO_LOG_DIR", note: "no effect: logs go to standard error"},
	{name: "ZOO_LOG4J_PROP", note: "no effect: logs go to standard error"},
}

// environ is an environment, and what it is used for.
type environ struct {
	values   map[string]string
	given    bool // a file was named on the command line: it alone counts
	complete bool // no zoo.cfg: the variables are the configuration, with their defaults
	warnings []Warning
}

func readEnviron(env []string) environ {
	e := environ{values: make(map[string]string)}
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			e.values[name] = value
		}
	}
	return e
}

func (e *environ) get(name string) (value string, set bool) {
	value, set = e.values[name]
	return value, set
}

// base returns the settings of file, of the zoo.cfg in the configuration folder, or of
// the variables; and what to call them.
func (e *environ) base(file string) (list []setting, name string, err error) {
	if file != "" {
		e.given = true
		list, err = readZooCfg(file)
		return list, file, err
	}
	dir, _ := e.get("ZOO_CONF_DIR")
	file = filepath.Join(cmp.Or(dir, "/conf"), "zoo.cfg")
	list, err = readZooCfg(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return list, file, err
	}
	e.complete = true
	list, err = e.variables()
	return list, "environment", err
}

// variables are the settings that the image would write into its zoo.cfg.
func (e *environ) variables() ([]setting, error) {
	var list []setting
	for _, v := range variables {
		value, set := e.get(v.name)
		if !set {
			value = v.def
		}
		switch {
		case value == "":
		case v.key != "":
			list = append(list, setting{v.key, strings.TrimSpace(value), v.name})
		case v.name == "ZOO_SERVERS", v.name == "ZOO_CFG_EXTRA":
			for field := range strings.FieldsSeq(value) {
				key, value, ok := strings.Cut(field, "=")
				if !ok {
					return nil, fmt.Errorf("%s: %s: allowed is key=value", v.name, brief(field))
				}
				list = append(list, setting{key, value, v.name})
			}
		case strings.HasPrefix(v.note, "no effect"):
			e.warnings = append(e.warnings, Warning{v.name, v.note})
		}
	}
	e.warnUnknown()
	return list, nil
}

// warnUnknown names variables that look like the image's, but for those which
// Kubernetes sets for a service called zoo.
func (e *environ) warnUnknown() {
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		known := slices.ContainsFunc(variables, func(v variable) bool { return v.name == name })
		if strings.HasPrefix(name, "ZOO_") && !known && !strings.Contains(name, "_PORT") && !strings.Contains(name, "_SERVICE_") {
			e.warnings = append(e.warnings, Warning{brief(name), "unknown variable"})
		}
	}
}

// javaProperties are the settings given to the Java virtual machine. What is none of
// ZooKeeper's is passed over: heap sizes, logging, garbage collection.
func (e *environ) javaProperties() []setting {
	last := make(map[string]int) // key → place in list; Java takes the last one
	var list []setting
	for _, name := range []string{"SERVER_JVMFLAGS", "JVMFLAGS"} {
		flags, _ := e.get(name)
		for field := range strings.FieldsSeq(flags) {
			property, ok := strings.CutPrefix(field, "-D")
			key, value, hasValue := strings.Cut(property, "=")
			if !ok || !hasValue || !strings.HasPrefix(key, "zookeeper.") && lookup(key) == nil {
				continue
			}
			s := setting{canonical(key), value, name}
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

// myID is the number that the environment gives this member; 0 for none.
func (e *environ) myID(most uint32) (uint32, error) {
	text, set := e.get("ZOO_MY_ID")
	if e.given || !set && !e.complete {
		return 0, nil
	}
	id, err := parseID(cmp.Or(strings.TrimSpace(text), "1"), most)
	if err != nil {
		return 0, fmt.Errorf("ZOO_MY_ID=%s: allowed is %w", brief(text), err)
	}
	return id, nil
}

// SaveMyID writes DataDir/myid, and makes the folder, if the number came from ZOO_MY_ID
// and there is no such file. An existing one is left alone, even if it came to be
// meanwhile. The file is on disk when SaveMyID returns.
func (c *Config) SaveMyID() error {
	if c.newID == 0 {
		return nil
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.DataDir, "myid.*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, c.newID)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), filepath.Join(c.DataDir, "myid")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := os.Open(c.DataDir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
