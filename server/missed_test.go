package server

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// spend lets other clients' watches take all steps of an entry, and returns a multi that does so and writes path at its end.
func (w *world) spend(c *client, path string) record {
	const nodes, watchers = 1000, 1200
	c.tb.Helper()
	c.must(jute.OpCreate, create("/spend", "", 0))
	ops := []jute.MultiOp{}
	for i := range nodes {
		ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: fmt.Append(nil, "/spend/", i), ACL: jute.OpenACL}})
	}
	ops = append(ops, jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(path), Version: -1}})
	w.state.RLock()
	defer w.state.RUnlock()
	for range watchers {
		_ = w.state.AddWatch([]byte("/spend"), jute.AddWatchPersistentRecursive, &spender{})
	}
	return raw(jute.AppendMulti(nil, ops))
}

// A client that misses a change of what it watches sees nothing later, and its connection ends. Until that is known, other clients that
// watch something are sent nothing, and then all of it. Clients that watch nothing do not wait.
func TestMissedChanges(t *testing.T) {
	for _, tcp := range []bool{false, true} { // with a reader each, and in a loop
		t.Run(fmt.Sprint("tcp ", tcp), func(t *testing.T) {
			w := newWorld(t, tcp, nil)
			misses, idle := w.connect(), w.connect()
			for _, path := range []string{"/missed", "/other"} {
				misses.must(jute.OpCreate, create(path, "", 0))
			}
			watching := []*client{misses, idle}
			for _, c := range watching {
				c.must(jute.OpAddWatch, addWatch("/missed", jute.AddWatchPersistent))
			}
			for range 2000 { // newer ones, more than a part of a search; by turns, so that no session expires
				for _, c := range watching {
					c.call(jute.OpExists, exists(fmt.Sprint("/none", c.xid), true))
				}
			}
			writer, spared := w.connect(), w.connect()
			spared.must(jute.OpAddWatch, addWatch("/other", jute.AddWatchPersistent))
			multi := w.spend(writer, "/missed")
			w.srv.missedSweep.searchTurn.Lock()
			search := sync.OnceFunc(w.srv.missedSweep.searchTurn.Unlock)
			t.Cleanup(search)
			writer.must(jute.OpMulti, multi)
			writer.must(jute.OpSetData, setData("/other", "x"))
			misses.request(jute.OpGetData, getData("/missed", false))
			spared.request(jute.OpGetData, getData("/missed", false))
			misses.expectSilence(50 * time.Millisecond)
			spared.expectSilence(50 * time.Millisecond)
			writer.must(jute.OpGetData, getData("/missed", false))
			search()
			misses.expectClosed()
			idle.expectClosed()
			spared.expectEvent(jute.EventNodeDataChanged, "/other")
			spared.expect(spared.xid, jute.OK)
			waitFor(t, func() bool { return w.srv.Stats().EndedByReason["too_many_events"] == 2 })
			// The next entry has all steps again, and the same watches lead to no search.
			writer.must(jute.OpSetData, setData("/other", "y"))
			spared.expectEvent(jute.EventNodeDataChanged, "/other")
		})
	}
}

// A search of all connections is repeated if a change was missed while it ran.
func TestMissedChangeDuringASearch(t *testing.T) {
	var m missedSweep
	if m.claimSweep(0) {
		t.Error("a search begins although nothing was missed")
	}
	if !m.claimSweep(1) || m.claimSweep(1) || !m.nextRound() {
		t.Error("want one search of the first path")
	}
	if m.claimSweep(2) || !m.nextRound() || m.nextRound() {
		t.Error("want the search to go on once, for the second path")
	}
	if m.claimSweep(2) || !m.claimSweep(3) {
		t.Error("want another search of the third path alone")
	}
}
