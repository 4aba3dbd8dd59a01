package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/client/internal/fakezk"
	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// drop waits until all goroutines are blocked, and drops the events since the last call.
func (w *watched) drop() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = nil
}

// awayWhile carries out changes while the Client has no connection.
func awayWhile(t *testing.T, s *fakezk.Server, c *Client, change func()) {
	t.Helper()
	s.Disconnect(true)
	synctest.Wait()
	change()
	s.AllowConnections()
	awaitConnected(t, c)
}

// A Watch knows each node as events have reported it: if nothing changes while the connection is lost, it reports
// nothing after that, and if something changes twice, the Gap begins at the last change before.
func TestWatchKnowsItsNodes(t *testing.T) {
	for seed := range uint64(60) {
		bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
			random := rand.New(rand.NewPCG(seed, 0))
			if random.IntN(2) > 0 {
				s.ApplyChanges("+/a", "+/a/1", "=/a/1")
			}
			w := watch(c, "/a", []WatchMode{Tree, Node}[seed%2])
			synctest.Wait()
			for range 20 {
				changeNode(random, s)
			}
			if !s.HasNode("/a") {
				s.CreateNode("/a")
			}
			w.drop()
			if seed%4 < 2 {
				awayWhile(t, s, c, func() {})
				w.want(t)
			}
			path := "/a"
			if below := s.ListSubtree("/a"); seed%2 == 0 {
				path, _, _ = strings.Cut(below[random.IntN(len(below))], "=")
			}
			if seed%2 == 0 && random.IntN(2) > 0 { // a node that was never read
				path += "/fresh"
				s.CreateNode(path)
				w.drop()
			}
			stat, _, err := c.Exists(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			from, last := stat.Changed, int64(0)
			if random.IntN(2) > 0 {
				awayWhile(t, s, c, func() { s.SetData(path, "y"); last = s.SetData(path, "z") })
			} else {
				from = stat.ChildrenChanged
				awayWhile(t, s, c, func() { s.CreateNode(path + "/new"); last = s.DeleteNode(path + "/new") })
			}
			w.want(t, fmt.Sprintf("gap %s %d-%d", path, from, last))
			awayWhile(t, s, c, func() { last = s.SetData(path, "again") })
			w.want(t, fmt.Sprintf("data changed %s %d", path, last))
			w.stop()
		})
	}
}

// changeNode makes a random change at or below /a.
func changeNode(random *rand.Rand, s *fakezk.Server) {
	path := "/a"
	for range random.IntN(3) {
		if s.HasNode(path) {
			path += fmt.Sprintf("/%d", random.IntN(2))
		}
	}
	switch {
	case !s.HasNode(path):
		s.CreateNode(path)
	case random.IntN(2) == 0 && len(s.ListSubtree(path)) == 1:
		s.DeleteNode(path)
	default:
		s.SetData(path, "x")
	}
}

// The counted bytes of the known nodes match the nodes that exist, after any creates and deletes.
func TestWatchedBytes(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watch(c, "/a", Tree)
		synctest.Wait()
		random := rand.New(rand.NewPCG(1, 0))
		for range 200 {
			changeNode(random, s)
			synctest.Wait()
			want := 0
			for _, line := range s.ListSubtree("/a") {
				path, _, _ := strings.Cut(line, "=")
				_, name := nodepath.SplitLast(strings.TrimPrefix(path, "/a"))
				want += watchedNodeBytes + len(name)
			}
			c.watches.mu.Lock()
			got := c.watches.paths["/a"].shared[treeWatch].nodes.bytes
			c.watches.mu.Unlock()
			if got != want {
				t.Fatalf("%d bytes are counted for %q, want %d", got, s.ListSubtree("/a"), want)
			}
		}
		w.stop()
	})
}

