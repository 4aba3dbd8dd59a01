package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// watched collects the events of a Watch, as lines.
type watched struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	lines []string
	err   error
}

func watch(c *Client, path string, mode WatchMode) *watched {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watched{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for e, err := range c.Watch(ctx, path, mode) {
			w.mu.Lock()
			if err != nil {
				w.err = err
			}
			if err == nil || e.Type != 0 {
				w.lines = append(w.lines, text(e))
			}
			w.mu.Unlock()
		}
	}()
	return w
}

func text(e Event) string {
	s := fmt.Sprintf("%v %s %d", e.Type, e.Path, e.Zxid)
	if e.Type == Gap || e.Type == NodeDeleted && e.Zxid == NoZxid {
		s = fmt.Sprintf("%v %s %d-%d", e.Type, e.Path, e.From, e.Zxid)
	}
	if e.Below {
		s += " below"
	}
	return s
}

// want waits until all goroutines are blocked, and compares the events since the last call.
func (w *watched) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.lines, lines) {
		t.Errorf("got the events\n\t%s\nwant\n\t%s", strings.Join(w.lines, "\n\t"), strings.Join(lines, "\n\t"))
	}
	w.lines = nil
}

// stop ends the Watch.
func (w *watched) stop() {
	w.cancel()
	<-w.done
}

// end ends the Watch and returns its error.
func (w *watched) end() error {
	w.stop()
	return w.err
}

// bubble runs a test in virtual time with a server and a Client.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, s *fakezk.Server, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		test(t, s, dialFake(t, s, cfg))
	})
}

// bubbleBefore39 does the same with a server before ZooKeeper 3.9.
func bubbleBefore39(t *testing.T, test func(t *testing.T, s *fakezk.Server, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		s.Before39 = true
		test(t, s, dialFake(t, s, Config{}))
	})
}

// watchNew creates the node /a, and returns a Watch that has read it.
func watchNew(t *testing.T, s *fakezk.Server, c *Client, mode WatchMode) *watched {
	t.Helper()
	s.CreateNode("/a")
	w := watch(c, "/a", mode)
	w.want(t, "gap /a 0-1 below")
	return w
}

func TestWatchNode(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watch(c, "/a", Node)
		w.want(t, "gap /a 0-0 below")
		s.CreateNode("/a")
		s.CreateNode("/a/b")
		s.SetData("/a", "x")
		s.SetData("/a/b", "x")
		s.DeleteNode("/a/b")
		s.DeleteNode("/a")
		w.want(t, "created /a 1", "children changed /a 2", "data changed /a 3", "children changed /a 5", "deleted /a 6")
		if err := w.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("the Watch ended with %v, want context.Canceled", err)
		}
		synctest.Wait()
		if n := s.WatchCount(); n != 0 {
			t.Errorf("%d watches are left at the server", n)
		}
	})
}

func TestWatchTree(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w, bare := watch(c, "/", Tree), watch(c, "/", TreeWithoutState)
		w.want(t, "gap / 0-0 below")
		s.CreateNode("/a")
		s.CreateNode("/a/b")
		s.SetData("/a/b", "x")
		s.DeleteNode("/a/b")
		all := []string{"created /a 1", "created /a/b 2", "data changed /a/b 3", "deleted /a/b 4"}
		w.want(t, all...)
		bare.want(t, append([]string{"gap / 0-0 below"}, all...)...)
		if n := s.WatchCount(); n != 1 {
			t.Errorf("%d watches are at the server, want one", n)
		}
		w.stop()
		s.CreateNode("/c")
		bare.want(t, "created /c 5")
		bare.stop()
		synctest.Wait()
		if n := s.WatchCount(); n != 0 {
			t.Errorf("%d watches are left at the server", n)
		}
	})
}

