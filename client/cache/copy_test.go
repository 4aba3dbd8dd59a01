package cache

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// The loop over a Range ends where it is left.
func TestRangeIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b", "+/a/b/c", "+/a/d")
		k := open(t, c, "/a", Config{})
		for _, last := range []string{"/a", "/a/b", "/a/b/c", "/a/d"} {
			var got string
			for path := range k.Range("/a") {
				if got = path; path == last {
					break
				}
			}
			if got != last {
				t.Errorf("the loop ended at %s, want %s", got, last)
			}
		}
	})
}

// A Range leaves out a node that is deleted before its turn, and continues with the next one.
func TestRangeWhileNodesAreDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b", "+/a/c", "+/a/d")
		k := open(t, c, "/a", Config{})
		var got []string
		for path := range k.Range("/a") {
			got = append(got, path)
			if path == "/a/b" {
				s.DeleteNode("/a/c")
				synctest.Wait()
			}
		}
		if want := []string{"/a", "/a/b", "/a/d"}; !slices.Equal(got, want) {
			t.Errorf("the nodes are %q, want %q", got, want)
		}
	})
}

// The counted bytes of a copy match its nodes, after any creates and deletes.
func TestBytesOfCopy(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.CreateNode("/a")
		k := open(t, c, "/a", Config{})
		random := rand.New(rand.NewPCG(1, 0))
		for range 100 {
			path := "/a" + []string{"", "/b", "/b/c", "/long-name"}[random.IntN(4)]
			parent, _ := nodepath.SplitLast(path)
			switch {
			case parent != "" && !s.HasNode(parent):
			case !s.HasNode(path):
				s.CreateNode(path)
			case random.IntN(3) == 0 && len(s.ListSubtree(path)) == 1:
				s.DeleteNode(path)
			default:
				s.SetData(path, strings.Repeat("x", random.IntN(100)))
			}
			synctest.Wait()
			wantNodes, wantBytes := 0, 0
			for _, line := range s.ListSubtree("/a") {
				path, data, _ := strings.Cut(line, "=")
				_, name := nodepath.SplitLast(strings.TrimPrefix(path, "/a"))
				wantNodes, wantBytes = wantNodes+1, wantBytes+nodeBytes+len(name)+len(data)
			}
			if nodes, bytes := k.Size(); nodes != wantNodes || bytes != wantBytes {
				t.Fatalf("the copy of %q has %d nodes and %d bytes, want %d and %d",
					s.ListSubtree("/a"), nodes, bytes, wantNodes, wantBytes)
			}
		}
	})
}

// A node that is read again without a change is no change of the copy.
func TestSameAgain(t *testing.T) {
	var tr tree
	stat := client.Stat{Created: 5, Changed: 7}
	tr.setNode("", []byte("x"), stat)
	if _, existed, changed := tr.setNode("", []byte("x"), stat); !existed || changed {
		t.Errorf("existed %t, changed %t", existed, changed)
	}
	stat.Changed++
	if _, existed, changed := tr.setNode("", []byte("y"), stat); !existed || !changed {
		t.Errorf("after a change: existed %t, changed %t", existed, changed)
	}
}

// A node that changes many times while reads wait is read once more.
func TestReadsAreJoined(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b", "+/a/c")
		k := open(t, c, "/a", Config{MaxInFlight: 1})
		k.mu.Lock() // replies are not handled, so the reads wait
		for range 50 {
			s.ApplyChanges("=/a/b", "=/a/c")
		}
		before := s.RequestCount(jute.OpGetData)
		k.mu.Unlock()
		synctest.Wait()
		if n := s.RequestCount(jute.OpGetData) - before; n > 10 {
			t.Errorf("%d reads of two nodes", n)
		}
		want(t, k, "/a", "/a/b=x", "/a/c=x")
	})
}

// The children of a node are not read when its data change.
func TestDataAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/a", Config{})
		before := s.RequestCount(jute.OpGetChildren2)
		s.SetData("/a", "x")
		want(t, k, "/a=x", "/a/b")
		if n := s.RequestCount(jute.OpGetChildren2) - before; n != 0 {
			t.Errorf("the children are read %d times", n)
		}
	})
}

// A Cache that attaches to another Client does not follow the first one any more, although its session lives.
func TestAttachLeavesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := fakezk.New(t), fakezk.New(t)
		a, b := dial(t, first), dial(t, second)
		first.ApplyChanges("+/a")
		second.ApplyChanges("+/a", "+/a/b")
		k := open(t, a, "/a", Config{})
		var states []State
		second.BeforeRequest = func(r fakezk.Request) {
			if r.Op == jute.OpSync { // it asks for what the second server has applied, and follows neither server
				states = append(states, k.State())
			}
		}
		if err := k.Attach(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(states, []State{Stale}) {
			t.Errorf("while it attaches, the states are %v, want stale", states)
		}
		want(t, k, "/a", "/a/b")
		if n := first.WatchCount(); n != 0 {
			t.Errorf("%d watches are left at the first server", n)
		}
		first.ApplyChanges("-/a")
		want(t, k, "/a", "/a/b")
	})
}

// A Cache is Live again when it has read all after a lost connection, also while a later change is read.
func TestLiveWhileOneIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/a", Config{})
		s.Disconnect(false)
		synctest.Wait()
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantState(t, k, Live, true)
		var states []State
		s.OnReply = func(op jute.Op, _ string) {
			if op == jute.OpGetData {
				states = append(states, k.State())
			}
		}
		s.SetData("/a/b", "x")
		want(t, k, "/a", "/a/b=x")
		if len(states) != 1 || states[0] != Live {
			t.Errorf("while a change is read, the states are %v, want live", states)
		}
	})
}

// A Cache of the root has all nodes. A path without a slash is none of them.
func TestCacheOfRoot(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/", Config{})
		want(t, k, "/", "/a", "/a/b")
		s.ApplyChanges("=/a/b", "+/c")
		want(t, k, "/", "/a", "/a/b=x", "/c")
		if _, ok := k.Get("a"); ok {
			t.Error("a is in the copy")
		}
	})
}

// After a lost connection the copy has the Stat of a node whose data have not changed.
func TestStatComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/a", Config{})
		s.Disconnect(true)
		synctest.Wait()
		last := s.CreateNode("/a/c")
		s.AllowConnections()
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, k, "/a", "/a/b", "/a/c")
		if n, _ := k.Get("/a"); n.Stat.ChildrenChanged != client.Zxid(last) || n.Stat.ChildrenVersion != 2 {
			t.Errorf("/a has the Stat %+v", n.Stat)
		}
	})
}

// A Cache that reads many nodes again has as many reads without a reply as MaxInFlight, and no more.
func TestReadsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/1", "+/a/2", "+/a/3", "+/a/4", "+/a/5")
		k := open(t, c, "/a", Config{MaxInFlight: 2})
		reply := make(chan struct{})
		s.OnRequest = func(op jute.Op, path string, _ int) bool {
			if op == jute.OpExists && path == "/a/1" {
				<-reply
			}
			return false
		}
		s.Disconnect(false)
		synctest.Wait()
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		k.mu.Lock()
		inFlight, later := k.follower.inFlight, len(k.follower.toRead)
		k.mu.Unlock()
		if inFlight != 2 || later != 3 {
			t.Errorf("%d reads have no reply and %d are not sent, want 2 and 3", inFlight, later)
		}
		close(reply)
		want(t, k, "/a", "/a/1", "/a/2", "/a/3", "/a/4", "/a/5")
	})
}
