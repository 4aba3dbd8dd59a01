package znode

import (
	"fmt"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

// A listing may begin where an earlier part of it ended, and shows everything from there on.
func TestLists(t *testing.T) {
	w := newWorld(t)
	var ids []jute.SessionID
	var owned []string
	for i := range 5 {
		k := w.connect()
		ids = append(ids, k.id)
		for j := range i {
			path := fmt.Sprintf("/%d-%d", i, j)
			k.must(k.create(path, jute.Ephemeral))
			owned = append(owned, fmt.Sprintf("%v%s", k.id, path))
			_ = k.watchData(path)
			_ = k.watchExists("/nowhere")
			_ = k.watchChildren("/")
		}
		paths := slices.Sorted(w.s().Watches().DataPathsOf(k))
		if want := i + 1; i > 0 && (len(paths) != want || paths[len(paths)-1] != "/nowhere") {
			t.Errorf("watches of connection %d: %v", i, paths)
		}
	}
	if n, watchers, paths := w.s().Watches().DataWatchCount(), w.s().Watches().DataWatcherCount(), w.s().Watches().DataPathCount(); n != 14 || watchers != 4 || paths != 11 {
		t.Errorf("%d watches of %d connections on %d paths, want 14 of 4 on 11", n, watchers, paths)
	}
	for first := range ids {
		var got []jute.SessionID
		for s := range w.s().Sessions(ids[first]) {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, ids[first:]) {
			t.Errorf("sessions from %v: %v, want %v", ids[first], got, ids[first:])
		}
	}
	all := func(owner jute.SessionID, path string) (got []string) {
		for id, p := range w.s().TreeView().EphemeralsFrom(owner, path) {
			got = append(got, fmt.Sprintf("%v%s", id, p))
		}
		return got
	}
	if got := all(0, ""); !slices.Equal(got, owned) {
		t.Errorf("ephemerals: %v, want %v", got, owned)
	}
	if got := all(ids[3], "/3-1"); !slices.Equal(got, owned[4:]) {
		t.Errorf("ephemerals from the second of session 3: %v, want %v", got, owned[4:])
	}
}