// After a lost connection, a Watch reports each change once, and names what it cannot know.
func TestWatchComparesAfterReconnect(t *testing.T) {
	tests := []struct {
		name  string
		mode  WatchMode
		first []string // carried out before the Watch: +/path creates, =/path sets, -/path deletes
		away  []string // carried out while the Client has no connection
		want  []string
	}{
		{"nothing", Tree, []string{"+/a", "+/a/b"}, nil, nil},
		{
			"created", Tree,
			[]string{"+/a"},
			[]string{"+/a/b", "+/a/b/c"},
			[]string{"created /a/b 2", "created /a/b/c 3"},
		},
		{
			"created and changed", Tree,
			[]string{"+/a"},
			[]string{"+/a/b", "=/a/b"},
			[]string{"created /a/b 2", "data changed /a/b 3"},
		},
		{
			"created and changed twice", Tree,
			[]string{"+/a"},
			[]string{"+/a/b", "=/a/b", "=/a/b"},
			[]string{"created /a/b 2", "gap /a/b 2-4"},
		},
		{"changed", Tree, []string{"+/a", "+/a/b"}, []string{"=/a/b"}, []string{"data changed /a/b 3"}},
		{"changed twice", Tree, []string{"+/a", "+/a/b"}, []string{"=/a/b", "=/a/b"}, []string{"gap /a/b 2-4"}},
		{
			"deleted", Tree,
			[]string{"+/a", "+/a/b", "+/a/b/c"},
			[]string{"-/a/b/c", "-/a/b"},
			[]string{"deleted /a/b/c 3--1", "deleted /a/b 3--1"},
		},
		{
			"replaced", Tree,
			[]string{"+/a", "+/a/b"},
			[]string{"-/a/b", "+/a/b"},
			[]string{"gap /a 2-4", "gap /a/b 2-4"},
		},
		{
			"replaced and changed", Tree,
			[]string{"+/a", "+/a/b"},
			[]string{"-/a/b", "+/a/b", "=/a/b"},
			[]string{"gap /a 2-4", "gap /a/b 2-5"},
		},
		{"came and went", Tree, []string{"+/a"}, []string{"+/a/b", "-/a/b"}, []string{"gap /a 1-3"}},
		{
			"came and went in a new node", Tree,
			[]string{"+/a"},
			[]string{"+/a/b", "+/a/b/c", "-/a/b/c"},
			[]string{"created /a/b 2", "gap /a/b 2-4"},
		},
		{
			"root deleted", Tree,
			[]string{"+/a", "+/a/b"},
			[]string{"-/a/b", "-/a"},
			[]string{"deleted /a/b 2--1", "deleted /a 2--1"},
		},
		{"root created", Tree, nil, []string{"+/a"}, []string{"gap /a 0-0", "created /a 1"}},
		{"root missing", Tree, nil, nil, []string{"gap /a 0-0"}},
		{"node: nothing", Node, []string{"+/a", "+/a/b"}, []string{"=/a/b"}, nil},
		{
			"node: changed, and a child", Node,
			[]string{"+/a"},
			[]string{"+/a/b", "=/a"},
			[]string{"children changed /a 2", "data changed /a 3"},
		},
		{"node: two children", Node, []string{"+/a"}, []string{"+/a/b", "+/a/c"}, []string{"gap /a 1-3"}},
		{"node: replaced", Node, []string{"+/a"}, []string{"-/a", "+/a"}, []string{"gap /a 1-3"}},
		{"node: deleted", Node, []string{"+/a"}, []string{"-/a"}, []string{"deleted /a 1--1"}},
		{"without state", TreeWithoutState, []string{"+/a"}, []string{"=/a"}, []string{"gap /a 1-2 below"}},
	}
	for _, before39 := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, before 3.9: %t", tt.name, before39), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := fakezk.New(t)
					s.Before39 = before39
					c := dialFake(t, s, Config{})
					s.ApplyChanges(tt.first...)
					w := watch(c, "/a", tt.mode)
					w.want(t, fmt.Sprintf("gap /a 0-%d below", len(tt.first)))
					s.Disconnect(true)
					s.ApplyChanges(tt.away...)
					s.AllowConnections()
					awaitConnected(t, c)
					w.want(t, tt.want...)
					last := s.CreateNode("/other")
					s.CreateNode("/a2")
					w.want(t)
					if tt.mode != TreeWithoutState && s.HasNode("/a") {
						s.SetData("/a", "last")
						zxid := last + 2
						if before39 {
							zxid = -1
						}
						w.want(t, fmt.Sprintf("data changed /a %d", zxid))
						s.Disconnect(false)
						awaitConnected(t, c)
						w.want(t) // it is known, also where events have no zxid
					}
					w.stop()
				})
			})
		}
	}
}

// dialFake opens a Client with a server.
func dialFake(t *testing.T, s *fakezk.Server, cfg Config) *Client {
	t.Helper()
	cfg.DialConn = fakeDial(s)
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	c, err := Dial(t.Context(), "fake:1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Abandon()
		s.AwaitConnectionsEnd()
	})
	return c
}

func fakeDial(s *fakezk.Server) func(context.Context, string, string) (net.Conn, error) {
	return s.DialConn
}

