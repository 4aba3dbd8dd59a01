package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// restore sends a setWatches2 of persistent and recursive watches.
func (c *client) restore(relative int64, persistent, recursive []string) {
	c.tb.Helper()
	none := [][]byte{}
	c.request(jute.OpSetWatches2, jute.SetWatches2{
		RelativeZxid: relative, Data: none, Exist: none, Child: none, Persistent: pathList(persistent), Recursive: pathList(recursive),
	})
}

// event is an event as a client gets it.
type event struct {
	of   jute.EventType
	path string
	zxid int64
}

// events reads events up to a reply, and returns both.
func (c *client) events() (all []event, reply jute.ReplyHeader) {
	c.tb.Helper()
	for {
		h, body := c.reply()
		if h.Xid != jute.XidNotification {
			return all, h
		}
		var e jute.WatcherEvent
		d := jute.NewDecoder(body)
		e.Decode(&d)
		all = append(all, event{e.Type, string(e.Path), h.Zxid})
	}
}

func (w *world) replays(result replayResult) uint64 { return w.srv.stats.replays[result].Load() }

// zxidOf sends a write, and returns its zxid.
func (c *client) zxidOf(op jute.Op, records ...record) int64 {
	c.tb.Helper()
	h, _ := c.call(op, records...)
	if h.Err != jute.OK {
		c.tb.Fatalf("%v: %v", op, h.Err)
	}
	return h.Zxid
}

// A client that comes back gets the events that its persistent watches have missed, with the zxids of the changes, before the
// reply to its setWatches2. After that it gets events as usual.
func TestMissedEventsAreReplayed(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		w := newWorld(t, tcp, nil)
		c, other := w.connect(), w.connect()
		seen := c.zxidOf(jute.OpCreate, create("/a", "", 0))
		c.must(jute.OpAddWatch, addWatch("/a", jute.AddWatchPersistent))
		want := []event{
			{jute.EventNodeChildrenChanged, "/a", other.zxidOf(jute.OpCreate, create("/a/b", "", 0))},
			{jute.EventNodeDataChanged, "/a", other.zxidOf(jute.OpSetData, setData("/a", "1"))},
			{jute.EventNodeDataChanged, "/a/b", other.zxidOf(jute.OpSetData, setData("/a/b", "1"))},
			{jute.EventNodeDataChanged, "/a", other.zxidOf(jute.OpSetData, setData("/a", "2"))},
		}
		other.must(jute.OpCreate, create("/elsewhere", "", 0))
		last := other.zxidOf(jute.OpSetData, setData("/elsewhere", ""))
		again := w.resume(c)
		again.restore(seen, []string{"/a"}, []string{"/a/b"})
		got, reply := again.events()
		if want := append([]event{{jute.EventNodeCreated, "/a/b", want[0].zxid}}, want...); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if reply.Xid != again.xid || reply.Err != jute.OK || reply.Zxid != last {
			t.Errorf("the reply is %+v, want zxid %#x", reply, last)
		}
		other.must(jute.OpSetData, setData("/a/b", "3"))
		again.expectEvent(jute.EventNodeDataChanged, "/a/b")
		again.must(jute.OpPing)
		if w.replays(replayDone) != 1 {
			t.Errorf("%d replays", w.replays(replayDone))
		}
	}
}

// waitingReplay has a client with a replay that waits for its turn, and another client.
type waitingReplay struct {
	*world
	c, other *client
	resume   func()
}

// withWaitingReplay runs test when the watches of a client are set again, and the replay of the changes of /a waits for its turn. The
// client has a one-shot watch on /once and a persistent one on /live from before.
func withWaitingReplay(t *testing.T, change func(*Config), test func(*waitingReplay)) {
	t.Helper()
	for range 100 {
		if w := newWaitingReplay(t, change); w != nil {
			test(w)
			return
		}
	}
	t.Fatal("the replay has never waited for its second turn")
}

