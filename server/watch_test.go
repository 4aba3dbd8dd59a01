package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"rollcall/server/stream"
	"rollcall/zk/jute"
)

func setWatches(rel int64, data, exist, child []string) record {
	return jute.SetWatches{RelativeZxid: rel, Data: pathList(data), Exist: pathList(exist), Child: pathList(child)}
}

func pathList(paths []string) [][]byte {
	list := [][]byte{}
	for _, p := range paths {
		list = append(list, []byte(p))
	}
	return list
}

func addWatch(path string, mode jute.AddWatchMode) record {
	return jute.AddWatchRequest{Path: []byte(path), Mode: mode}
}

// checkWatches returns a request that is also valid as a removeWatches.
func checkWatches(path string, of jute.WatcherType) record {
	return jute.CheckWatchesRequest{Path: []byte(path), Type: of}
}

// watches returns the number of watches.
func (w *world) watches() int {
	w.state.RLock()
	defer w.state.RUnlock()
	return w.state.Watches().WatchCount()
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
	// A path that had not changed is watched now, and one that had changed is not.
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
	waitFor(t, func() bool { return w.watches() == 0 })
	writer.must(jute.OpSetData, setData("/", "x"))
	c.must(jute.OpPing) // no event comes before its reply
}

// While others write, pipelining readers set watches. No event comes before the reply that set its
// watch, and none comes after a reply that shows its change. Zxids never go back.
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

// watch checks the frames of a connection that sends the given number of reads with a watch. The
// watch is set by the first reply. It is gone after an event, and the next reply sets it again.
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
			t.Errorf("zxid %#x after %#x", h.Zxid, zxid)
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
				t.Errorf("event of %#x after a reply that shows %#x", zxid, mzxid)
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

// An event has the bytes that ZooKeeper sends.
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

// Cases 217, 223, 225, 226, 231 and 239: the replies to addWatch, checkWatches and removeWatches.
func TestWatchRequests(t *testing.T) {
	const persistent, recursive = jute.AddWatchPersistent, jute.AddWatchPersistentRecursive
	c := newWorld(t, false, nil).connect()
	tests := []struct {
		op   jute.Op
		rec  record
		code jute.Code
		body string
	}{
		{jute.OpAddWatch, addWatch("/p", persistent), jute.OK, "\x00\x00\x00\x00"},
		{jute.OpAddWatch, addWatch("/r", recursive), jute.OK, "\x00\x00\x00\x00"},
		{jute.OpAddWatch, addWatch("/p", 2), jute.MarshallingError, ""},
		{jute.OpAddWatch, raw{0, 0, 0, 1, '/', 0, 0}, jute.MarshallingError, ""},
		{jute.OpCheckWatches, checkWatches("/p", jute.WatcherData), jute.NoWatcher, ""},
		{jute.OpCheckWatches, checkWatches("/p", jute.WatcherPersistent), jute.OK, ""},
		{jute.OpCheckWatches, checkWatches("/p", 6), jute.MarshallingError, ""},
		{jute.OpCheckWatches, raw{0, 0}, jute.MarshallingError, ""},
		{jute.OpRemoveWatches, checkWatches("/p", 0), jute.MarshallingError, ""},
		{jute.OpRemoveWatches, raw{0, 0, 0, 1, '/'}, jute.MarshallingError, ""},
		{jute.OpRemoveWatches, checkWatches("/p", jute.WatcherPersistent), jute.OK, ""},
		{jute.OpRemoveWatches, checkWatches("/p", jute.WatcherPersistent), jute.NoWatcher, ""},
		{jute.OpRemoveWatches, checkWatches("/r", jute.WatcherAny), jute.OK, ""},
		{jute.OpCheckWatches, checkWatches("/r", jute.WatcherAny), jute.NoWatcher, ""},
		{jute.OpSetWatches2, jute.SetWatches2{Data: [][]byte{}, Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}}, jute.MarshallingError, ""},
		{jute.OpSetWatches2, setWatches(0, nil, nil, nil), jute.MarshallingError, ""},
		{jute.OpSetWatches, jute.SetWatches{Exist: [][]byte{}, Child: [][]byte{}}, jute.MarshallingError, ""},
	}
	for _, tt := range tests {
		if h, body := c.call(tt.op, tt.rec); h.Err != tt.code || string(body) != tt.body {
			t.Errorf("%v % x: %v % x, want %v % x", tt.op, tt.rec.Append(nil), h.Err, body, tt.code, tt.body)
		}
	}
}

