package server

import (
	"encoding/binary"
	"strconv"
	"sync"
	"testing"

	"rollcall/jute"
)

func setWatches(rel int64, data, exist, child []string) record {
	list := func(paths []string) [][]byte {
		out := [][]byte{}
		for _, p := range paths {
			out = append(out, []byte(p))
		}
		return out
	}
	return jute.SetWatches{RelativeZxid: rel, Data: list(data), Exist: list(exist), Child: list(child)}
}

func TestSetWatches(t *testing.T) {
	w := newWorld(t, false, nil)
	k := w.connect()
	for _, path := range []string{"/same", "/n", "/c", "/kids"} {
		k.must(jute.OpCreate, create(path, "", 0))
	}
	h, _ := k.call(jute.OpPing)
	rel := h.Zxid
	k.must(jute.OpSetData, setData("/n", "x"))
	k.must(jute.OpCreate, create("/new", "", 0))
	k.must(jute.OpCreate, create("/c/1", "", 0))

	c := w.connect()
	for _, xid := range []int32{jute.XidSetWatches, 5} {
		c.send(jute.RequestHeader{Xid: xid, Op: jute.OpSetWatches},
			setWatches(rel, []string{"/n", "/gone", "/same"}, []string{"/new", "/none"}, []string{"/c", "/x", "/kids"}))
		for _, e := range []struct {
			t    jute.EventType
			path string
		}{
			{jute.EventNodeDataChanged, "/n"},
			{jute.EventNodeDeleted, "/gone"},
			{jute.EventNodeCreated, "/new"},
			{jute.EventNodeChildrenChanged, "/c"},
			{jute.EventNodeDeleted, "/x"},
		} {
			if zxid := c.expectEvent(e.t, e.path); zxid != -1 {
				t.Errorf("event for %s has zxid %d, want -1", e.path, zxid)
			}
		}
		c.expect(xid, jute.OK)
	}
	// What had not changed is watched; what had, is not.
	k.must(jute.OpSetData, setData("/n", "y"))
	written, _ := k.call(jute.OpSetData, setData("/same", "y"))
	if zxid := c.expectEvent(jute.EventNodeDataChanged, "/same"); zxid != written.Zxid {
		t.Errorf("event has zxid %#x, want %#x", zxid, written.Zxid)
	}
	k.must(jute.OpCreate, create("/none", "", 0))
	c.expectEvent(jute.EventNodeCreated, "/none")
	k.must(jute.OpCreate, create("/kids/1", "", 0))
	c.expectEvent(jute.EventNodeChildrenChanged, "/kids")
}

func TestOwnEventComesBeforeReply(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	c.must(jute.OpGetData, getData("/", true))
	c.request(jute.OpSetData, setData("/", "x"))
	zxid := c.expectEvent(jute.EventNodeDataChanged, "/")
	if h := c.expect(2, jute.OK); h.Zxid != zxid {
		t.Errorf("reply has zxid %#x, event %#x", h.Zxid, zxid)
	}
}

func TestWatchesEndWithConnection(t *testing.T) {
	w := newWorld(t, false, nil)
	old, writer := w.connect(), w.connect()
	old.must(jute.OpGetData, getData("/", true))
	old.call(jute.OpExists, exists("/none", true))
	c := w.resume(old)
	old.expectClosed()
	waitFor(t, func() bool {
		w.state.RLock()
		defer w.state.RUnlock()
		return w.state.WatchCount() == 0
	})
	writer.must(jute.OpSetData, setData("/", "x"))
	c.must(jute.OpPing) // no event before it
}

// While others write, pipelining readers watch: no event overtakes the reply that set
// its watch, or trails a reply that shows its change, and zxids never go back.
func TestEventsAndReplies(t *testing.T) {
	w := newWorld(t, true, nil)
	const watchers, rounds = 4, 2000
	writer := w.connect()
	writer.must(jute.OpCreate, create("/w", "0", 0))
	var group sync.WaitGroup
	for range watchers {
		c := w.connect()
		go func() {
			for i := range rounds {
				b := frameOf(jute.RequestHeader{Xid: int32(i + 1), Op: jute.OpGetData}, getData("/w", true))
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
		group.Go(func() { watch(t, c, rounds) })
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				writer.must(jute.OpSetData, setData("/w", strconv.Itoa(i)))
			}
		}
	})
	group.Wait()
	close(stop)
	writing.Wait()
}

// watch checks what a connection hears that has sent so many reads with a watch: the
// watch is set from the first reply on, until an event, until the next reply.
func watch(t *testing.T, c *client, rounds int) {
	var zxid, mzxid int64
	set := false
	for replies := 0; replies < rounds; {
		frame, err := c.read()
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		var h jute.ReplyHeader
		d := jute.NewDecoder(frame)
		h.Decode(&d)
		if h.Zxid < zxid {
			t.Errorf("zxid %#x behind %#x", h.Zxid, zxid)
			return
		}
		zxid = h.Zxid
		if h.Xid == jute.XidNotification {
			if !set {
				t.Error("an event overtook the reply that set its watch")
				return
			}
			set = false
			if zxid <= mzxid {
				t.Errorf("event of %#x behind a reply that shows %#x", zxid, mzxid)
				return
			}
			continue
		}
		replies++
		var r jute.GetDataResponse
		r.Decode(&d)
		if set && r.Stat.Mzxid != mzxid {
			t.Errorf("a reply shows the change to %#x, and its event has not come", r.Stat.Mzxid)
			return
		}
		mzxid, set = r.Stat.Mzxid, true
	}
}

// The bytes of an event, as ZooKeeper sends them.
func TestEventBytes(t *testing.T) {
	w := newWorld(t, false, nil)
	c, writer := w.connect(), w.connect()
	writer.must(jute.OpCreate, create("/v", "hi", 0))
	c.must(jute.OpGetData, getData("/v", true))
	h, _ := writer.call(jute.OpSetData, setData("/v", "x"))
	want := append([]byte{255, 255, 255, 255}, binary.BigEndian.AppendUint64(nil, uint64(h.Zxid))...)
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 2, '/', 'v')
	if frame, err := c.read(); string(frame) != string(want) {
		t.Errorf("event % x, %v, want % x", frame, err, want)
	}
}