// newWaitingReplay returns nil if the test had the turn before the watches were set, or after the replay, which the scheduler decides.
func newWaitingReplay(t *testing.T, change func(*Config)) *waitingReplay {
	t.Helper()
	w := newWorld(t, false, change)
	c, other := w.connect(), w.connect()
	seen := other.zxidOf(jute.OpCreate, create("/a", "", 0))
	for i := range 3 {
		other.must(jute.OpCreate, create(fmt.Sprint("/a/before", i), "", 0))
	}
	other.must(jute.OpCreate, create("/once", "", 0))
	c.must(jute.OpGetData, getData("/once", true))
	c.must(jute.OpAddWatch, addWatch("/live", jute.AddWatchPersistent))
	turn := w.takeTurn(w.srv.setWatchesTurn)
	c.restore(seen, nil, []string{"/a"})
	waitFor(t, func() bool { return w.srv.Stats().OutstandingRequests == 1 })
	turn.End()
	turn = w.takeTurn(w.srv.setWatchesTurn) // before the watches are set, after that, or after the whole replay
	w.state.RLock()
	set := w.state.Watches().HasRecursiveWatch("/a")
	w.state.RUnlock()
	if !set || w.replays(replayDone) != 0 {
		turn.End()
		return nil
	}
	return &waitingReplay{w, c, other, turn.End}
}

// While missed events are sent, newer events of the connection wait, whichever of its watches they are for. All come in the order
// of the log, and once.
func TestNewerEventsWaitForMissedOnes(t *testing.T) {
	withWaitingReplay(t, nil, func(w *waitingReplay) {
		w.other.must(jute.OpSetData, setData("/once", "x"))
		w.other.must(jute.OpCreate, create("/a/during", "", 0))
		w.other.must(jute.OpCreate, create("/live", "", 0))
		w.other.must(jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{
			{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/a"), Version: -1}},
			{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/live"), Version: -1}},
			{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/a/during"), Version: -1}},
		})))
		w.c.expectSilence(20 * time.Millisecond)
		w.resume()
		got, reply := w.c.events()
		var texts []string
		for i, e := range got {
			texts = append(texts, e.path)
			if i > 0 && e.zxid < got[i-1].zxid {
				t.Errorf("%v after %v", e, got[i-1])
			}
		}
		want := "/a/before0 /a/before1 /a/before2 /once /a/during /live /a /live /a/during"
		if strings.Join(texts, " ") != want || reply.Err != jute.OK {
			t.Errorf("got %s, then %+v, want %s", texts, reply, want)
		}
	})
}

// Newer events that wait for a replay count in the memory of all clients until they are sent. A connection with too many of them
// is dropped.
func TestWaitingEventsAreCounted(t *testing.T) {
	const each = 200 // bytes of one, at least
	changeLive := func(w *waitingReplay, n int) {
		txns := []*proto.Txn{w.txn(jute.OpCreate, create("/live", "", 0))}
		for range n {
			txns = append(txns, w.txn(jute.OpSetData, setData("/live", "x")))
		}
		w.apply(txns...)
	}
	withWaitingReplay(t, nil, func(w *waitingReplay) {
		const events = 10_000
		before := w.srv.Stats().HeldBytes
		changeLive(w, events)
		if held := w.srv.Stats().HeldBytes - before; held < events*each/2 {
			t.Errorf("%d bytes are held for %d events", held, events)
		}
		w.resume()
		if got, reply := w.c.events(); len(got) != 3+1+events || reply.Err != jute.OK {
			t.Errorf("%d events and %+v", len(got), reply)
		}
		waitFor(t, func() bool { return w.srv.Stats().HeldBytes < before+stream.MinAccountChange })
	})
	withWaitingReplay(t, func(cfg *Config) { cfg.Limits.MaxUnread = 100 * each }, func(w *waitingReplay) {
		changeLive(w, 200)
		w.resume()
		for {
			if _, err := w.c.read(); err != nil {
				break
			}
		}
		waitFor(t, func() bool { return w.srv.Stats().EndedByReason["slow_reader"] == 1 })
	})
}

// fill changes nodes so often that the events take more than size bytes, and returns their number.
func (w *world) fill(size int) (events int) {
	path := "/fill/" + strings.Repeat("n", 1000)
	if _, there := w.state.NodeSize([]byte("/fill")); there == 0 {
		w.apply(w.txn(jute.OpCreate, create("/fill", "", 0)), w.txn(jute.OpCreate, create(path, "", 0)))
	}
	for ; events*1000 < size; events++ {
		w.apply(w.txn(jute.OpSetData, setData(path, "x")))
	}
	return events
}

// txn is the next transaction of another member, without a session.
func (w *world) txn(op jute.Op, r record) *proto.Txn {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq[other]++
	return &proto.Txn{Member: other, Incarnation: testBoot, Seq: w.seq[other], Op: int32(op), Body: r.Append(nil)}
}

// A client that takes its missed events slowly gets all of them. Meanwhile the server holds no more of them than for any reply.
func TestSlowClientGetsAllMissedEvents(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	seen := c.zxidOf(jute.OpCreate, create("/seen", "", 0))
	want := w.fill(3*stream.HighWater) + 1
	c.restore(seen, nil, []string{"/fill/" + strings.Repeat("n", 1000)})
	waitFor(t, func() bool { return w.srv.stats.replayedEvents.Load() > stream.HighWater/1100 })
	want += w.fill(stream.HighWater)
	for range 20 { // the replay works in turns only, so it has had those that it wants
		w.takeTurn(w.srv.setWatchesTurn).End()
	}
	if held := w.srv.Stats().HeldBytes; held > 2*stream.HighWater {
		t.Errorf("%d bytes are held", held)
	}
	got, reply := c.events()
	if len(got) != want || reply.Err != jute.OK {
		t.Errorf("%d events and %+v, want %d", len(got), reply, want)
	}
	for i := 1; i < len(got); i++ {
		if got[i].zxid <= got[i-1].zxid {
			t.Fatalf("%v after %v", got[i], got[i-1])
		}
	}
}

// A client that takes its missed events more slowly than the history drops them loses its connection instead of an event.
func TestReplayIsOverrun(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	seen := c.zxidOf(jute.OpCreate, create("/seen", "", 0))
	w.fill(2 * stream.HighWater)
	c.restore(seen, nil, []string{"/"})
	waitFor(t, func() bool { return w.srv.stats.replayedEvents.Load() > stream.HighWater/1100 })
	w.fill(2 * testHistory)
	for {
		if _, err := c.read(); err != nil {
			break
		}
	}
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["history_overrun"] == 1 })
	if w.replays(replayOverrun) != 1 || w.replays(replayDone) != 0 {
		t.Errorf("%d replays were overrun, and %d ended", w.replays(replayOverrun), w.replays(replayDone))
	}
	again := w.resume(c)
	again.restore(seen, nil, []string{"/"})
	if got, reply := again.events(); len(got) > 0 || reply.Err != jute.OK {
		t.Errorf("%d events, and %+v", len(got), reply)
	}
	if w.replays(replayTooOld) != 1 {
		t.Errorf("%d replays were too old", w.replays(replayTooOld))
	}
}

