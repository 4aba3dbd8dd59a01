package server

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// With linearizable reads, each read waits for the member to catch up, as a sync does. A request
// that shows nothing of the tree does not wait.
func TestLinearizableReads(t *testing.T) {
	path := []byte("/a")
	multi := raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: path}}}))
	tests := []struct {
		op    jute.Op
		rec   record
		waits bool
	}{
		{jute.OpGetData, getData("/a", false), true},
		{jute.OpExists, exists("/a", true), true},
		{jute.OpGetChildren, jute.GetChildrenRequest{Path: path}, true},
		{jute.OpGetChildren2, jute.GetChildrenRequest{Path: path}, true},
		{jute.OpGetACL, jute.GetACLRequest{Path: path}, true},
		{jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: path}, true},
		{jute.OpGetEphemerals, jute.GetEphemeralsRequest{}, true},
		{jute.OpMultiRead, multi, true},
		{jute.OpGetData, raw{0}, true},
		{jute.OpPing, raw{}, false},
		{jute.OpWhoAmI, raw{}, false},
		{jute.OpSetWatches, jute.SetWatches{Data: [][]byte{path}, Exist: [][]byte{}, Child: [][]byte{}}, false},
		{jute.OpSetWatches2, jute.SetWatches2{Data: [][]byte{path}, Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}, false},
		{jute.OpAddWatch, jute.AddWatchRequest{Path: path}, false},
		{jute.OpCheckWatches, jute.CheckWatchesRequest{Path: path, Type: jute.WatcherAny}, false},
		{jute.OpRemoveWatches, jute.RemoveWatchesRequest{Path: path, Type: jute.WatcherAny}, false},
	}
	for _, linear := range []bool{true, false} {
		for _, tt := range tests {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, func(c *Config) { c.LinearizableReads = linear })
				c := w.connect()
				c.must(jute.OpCreate, create("/a", "x", jute.Persistent))
				w.hold()
				c.request(tt.op, tt.rec)
				synctest.Wait()
				w.mu.Lock()
				waits := len(w.syncs) > 0
				w.mu.Unlock()
				if waits != (tt.waits && linear) {
					t.Errorf("linearizable %t, %v: waits for the leader: %t", linear, tt.op, waits)
				}
				w.release()
				c.reply()
			})
		}
	}
}

// With a lease, a read waits for the entries that it depends on: the ones at its paths, or all of them if it shows more
// than one node.
func TestReadsByLeaseDependOnPaths(t *testing.T) {
	path := []byte("/a")
	multi := raw(jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: path}},
		{Op: jute.OpGetChildren, GetChildren: jute.GetChildrenRequest{Path: []byte("/b")}},
	}))
	stored := map[string]uint64{"": 9, "/a": 8, "/b": 7}
	for _, tt := range []struct {
		op        jute.Op
		rec       record
		dependsOn []string
	}{
		{jute.OpGetData, getData("/a", false), []string{"/a"}},
		{jute.OpExists, exists("/c", true), []string{"/c"}},
		{jute.OpGetChildren, jute.GetChildrenRequest{Path: path}, []string{"/a"}},
		{jute.OpGetChildren2, jute.GetChildrenRequest{Path: path}, []string{"/a"}},
		{jute.OpGetACL, jute.GetACLRequest{Path: path}, []string{"/a"}},
		{jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: path}, []string{""}},
		{jute.OpGetEphemerals, jute.GetEphemeralsRequest{Path: path}, []string{""}},
		{jute.OpMultiRead, multi, []string{"/a", "/b"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, func(c *Config) { c.LinearizableReads = true })
			c := w.connect()
			w.hold()
			w.hasLease, w.stored = true, stored
			c.request(tt.op, tt.rec)
			synctest.Wait()
			w.mu.Lock()
			dependsOn, index, waits := w.dependsOn, w.readIndex, len(w.syncs) > 0
			w.mu.Unlock()
			want := uint64(0)
			for _, p := range tt.dependsOn {
				want = max(want, stored[p])
			}
			if !slices.Equal(dependsOn, tt.dependsOn) || index != want || waits != (want > 0) {
				t.Errorf("%v depends on %q and waits for %d (%t), want %q and %d", tt.op, dependsOn, index, waits, tt.dependsOn, want)
			}
			w.release()
			c.reply()
		})
	}
}

// A linearizable read is answered when the member has caught up, and not before. It keeps its turn
// among the connection's requests, and shows nothing of its client's later writes.
func TestLinearizableReadsKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(c *Config) { c.LinearizableReads = true })
		c, other := w.connect(), w.connect()
		c.must(jute.OpCreate, create("/a", "0", jute.Persistent))

		w.hold()
		c.request(jute.OpSetData, setData("/a", "1"))  // 2: applied first
		c.request(jute.OpGetData, getData("/a", true)) // 3
		c.request(jute.OpPing)                         // 4: after it
		go c.request(jute.OpSetData, setData("/a", "2"))
		synctest.Wait()
		if n := w.countSubmitted(); n != 1 {
			t.Errorf("%d writes are with the member, want 1: the second follows the read", n)
		}
		w.step()
		synctest.Wait()
		c.expect(2, jute.OK)
		h, body := c.reply()
		var got jute.GetDataResponse
		d := jute.NewDecoder(body)
		if got.Decode(&d); h.Xid != 3 || string(got.Data) != "1" {
			t.Errorf("reply %+v shows %q, want that of 3 with 1", h, got.Data)
		}
		c.expect(4, jute.OK)
		w.release()
		c.expectEvent(jute.EventNodeDataChanged, "/a")
		c.expect(5, jute.OK)

		w.hold()
		other.request(jute.OpGetData, getData("/a", false))
		synctest.Wait()
		c.request(jute.OpSetData, setData("/a", "3"))
		synctest.Wait()
		w.step() // the other client's read has waited, and shows the write that was done meanwhile
		if _, body := other.reply(); !showsData(body, "3") {
			t.Errorf("the read shows % x, want 3", body)
		}
		w.release()
		c.expect(6, jute.OK)
	})
}

func showsData(body []byte, want string) bool {
	var r jute.GetDataResponse
	d := jute.NewDecoder(body)
	r.Decode(&d)
	return d.Err() == nil && string(r.Data) == want
}

// A member that does not hear from the leader does not reply to a linearizable read. It closes the connection when the
// client has been silent for too long.
func TestLinearizableReadWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(c *Config) { c.LinearizableReads = true })
		c := w.connect()
		w.hold()
		c.request(jute.OpExists, exists("/", false))
		time.Sleep(5 * testTick)
		c.expectSilence(testTick)
		_ = c.SetReadDeadline(time.Time{})
		time.Sleep(20 * testTick)
		c.expectClosed()
	})
}
