package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// newBudgetedWorld returns a world with a small budget and a node /big of 100 KiB, and a client.
func newBudgetedWorld(t *testing.T) (*world, *client) {
	t.Helper()
	w := newWorld(t, false, func(c *Config) { c.Limits.Budget, c.Limits.MaxClientConns = testBudget, -1 })
	c := w.connect()
	c.must(jute.OpCreate, create("/big", strings.Repeat("x", bigNode), 0))
	synctest.Wait() // by then the request is no longer counted
	return w, c
}

const (
	bigNode    = 100 << 10
	testBudget = 4 << 20
)

// connectSilent connects n clients one after another. Each sends ask and reads nothing.
func (w *world) connectSilent(n int, ask []byte) []*client {
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = w.connect()
		go func() { _, _ = clients[i].Write(ask) }()
		synctest.Wait()
	}
	return clients
}

func (w *world) used() int64 { return w.srv.streamConfig.Budget.UsedBytes() }

func (w *world) droppedClients() uint64 { return w.srv.Stats().OverBudget }

func reads(n int) []byte {
	var b []byte
	for i := range n {
		b = append(b, frameOf(jute.RequestHeader{Xid: int32(i + 1), Op: jute.OpGetData}, getData("/big", false))...)
	}
	return b
}

// However many clients request large replies and read none, the server holds no more for them than the budget. It
// replies to small requests of others at once. A large reply waits for stream.MaxBudgetWait, and then the clients that
// read nothing make room for it.
func TestBudgetOfReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newBudgetedWorld(t)
		w.connectSilent(20, reads(20)) // with more of them, the modest client would wait for several rounds of stream.MaxBudgetWait
		if n := w.used(); n > testBudget || n < testBudget/2 {
			t.Errorf("%d bytes are held", n)
		}
		if n := w.droppedClients(); n != 0 {
			t.Errorf("%d connections closed although no other client needs room", n)
		}
		began := time.Now()
		c.must(jute.OpExists, exists("/big", false))
		c.must(jute.OpSetData, setData("/", "x"))
		if took := time.Since(began); took != 0 {
			t.Errorf("small requests wait for %v", took)
		}
		modest := w.connect()
		if body := modest.must(jute.OpGetData, getData("/big", false)); len(body) < bigNode {
			t.Errorf("%d bytes came", len(body))
		}
		if took := time.Since(began); took > 2*stream.MaxBudgetWait {
			t.Errorf("a large reply waits for %v", took)
		}
	})
}

// A client that reads its replies is not closed because of clients that read nothing, and it gets
// all of them. That holds if it comes last and reads at once. It also holds if it comes first,
// reads slowly, and holds more than any other.
func TestBudgetSparesReaders(t *testing.T) {
	for _, tt := range []struct {
		name  string
		size  int // of the node that the reading client asks for
		times int
		slow  bool
		each  int // how often each of the others asks for /big
	}{
		{name: "at once", size: bigNode, times: 200, each: 20},
		{name: "slowly", size: bigNode, times: 40, slow: true, each: 1},
		{name: "a large one slowly", size: 9 * bigNode, times: 5, slow: true, each: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newBudgetedWorld(t)
				c.must(jute.OpSetData, setData("/", strings.Repeat("x", tt.size)))
				var ask []byte
				for i := range tt.times {
					ask = append(ask, frameOf(jute.RequestHeader{Xid: int32(i + 1), Op: jute.OpGetData}, getData("/", false))...)
				}
				if !tt.slow {
					w.connectSilent(40, reads(tt.each))
				}
				go func() { _, _ = c.Write(ask) }()
				synctest.Wait()
				if tt.slow {
					w.connectSilent(40, reads(tt.each))
					c.in = bufio.NewReader(paced{c})
				}
				for i := range tt.times {
					c.expect(int32(i+1), jute.OK)
				}
				if w.droppedClients() == 0 {
					t.Error("no client that reads nothing was closed: the budget had room")
				}
			})
		})
	}
}

// paced reads a third more than one write has in stream.MaxBudgetWait. That is fast enough to
// count as a client that reads.
type paced struct{ io.Reader }

func (p paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b[:min(len(b), stream.MaxWrite/8)])
	time.Sleep(stream.MaxBudgetWait * time.Duration(n) / (stream.MaxWrite / 3 * 4))
	return n, err
}

