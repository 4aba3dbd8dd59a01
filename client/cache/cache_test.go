package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

func dial(t testing.TB, s *fakezk.Server) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), "fake:1", client.Config{
		Timeout:  30 * time.Second,
		DialConn: s.DialConn,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Abandon()
		s.AwaitConnectionsEnd()
	})
	return c
}

func open(t testing.TB, c *client.Client, root string, cfg Config) *Cache {
	t.Helper()
	k, err := Open(t.Context(), c, root, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T, s *fakezk.Server, c *client.Client)) {
	t.Helper()
	for _, before39 := range []bool{false, true} {
		t.Run(fmt.Sprintf("before 3.9: %t", before39), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakezk.New(t)
				s.Before39 = before39
				test(t, s, dial(t, s))
			})
		})
	}
}

// want waits until all goroutines are blocked, and compares the paths and data of the copy.
func want(t *testing.T, k *Cache, nodes ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for path, n := range k.Range(k.root) {
		got = append(got, strings.TrimSuffix(path+"="+string(n.Data), "="))
	}
	if !slices.Equal(got, nodes) {
		t.Errorf("the copy is %q, want %q", got, nodes)
	}
}

func wantState(t *testing.T, k *Cache, state State, complete bool) {
	t.Helper()
	synctest.Wait()
	_, isComplete := k.AsOf()
	if got := k.State(); got != state || isComplete != complete {
		t.Errorf("the state is %v, complete %t, want %v, %t", got, isComplete, state, complete)
	}
}

func TestCacheFollows(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b", "=/a/b", "+/a/b/c", "+/other")
		k := open(t, c, "/a", Config{})
		wantState(t, k, Live, true)
		want(t, k, "/a", "/a/b=x", "/a/b/c")
		s.ApplyChanges("=/a", "+/a/d", "+/a/d/e", "-/a/b/c", "-/a/b", "=/other")
		want(t, k, "/a=x", "/a/d", "/a/d/e")
		s.ApplyChanges("-/a/d/e", "-/a/d", "-/a")
		want(t, k)
		s.ApplyChanges("+/a", "+/a/new")
		want(t, k, "/a", "/a/new")
		if n, _ := k.Get("/a"); n.Stat.NumChildren != 1 {
			t.Errorf("/a has %d children", n.Stat.NumChildren)
		}
		if _, ok := k.Get("/other"); ok {
			t.Error("/other is in the copy")
		}
		if nodes, bytes := k.Size(); nodes != 2 || bytes != 2*nodeBytes+len("new") {
			t.Errorf("the copy has %d nodes, %d bytes", nodes, bytes)
		}
		wantState(t, k, Live, true)
	})
}

// After a lost connection the copy has what happened meanwhile, and reads the data of changed nodes only.
func TestCacheComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b", "+/a/b/c", "+/a/d", "+/a/e")
		k := open(t, c, "/a", Config{})
		s.Disconnect(true)
		synctest.Wait()
		wantState(t, k, Stale, false)
		s.ApplyChanges("=/a/b", "-/a/d", "+/a/f", "+/a/f/g", "-/a/e", "+/a/e")
		want(t, k, "/a", "/a/b", "/a/b/c", "/a/d", "/a/e")
		reads := s.RequestCount(jute.OpGetData)
		s.AllowConnections()
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, k, "/a", "/a/b=x", "/a/b/c", "/a/e", "/a/f", "/a/f/g")
		wantState(t, k, Live, true)
		if n := s.RequestCount(jute.OpGetData) - reads; n != 4 {
			t.Errorf("%d reads of data, want 4", n)
		}
	})
}

// Random changes, with lost connections and replies in between. At the end the copy is equal to the tree, and no node
// has ever gone back.
func TestCacheIsMonotone(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := fakezk.New(t)
			s.Before39 = seed%2 == 0
			losses := rand.New(rand.NewPCG(seed, 1))
			var settled atomic.Bool
			s.OnRequest = func(jute.Op, string, int) bool { return !settled.Load() && losses.IntN(40) == 0 }
			c := dial(t, s)
			s.CreateNode("/a")
			k := open(t, c, "/a", Config{MaxInFlight: 1 + random.IntN(8)})
			ctx, cancel := context.WithCancel(t.Context())
			var reader sync.WaitGroup
			reader.Go(func() { checkChanges(ctx, t, k) })
			changeRandomly(s, random, 300)
			settled.Store(true)
			s.Disconnect(false)
			if err := k.Await(t.Context(), client.Zxid(s.CreateNode("/last"))); err != nil {
				t.Error(err)
			}
			var got []string
			for path, n := range k.Range("/a") {
				got = append(got, path+"="+string(n.Data))
			}
			if all := s.ListSubtree("/a"); !slices.Equal(got, all) {
				t.Errorf("seed %d: the copy is %q, want %q", seed, got, all)
			}
			wantState(t, k, Live, true)
			cancel()
			reader.Wait()
		})
	}
}