// Replays rest for as long as they have worked, and not for less than a sleep takes.
func TestReplaysRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d restDebt
		for i, tt := range []struct{ worked, want time.Duration }{
			{minReplayRest - 1, 0}, {2, minReplayRest + 1}, {minReplayRest - 1, 0}, {time.Second, maxTurnRest}, {1, 0},
		} {
			began := time.Now()
			if d.restAfter(tt.worked); time.Since(began) != tt.want {
				t.Errorf("%d: it rests for %v, want %v", i, time.Since(began), tt.want)
			}
		}
	})
}

// Whatever zxid a client names, its watches are set. It gets events only of a zxid that the history reaches.
func TestZxidsOfStrangers(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	first := c.zxidOf(jute.OpCreate, create("/first", "", 0))
	second := c.zxidOf(jute.OpCreate, create("/second", "", 0))
	for _, tt := range []struct {
		zxid        int64
		done, ahead uint64
		events      int
	}{
		{0, 0, 0, 0},
		{-1, 0, 0, 0},
		{-1 << 63, 0, 0, 0},
		{1, 1, 0, 2},
		{first, 1, 0, 1},
		{second, 1, 0, 0},
		{1 << 40, 0, 1, 0},
		{1<<63 - 1, 0, 1, 0},
	} {
		done, ahead := w.replays(replayDone), w.replays(replayAhead)
		k := w.connect()
		k.restore(tt.zxid, nil, []string{"/first", "/second"})
		got, reply := k.events()
		if len(got) != tt.events || reply.Err != jute.OK || w.replays(replayDone)-done != tt.done || w.replays(replayAhead)-ahead != tt.ahead {
			t.Errorf("zxid %#x: %v, %+v", tt.zxid, got, reply)
		}
		k.must(jute.OpCheckWatches, checkWatches("/first", jute.WatcherPersistentRecursive))
		k.must(jute.OpCloseSession)
	}
}

