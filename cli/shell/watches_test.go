package shell

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// watchEvent is an event of a watch at a path, as the shell prints it.
var watchEvent = regexp.MustCompile(`type:(\w+) path:/`)

// removewatches removes the watches of the kind that its flag names, and prints an event for each kind that
// there was. A watch that it leaves sees the next change, and one that it has removed does not.
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

// A watch is in the table unless its request fails or an event has ended it, even if that comes before the
// request returns.
func TestWatchTableSet(t *testing.T) {
	for _, tt := range []struct {
		kind  watchKind
		event jute.EventType // comes before the request returns
		err   error
		want  watchKind
	}{
		{watchData, jute.EventNone, nil, watchData},
		{watchData, jute.EventNodeDataChanged, nil, 0},
		{watchData, jute.EventNone, jute.NoNode, 0},
		{watchExist, jute.EventNone, nil, watchData},
		{watchExist, jute.EventNone, jute.NoNode, watchExist},
		{watchExist, jute.EventNone, jute.ConnectionLoss, 0},
		{watchExist, jute.EventNodeDeleted, nil, 0},
		{watchExist, jute.EventNodeCreated, jute.NoNode, 0},
		{watchChild, jute.EventNodeDataChanged, nil, watchChild},
		{watchRecursive, jute.EventNodeCreated, nil, watchRecursive},
		{0, jute.EventNone, nil, 0},
	} {
		for _, before := range []watchKind{0, watchPersistent} {
			table := newWatchTable()
			table.add("/a", before)
			err := table.setThroughRequest("/a", tt.kind, func() error {
				table.removeFired(tt.event, "/a")
				return tt.err
			})
			if got := table.paths["/a"]; got != before|tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%+v: watches %b and %v, want %b", tt, got, err, before|tt.want)
			}
		}
	}
}
