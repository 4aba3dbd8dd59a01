package shell

import (
	"context"
	"maps"
	"slices"
	"strings"
)

type verb struct {
	usage    string // follows the name
	minWords int    // including the verb, without options
	options

	// rewriteOldForm, if set, rewrites the deprecated form with a word in place of a flag. It is called if
	// there are more than two words without the flags, and also returns the warning to print.
	rewriteOldForm func(words []string) (rewritten []string, warning string)

	// runLocal runs a verb of the shell itself, which has no options. It reports whether the shell ends.
	runLocal func(s *Shell, ctx context.Context, words []string) (done bool, err error)

	// run runs any other verb. It needs a session.
	run func(s *Shell, ctx context.Context, a *arguments) error
}

func flagOption(name, about string) option { return option{name: name, description: about} }
func valueOption(name, about string) option {
	return option{name: name, description: about, takesValue: true}
}

func optionsOf(list ...option) options { return options{list: list} }

var (
	statFlag    = flagOption("s", "stats")
	watchFlag   = flagOption("w", "watch")
	versionFlag = valueOption("v", "version")
)

// quotaOptions are the exclusive flags of setquota and delquota.
func quotaOptions(takes bool) options {
	return options{exclusive: true, required: takes, list: []option{
		{"n", takes, "num soft quota"}, {"b", takes, "bytes soft quota"}, {"N", takes, "num hard quota"}, {"B", takes, "bytes hard quota"},
	}}
}

// replaceWithWatchFlag rewrites a verb that took any second word for -w.
func replaceWithWatchFlag(before, now string) func([]string) ([]string, string) {
	return func(words []string) ([]string, string) {
		words = slices.Clone(words)
		words[2] = "-w"
		return words, "'" + before + "' has been deprecated. Please use '" + now + "' instead."
	}
}

// verbTable returns the verbs of zkCli.sh 3.8 with their usages, and help.
func verbTable() map[string]*verb {
	return map[string]*verb{
		"addauth": {usage: "scheme auth", minWords: 2, run: (*Shell).addAuth},
		"addWatch": {usage: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is " +
			"PERSISTENT_RECURSIVE", minWords: 2, options: optionsOf(valueOption("m", "")), run: (*Shell).addWatch},
		"close": {run: (*Shell).closeSession},
		"config": {
			usage:   "[-c] [-w] [-s]",
			options: optionsOf(statFlag, watchFlag, flagOption("c", "client connection string")), run: (*Shell).printConfig,
		},
		"connect": {usage: "host:port", runLocal: (*Shell).connect},
		"create": {
			usage: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", minWords: 2,
			options: optionsOf(flagOption("e", "ephemeral"), flagOption("s", "sequential"), flagOption("c", "container"),
				valueOption("t", "ttl")), run: (*Shell).createNode,
		},
		"delete": {
			usage: "[-v version] path", minWords: 2, options: optionsOf(versionFlag), run: (*Shell).deleteNode,
			rewriteOldForm: func(words []string) ([]string, string) {
				return words, "'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead."
			},
		},
		"deleteall": {
			usage: "path [-b batch size]", minWords: 2,
			options: optionsOf(valueOption("b", "batch size")), run: (*Shell).deleteAll,
		},
		"delquota": {
			usage: "[-n|-b|-N|-B] path", minWords: 2, options: quotaOptions(false),
			run: asVerb(quotaCommands.deleteQuota),
		},
		"get": {
			usage: "[-s] [-w] path", minWords: 2, options: optionsOf(statFlag, watchFlag),
			run: (*Shell).getNode, rewriteOldForm: replaceWithWatchFlag("get path [watch]", "get [-s] [-w] path"),
		},
		"getAcl":               {usage: "[-s] path", minWords: 2, options: optionsOf(statFlag), run: (*Shell).getACL},
		"getAllChildrenNumber": {usage: "path", minWords: 2, run: (*Shell).getAllChildrenNumber},
		"getEphemerals":        {usage: "path", run: (*Shell).getEphemerals},
		"help":                 {runLocal: (*Shell).printHelp},
		"history":              {runLocal: (*Shell).printHistory},
		"listquota":            {usage: "path", minWords: 2, run: asVerb(quotaCommands.listQuota)},
		"ls": {
			usage: "[-s] [-w] [-R] path", minWords: 2,
			options: optionsOf(flagOption("?", "help"), statFlag, watchFlag, flagOption("R", "recurse")),
			run:     (*Shell).listNode, rewriteOldForm: replaceWithWatchFlag("ls path [watch]", "ls [-w] path"),
		},
		"printwatches": {usage: "on|off", runLocal: (*Shell).setPrintWatches},
		"quit":         {runLocal: (*Shell).quit},
		"reconfig": {
			usage: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add " +
				"serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
			options: optionsOf(statFlag, valueOption("v", ""), valueOption("file", ""), valueOption("members", ""),
				valueOption("add", ""), valueOption("remove", "")), run: (*Shell).reconfigure,
		},
		"redo": {usage: "cmdno", runLocal: (*Shell).redoLine},
		"removewatches": {
			usage: "path [-c|-d|-a] [-l]", minWords: 2, run: (*Shell).removeWatches,
			options: optionsOf(flagOption("c", "child watcher type"), flagOption("d", "data watcher type"),
				flagOption("a", "any watcher type"), flagOption("l", "remove locally when there is no server connection")),
		},
		"set": {usage: "[-s] [-v version] path data", minWords: 3, options: optionsOf(statFlag, versionFlag), run: (*Shell).setNode},
		"setAcl": {
			usage: "[-s] [-v version] [-R] path acl", minWords: 3,
			options: optionsOf(statFlag, versionFlag, flagOption("R", "recursive")), run: (*Shell).setACL,
		},
		"setquota": {usage: "-n|-b|-N|-B val path", minWords: 2, options: quotaOptions(true), run: asVerb(quotaCommands.setQuota)},
		"stat": {
			usage: "[-w] path", minWords: 2, options: optionsOf(watchFlag), run: (*Shell).statNode,
			rewriteOldForm: replaceWithWatchFlag("stat path [watch]", "stat [-w] path"),
		},
		"sync":    {usage: "path", minWords: 2, run: (*Shell).syncNode},
		"version": {run: (*Shell).printVersion},
		"whoami":  {run: (*Shell).whoAmI},
	}
}

func usageText(verbs map[string]*verb) string {
	var b strings.Builder
	b.WriteString("rollcall shell --hosts host:port,.../root cmd args")
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		b.WriteString("\n\t" + name + " " + verbs[name].usage)
	}
	return b.String()
}

func (v *verb) parseArguments(s *Shell, words []string) (*arguments, error) {
	a, err := v.options.parse(words)
	if err == nil && v.rewriteOldForm != nil && len(a.words) > 2 {
		rewritten, warning := v.rewriteOldForm(words)
		s.screen.printMessage(plainStyle, warning)
		a, err = v.options.parse(rewritten)
	}
	if err != nil {
		return nil, err
	}
	if a.hasFlag("?") {
		s.screen.print("usage: ls [options] path\n -?   help\n -R   recurse\n -s   stat\n -w   watch\n")
	}
	if len(a.words) < max(v.minWords, 1) {
		return nil, errUsage
	}
	return a, nil
}