// A Watcher knows up to which transaction it has the events. Another event of the last transaction may follow.
func TestWatcherAsOf(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b")
		w, err := c.NewWatcher("/a", Tree)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		want := func(zxid Zxid, complete bool) {
			t.Helper()
			synctest.Wait()
			if got, isComplete := w.AsOf(); got != zxid || isComplete != complete {
				t.Errorf("as of %d, complete %t; want %d, %t", got, isComplete, zxid, complete)
			}
		}
		next := func() {
			t.Helper()
			if _, ok, err := w.TryNext(); !ok || err != nil {
				t.Errorf("there is no event: %v", err)
			}
		}
		want(0, false)
		next()
		want(2, true)
		s.ApplyChanges("=/a/b", "=/a/b")
		want(2, false)
		next()
		want(3, false)
		next()
		want(3, true) // of transaction 4 there may be another event
		s.Disconnect(true)
		s.SetData("/a", "x")
		want(3, false)
		s.AllowConnections()
		awaitConnected(t, c)
		want(4, false)
		next()
		want(5, true)
	})
}

// A Watcher that is closed says so to its reader, also when the session ends after that: no SessionEnded follows.
func TestClosedWatcherHasNoSessionEnd(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w, err := c.NewWatcher("/a", Node)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if e, ok, err := w.TryNext(); !ok || e.Type != Gap {
			t.Errorf("the first event is %v: %v", e, err)
		}
		w.Close()
		s.ExpireSession()
		for range c.States(t.Context()) { // until the last state
		}
		if e, ok, err := w.TryNext(); ok || e != (Event{}) || !errors.Is(err, context.Canceled) {
			t.Errorf("after Close there is %v, %t: %v", e, ok, err)
		}
	})
}

// A read that could not be sent is still to be done: with the next connection the Watch reads the node.
func TestWatchReadIsNotSent(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watchNew(t, s, c, Node)
		s.Disconnect(true)
		synctest.Wait()
		c.watches.mu.Lock()
		shared := c.watches.paths["/a"].shared[nodeWatch]
		c.watches.mu.Unlock()
		if err := shared.readNodes(); !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrSuspended) {
			t.Errorf("the read ended with %v", err)
		}
		rec := jute.AddWatchRequest{Path: []byte("/a")}
		if err := shared.requestWatch(jute.OpAddWatch, rec, nil); !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrSuspended) {
			t.Errorf("a request ended with %v", err)
		}
		s.SetData("/a", "x")
		s.AllowConnections()
		awaitConnected(t, c)
		w.want(t, "data changed /a 2")
		c.watches.mu.Lock()
		if shared.reads != 0 || shared.phase != known {
			t.Errorf("%d reads are in flight, and the phase is %d", shared.reads, shared.phase)
		}
		c.watches.mu.Unlock()
		w.stop()
	})
}

// A Watch reads at most maxWatchReads nodes at a time.
func TestWatchReadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1", Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for _, err := range c.Watch(ctx, "/a", Tree) {
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}()
		server.reply(server.next(), jute.OK, jute.ErrorResponse{}) // which version it is
		var children jute.GetChildren2Response
		for i := range 2 * maxWatchReads {
			children.Children = append(children.Children, fmt.Append(nil, i))
		}
		waiting := make(chan sentRequest, 10*maxWatchReads)
		go func() {
			for {
				frame, err := jute.ReadFrame(server.in, nil, 1<<20)
				if err != nil {
					return
				}
				var r sentRequest
				d := jute.NewDecoder(frame)
				r.Decode(&d)
				waiting <- r
			}
		}()
		synctest.Wait()
		r := <-waiting
		if r.Op == jute.OpAddWatch {
			server.reply(r, jute.OK, jute.ErrorResponse{})
			synctest.Wait()
			r = <-waiting
		}
		server.reply(r, jute.OK, children)
		for range 2 {
			synctest.Wait()
			if n := len(waiting); n != maxWatchReads {
				t.Fatalf("%d reads wait for a reply, want %d", n, maxWatchReads)
			}
			server.reply(<-waiting, jute.OK, jute.GetChildren2Response{})
		}
	})
}
