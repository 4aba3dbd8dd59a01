package znode

import (
	"fmt"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// missedOne searches all watches of a connection, and reports whether one of them has missed a change.
func missedOne(s *State, w Watcher) bool {
	missed, more := s.Watches().SearchMissed(w, true)
	for more && !missed {
		missed, more = s.Watches().SearchMissed(w, false)
	}
	return missed
}

// dropAll removes all watches of a connection.
func dropAll(s *State, w Watcher) {
	for s.Watches().DropWatches(w) {
		continue
	}
}

// The changes of one entry notify watchers in a limited number of steps. Watchers after that miss changes; the others get
// all events. The next entry has all steps again.
func TestFireStepsOfAnEntry(t *testing.T) {
	w := newWorld(t)
	writer := w.connect()
	var ops []jute.MultiOp
	for i := range 1000 {
		ops = append(ops, mk(fmt.Sprintf("/n%d", i), 0))
	}
	writer.must(writer.multi(ops...))
	writer.must(writer.create("/other", 0))
	for i := range ops {
		ops[i] = put(fmt.Sprintf("/n%d", i), anyVersion)
	}
	watchers := 2 * maxFireSteps / eventSteps / len(ops)
	var all []*silent
	for range watchers {
		all = append(all, &silent{})
		if code := w.s().AddWatch([]byte("/"), jute.AddWatchPersistentRecursive, all[len(all)-1]); code != jute.OK {
			t.Fatal(code)
		}
	}
	last, other := w.connect(), w.connect() // watches of their own, on a node that is written last, and on one that is not written
	_ = last.watchData(fmt.Sprintf("/n%d", len(ops)-1))
	_ = other.watchData("/other")
	txn := writer.txn(jute.OpMulti, jute.AppendMulti(nil, ops))
	w.entry(w.next(1, txn))
	told, missed := 0, 0
	for _, s := range all {
		told += s.told
		if missedOne(w.s(), s) {
			missed++
		}
	}
	if most := maxFireSteps / eventSteps; told > most || told < most*8/10 {
		t.Errorf("%d events, want almost %d", told, most)
	}
	if missed != watchers || !missedOne(w.s(), last) || missedOne(w.s(), other) || len(last.events) != 0 ||
		w.s().Watches().MissedPathCount() != 2 {
		t.Errorf("%d of %d watchers missed a change, and the last one: %t, another: %t; the last one got %q",
			missed, watchers, missedOne(w.s(), last), missedOne(w.s(), other), last.events)
	}
	_ = other.watchData("/n1")
	writer.must(writer.setData("/n1", "x", anyVersion))
	if len(other.events) != 1 || missedOne(w.s(), other) {
		t.Errorf("after the next entry: %q", other.events)
	}
	_ = other.watchData(fmt.Sprintf("/n%d", len(ops)-1)) // the path of the last one, which has missed a change
	for _, s := range all {
		dropAll(w.s(), s)
	}
	dropAll(w.s(), last)
	if left := w.s().Watches().WatchCount(); left != 2 {
		t.Errorf("%d watches are left, want those of another", left)
	}
	writer.must(writer.setData(fmt.Sprintf("/n%d", len(ops)-1), "x", anyVersion))
	if len(other.events) != 2 {
		t.Errorf("a new watch on a path whose watchers missed a change: %q", other.events)
	}
}

// Identities that are compared with lists count as steps, too.
func TestFireStepsOfIdentities(t *testing.T) {
	w := newWorld(t)
	owner := w.connect().auth("digest", "owner:x")
	var ops, sets []jute.MultiOp
	for i := range 1000 {
		path := fmt.Sprintf("/n%d", i)
		ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: createOp(path, "", 0, filled(aclOf(jute.PermAll, "digest", "owner:x")))})
		sets = append(sets, put(path, anyVersion))
	}
	owner.must(owner.multi(ops...))
	var who []*proto.Identity
	for i := range 64 {
		who = append(who, &proto.Identity{Scheme: "digest", Id: fmt.Sprint("stranger", i, ":x")})
	}
	strangers := make([]silent, 2*maxFireSteps/len(who)/len(sets))
	for i := range strangers {
		strangers[i].who = who
		_ = w.s().AddWatch([]byte("/"), jute.AddWatchPersistentRecursive, &strangers[i])
	}
	owner.must(owner.multi(sets...))
	for i := range strangers {
		if !missedOne(w.s(), &strangers[i]) {
			t.Fatalf("stranger %d of %d has missed nothing", i, len(strangers))
		}
	}
}

// The removal of one-shot watches counts as steps, too.
func TestFireStepsOfRemovals(t *testing.T) {
	w := newWorld(t)
	writer := w.connect()
	writer.must(writer.create("/n", 0))
	const each = 1 + eventSteps + removalSteps
	watchers := maxFireSteps/each + 1000
	all := make([]silent, watchers)
	for i := range all {
		w.s().watches.addDataWatch("/n", &all[i])
	}
	writer.must(writer.setData("/n", "x", anyVersion))
	told, missed := 0, 0
	for i := range all {
		told += all[i].told
		if missedOne(w.s(), &all[i]) {
			missed++
		}
	}
	if told != maxFireSteps/each && told != maxFireSteps/each+1 || told+missed != watchers {
		t.Errorf("%d of %d watchers were told, want %d; %d missed the change", told, watchers, maxFireSteps/each, missed)
	}
}

// A search continues after the next watch has fired and is gone.
func TestWatchFiresDuringASearch(t *testing.T) {
	w := newWorld(t)
	writer, who := w.connect(), w.connect()
	writer.must(writer.create("/missed", 0))
	for _, path := range []string{"/missed", "/next"} {
		_ = who.watchExists(path)
	}
	for i := range watchesPerLock { // newer ones, which are searched first
		_ = who.watchExists(fmt.Sprint("/none", i))
	}
	tables := &w.s().watches
	tables.removeMissedPath(dataTable, tables.tables[dataTable].byPath["/missed"])
	if missed, more := w.s().Watches().SearchMissed(who, true); missed || !more {
		t.Fatalf("the first part: missed %t, more %t", missed, more)
	}
	writer.must(writer.create("/next", 0))
	who.wantEvents("Created(/next)")
	if missed, _ := w.s().Watches().SearchMissed(who, false); !missed {
		t.Error("the search has not found the change that was missed")
	}
}