// checkChanges checks that no node goes back.
func checkChanges(ctx context.Context, t *testing.T, k *Cache) {
	seen := map[string]client.Zxid{}
	for change, err := range k.Changes(ctx) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return
		}
		if change.Type == Reset {
			continue
		}
		if change.Node.Stat.Changed < seen[change.Path] {
			t.Errorf("%s of transaction %d comes after %d", change.Path, change.Node.Stat.Changed, seen[change.Path])
		}
		seen[change.Path] = change.Node.Stat.Changed
	}
}

// changeRandomly makes n changes below /a.
func changeRandomly(s *fakezk.Server, random *rand.Rand, n int) {
	for i := range n {
		path := "/a"
		for range 1 + random.IntN(2) {
			if !s.HasNode(path) {
				break
			}
			path += fmt.Sprintf("/%d", random.IntN(4))
		}
		switch {
		case !s.HasNode(path):
			s.CreateNode(path)
		case random.IntN(2) == 0 && len(s.ListSubtree(path)) == 1:
			s.DeleteNode(path)
		default:
			s.SetData(path, fmt.Sprint(i))
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
		}
		if random.IntN(40) == 0 {
			s.Disconnect(false)
		}
	}
}

func TestCacheAwaitsTransaction(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.CreateNode("/a")
		k := open(t, c, "/a", Config{})
		zxid := client.Zxid(s.SetData("/a", "x"))
		if err := k.Await(t.Context(), zxid); err != nil {
			t.Fatal(err)
		}
		if n, _ := k.Get("/a"); string(n.Data) != "x" {
			t.Errorf("the data are %q", n.Data)
		}
		other := client.Zxid(s.CreateNode("/other")) // no event comes of it
		if err := k.Await(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if zxid, complete := k.AsOf(); zxid < other || !complete {
			t.Errorf("AsOf() = %d, %t, want %d", zxid, complete, other)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Await(ctx, other+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a transaction that does not exist: %v", err)
		}
		go s.SetData("/a", "y")
		err := k.AwaitCondition(t.Context(), func() bool { n, _ := k.Get("/a"); return string(n.Data) == "y" })
		if err != nil {
			t.Error(err)
		}
	})
}

// When the session ends, the copy stays, and another Client continues it.
func TestCacheAttaches(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/a", Config{})
		s.ExpireSession()
		_ = k.AwaitCondition(t.Context(), func() bool { return false }) // ends with Err
		wantState(t, k, Stale, false)
		want(t, k, "/a", "/a/b")
		if err := k.Err(); !errors.Is(err, client.ErrExpired) {
			t.Errorf("Err() = %v, want ErrExpired", err)
		}
		s.ApplyChanges("-/a/b", "=/a")
		s.AllowSessions()
		if err := k.Attach(t.Context(), dial(t, s)); err != nil {
			t.Fatal(err)
		}
		want(t, k, "/a=x")
		wantState(t, k, Live, true)
		s.CreateNode("/a/c")
		want(t, k, "/a=x", "/a/c")

		empty := fakezk.New(t)
		if err := k.Attach(t.Context(), dial(t, empty)); err == nil || !strings.Contains(err.Error(), "another ensemble") {
			t.Errorf("Attach to an ensemble that is behind: %v", err)
		}
		want(t, k, "/a=x", "/a/c")
	})
}

func TestCacheTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/a", Config{MaxBytes: 3 * nodeBytes})
		s.CreateNode("/a/c")
		synctest.Wait()
		wantState(t, k, Stale, false)
		if err := k.Err(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Err() = %v, want ErrTooLarge", err)
		}
		if _, err := Open(t.Context(), c, "/a", Config{MaxBytes: 3 * nodeBytes}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Open: %v, want ErrTooLarge", err)
		}
		synctest.Wait()
		if n := s.WatchCount(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

func TestCacheCloses(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.CreateNode("/a")
		k := open(t, c, "/a", Config{})
		ended := make(chan error)
		go func() {
			for _, err := range k.Changes(t.Context()) {
				if err != nil {
					ended <- err
				}
			}
		}()
		k.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("Changes ended with %v, want ErrClosed", err)
		}
		wantState(t, k, Closed, false)
		if err := k.Attach(t.Context(), c); !errors.Is(err, ErrClosed) {
			t.Errorf("Attach: %v, want ErrClosed", err)
		}
		synctest.Wait() // the request that removes the last watch may be under way
		if n := s.WatchCount(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

func TestCacheOfMissingAndHiddenNodes(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		k := open(t, c, "/a", Config{})
		want(t, k)
		wantState(t, k, Live, true)
		s.ApplyChanges("+/a", "+/a/b", "+/a/c")
		want(t, k, "/a", "/a/b", "/a/c")
		s.DenyRead("/a/b")
		s.SetData("/a/b", "x")
		want(t, k, "/a", "/a/c")
		s.DenyRead("/a")
		if _, err := Open(t.Context(), c, "/a", Config{}); !errors.Is(err, client.ErrNoAuth) {
			t.Errorf("Open: %v, want ErrNoAuth", err)
		}
	})
}

