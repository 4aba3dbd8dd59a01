package shell

import (
	"strings"
	"testing"
)

// A misused verb prints its usage or the wrong word, and fails.
func TestWrongUseOfVerbs(t *testing.T) {
	const mixed = "Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental modes is not allowed)\n"
	for line, want := range map[string]string{
		"version x":                     "version \n",
		"reconfig":                      "reconfig ",
		"reconfig -v 1":                 "reconfig ",
		"reconfig -v x -remove 1":       "-v must be followed by a long (configuration version)\n",
		"reconfig -file x -add y":       mixed,
		"reconfig -file x -remove 1":    mixed,
		"reconfig -members x -add y":    mixed,
		"reconfig -members x -remove 1": mixed,
		"reconfig -file x -members y":   "Can't use -file and -members together (conflicting non-incremental modes)\n",
		"reconfig -file /no/such/file":  "Error processing /no/such/file: open /no/such/file: no such file or directory\n",
		"reconfig -v 5 -remove 1":       "KeeperErrorCode = Reconfig is disabled\n",
		"reconfig -s -members x":        "KeeperErrorCode = Reconfig is disabled\n",
		"removewatches none":            "Path must start with / character\n",
		"removewatches /a//b":           "empty node name",
		"addWatch none":                 "Path must start with / character\n",
		"addWatch -m SOMETIMES /":       "addWatch ",
		"removewatches":                 "removewatches path [-c|-d|-a] [-l]\n",
		"get none":                      "Path must start with / character\n",
		"set none x":                    "Path must start with / character\n",
		"create none":                   "Path must start with / character\n",
		"delete none":                   "Path must start with / character\n",
		"stat none":                     "Path must start with / character\n",
		"ls none":                       "Path must start with / character\n",
		"getAcl none":                   "Path must start with / character\n",
		"sync none":                     "Path must start with / character\n",
	} {
		if got := runLines(t, Config{}, line); got.status == 0 || !strings.Contains(got.err+got.out, want) {
			t.Errorf("%s: %+v, want %q", line, got, want)
		}
	}
}