func awaitConnected(t *testing.T, c *Client) {
	t.Helper()
	synctest.Wait()
	if err := c.AwaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// Changes during a comparison are reported once: by an event if the node has been compared, and else by the comparison.
func TestWatchComparesWhileNodesChange(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b", "+/a/c")
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-3 below")
		s.Disconnect(true)
		s.ApplyChanges("=/a/b")
		var once sync.Once
		s.OnReply = func(op jute.Op, path string) {
			if op == jute.OpGetChildren2 && path == "/a" { // the names of /a have been read
				once.Do(func() { s.ApplyChanges("=/a/b", "=/a/c", "+/a/d", "=/a/d", "-/a/c") })
			}
		}
		s.AllowConnections()
		awaitConnected(t, c)
		w.stop()
		checkOnce(t, w.lines, map[string][2]int{"/a/b": {4, 5}, "/a/c": {6, 9}, "/a/d": {7, 8}})
	})
}

// A node that goes before the comparison has come to it takes those with it that were known below it and are gone.
func TestWatchReportsLostBelow(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b", "+/a/b/c")
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-3 below")
		s.Disconnect(true)
		s.ApplyChanges("-/a/b/c")
		var once sync.Once
		s.OnReply = func(op jute.Op, path string) {
			if op == jute.OpGetChildren2 && path == "/a" { // /a/b is still to be read
				once.Do(func() { s.ApplyChanges("-/a/b") })
			}
		}
		s.AllowConnections()
		awaitConnected(t, c)
		w.want(t, "deleted /a/b/c 3--1", "deleted /a/b 5")
		w.stop()
	})
}

// checkOnce checks that each node's events cover the transactions from first to last, and none twice.
func checkOnce(t *testing.T, lines []string, want map[string][2]int) {
	t.Helper()
	for path, span := range want {
		last := span[0] - 1
		for _, line := range lines {
			_, rest, _ := strings.Cut(line, " "+path+" ")
			if rest == "" {
				continue
			}
			from, to := 0, 0
			if n, _ := fmt.Sscanf(rest, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			if to <= last && to != -1 {
				t.Errorf("%s: %q comes after transaction %d", path, line, last)
			}
			last = max(last, to)
		}
		if last != span[1] {
			t.Errorf("%s: the events end with transaction %d, want %d: %q", path, last, span[1], lines)
		}
	}
}

// The connection breaks after each reply in turn, while the Watch begins, and while it compares. Nothing is lost and
// nothing is reported twice.
func TestWatchLosesEachReply(t *testing.T) {
	for lost := range 12 {
		bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
			s.ApplyChanges("+/a", "+/a/b", "+/a/c")
			n := 0
			s.OnRequest = func(op jute.Op, _ string, _ int) bool {
				n++
				return n == lost && op != jute.OpSetWatches2
			}
			w := watch(c, "/a", Tree)
			awaitConnected(t, c)
			awaitConnected(t, c)
			w.mu.Lock()
			for _, line := range w.lines {
				if line != "gap /a 0-3 below" {
					t.Errorf("lost %d: %q, want only a Gap from the beginning", lost, line)
				}
			}
			w.lines = nil
			w.mu.Unlock()
			s.Disconnect(true)
			s.ApplyChanges("=/a/b", "+/a/d", "-/a/c")
			s.AllowConnections()
			awaitConnected(t, c)
			awaitConnected(t, c)
			w.mu.Lock()
			slices.Sort(w.lines)
			w.mu.Unlock()
			w.want(t, "created /a/d 5", "data changed /a/b 4", "deleted /a/c 3--1")
			w.stop()
		})
	}
}

func TestWatchEndsWithSession(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watch(c, "/a", Node)
		w.want(t, "gap /a 0-0 below")
		s.ExpireSession()
		<-w.done
		w.want(t, "session ended /a -1")
		if !errors.Is(w.err, ErrExpired) {
			t.Errorf("the Watch ended with %v, want ErrExpired", w.err)
		}
		again := watch(c, "/a", Node)
		<-again.done
		if !errors.Is(again.err, ErrExpired) {
			t.Errorf("a Watch after the end ended with %v, want ErrExpired", again.err)
		}
	})
}

func TestWatchEndsWithClose(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-0 below")
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-w.done
		if !errors.Is(w.err, ErrClosed) {
			t.Errorf("the Watch ended with %v, want ErrClosed", w.err)
		}
	})
}

func TestWatchNeedsNewerServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		s.Before36 = true
		w := watch(dialFake(t, s, Config{}), "/a", Tree)
		<-w.done
		if !errors.Is(w.err, ErrUnimplemented) || !strings.Contains(w.err.Error(), "older than ZooKeeper 3.6") {
			t.Errorf("the Watch ended with %v", w.err)
		}
	})
}