// Case 238: persistent watches are set again whatever has happened. The events of the other watches
// come before the reply.
func TestSetWatches2(t *testing.T) {
	w := newWorld(t, false, nil)
	c, k := w.connect(), w.connect()
	k.must(jute.OpCreate, create("/n", "", 0))
	c.send(jute.RequestHeader{Xid: jute.XidSetWatches, Op: jute.OpSetWatches2}, jute.SetWatches2{
		Data: pathList([]string{"/n"}), Exist: pathList([]string{"/n"}), Child: pathList([]string{"/gone"}),
		Persistent: pathList([]string{"/n", "/p"}), Recursive: pathList([]string{"/n"}),
	})
	for _, e := range []jute.EventType{jute.EventNodeDataChanged, jute.EventNodeCreated} {
		if zxid := c.expectEvent(e, "/n"); zxid != -1 {
			t.Errorf("%v has zxid %d, want -1", e, zxid)
		}
	}
	c.expectEvent(jute.EventNodeDeleted, "/gone")
	c.expect(jute.XidSetWatches, jute.OK)
	for range 2 {
		h, _ := k.call(jute.OpSetData, setData("/n", "x"))
		if zxid := c.expectEvent(jute.EventNodeDataChanged, "/n"); zxid != h.Zxid {
			t.Errorf("event has zxid %#x, want %#x", zxid, h.Zxid)
		}
	}
	k.must(jute.OpCreate, create("/n/x", "", 0))
	c.expectEvent(jute.EventNodeCreated, "/n/x")
	c.expectEvent(jute.EventNodeChildrenChanged, "/n")
	k.must(jute.OpCreate, create("/p", "", 0))
	c.expectEvent(jute.EventNodeCreated, "/p")
}

// Requests about watches wait for their connection's own earlier writes.
func TestWatchRequestsWait(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	w.hold()
	c.request(jute.OpCreate, create("/a", "", 0))
	c.request(jute.OpAddWatch, addWatch("/a", jute.AddWatchPersistent))
	c.request(jute.OpSetData, setData("/a", "x"))
	c.request(jute.OpRemoveWatches, checkWatches("/a", jute.WatcherPersistent))
	c.request(jute.OpSetData, setData("/a", "x"))
	c.request(jute.OpCheckWatches, checkWatches("/a", jute.WatcherPersistent))
	c.request(jute.OpSetWatches2, jute.SetWatches2{
		Data: [][]byte{}, Exist: pathList([]string{"/a"}), Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{},
	})
	waitFor(t, func() bool { return w.srv.Stats().OutstandingRequests == 7 })
	w.release()
	c.expect(1, jute.OK) // the create fires no watch
	c.expect(2, jute.OK)
	c.expectEvent(jute.EventNodeDataChanged, "/a")
	c.expect(3, jute.OK)
	c.expect(4, jute.OK)
	c.expect(5, jute.OK)
	c.expect(6, jute.NoWatcher)
	c.expectEvent(jute.EventNodeCreated, "/a")
	c.expect(7, jute.OK)
	c.must(jute.OpPing)
}

// While others write, a persistent watch is set and removed. All events between the reply that it
// is set and the reply that it is removed arrive, and no others.
func TestEventsBetweenSetAndRemoved(t *testing.T) {
	w := newWorld(t, true, nil)
	const watchers, rounds = 4, 1000
	writer := w.connect()
	writer.must(jute.OpCreate, create("/w", "", 0))
	writer.must(jute.OpCreate, create("/w/x", "", 0))
	var clients []*client
	for range watchers {
		clients = append(clients, w.connect()) // before the watches, since a new session takes a zxid that no event has
	}
	var group sync.WaitGroup
	for _, c := range clients {
		go func() {
			for i := range rounds {
				b := frameOf(jute.RequestHeader{Xid: int32(2*i + 1), Op: jute.OpAddWatch}, addWatch("/w", jute.AddWatchPersistentRecursive))
				b = append(b, frameOf(jute.RequestHeader{Xid: int32(2*i + 2), Op: jute.OpRemoveWatches}, checkWatches("/w", jute.WatcherPersistentRecursive))...)
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
		group.Go(func() { hearBetween(t, c, rounds) })
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				writer.must(jute.OpSetData, setData("/w/x", ""))
			}
		}
	})
	group.Wait()
	close(stop)
	writing.Wait()
}

// hearBetween reads the replies to the given number of rounds. Each change takes the next zxid, so
// between two replies no zxid may be missing.
func hearBetween(t *testing.T, c *client, rounds int) {
	var zxid int64
	for replies := 0; replies < 2*rounds; {
		frame, err := c.read()
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		var h jute.ReplyHeader
		d := jute.NewDecoder(frame)
		h.Decode(&d)
		set := replies%2 == 1
		switch {
		case h.Xid == jute.XidNotification && !set:
			t.Errorf("an event of %#x while no watch is set", h.Zxid)
			return
		case h.Xid == jute.XidNotification && h.Zxid != zxid+1, h.Xid != jute.XidNotification && set && h.Zxid != zxid:
			t.Errorf("%#x after %#x: an event is lost", h.Zxid, zxid)
			return
		case h.Err != jute.OK || h.Xid != jute.XidNotification && h.Xid != int32(replies+1):
			t.Errorf("reply %d: %+v", replies+1, h)
			return
		}
		if zxid = h.Zxid; h.Xid != jute.XidNotification {
			replies++
		}
	}
}