// Reads between two writes cannot wait, so they may exceed the budget. Then the connections that
// hold most are closed at once. A connection that holds little stays open, even if its client has
// read nothing for long and the others have.
func TestBudgetOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newBudgetedWorld(t)
		modest := w.connect()
		modest.must(jute.OpGetData, getData("/big", true))
		var ask []byte
		for range 4 {
			ask = append(ask, frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpSetData}, setData("/", ""))...)
			ask = append(ask, reads(20)...)
		}
		clients := w.connectSilent(5, nil)
		w.hold()
		for _, c := range clients {
			go func() { _, _ = c.Write(ask) }()
		}
		modest.request(jute.OpGetData, getData("/big", false)) // its reply is not read yet
		time.Sleep(2 * stream.MaxBudgetWait)
		synctest.Wait()
		w.release() // each is owed 60 replies of 100 KiB
		time.Sleep(stream.BudgetCheckInterval)
		synctest.Wait()
		if n := w.used(); n > testBudget {
			t.Errorf("%d bytes are held", n)
		}
		if n := w.droppedClients(); n == 0 || n > 5 {
			t.Errorf("%d connections closed, want one to five", n)
		}
		modest.expect(2, jute.OK)
		modest.must(jute.OpPing)
	})
}

// A long request is counted as its bytes arrive, and its length alone costs nothing. When the
// budget is spent, the next request waits until silent clients that have sent a part of theirs are
// closed.
func TestBudgetOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, silent = 1_000_000, 40
		w, c := newBudgetedWorld(t)
		long := frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpSetData}, setData("/big", strings.Repeat("y", size)))
		w.connectSilent(silent, long[:100])
		if n := w.used(); n != 0 {
			t.Errorf("%d bytes are held for lengths alone", n)
		}
		w.connectSilent(silent, long[:size*7/10])
		if n := w.used(); n > testBudget || n < testBudget/2 {
			t.Errorf("%d bytes are held", n)
		}
		began := time.Now()
		c.must(jute.OpSetData, setData("/", "small"))
		if took := time.Since(began); took != 0 {
			t.Errorf("a small request waits for %v", took)
		}
		c.write(long)
		c.expect(1, jute.OK)
		// An eighth of the budget is kept free, so three such requests fit at a time. Requests that came
		// before this one are let in first: the silent ones without the first three, and then this one,
		// make 13 rounds. In each round three connections are closed at the first check after they have
		// been silent for stream.MaxBudgetWait. The checks begin with the wait, so there is at most one
		// more.
		const atOnce = testBudget / 8 * 7 / size
		const waiting = silent - atOnce + 1
		const rounds = (waiting + atOnce - 1) / atOnce
		if took, most := time.Since(began), rounds*(stream.MaxBudgetWait+stream.BudgetCheckInterval)+stream.BudgetCheckInterval; took > most {
			t.Errorf("a long request waits for %v, want %v at most", took, most)
		}
	})
}

// If no room comes, a request that waits for it ends like the request of a silent client.
func TestBudgetWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newBudgetedWorld(t)
		w.srv.streamConfig.Budget.AddBytes(testBudget) // held by no connection, so that none can make room
		defer w.srv.streamConfig.Budget.AddBytes(-testBudget)
		go func() {
			_, _ = c.Write(frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpSetData}, setData("/big", strings.Repeat("y", 1_000_000))))
		}()
		time.Sleep(time.Duration(c.timeout) * time.Millisecond)
		if n := len(w.srv.conns.all()); n != 1 {
			t.Fatalf("%d connections", n)
		}
		time.Sleep((stream.IdleSlack + 1) * testTick)
		c.expectClosed()
	})
}

