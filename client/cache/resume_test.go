package cache

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// resumeBubble runs a test in virtual time with a server of Rollcall, a client, and a cache of /a, /a/b and /a/c.
func resumeBubble(t *testing.T, test func(t *testing.T, s *fakezk.Server, c *client.Client, k *Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		s.Ensemble = "one"
		t.Cleanup(s.AwaitConnectionsEnd) // after those of dialMore
		c := dialMore(t, s)
		s.ApplyChanges("+/a", "+/a/b", "+/a/c")
		k := open(t, c, "/a", Config{})
		synctest.Wait()
		test(t, s, c, k)
	})
}

// dialMore opens one of several clients of a server.
func dialMore(t *testing.T, s *fakezk.Server) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), "fake:1", client.Config{Timeout: 30 * time.Second, DialConn: s.DialConn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// reads counts the reads of nodes since the last call.
func reads(s *fakezk.Server) func() int {
	count := func() (n int) {
		for _, op := range []jute.Op{jute.OpGetData, jute.OpExists, jute.OpGetChildren2} {
			n += s.RequestCount(op)
		}
		return n
	}
	last := count()
	return func() int {
		synctest.Wait()
		now := count()
		defer func() { last = now }()
		return now - last
	}
}

func wantReads(t *testing.T, since func() int, most int) {
	t.Helper()
	if n := since(); n > most {
		t.Errorf("%d reads, want %d at most", n, most)
	}
}

// After a lost connection, and with another session, a Cache reads the nodes that have changed alone.
func TestCacheReadsChangesAlone(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client, k *Cache) {
		ended := follow(t.Context(), k)
		since := reads(s)
		s.Disconnect(true)
		synctest.Wait()
		s.ApplyChanges("=/a/b", "+/a/d", "-/a/c")
		wantState(t, k, Stale, false)
		s.AllowConnections()
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, k, "/a", "/a/b=x", "/a/d")
		wantState(t, k, Live, true)
		wantReads(t, since, 2)
		s.ExpireSession()
		awaitPause(t, k)
		s.ApplyChanges("=/a/d", "+/a/c", "-/a/b", "+/a/b")
		s.AllowSessions()
		for _, attach := range []func() error{
			func() error { return k.Resume(t.Context(), dialMore(t, s)) },
			func() error { s.ApplyChanges("=/a/b"); return k.Attach(t.Context(), dialMore(t, s)) },
		} {
			if err := attach(); err != nil {
				t.Fatal(err)
			}
			wantState(t, k, Live, true)
			wantReads(t, since, 4)
		}
		want(t, k, "/a", "/a/b=x", "/a/c", "/a/d=x")
		k.Close()
		got, _ := ended()
		if want := []string{
			"reset /a=", "updated /a/b=x", "added /a/d=", "removed /a/c=", "paused /a= expired", "resumed /a=", "updated /a/d=x", "added /a/c=",
			"removed /a/b=x", "added /a/b=", "resumed /a=", "updated /a/b=x",
		}; !equalSets(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// equalSets reports whether two lists have the same lines. Reads of different nodes end in any order.
func equalSets(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// A program that stores the content continues after a restart, and its loop over the changes gets all since then.
func TestCacheOfNextRun(t *testing.T) {
	for name, store := range map[string]func(Content) (Content, error){
		"gob": func(c Content) (again Content, err error) {
			var b bytes.Buffer
			err = errors.Join(gob.NewEncoder(&b).Encode(c), gob.NewDecoder(&b).Decode(&again))
			return again, err
		},
		"json": func(c Content) (again Content, err error) {
			text, err := json.Marshal(c)
			return again, errors.Join(err, json.Unmarshal(text, &again))
		},
	} {
		t.Run(name, func(t *testing.T) {
			resumeBubble(t, func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache) {
				s.ApplyChanges("=/a/c")
				synctest.Wait()
				content, ok := k.Content()
				if !ok || content.Root != "/a" || content.Position.Ensemble != "one" || len(content.Nodes) != 3 {
					t.Fatalf("the content is %+v, %t", content, ok)
				}
				k.Close()
				s.ApplyChanges("=/a/b", "-/a/c")
				content, err := store(content)
				if err != nil {
					t.Fatal(err)
				}
				next, err := Restore(content, "/a", Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer next.Close()
				want(t, next, "/a", "/a/b", "/a/c=x")
				wantState(t, next, Stale, false)
				ended, since := follow(t.Context(), next), reads(s)
				if err := next.Resume(t.Context(), dialMore(t, s)); err != nil {
					t.Fatal(err)
				}
				want(t, next, "/a", "/a/b=x")
				wantState(t, next, Live, true)
				wantReads(t, since, 1)
				next.Close()
				if got, _ := ended(); !equalSets(got, []string{"reset /a=", "resumed /a=", "updated /a/b=x", "removed /a/c=x"}) {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

// If the changes are not kept, Resume returns the reason and changes nothing. Attach reads all nodes again.
func TestCacheCannotResume(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(s *fakezk.Server)
		why   error
		reset bool
	}{
		{"too old", func(s *fakezk.Server) { s.ApplyChanges("=/a/b"); s.DropHistory() }, client.ErrTooOld, false},
		{"another ensemble", func(s *fakezk.Server) { s.ApplyChanges("=/a/b"); s.SetEnsemble("two") }, client.ErrOtherEnsemble, true},
		{"ZooKeeper", func(s *fakezk.Server) { s.SetEnsemble(""); s.ApplyChanges("=/a/b") }, client.ErrNoHistory, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resumeBubble(t, func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache) {
				s.ExpireSession()
				awaitPause(t, k)
				tt.do(s)
				s.AllowSessions()
				ended := follow(t.Context(), k)
				if err := k.Resume(t.Context(), dialMore(t, s)); !errors.Is(err, tt.why) || !errors.As(err, new(*client.ResumeError)) {
					t.Errorf("%v, want %v", err, tt.why)
				}
				want(t, k, "/a", "/a/b", "/a/c")
				wantState(t, k, Stale, false)
				if err := k.Attach(t.Context(), dialMore(t, s)); err != nil {
					t.Fatal(err)
				}
				want(t, k, "/a", "/a/b=x", "/a/c")
				wantState(t, k, Live, true)
				if content, ok := k.Content(); ok == errors.Is(tt.why, client.ErrNoHistory) {
					t.Errorf("the content is of %+v, %t", content.Position, ok)
				}
				k.Close()
				got, _ := ended()
				if last := got[len(got)-1]; tt.reset != slices.Contains(got[1:], "reset /a=") || !tt.reset && last != "updated /a/b=x" {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

// A node that setACL has hidden from the Client is dropped, with all nodes below it, when the Cache resumes: the Client
// gets no event of that. The next resume then reads nothing. The same holds for a server that shows Stats of such nodes.
func TestHiddenNodesAreDropped(t *testing.T) {
	reconnect := func(t *testing.T, s *fakezk.Server, c *client.Client, k *Cache, between func()) *Cache {
		s.Disconnect(true)
		synctest.Wait()
		between()
		s.AllowConnections()
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		return k
	}
	resume := func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache, between func()) *Cache {
		s.ExpireSession()
		awaitPause(t, k)
		between()
		s.AllowSessions()
		if err := k.Resume(t.Context(), dialMore(t, s)); err != nil {
			t.Fatal(err)
		}
		return k
	}
	nextRun := func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache, between func()) *Cache {
		content, ok := k.Content()
		if !ok {
			t.Fatal("there is no content")
		}
		k.Close()
		between()
		next, err := Restore(content, "/a", Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(next.Close)
		if err := next.Resume(t.Context(), dialMore(t, s)); err != nil {
			t.Fatal(err)
		}
		return next
	}
	attach := func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache, between func()) *Cache {
		between()
		s.DropHistory()
		if err := k.Attach(t.Context(), dialMore(t, s)); err != nil {
			t.Fatal(err)
		}
		return k
	}
	for name, goOn := range map[string]func(*testing.T, *fakezk.Server, *client.Client, *Cache, func()) *Cache{
		"a lost connection": reconnect, "a new session": resume, "the next run": nextRun, "too old a position": attach,
	} {
		for _, statsAreOpen := range []bool{false, true} {
			for _, while := range []string{"live", "away"} {
				t.Run(fmt.Sprintf("%s, hidden while %s, %t", name, while, statsAreOpen), func(t *testing.T) {
					resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client, k *Cache) {
						s.StatsAreOpen = statsAreOpen
						s.ApplyChanges("+/a/b/d", "=/a/b", "+/a/e")
						synctest.Wait()
						hide := func() { s.DenyRead("/a/b"); s.DenyRead("/a/e"); s.ApplyChanges("=/a/c") }
						if while == "live" {
							hide()
							synctest.Wait()
							hide = func() {}
						}
						k = goOn(t, s, c, k, hide)
						want(t, k, "/a", "/a/c=x")
						wantState(t, k, Live, true)
						if name == "too old a position" {
							return
						}
						since := reads(s)
						k = goOn(t, s, c, k, func() {})
						wantState(t, k, Live, true)
						wantReads(t, since, 0)
						want(t, k, "/a", "/a/c=x")
					})
				})
			}
		}
	}
}

// A Cache of which no node ever changes can resume, too.
func TestPositionWithoutChanges(t *testing.T) {
	for range 100 { // the reply with the server's history and the last read may come in any order
		resumeBubble(t, func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache) {
			s.ExpireSession()
			awaitPause(t, k)
			s.AllowSessions()
			if err := k.Resume(t.Context(), dialMore(t, s)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A change of an ACL from before the Cache was opened is no reason to read any node again.
func TestOldACLsCostNoReads(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, _ *client.Client, other *Cache) {
		other.Close()
		count := func() int {
			since := reads(s)
			k := open(t, dialMore(t, s), "/a", Config{})
			synctest.Wait()
			if err := k.Resume(t.Context(), dialMore(t, s)); err != nil {
				t.Fatal(err)
			}
			return since()
		}
		without := count()
		s.DenyRead("/a/b")
		s.AllowRead("/a/b")
		if with := count(); with != without {
			t.Errorf("%d reads, and %d before the ACL was changed", with, without)
		}
	})
}

// A Cache on a Client that has a Watch of the tree cannot resume, and does not learn in time whether its copy is of another ensemble.
// So Attach begins with an empty copy, and Resume changes nothing.
func TestAttachBesideAWatch(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache) {
		s.ExpireSession()
		awaitPause(t, k)
		s.AllowSessions()
		s.SetEnsemble("two")
		s.ForgetChange("/a/b", "old", 1)
		c := dialMore(t, s)
		w, err := c.NewWatcher("/a", client.Tree) // which does not read of which ensemble the server is
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		synctest.Wait()
		ended := follow(t.Context(), k)
		if err := k.Resume(t.Context(), c); !errors.Is(err, client.ErrShared) || !errors.As(err, new(*client.ResumeError)) {
			t.Errorf("Resume: %v, want %v", err, client.ErrShared)
		}
		want(t, k, "/a", "/a/b", "/a/c")
		if err := k.Attach(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		want(t, k, "/a", "/a/b=old", "/a/c")
		wantState(t, k, Live, true)
		k.Close()
		if got, _ := ended(); !slices.Contains(got[1:], "reset /a=") {
			t.Errorf("the changes are %q, want a reset among them", got)
		}
	})
}

// A Cache that is never read has a recent position when its session ends.
func TestPositionFollows(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache) {
		s.ApplyChanges("=/a/b")
		synctest.Wait()
		s.DropHistory()
		s.ExpireSession()
		synctest.Wait()
		s.AllowSessions()
		if err := k.Resume(t.Context(), dialMore(t, s)); err != nil {
			t.Error(err)
		}
	})
}

// The copy of a session that survives the restore of a backup has nothing that the backup did not have.
func TestCacheOfRestoredEnsemble(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client, k *Cache) {
		s.Disconnect(true)
		synctest.Wait()
		s.SetEnsemble("two")
		s.ForgetChange("/a/b", "old", 1)
		s.AllowConnections()
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, k, "/a", "/a/b=old", "/a/c")
		wantState(t, k, Live, true)
	})
}

// A Cache that was never complete with a server that keeps changes has no content to resume from.
func TestNoContent(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a")
		k := open(t, c, "/a", Config{})
		if content, ok := k.Content(); ok {
			t.Errorf("%+v", content)
		}
		if err := k.Resume(t.Context(), c); !errors.Is(err, client.ErrNoHistory) {
			t.Errorf("Resume: %v", err)
		}
	})
}

// A content that makes no sense is rejected, and one of another path or chroot.
func TestRestoreRejects(t *testing.T) {
	position := client.Position{Ensemble: "one", Zxid: 4}
	sound := []ContentNode{{Path: ""}, {Path: "b"}, {Path: "b/c", Data: []byte("x")}}
	for want, content := range map[string]Content{
		"no position":                    {Root: "/a", Nodes: sound},
		"no position or no root":         {Root: "/a", Position: client.Position{Ensemble: "one"}, Nodes: sound},
		"it must be one of":              {Position: position, Nodes: sound},
		"\"/b\" is not a path":           {Root: "/a", Position: position, Nodes: []ContentNode{{Path: ""}, {Path: "/b"}}},
		"two nodes \"b\"":                {Root: "/a", Position: position, Nodes: append(sound[:2:2], ContentNode{Path: "b"})},
		"two nodes \"\"":                 {Root: "/a", Position: position, Nodes: append(sound[:1:1], ContentNode{})},
		"the parent of \"c/d\" must":     {Root: "/a", Position: position, Nodes: append(sound[:2:2], ContentNode{Path: "c/d"})},
		"larger than Config.MaxBytes":    {Root: "/a", Position: position, Nodes: append(sound[:2:2], ContentNode{Path: "big", Data: make([]byte, 1000)})},
		"the parent of \"only-a-child\"": {Root: "/a", Position: position, Nodes: []ContentNode{{Path: "only-a-child"}}},
	} {
		if _, err := Restore(content, "/a", Config{MaxBytes: 1500}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Restore(Content{Root: "/a", Position: position, Nodes: sound}, "a", Config{}); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("no path: %v", err)
	}
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client, _ *Cache) {
		k, err := Restore(Content{Root: "/other/a", Position: position, Nodes: sound}, "/a", Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.Attach(t.Context(), c); err == nil || !strings.Contains(err.Error(), "use the same chroot") {
			t.Errorf("%v", err)
		}
	})
}

// The position of a Cache whose reads have no reply yet is one before their changes, so that the next Cache reads them again.
func TestContentBeforeReplies(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, _ *client.Client, k *Cache) {
		s.SetOnRequest(func(op jute.Op, path string, _ int) bool { return op == jute.OpGetData && path == "/a/b" })
		s.SetData("/a/b", "x")
		time.Sleep(time.Second) // its read loses its connection again and again
		content, ok := k.Content()
		if !ok || content.Position.Zxid != 3 {
			t.Fatalf("the content is of %v, %t", content.Position, ok)
		}
		s.SetOnRequest(nil)
		next, err := Restore(content, "/a", Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		if err := next.Resume(t.Context(), dialMore(t, s)); err != nil {
			t.Fatal(err)
		}
		want(t, next, "/a", "/a/b=x", "/a/c")
	})
}

// The copy matches the server after any changes, wherever the connection or the session ends, and whatever the server
// still keeps.
func TestRandomResumes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client, k *Cache) {
				random := rand.New(rand.NewPCG(seed, 1))
				change := func() {
					path := "/a" + []string{"", "/b", "/c", "/b/d", "/b/d/e"}[random.IntN(5)]
					parent, _ := nodepath.SplitLast(path)
					switch {
					case parent != "" && !s.HasNode(parent):
					case !s.HasNode(path):
						s.CreateNode(path)
					case random.IntN(3) == 0 && len(s.ListSubtree(path)) == 1:
						s.DeleteNode(path)
					default:
						s.SetData(path, fmt.Sprint(random.IntN(100)))
					}
				}
				for range 30 {
					for range random.IntN(10) {
						change()
					}
					if random.IntN(2) == 0 {
						synctest.Wait()
					}
					switch random.IntN(8) {
					case 0:
						s.DropHistory()
					case 1, 2:
						s.Disconnect(false)
					case 3:
						c = dialMore(t, s)
						if err := k.Attach(t.Context(), c); err != nil {
							t.Fatal(err)
						}
					case 4:
						content, ok := k.Content()
						if !ok {
							continue
						}
						k.Close()
						change()
						next, err := Restore(content, "/a", Config{})
						if err != nil {
							t.Fatal(err)
						}
						k, c = next, dialMore(t, s)
						if err := k.Resume(t.Context(), c); err != nil && !errors.Is(err, client.ErrTooOld) {
							t.Fatal(err)
						} else if err != nil {
							err = k.Attach(t.Context(), c)
							if err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				synctest.Wait()
				if err := c.AwaitConnected(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantState(t, k, Live, true)
				lines := s.ListSubtree("/a")
				for i := range lines {
					lines[i] = strings.TrimSuffix(lines[i], "=")
				}
				want(t, k, lines...)
				k.Close()
			})
		})
	}
}