// manyWatches returns requests for 100,000 paths without nodes, split as clients split them, and
// the number of paths in each request.
func manyWatches(request func(paths []string) record) (frames [][]byte, counts []int) {
	const all, split = 100_000, 128 << 10
	var paths []string
	size := 0
	flush := func() {
		op := jute.OpSetWatches2
		frames = append(frames, frameOf(jute.RequestHeader{Xid: int32(len(frames) + 1), Op: op}, request(paths)))
		counts = append(counts, len(paths))
		paths, size = nil, 0
	}
	for i := range all {
		path := fmt.Sprintf("/services/a-service-with-a-name/instances/%07d", i)
		if size += len(path); size > split {
			flush()
		}
		paths = append(paths, path)
	}
	flush()
	return frames, counts
}

// Case 240: a client comes back with 100,000 watches. All are set, each fires once, and all of them
// go with the connection.
func TestManyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c, k := w.connect(), w.connect()
		frames, counts := manyWatches(func(paths []string) record {
			return jute.SetWatches2{Data: [][]byte{}, Exist: pathList(paths), Child: [][]byte{}, Persistent: [][]byte{}, Recursive: pathList(paths[:1])}
		})
		if len(frames) < 30 {
			t.Fatalf("%d requests", len(frames))
		}
		go func() {
			for _, b := range frames {
				_, _ = c.Write(b)
			}
		}()
		for i := range frames {
			c.expect(int32(i+1), jute.OK)
		}
		if n := w.watches(); n != 100_000 {
			t.Errorf("%d watches", n)
		}
		k.must(jute.OpCreate, create("/services", "", 0))
		k.must(jute.OpCreate, create("/services/a-service-with-a-name", "", 0))
		k.must(jute.OpCreate, create("/services/a-service-with-a-name/instances", "", 0))
		for _, n := range []int{counts[0] + 5, 99_999} {
			path := fmt.Sprintf("/services/a-service-with-a-name/instances/%07d", n)
			k.must(jute.OpCreate, create(path, "", 0))
			k.must(jute.OpSetData, setData(path, ""))
			c.expectEvent(jute.EventNodeCreated, path)
		}
		c.must(jute.OpPing)
		if n := w.watches(); n != 100_000-2 {
			t.Errorf("%d watches", n)
		}
		_ = c.Close()
		waitFor(t, func() bool { return w.watches() == 0 })
	})
}

// A client that missed 100,000 changes gets all their events, in order, although it reads only
// after it has sent all requests. Until then the server holds the events back. If the events of one
// request are more than a client may leave unread, the connection is closed.
func TestManyMissedEvents(t *testing.T) {
	missed := func(paths []string) record {
		return jute.SetWatches2{Data: pathList(paths), Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}
	}
	frames, counts := manyWatches(missed)
	most := stream.MaxWaitingBytes // a request that is read once fewer bytes are held may exceed it
	for _, b := range frames {
		most = max(most, stream.MaxWaitingBytes-1+len(b))
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		go func() {
			for _, b := range frames {
				_, _ = c.Write(b)
			}
		}()
		synctest.Wait()
		for _, k := range w.srv.conns.all() {
			k.stream.Lock()
			if n := k.stream.UnsentBytes(); n < stream.HighWater || n > 2*stream.HighWater || k.replies.queue.heldBytes > most {
				t.Errorf("%d bytes unsent, %d held", n, k.replies.queue.heldBytes)
			}
			k.stream.Unlock()
		}
		next := 0
		for i := range frames {
			for range counts[i] {
				c.expectEvent(jute.EventNodeDeleted, fmt.Sprintf("/services/a-service-with-a-name/instances/%07d", next))
				next++
			}
			c.expect(int32(i+1), jute.OK)
		}
		if n := w.watches(); n != 0 {
			t.Errorf("%d watches", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(c *Config) { c.Limits.MaxUnread = 64 << 10 })
		c := w.connect()
		c.write(frames[0])
		synctest.Wait() // what a client reads meanwhile does not count as unread
		if rest, _ := io.ReadAll(c.in); len(rest) > 64<<10 {
			t.Errorf("%d bytes came", len(rest))
		}
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["slow_reader"]; n != 1 {
			t.Errorf("%d slow readers counted, want 1", n)
		}
	})
}
