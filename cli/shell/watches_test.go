package shell

import (
	"regexp"
	"strings"
	"testing"
)

// watchEvent is an event of a watch at a path, as the shell prints it.
var watchEvent = regexp.MustCompile(`type:(\w+) path:/`)

// removewatches removes the watches of the kind that its flag names, and prints an event for each kind that there was. A watch
// that it leaves sees the next change, and one that it has removed does not.
func TestRemoveWatches(t *testing.T) {
	const noWatcher = "KeeperErrorCode = No such watcher for /rw"
	for _, tt := range []struct {
		set, remove string
		events      string // of the removal, and then of a change of the node, its child and its end
		err         bool   // there is no such watch
	}{
		{"get -w /rw", "removewatches /rw", "DataWatchRemoved", false},
		{"get -w /rw", "removewatches /rw -d", "DataWatchRemoved", false},
		{"get -w /rw", "removewatches /rw -a", "DataWatchRemoved", false},
		{"get -w /rw", "removewatches /rw -c", "NodeDataChanged", true},
		{"stat -w /rw", "removewatches /rw -d", "DataWatchRemoved", false},
		{"ls -w /rw", "removewatches /rw", "ChildWatchRemoved", false},
		{"ls -w /rw", "removewatches /rw -c", "ChildWatchRemoved", false},
		{"ls -w /rw", "removewatches /rw -d", "NodeChildrenChanged", true},
		{"ls -w /rw;get -w /rw", "removewatches /rw -c", "ChildWatchRemoved NodeDataChanged", false},
		{"ls -w /rw;get -w /rw", "removewatches /rw -d", "DataWatchRemoved NodeChildrenChanged", false},
		{"ls -w /rw;get -w /rw", "removewatches /rw", "ChildWatchRemoved DataWatchRemoved", false},
		{"addWatch -m PERSISTENT /rw", "removewatches /rw", "PersistentWatchRemoved", false},
		{"addWatch /rw", "removewatches /rw -a", "PersistentWatchRemoved", false},
		{"addWatch -m PERSISTENT /rw;get -w /rw;ls -w /rw", "removewatches /rw", "ChildWatchRemoved DataWatchRemoved PersistentWatchRemoved", false},
		{"ls /rw", "removewatches /rw", "", true},
	} {
		lines := append([]string{"create /rw"}, strings.Split(tt.set, ";")...)
		lines = append(lines, tt.remove, "set /rw x", "create /rw/c", "delete /rw/c", "delete /rw", "get /rw")
		got := runLines(t, Config{}, lines...)
		var events []string
		for _, match := range watchEvent.FindAllStringSubmatch(got.out, -1) {
			events = append(events, match[1])
		}
		if text := strings.Join(events, " "); text != tt.events || strings.Contains(got.err, noWatcher) != tt.err {
			t.Errorf("%s, then %s: events %q and %q, want %q, no watcher: %t", tt.set, tt.remove, text, got.err, tt.events, tt.err)
		}
	}
}
