package znode

import (
	"fmt"
	"slices"
	"testing"

	"rollcall/jute"
	"rollcall/proto"
)

// The changes of one entry are told with a limited number of steps. Watchers that are met after that lose their connections and
// their watches; the others get all events. The next entry has all steps again.
func TestFireStepsOfAnEntry(t *testing.T) {
	w := newWorld(t)
	writer := w.connect()
	var ops []jute.MultiOp
	for i := range 1000 {
		ops = append(ops, mk(fmt.Sprintf("/n%d", i), 0))
	}
	writer.must(writer.multi(ops...))
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
	last := w.connect() // a watch of its own, on a node that is written last
	_ = last.watchData(fmt.Sprintf("/n%d", len(ops)-1))
	txn := writer.txn(jute.OpMulti, jute.AppendMulti(nil, ops))
	w.entry(w.next(1, txn))
	told, cut := 0, 0
	for _, s := range all {
		told += s.told
		if s.cut {
			cut++
		}
	}
	if most := maxFireSteps / eventSteps; told > most || told < most*8/10 {
		t.Errorf("%d events, want almost %d", told, most)
	}
	if cut != watchers || w.s().WatchCount() != 0 || !slices.Equal(last.events, []string{"cut"}) {
		t.Errorf("%d of %d watchers cut, %d watches left; the last one got %q", cut, watchers, w.s().WatchCount(), last.events)
	}
	last.events = nil
	_ = last.watchData("/n1")
	writer.must(writer.setData("/n1", "x", anyVersion))
	if len(last.events) != 1 || last.events[0] == "cut" {
		t.Errorf("after the next entry: %q", last.events)
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
	strangers := 2 * maxFireSteps / len(who) / len(sets)
	for range strangers {
		_ = w.s().AddWatch([]byte("/"), jute.AddWatchPersistentRecursive, &silent{who: who})
	}
	owner.must(owner.multi(sets...))
	if left := w.s().WatchCount(); left != 0 {
		t.Errorf("%d of %d strangers still watch", left, strangers)
	}
}

// The removal of one-shot watches counts as steps, too.
func TestFireStepsOfRemovals(t *testing.T) {
	w := newWorld(t)
	writer := w.connect()
	writer.must(writer.create("/n", 0))
	const each = 1 + eventSteps + removeSteps
	watchers := maxFireSteps/each + 1000
	all := make([]silent, watchers)
	for i := range all {
		w.s().watches.watchData("/n", &all[i])
	}
	writer.must(writer.setData("/n", "x", anyVersion))
	told := 0
	for i := range all {
		told += all[i].told
	}
	if told != maxFireSteps/each && told != maxFireSteps/each+1 || w.s().WatchCount() != 0 {
		t.Errorf("%d of %d watchers were told, want %d; %d watches are left", told, watchers, maxFireSteps/each, w.s().WatchCount())
	}
}