// Servers before ZooKeeper 3.9 keep one mode on a path.
func TestWatchSecondModeBefore39(t *testing.T) {
	bubbleBefore39(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-0 below")
		second := watch(c, "/a", Node)
		<-second.done
		if second.err == nil || !strings.Contains(second.err.Error(), errOtherMode) {
			t.Errorf("the second Watch ended with %v", second.err)
		}
		s.CreateNode("/a")
		w.want(t, "created /a -1")
		w.stop()
	})
}

// Where both modes begin at once, or were set at a newer server before, the Watch of the tree stays.
func TestWatchTwoModesAtOnceBefore39(t *testing.T) {
	for _, begunBefore := range []bool{false, true} {
		bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
			s.CreateNode("/a")
			begin := func() (node, tree *watched) { return watch(c, "/a", Node), watch(c, "/a", Tree) }
			var node, tree *watched
			if begunBefore {
				node, tree = begin()
				node.want(t, "gap /a 0-1 below")
			}
			s.Disconnect(true)
			synctest.Wait()
			s.BehaveBefore39()
			if !begunBefore {
				node, tree = begin()
				synctest.Wait()
			}
			s.AllowConnections()
			awaitConnected(t, c)
			tree.drop()
			s.CreateNode("/a/b")
			tree.want(t, "created /a/b -1")
			tree.stop()
			if err := node.end(); err == nil || !strings.Contains(err.Error(), errOtherMode) {
				t.Errorf("the Watch of the node ended with %v", err)
			}
		})
	}
}

// A read that sets a watch makes a persistent watch of a server before ZooKeeper 3.9 fire once. The Client sets it
// again.
func TestWatchReplacedByReadBefore39(t *testing.T) {
	bubbleBefore39(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b")
		w, bare := watch(c, "/a", Tree), watch(c, "/a", TreeWithoutState)
		w.want(t, "gap /a 0-2 below")
		bare.want(t, "gap /a 0-2 below")
		s.OnReply = func(op jute.Op, _ string) {
			if op == jute.OpGetData { // the changes come before the watch is set again
				s.ApplyChanges("=/a/b", "=/a")
			}
		}
		_, _, once, err := c.GetWatch(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		w.want(t, "data changed /a 4", "data changed /a/b 3")
		if len(once.Fired) != 1 {
			t.Error("the watch of the read has not fired")
		}
		bare.want(t, "data changed /a -1", "gap /a 2-4 below") // the event of /a/b is missing
		w.stop()
		bare.stop()
	})
}

// The Client also sets the watch again if only Watches without state need it.
func TestWatchWithoutStateReplacedBefore39(t *testing.T) {
	bubbleBefore39(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b")
		bare := watch(c, "/a", TreeWithoutState)
		bare.want(t, "gap /a 0-2 below")
		if _, _, _, err := c.GetWatch(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		bare.want(t, "gap /a 2-2 below")
		s.ApplyChanges("=/a/b", "=/a")
		bare.want(t, "data changed /a/b -1", "data changed /a -1")
		bare.stop()
	})
}

// A read of children replaces the watch of a node at a server before ZooKeeper 3.9, and the Client sets it again. It
// does not replace the watch of a tree: that one misses nothing.
func TestWatchAndReadOfChildrenBefore39(t *testing.T) {
	for mode, want := range map[WatchMode][]string{
		Node:             {"children changed /a -1", "children changed /a -1"},
		Tree:             {"created /a/b -1", "created /a/c -1"},
		TreeWithoutState: {"created /a/b -1", "created /a/c -1"},
	} {
		bubbleBefore39(t, func(t *testing.T, s *fakezk.Server, c *Client) {
			w := watchNew(t, s, c, mode)
			before := s.RequestCount(jute.OpAddWatch)
			if _, _, _, err := c.ChildrenWatch(t.Context(), "/a"); err != nil {
				t.Fatal(err)
			}
			w.want(t) // no Gap
			if n := s.RequestCount(jute.OpAddWatch) - before; (n == 1) != (mode == Node) {
				t.Errorf("mode %d: the watch was set %d times after the read", mode, n)
			}
			s.ApplyChanges("+/a/b")
			synctest.Wait()
			s.ApplyChanges("+/a/c")
			w.want(t, want...)
			w.stop()
		})
	}
}

// The next server may be older than the last one.
func TestWatchMovesToOlderServer(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := watchNew(t, s, c, Node)
		s.Disconnect(true)
		synctest.Wait()
		s.BehaveBefore39()
		s.AllowConnections()
		awaitConnected(t, c)
		if _, _, _, err := c.GetWatch(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.ApplyChanges("=/a", "=/a")
		w.want(t, "data changed /a -1", "data changed /a -1")
		w.stop()
	})
}