// Apply leaves a long list to another goroutine. The client's next write waits for the list, which
// does not show that write.
func TestLongListsAreNotApplysWork(t *testing.T) {
	const children = 2 * maxApplyChildren
	list := jute.GetChildrenRequest{Path: []byte("/")}
	for _, tt := range []struct {
		name  string
		op    jute.Op
		rec   record
		aside bool
	}{
		{name: "children", op: jute.OpGetChildren, rec: list, aside: true},
		{name: "children2", op: jute.OpGetChildren2, rec: list, aside: true},
		{name: "few children", op: jute.OpGetChildren, rec: jute.GetChildrenRequest{Path: []byte("/zookeeper")}},
		{name: "most children", op: jute.OpGetChildren, rec: jute.GetChildrenRequest{Path: []byte("/0000")}},
		{name: "multi", op: jute.OpMultiRead, rec: raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetChildren, GetChildren: list}})), aside: true},
		{name: "all below", op: jute.OpGetAllChildrenNumber, rec: jute.GetAllChildrenNumberRequest{Path: []byte("/")}, aside: true},
		{name: "ephemerals", op: jute.OpGetEphemerals, rec: jute.GetEphemeralsRequest{}, aside: true},
		{name: "ACL", op: jute.OpGetACL, rec: jute.GetACLRequest{Path: []byte("/")}, aside: true},
		{name: "data", op: jute.OpGetData, rec: getData("/", false)},
		{name: "few watches", op: jute.OpSetWatches, rec: setWatches(1<<40, slices.Repeat([]string{"/"}, maxApplyPaths), nil, nil)},
		{name: "more watches", op: jute.OpSetWatches, rec: setWatches(1<<40, slices.Repeat([]string{"/"}, maxApplyPaths+1), nil, nil), aside: true},
		{name: "many watches", op: jute.OpSetWatches, rec: setWatches(1<<40, slices.Repeat([]string{"/"}, maxWatchBytesAtOnce), nil, nil), aside: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				c := w.connect()
				for i := range children {
					c.must(jute.OpCreate, create(fmt.Sprintf("/%04d", i), "", 0))
				}
				for i := range maxApplyChildren {
					c.must(jute.OpCreate, create(fmt.Sprintf("/0000/%d", i), "", 0))
				}
				xid := c.xid
				w.hold()
				c.request(jute.OpSetData, setData("/", "x"))
				c.request(tt.op, tt.rec)
				go func() {
					_, _ = c.Write(frameOf(jute.RequestHeader{Xid: xid + 3, Op: jute.OpCreate}, create("/late", "", 0)))
				}()
				synctest.Wait()
				unanswered := -1
				w.entryEnd = func() {
					if unanswered < 0 {
						k := w.srv.conns.all()[0]
						k.stream.Lock()
						unanswered = k.replies.queue.n
						k.stream.Unlock()
					}
				}
				w.release()
				c.expect(xid+1, jute.OK)
				h, body := c.reply()
				if h.Xid != xid+2 || h.Err != jute.OK || bytes.Contains(body, []byte("late")) {
					t.Errorf("answered xid %d, error %d, % x", h.Xid, h.Err, body)
				}
				c.expect(xid+3, jute.OK)
				if aside := unanswered == 1; aside != tt.aside {
					t.Errorf("%d requests unanswered when apply was done; aside: %v, want %v", unanswered, aside, tt.aside)
				}
			})
		})
	}
}

// Of reads that may take long, one is answered under the tree's lock, which apply waits for, before the lock is released.
// Otherwise one client could stop apply for as long as all reads take that it may have in flight.
func TestLongReadsReleaseTheLock(t *testing.T) {
	const reads = 3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		c.must(jute.OpCreate, create("/a", "", 0))
		xid := c.xid
		w.hold()
		c.request(jute.OpSetData, setData("/a", "x"))
		for range reads {
			c.request(jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: []byte("/")})
		}
		synctest.Wait()
		left := -1
		w.entryEnd = func() {
			if left < 0 {
				k := w.srv.conns.all()[0]
				k.stream.Lock()
				k.replies.queueReadyReplies(false) // as Resume does, which waits for apply
				left = k.replies.queue.n
				k.stream.Unlock()
			}
		}
		w.release()
		for i := range int32(1 + reads) {
			c.expect(xid+1+i, jute.OK)
		}
		if left != reads-1 {
			t.Errorf("%d of %d reads unanswered, want all but one", left, reads)
		}
	})
}

// Large data are sent from the tree's own memory. Whichever way they take to the socket, they
// arrive whole, between the right frames, and as they were when the request was answered.
func TestSharedData(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		for _, size := range []int{1, minSharedBytesWaiting - 1, minSharedBytesWaiting, minSharedBytes - 1, minSharedBytes, 900_000} {
			for _, behind := range []bool{false, true} { // whether the read waits for a write
				t.Run(fmt.Sprintf("tcp %v, %d bytes, behind a write %v", tcp, size, behind), func(t *testing.T) {
					w := newWorld(t, tcp, nil)
					c := w.connect()
					c.must(jute.OpCreate, create("/a", strings.Repeat("o", size), 0))
					c.must(jute.OpGetData, getData("/a", true))
					ask := frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpSetData}, setData("/a", strings.Repeat("n", size)))
					if !behind {
						ask = frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpGetData}, getData("/a", false))
					}
					ask = append(ask, frameOf(jute.RequestHeader{Xid: 2, Op: jute.OpGetData}, getData("/a", false))...)
					ask = append(ask, frameOf(jute.RequestHeader{Xid: 3, Op: jute.OpExists}, exists("/a", false))...)
					ask = append(ask, frameOf(jute.RequestHeader{Xid: 4, Op: jute.OpSetData}, setData("/a", strings.Repeat("l", size)))...)
					go func() { _, _ = c.Write(ask) }()
					want := byte('o')
					if behind {
						c.expectEvent(jute.EventNodeDataChanged, "/a")
						want = 'n'
					}
					c.expect(1, jute.OK)
					h, body := c.reply()
					var got jute.GetDataResponse
					d := jute.NewDecoder(body)
					if got.Decode(&d); d.Err() != nil || len(d.Rest()) > 0 || h.Xid != 2 || !bytes.Equal(got.Data, bytes.Repeat([]byte{want}, size)) {
						t.Errorf("xid %d, %d bytes, of data %d, of which %d are %q",
							h.Xid, len(body), len(got.Data), bytes.Count(got.Data, []byte{want}), want)
					}
					if int(got.Stat.DataLength) != size {
						t.Errorf("stat of %d bytes", got.Stat.DataLength)
					}
					c.expect(3, jute.OK)
					if !behind {
						c.expectEvent(jute.EventNodeDataChanged, "/a")
					}
					c.expect(4, jute.OK)
				})
			}
		}
	}
}