// The reply to a full batch of watches has no zxid: another batch may follow, and if the connection ends before, the client must name
// the same zxid again.
func TestFullBatchHasNoZxid(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	seen := c.zxidOf(jute.OpCreate, create("/a", "", 0))
	c.must(jute.OpSetData, setData("/a", "x"))
	for _, tt := range []struct {
		bytes  int
		noZxid bool
	}{{fullBatchBytes - 1, false}, {fullBatchBytes, true}} {
		path := "/" + strings.Repeat("x", 1023)
		paths := [][]byte{}
		for n := tt.bytes; n > 0; n -= len(path) {
			paths = append(paths, []byte(path[:min(n, len(path))]))
		}
		none := [][]byte{}
		c.request(jute.OpSetWatches2, jute.SetWatches2{
			RelativeZxid: seen, Data: none, Exist: paths, Child: none, Persistent: none, Recursive: none,
		})
		if _, reply := c.events(); (reply.Zxid == 0) != tt.noZxid || reply.Err != jute.OK {
			t.Errorf("%d bytes of paths: %+v", tt.bytes, reply)
		}
	}
}

// A setWatches2 that cannot be read or has a path that is too long begins no replay.
func TestBadRequestsBeginNoReplay(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	seen := c.zxidOf(jute.OpCreate, create("/a", "", 0))
	c.must(jute.OpSetData, setData("/a", "x"))
	none, tooLong := [][]byte{}, bytes.Repeat([]byte("/x"), DefaultMaxPath)
	for name, tt := range map[string]struct {
		req  record
		code jute.Code
	}{
		"no list":       {jute.SetWatches2{RelativeZxid: seen, Data: none, Exist: none, Child: nil, Persistent: pathList([]string{"/a"}), Recursive: none}, jute.MarshallingError},
		"no last list":  {jute.SetWatches2{RelativeZxid: seen, Data: none, Exist: none, Child: none, Persistent: pathList([]string{"/a"})}, jute.MarshallingError},
		"long path":     {jute.SetWatches2{RelativeZxid: seen, Data: none, Exist: none, Child: none, Persistent: [][]byte{[]byte("/a"), tooLong}, Recursive: none}, jute.BadArguments},
		"cut in a path": {raw(jute.SetWatches2{RelativeZxid: seen, Data: none, Exist: none, Child: none, Persistent: pathList([]string{"/a"}), Recursive: none}.Append(nil)[:31]), jute.MarshallingError},
	} {
		if h, _ := c.call(jute.OpSetWatches2, tt.req); h.Err != tt.code {
			t.Errorf("%s: %v, want %v", name, h.Err, tt.code)
		}
	}
	c.must(jute.OpSetData, setData("/a", "x")) // fires no watch
	null := jute.SetWatches2{RelativeZxid: seen, Data: none, Exist: none, Child: none, Persistent: [][]byte{nil}, Recursive: [][]byte{nil, []byte("")}}
	c.request(jute.OpSetWatches2, null)
	if got, reply := c.events(); len(got) != 2 || reply.Err != jute.OK { // the empty path is the root
		t.Errorf("null paths: %v, %+v", got, reply)
	}
}

// Without a history of changes, persistent watches are set again as by ZooKeeper, and nothing is replayed or counted.
func TestNoHistory(t *testing.T) {
	w := newWorld(t, false, nil)
	off := znode.New(znode.Config{Self: self, Hooks: w.fakeMember})
	if znode.KeepsChanges(off) || !znode.KeepsChanges(w.state) {
		t.Error("a state without a limit keeps changes")
	}
	r := &request{c: &conn{session: session{tree: off, limits: &w.srv.cfg.Limits}}, op: jute.OpSetWatches2}
	none := [][]byte{}
	r.body = jute.SetWatches2{RelativeZxid: 1, Data: none, Exist: none, Child: none, Persistent: pathList([]string{"/a"}), Recursive: none}.Append(nil)
	if code := checkInParts(r); code != jute.OK || r.c.replay != nil || r.noZxid {
		t.Errorf("%v, replay %v", code, r.c.replay)
	}
}
