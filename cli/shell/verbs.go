package shell

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// verb is a command of the shell.
type verb struct {
	usage string // what follows the name
	least int    // how many words there must be after the options, the verb among them
	options

	// rewrite is set for verbs that took a word in place of a flag once. It returns the words with the
	// flag, and the warning to print, if there are more than two without the flags.
	rewrite func(words []string) (rewritten []string, warning string)

	// local runs a verb of the shell itself, without parsing options. It reports whether the shell
	// ends.
	local func(s *Shell, ctx context.Context, words []string) (done bool, err error)

	// run runs any other verb. It needs a session.
	run func(s *Shell, ctx context.Context, a *arguments) error
}

func flag(name, about string) option { return option{name: name, about: about} }
func value(name, about string) option {
	return option{name: name, about: about, takes: true}
}

func flags(list ...option) options { return options{list: list} }

var (
	statFlag    = flag("s", "stats")
	watchFlag   = flag("w", "watch")
	versionFlag = value("v", "version")
)

// quotaOptions are the flags of setquota and delquota, of which one may be given.
func quotaOptions(takes bool) options {
	return options{exclusive: true, required: takes, list: []option{
		{"n", takes, "num soft quota"}, {"b", takes, "bytes soft quota"}, {"N", takes, "num hard quota"}, {"B", takes, "bytes hard quota"},
	}}
}

// watchWord returns the rewrite of a verb that took any second word for -w.
func watchWord(before, now string) func([]string) ([]string, string) {
	return func(words []string) ([]string, string) {
		words = slices.Clone(words)
		words[2] = "-w"
		return words, "'" + before + "' has been deprecated. Please use '" + now + "' instead."
	}
}

// verbTable returns the verbs of zkCli.sh 3.8, and help. Names and usages are zkCli.sh's.
func verbTable() map[string]*verb {
	return map[string]*verb{
		"addauth":  {usage: "scheme auth", least: 2, run: (*Shell).addAuth},
		"addWatch": {usage: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE", least: 2, options: flags(value("m", "")), run: (*Shell).addWatch},
		"close":    {run: (*Shell).closeSession},
		"config":   {usage: "[-c] [-w] [-s]", options: flags(statFlag, watchFlag, flag("c", "client connection string")), run: (*Shell).config},
		"connect":  {usage: "host:port", local: (*Shell).connect},
		"create": {
			usage: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", least: 2,
			options: flags(flag("e", "ephemeral"), flag("s", "sequential"), flag("c", "container"), value("t", "ttl")), run: (*Shell).create,
		},
		"delete": {
			usage: "[-v version] path", least: 2, options: flags(versionFlag), run: (*Shell).delete,
			rewrite: func(words []string) ([]string, string) {
				return words, "'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead."
			},
		},
		"deleteall":            {usage: "path [-b batch size]", least: 2, options: flags(value("b", "batch size")), run: (*Shell).deleteAll},
		"delquota":             {usage: "[-n|-b|-N|-B] path", least: 2, options: quotaOptions(false), run: quotaVerb(quotas.delete)},
		"get":                  {usage: "[-s] [-w] path", least: 2, options: flags(statFlag, watchFlag), run: (*Shell).get, rewrite: watchWord("get path [watch]", "get [-s] [-w] path")},
		"getAcl":               {usage: "[-s] path", least: 2, options: flags(statFlag), run: (*Shell).getACL},
		"getAllChildrenNumber": {usage: "path", least: 2, run: (*Shell).getAllChildrenNumber},
		"getEphemerals":        {usage: "path", run: (*Shell).getEphemerals},
		"help":                 {local: (*Shell).help},
		"history":              {local: (*Shell).history},
		"listquota":            {usage: "path", least: 2, run: quotaVerb(quotas.list)},
		"ls": {
			usage: "[-s] [-w] [-R] path", least: 2, options: flags(flag("?", "help"), statFlag, watchFlag, flag("R", "recurse")),
			run: (*Shell).ls, rewrite: watchWord("ls path [watch]", "ls [-w] path"),
		},
		"printwatches": {usage: "on|off", local: (*Shell).setPrintWatches},
		"quit":         {local: (*Shell).quit},
		"reconfig": {
			usage:   "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
			options: flags(statFlag, value("v", ""), value("file", ""), value("members", ""), value("add", ""), value("remove", "")), run: (*Shell).reconfig,
		},
		"redo": {usage: "cmdno", local: (*Shell).redo},
		"removewatches": {
			usage: "path [-c|-d|-a] [-l]", least: 2, run: (*Shell).removeWatches,
			options: flags(flag("c", "child watcher type"), flag("d", "data watcher type"), flag("a", "any watcher type"), flag("l", "remove locally when there is no server connection")),
		},
		"set":      {usage: "[-s] [-v version] path data", least: 3, options: flags(statFlag, versionFlag), run: (*Shell).set},
		"setAcl":   {usage: "[-s] [-v version] [-R] path acl", least: 3, options: flags(statFlag, versionFlag, flag("R", "recursive")), run: (*Shell).setACL},
		"setquota": {usage: "-n|-b|-N|-B val path", least: 2, options: quotaOptions(true), run: quotaVerb(quotas.set)},
		"stat":     {usage: "[-w] path", least: 2, options: flags(watchFlag), run: (*Shell).stat, rewrite: watchWord("stat path [watch]", "stat [-w] path")},
		"sync":     {usage: "path", least: 2, run: (*Shell).sync},
		"version":  {run: (*Shell).version},
		"whoami":   {run: (*Shell).whoAmI},
	}
}

// usage returns the list of all verbs.
func usage(verbs map[string]*verb) string {
	var b strings.Builder
	b.WriteString("rollcall shell --hosts host:port,.../root cmd args")
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		b.WriteString("\n\t" + name + " " + verbs[name].usage)
	}
	return b.String()
}

// parse takes the options out of the words of a command.
func (v *verb) parse(s *Shell, words []string) (*arguments, error) {
	a, err := v.options.parse(words)
	if err == nil && v.rewrite != nil && len(a.words) > 2 {
		rewritten, warning := v.rewrite(words)
		s.screen.say(plain, warning)
		a, err = v.options.parse(rewritten)
	}
	if err != nil {
		return nil, err
	}
	if a.has("?") {
		s.screen.print("usage: ls [options] path\n -?   help\n -R   recurse\n -s   stat\n -w   watch\n")
	}
	if len(a.words) < max(v.least, 1) {
		return nil, errUsage
	}
	return a, nil
}