// Children returns the children in the copy. Settings must not be negative, and a reader that has stopped leaves nothing
// behind.
func TestCacheChildren(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/c", "+/a/b")
		k := open(t, c, "/a", Config{})
		for path, children := range map[string][]string{"/a": {"b", "c"}, "/a/b": nil} {
			if names, ok := k.Children(path); !ok || !slices.Equal(names, children) {
				t.Errorf("the children of %s are %q, %t", path, names, ok)
			}
		}
		for _, path := range []string{"/", "/ab", "/a/x"} {
			if names, ok := k.Children(path); ok || names != nil {
				t.Errorf("the children of %s are %q, %t", path, names, ok)
			}
			if n, ok := k.Get(path); ok || n.Data != nil {
				t.Errorf("%s is %+v, %t", path, n, ok)
			}
		}
		for _, err := range k.Changes(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if len(k.listeners) != 0 {
			t.Error("a reader is left")
		}
		for _, cfg := range []Config{{MaxBytes: -1}, {MaxInFlight: -1}} {
			if _, err := Open(t.Context(), c, "/a", cfg); err == nil {
				t.Errorf("%+v was accepted", cfg)
			}
		}
	})
}

// Changes reports whether a node is new, and ends with the error of its context.
func TestChangesOfNode(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.CreateNode("/a")
		k := open(t, c, "/a", Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []string
		var last error
		for change, err := range k.Changes(ctx) {
			if last = err; err != nil {
				continue
			}
			got = append(got, fmt.Sprint(change.Type, " ", change.Path, "=", string(change.Node.Data)))
			switch len(got) {
			case 1:
				s.SetData("/a", "1")
			case 2:
				s.CreateNode("/a/b")
			case 3:
				s.SetData("/a/b", "2")
			case 4:
				s.DeleteNode("/a/b")
			case 5:
				cancel()
			}
			synctest.Wait()
		}
		all := []string{"reset /a=", "updated /a=1", "added /a/b=", "updated /a/b=2", "removed /a/b=2"}
		if !slices.Equal(got, all) || !errors.Is(last, context.Canceled) {
			t.Errorf("got %q, %v; want %q", got, last, all)
		}
	})
}

// The copy knows the transaction of each change, if the servers report it. It does not attach to a server that has not
// applied that.
func TestCacheKnowsTransaction(t *testing.T) {
	for _, tt := range []struct {
		change func(s *fakezk.Server)
		want   []string
	}{
		{func(s *fakezk.Server) { s.DeleteNode("/a/b") }, []string{"/a"}},
		{func(s *fakezk.Server) { s.CreateNode("/a/c") }, []string{"/a", "/a/b", "/a/c"}},
		{func(s *fakezk.Server) { s.SetData("/a", "x") }, []string{"/a=x", "/a/b"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, behind := fakezk.New(t), fakezk.New(t)
			s.ApplyChanges("+/a", "+/a/b")
			behind.ApplyChanges("+/a", "+/a/b")
			k := open(t, dial(t, s), "/a", Config{})
			tt.change(s)
			want(t, k, tt.want...)
			if err := k.Attach(t.Context(), dial(t, behind)); err == nil || !strings.Contains(err.Error(), "another ensemble") {
				t.Errorf("Attach to a server that is behind: %v", err)
			}
		})
	}
}

// A reader of Changes that does not read gets a Reset for what has no room.
func TestChangesSlowReader(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.CreateNode("/a")
		k := open(t, c, "/a", Config{})
		var got []string
		for change, err := range k.Changes(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(change.Type, " ", change.Path))
			if len(got) == 1 {
				for i := range MaxChanges + 1 {
					s.CreateNode(fmt.Sprintf("/a/%d", i))
				}
				synctest.Wait()
			}
			if len(got) == 2 {
				s.DeleteNode("/a/7")
			}
			if len(got) == 3 {
				break
			}
		}
		if all := []string{"reset /a", "reset /a", "removed /a/7"}; !slices.Equal(got, all) {
			t.Errorf("got %q, want %q", got, all)
		}
	})
}