// A client that has read nothing while its node was overwritten and then deleted gets the data that the node had at the
// time of the request.
func TestSharedDataOutlivesTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, writer := newBudgetedWorld(t)
		c := w.connect()
		c.write(reads(2))
		synctest.Wait()
		writer.must(jute.OpSetData, setData("/big", strings.Repeat("y", bigNode)))
		writer.must(jute.OpDelete, jute.DeleteRequest{Path: []byte("/big"), Version: -1})
		for range 2 {
			_, body := c.reply()
			if n := bytes.Count(body, []byte("x")); n < bigNode {
				t.Errorf("%d of %d bytes came", n, bigNode)
			}
		}
	})
}

// The log says now and then how many connections were closed, and does not name each of them.
func TestBudgetIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newBudgetedWorld(t)
		for range 3 {
			for _, c := range w.connectSilent(2, reads(20)) {
				w.srv.streamConfig.Budget.AddBytes(testBudget)
				time.Sleep(stream.BudgetCheckInterval)
				synctest.Wait()
				w.srv.streamConfig.Budget.AddBytes(-testBudget)
				_, _ = io.Copy(io.Discard, c)
			}
		}
		if n := w.droppedClients(); n != 6 {
			t.Errorf("%d connections closed, want 6", n)
		}
		if n := w.srv.streamConfig.Budget.UnreportedDrops(); n == 0 || n == 6 {
			t.Errorf("%d of 6 not logged yet, want all but the first", n)
		}
	})
}

// Watches count in the budget, with their paths. When all of them take more than their share of it, the connection whose watches
// take most is closed, whether it set them one by one or again after a reconnect. All others keep theirs, and large replies do not
// wait. A watch that has fired no longer counts.
func TestBudgetOfWatches(t *testing.T) {
	path := func(i int) []byte { return fmt.Appendf(nil, "/%0*d", DefaultMaxPath-2, i) }
	for _, tt := range []struct {
		name string
		ask  func(from, to int) record
		op   jute.Op
		each int
	}{
		{"exists", func(from, _ int) record { return jute.ExistsRequest{Path: path(from), Watch: true} }, jute.OpExists, 1},
		{"addWatch", func(from, _ int) record {
			return jute.AddWatchRequest{Path: path(from), Mode: jute.AddWatchPersistentRecursive}
		}, jute.OpAddWatch, 1},
		{"setWatches", func(from, to int) record {
			var paths [][]byte
			for i := from; i < to; i++ {
				paths = append(paths, path(i))
			}
			return jute.SetWatches{Data: [][]byte{}, Exist: paths, Child: [][]byte{}}
		}, jute.OpSetWatches, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newBudgetedWorld(t)
				c.call(jute.OpExists, jute.ExistsRequest{Path: []byte("/mine"), Watch: true})
				modest := w.connect()
				for i := range 4 {
					modest.call(jute.OpExists, jute.ExistsRequest{Path: path(1000 + i), Watch: true})
				}
				hostile := w.connect()
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					for i := 0; i < 100; i += tt.each {
						if _, err := hostile.Write(frameOf(jute.RequestHeader{Xid: 1, Op: tt.op}, tt.ask(i, i+tt.each))); err != nil {
							return
						}
					}
				}()
				go func() { _, _ = io.Copy(io.Discard, hostile) }()
				<-closed
				time.Sleep(stream.BudgetCheckInterval)
				synctest.Wait()
				if n := w.droppedClients(); n != 1 {
					t.Errorf("%d connections closed, want the one with most watches", n)
				}
				if n := w.used(); n > testBudget/2 || n < 4*DefaultMaxPath {
					t.Errorf("%d bytes are held, want those of four watches at least", n)
				}
				began := time.Now()
				if modest.must(jute.OpGetData, getData("/big", false)); time.Since(began) != 0 {
					t.Errorf("a large reply waits for %v", time.Since(began))
				}
				modest.must(jute.OpCreate, create("/mine", "", 0))
				c.expectEvent(jute.EventNodeCreated, "/mine")
				for i := range 4 {
					c.must(jute.OpCreate, create(string(path(1000+i)), "", 0))
					modest.expectEvent(jute.EventNodeCreated, string(path(1000+i)))
				}
				modest.must(jute.OpPing)
				synctest.Wait()
				if n := w.used(); n != 0 {
					t.Errorf("%d bytes are held after all watches have fired", n)
				}
			})
		})
	}
}
