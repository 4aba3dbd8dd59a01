package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// mustWatch sets a watch by exists.
func mustWatch(t *testing.T, c *Client, path string) *OnceWatch {
	t.Helper()
	_, _, w, err := c.ExistsWatch(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// wantWatches waits until all goroutines are blocked, and checks the number of watches at the server and in the Client.
func wantWatches(t *testing.T, s *fakezk.Server, c *Client, atServer, paths int) {
	t.Helper()
	synctest.Wait()
	if n := s.WatchCount(); n != atServer {
		t.Errorf("%d watches are at the server, want %d", n, atServer)
	}
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	if n := len(c.watches.paths); n != paths {
		t.Errorf("the Client knows %d paths with watches, want %d", n, paths)
	}
}

// Many waits that are given up leave nothing, at the server or in the Client.
func TestStoppedWaitsLeaveNothing(t *testing.T) {
	const waits = 100_000
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		watches := make([]*OnceWatch, 0, waits)
		for i := range waits {
			watches = append(watches, mustWatch(t, c, fmt.Sprintf("/wait%d", i)))
		}
		wantWatches(t, s, c, waits, waits)
		for _, w := range watches {
			w.Stop()
		}
		wantWatches(t, s, c, 0, 0)
		if c.watches.unwanted.running {
			t.Error("the goroutine that removes watches still runs")
		}
	})
}

// A watch is removed only when the last one of its kind on the path is stopped.
func TestStopRemovesTheLastWatch(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.CreateNode("/a")
		first, second := mustWatch(t, c, "/a"), mustWatch(t, c, "/a")
		_, _, children, err := c.ChildrenWatch(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		first.Stop()
		first.Stop()
		wantWatches(t, s, c, 2, 1)
		children.Stop()
		wantWatches(t, s, c, 1, 1)
		s.SetData("/a", "x")
		if e := <-second.Fired; e.Type != DataChanged {
			t.Errorf("got %v", e)
		}
		if len(first.Fired) > 0 {
			t.Error("a stopped watch has fired")
		}
		second.Stop()
		wantWatches(t, s, c, 0, 0)
		if n := s.RequestCount(jute.OpRemoveWatches); n != 1 {
			t.Errorf("%d removals, want one: the other watch had fired", n)
		}
	})
}

// A read in flight keeps the watch, although the caller of another one stops it.
func TestStopDuringRead(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.CreateNode("/a")
		first := mustWatch(t, c, "/a")
		if err := c.watches.beginRead(t.Context(), "/a", dataWatch); err != nil {
			t.Fatal(err)
		}
		first.Stop()
		wantWatches(t, s, c, 1, 1)
		c.watches.abandonRead("/a", dataWatch)
		wantWatches(t, s, c, 0, 0)
	})
}

// A read waits while the removal of the watch on its path is about to be sent: the server must get it after that.
func TestReadAfterRemoval(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.CreateNode("/a")
		for range 100 {
			first := mustWatch(t, c, "/a")
			first.Stop()
			second := mustWatch(t, c, "/a")
			wantWatches(t, s, c, 1, 1)
			s.SetData("/a", "x")
			if e := <-second.Fired; e.Type != DataChanged {
				t.Errorf("got %v", e)
			}
		}
	})
}

// A caller that gives up before the reply leaves no watch.
func TestGivenUpReadLeavesNoWatch(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		s.OnRequest = func(op jute.Op, _ string, _ int) bool {
			if op == jute.OpExists {
				cancel()
				<-left
			}
			return false
		}
		if _, _, _, err := c.ExistsWatch(ctx, "/a"); !errors.Is(err, context.Canceled) || !MayHaveHappened(err) {
			t.Errorf("got %v, want context.Canceled, unanswered", err)
		}
		close(left)
		wantWatches(t, s, c, 0, 0)
	})
}

// A watch that is stopped without a connection is removed on the next one.
func TestStopWithoutConnection(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := mustWatch(t, c, "/a")
		s.Disconnect(true)
		synctest.Wait()
		w.Stop()
		synctest.Wait()
		s.AllowConnections()
		awaitConnected(t, c)
		wantWatches(t, s, c, 0, 0)
	})
}

// A watch that is stopped without a connection waits for its removal once, and is forgotten when the session ends.
func TestStopBeforeExpiry(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		first, second := mustWatch(t, c, "/a"), mustWatch(t, c, "/b")
		s.Disconnect(true)
		synctest.Wait()
		first.Stop()
		second.Stop()
		synctest.Wait() // one removal waits for a connection, and the other one for its turn
		c.watches.mu.Lock()
		for range 3 { // as after reads that are not sent
			c.watches.releasePath("/a", c.watches.watchesAt("/a"))
			c.watches.releasePath("/b", c.watches.watchesAt("/b"))
		}
		if queue := c.watches.unwanted.queue; len(queue) > 2 {
			t.Errorf("%q are to be removed, want each once", queue)
		}
		c.watches.mu.Unlock()
		s.ExpireSession()
		s.AllowConnections()
		for range c.States(t.Context()) { // until the last state
		}
		synctest.Wait()
		c.watches.mu.Lock()
		defer c.watches.mu.Unlock()
		if u := &c.watches.unwanted; len(u.queue) > 0 || len(u.queued) > 0 || u.running || !u.hopeless {
			t.Errorf("%q are still to be removed, running %t, hopeless %t", u.queue, u.running, u.hopeless)
		}
	})
}

// A removal whose reply is lost is sent again.
func TestRemovalIsSentAgain(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := mustWatch(t, c, "/a")
		s.OnRequest = func(op jute.Op, _ string, count int) bool {
			return op == jute.OpRemoveWatches && count == 1
		}
		w.Stop()
		awaitConnected(t, c)
		wantWatches(t, s, c, 0, 0)
		if n := s.RequestCount(jute.OpRemoveWatches); n != 2 {
			t.Errorf("%d removals, want two", n)
		}
	})
}