// A reader that does not read gets Gaps for what has no room.
func TestWatchSlowReader(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.CreateNode("/a")
		l := c.watches.addWatcher("/a", Tree)
		defer c.watches.removeWatcher(l)
		synctest.Wait()
		for i := range MaxWatchEvents - 1 {
			s.CreateNode(fmt.Sprintf("/a/%d", i))
		}
		s.SetData("/a/5", "x")
		s.SetData("/a/5", "y")
		synctest.Wait()
		if n := len(l.queue.events); n != MaxWatchEvents {
			t.Fatalf("%d events wait, want %d", n, MaxWatchEvents)
		}
		if got, want := text(l.queue.events[6]), "gap /a/5 6-1026"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		s.CreateNode("/a/new")
		s.SetData("/a/new", "x")
		synctest.Wait()
		var lines []string
		for e, ok := l.queue.pop(); ok; e, ok = l.queue.pop() {
			lines = append(lines, text(e))
		}
		if want := []string{"gap /a 0-1027 below", "data changed /a/new 1028"}; !slices.Equal(lines, want) {
			t.Errorf("got %q, want %q", lines, want)
		}
	})
}

// A Tree with more nodes than it may keep becomes one without state.
func TestWatchTooLarge(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b")
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-2 below")
		c.watches.mu.Lock()
		c.watches.paths["/a"].shared[treeWatch].nodes.bytes += MaxWatchBytes
		c.watches.mu.Unlock()
		s.CreateNode("/a/c")
		w.want(t, "created /a/c 3")
		s.Disconnect(true)
		s.SetData("/a", "x")
		s.AllowConnections()
		awaitConnected(t, c)
		w.want(t, "gap /a 2-4 below")
		w.stop()
	})
}

// A Tree that becomes too large while it compares its nodes gives a Gap over all of them.
func TestWatchTooLargeToCompare(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b")
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-2 below")
		s.Disconnect(true)
		synctest.Wait()
		c.watches.mu.Lock()
		c.watches.paths["/a"].shared[treeWatch].nodes.bytes += MaxWatchBytes
		c.watches.mu.Unlock()
		s.ApplyChanges("=/a", "+/a/c")
		late := watch(c, "/a", Tree)
		bare := watch(c, "/a", TreeWithoutState)
		s.AllowConnections()
		awaitConnected(t, c)
		late.want(t, "gap /a 0-4 below")
		bare.want(t, "gap /a 0-2 below", "gap /a 2-4 below")
		w.want(t, "data changed /a 3", "gap /a 2-4 below")
		s.SetData("/a/b", "x")
		w.want(t, "data changed /a/b 5")
		late.want(t, "data changed /a/b 5")
		for _, w := range []*watched{w, late, bare} {
			w.stop()
		}
	})
}

// A node that the Client may not read is a Gap after a lost connection.
func TestWatchHiddenNode(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b")
		s.DenyRead("/a/b")
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-3 below")
		s.Disconnect(true)
		s.SetData("/a/b", "x")
		s.AllowConnections()
		awaitConnected(t, c)
		w.want(t, "gap /a/b 3-4 below")
		s.Disconnect(true)
		s.AllowRead("/a/b")
		s.ApplyChanges("=/a/b", "+/a/b/c")
		s.AllowConnections()
		awaitConnected(t, c)
		w.want(t, "gap /a/b -1-7", "created /a/b/c 7")
		w.stop()
	})
}

// Events of nodes below one that the Client may not read pass.
func TestWatchBelowHiddenNode(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("+/a", "+/a/b", "+/a/b/c")
		s.DenyRead("/a/b")
		w := watch(c, "/a", Tree)
		w.want(t, "gap /a 0-4 below")
		s.SetData("/a/b/c", "x")
		w.want(t, "data changed /a/b/c 5")
		s.DeleteNode("/a/b/c")
		w.want(t, "deleted /a/b/c 6")
		w.stop()
	})
}

// The paths of events begin at the chroot.
func TestWatchBelowChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		s.ApplyChanges("+/app", "+/app/a")
		c := dialFake(t, s, Config{})
		c.chroot = "/app"
		w, all := watch(c, "/a", Node), watch(c, "/", Tree)
		w.want(t, "gap /a 0-2 below")
		s.Disconnect(true)
		s.ApplyChanges("+/app/a/b")
		s.AllowConnections()
		awaitConnected(t, c)
		w.want(t, "children changed /a 3")
		all.want(t, "gap / 0-2 below", "created /a/b 3")
		w.stop()
		all.stop()
	})
}
