package config

import (
	"fmt"
	"strings"
)

// Load reads the configuration of one member. Its main source is file or, if that is "", the zoo.cfg in
// $ZOO_CONF_DIR or, if there is none, the ZOO_* variables in env. Java properties in JVMFLAGS set keys that the main
// source leaves out, and flags win over everything. Load writes no files. It returns warnings also with an error. The
// error has those of all keys; each names the source of the wrong value and the valid values.
func Load(file string, env []string, flags Flags) (Config, []Warning, error) {
	r := Check(file, env, flags)
	if len(r.Errors) > 0 {
		return Config{}, r.Warnings, r.Err()
	}
	return r.Config, r.Warnings, nil
}

// readSources returns the settings of all sources, and a rawConfig without them.
func readSources(file string, env []string, flags Flags) (*rawConfig, settings, error) {
	vars := readEnviron(env)
	base, name, err := vars.mainSettings(file)
	if err != nil {
		return nil, settings{warnings: vars.warnings}, err
	}
	all := settings{warnings: vars.warnings}
	for _, layer := range [][]setting{vars.javaSettings(), base, flags.settings} {
		if err := all.overrideWith(layer); err != nil {
			return nil, all, err
		}
	}
	return newRawConfig(name, vars, flags, all.warnings), all, nil
}

// Warning is about a part of a configuration that may not work as its author expects. The member starts
// nevertheless.
type Warning struct {
	Where    string // "zoo.cfg:12", "ZOO_MY_ID", "--set", or the file as a whole
	Text     string
	NoEffect string // the key without effect, if the warning is about one
}

func (w Warning) String() string { return w.Where + ": " + w.Text }

// setting is a key with its value, as written in a source.
type setting struct {
	key, value string
	where      string // "zoo.cfg:12", "ZOO_TICK_TIME", "--tick"; errors and warnings begin with it
}

// settings has each key of all sources once.
type settings struct {
	list     []setting
	warnings []Warning
}

// overrideWith adds a source that wins over the previous ones. Within a source the last setting of a key wins, as in
// Java. Two server lines with the same number are an error.
func (all *settings) overrideWith(layer []setting) error {
	at := make(map[string]int) // key → place in list
	for i, s := range all.list {
		at[s.key] = i
	}
	seen := make(map[string]string) // key → where in this layer
	for _, s := range layer {
		s.key = canonicalName(s.key)
		if first, ok := seen[s.key]; ok {
			if strings.HasPrefix(s.key, "server.") {
				return fmt.Errorf("%s: duplicate %s, first in %s; remove one of the two", s.where, s.key, first)
			}
			all.warnings = append(all.warnings,
				Warning{Where: s.where, Text: fmt.Sprintf("%s again, first in %s: this one counts", s.key, first)})
		}
		seen[s.key] = s.where
		if i, ok := at[s.key]; ok {
			all.list[i] = s
			continue
		}
		at[s.key] = len(all.list)
		all.list = append(all.list, s)
	}
	return nil
}