// Before ZooKeeper 3.9, the removal of one kind of watch removes the others of the path, too. So it waits until there
// are none.
func TestRemovalBefore39LosesNothing(t *testing.T) {
	bubbleBefore39(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watchNew(t, s, c, Node)
		stopped, waits := mustWatch(t, c, "/a"), mustWatch(t, c, "/a")
		stopped.Stop()
		wantWatches(t, s, c, 2, 1)
		w.stop() // the watch of the Node is still there, for the one that waits
		wantWatches(t, s, c, 2, 1)
		s.SetData("/a", "x")
		if e := <-waits.Fired; e.Type != DataChanged {
			t.Errorf("got %v", e)
		}
		wantWatches(t, s, c, 0, 0)
	})
}

// Before ZooKeeper 3.9, the watch of a read that is stopped cannot be removed without the watch of a Watch on the path.
func TestStopBefore39KeepsWatch(t *testing.T) {
	bubbleBefore39(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watchNew(t, s, c, Node)
		once := mustWatch(t, c, "/a")
		synctest.Wait() // the Watch is set again
		once.Stop()
		synctest.Wait()
		s.ApplyChanges("=/a", "+/a/b")
		w.want(t, "data changed /a -1", "children changed /a -1")
		w.stop()
		wantWatches(t, s, c, 0, 0)
	})
}

// Servers without removeWatches keep a stopped watch until it fires. The Client does not send them a second removal.
func TestServersWithoutRemoval(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.Before35 = true
		for i := range 2 {
			mustWatch(t, c, fmt.Sprintf("/%d", i)).Stop()
			wantWatches(t, s, c, 1+i, 1+i)
		}
		s.CreateNode("/0")
		s.CreateNode("/1")
		wantWatches(t, s, c, 0, 0)
		if n := s.RequestCount(jute.OpRemoveWatches); n != 1 {
			t.Errorf("%d removals, want one", n)
		}
	})
}

// A read whose context ends while it waits for a removal to be sent does not set a watch.
func TestReadGivenUpBeforeRemoval(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		watches := &c.watches
		removing := make(chan struct{})
		watches.mu.Lock()
		watches.watchesAt("/a").removing = removing
		watches.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan error, 1)
		go func() {
			_, _, _, err := c.ExistsWatch(ctx, "/a")
			read <- err
		}()
		synctest.Wait()
		watches.mu.Lock() // the read learns of both at once
		cancel()
		close(removing)
		watches.paths["/a"].removing = nil
		watches.releasePath("/a", watches.paths["/a"])
		watches.mu.Unlock()
		wantError(t, <-read, context.Canceled)
		wantWatches(t, s, c, 0, 0)
		if n := s.RequestCount(jute.OpExists); n != 0 {
			t.Errorf("%d reads were sent", n)
		}
	})
}

// Before ZooKeeper 3.9, a stopped watch stays while a Watch on its path is being set: its removal would remove both.
func TestStopBefore39WhileWatchIsSet(t *testing.T) {
	bubbleBefore39(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.CreateNode("/a")
		once := mustWatch(t, c, "/a")
		carriedOut := make(chan struct{})
		s.OnRequest = func(op jute.Op, _ string, _ int) bool {
			if op == jute.OpAddWatch {
				<-carriedOut
			}
			return false
		}
		w := watch(c, "/a", Node)
		synctest.Wait() // the reply to addWatch is still to come
		once.Stop()
		synctest.Wait()
		close(carriedOut)
		w.want(t, "gap /a 0-1 below")
		s.SetData("/a", "x")
		w.want(t, "data changed /a -1")
		w.stop()
		wantWatches(t, s, c, 0, 0)
	})
}

// A Watch ends with the reason if the reply to a read of its nodes makes no sense.
func TestWatchEndsWithMalformedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1", Config{})
		w := watch(c, "/a", Node)
		r := server.next()
		for ; r.Op != jute.OpGetChildren2; r = server.next() { // which version it is, and addWatch
			server.reply(r, jute.OK, jute.ErrorResponse{})
		}
		server.reply(r, jute.OK, rawRecord("\x00\x00"))
		synctest.Wait()
		select {
		case <-w.done:
			wantError(t, w.err, ErrProtocol)
		default:
			t.Error("the Watch goes on")
			w.stop()
		}
	})
}

// A read whose reply makes no sense leaves no watch.
func TestMalformedReadLeavesNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialScripted(t, "a:1", Config{})
		var watch *OnceWatch
		var err error
		go func() { _, _, watch, err = c.GetWatch(t.Context(), "/a") }()
		server.reply(server.next(), jute.OK, rawRecord("\x00\x00"))
		r := server.next() // the server has set the watch
		want := jute.RemoveWatchesRequest{Path: []byte("/a"), Type: jute.WatcherData}
		if r.Op != jute.OpRemoveWatches || !bytes.Equal(r.record, want.Append(nil)) {
			t.Errorf("%v %q was sent", r.Op, r.record)
		}
		server.reply(r, jute.OK, nil)
		synctest.Wait()
		if wantError(t, err, ErrProtocol); watch != nil {
			t.Error("there is a watch")
		}
	})
}

// A Watch that is stopped without a connection is removed by the next server, also if that is older than the last one.
func TestStopBeforeOlderServer(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watchNew(t, s, c, Node)
		s.Disconnect(true)
		synctest.Wait()
		w.stop()
		s.BehaveBefore39()
		s.AllowConnections()
		awaitConnected(t, c)
		wantWatches(t, s, c, 0, 0)
	})
}
