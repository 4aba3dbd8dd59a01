package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// resumeBubble runs a test in virtual time with a server of Rollcall and a client of it.
func resumeBubble(t *testing.T, test func(t *testing.T, s *fakezk.Server, c *Client)) {
	t.Helper()
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.SetEnsemble("one")
		s.ApplyChanges("+/a", "+/a/b", "+/x")
		test(t, s, c)
	})
}

// watcher begins a Watch without state, and takes its Gap.
func newTestWatcher(t *testing.T, c *Client, path string) *Watcher {
	t.Helper()
	w, err := c.NewWatcher(path, TreeWithoutState)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	if e, err := w.Next(t.Context()); err != nil || e.Type != Gap {
		t.Fatalf("%v, %v, want a Gap", e, err)
	}
	synctest.Wait()
	return w
}

// taken takes the events that wait, and returns them as lines, with the error after them.
func taken(w *Watcher) (lines []string, err error) {
	synctest.Wait()
	for {
		e, ok, err := w.TryNext()
		if !ok {
			return lines, err
		}
		lines = append(lines, text(e))
	}
}

func wantTaken(t *testing.T, w *Watcher, lines ...string) {
	t.Helper()
	if got, err := taken(w); !slices.Equal(got, lines) || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, lines)
	}
}

func reconnect(t *testing.T, s *fakezk.Server, c *Client, meanwhile func()) {
	t.Helper()
	s.Disconnect(true)
	synctest.Wait()
	meanwhile()
	s.AllowConnections()
	if err := c.AwaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// After a lost connection a Watch without state gets the events that it has missed, and no Gap, if the server has sent them all.
// Otherwise it gets the Gap.
func TestNoGapIfServerReplays(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile func(s *fakezk.Server)
		want      []string
	}{
		{"nothing", func(*fakezk.Server) {}, nil},
		{"changes", func(s *fakezk.Server) { s.ApplyChanges("=/a", "+/a/c", "=/x", "-/a/b") }, []string{
			"data changed /a 4", "created /a/c 5", "deleted /a/b 7",
		}},
		{"too old", func(s *fakezk.Server) { s.ApplyChanges("=/a"); s.DropHistory(); s.ApplyChanges("=/a/b") }, []string{"gap /a 3-5 below"}},
		{"just not too old", func(s *fakezk.Server) { s.DropHistory(); s.ApplyChanges("=/a/b") }, []string{"data changed /a/b 4"}},
		{"another ensemble", func(s *fakezk.Server) { s.SetEnsemble("two"); s.ApplyChanges("=/a") }, []string{"data changed /a 4", "gap /a 3-4 below"}},
		{"no Rollcall any more", func(s *fakezk.Server) { s.SetEnsemble(""); s.ApplyChanges("=/a") }, []string{"gap /a 3-4 below"}},
		{"a node in its place", func(s *fakezk.Server) {
			s.CreateNode("/zookeeper")
			s.CreateNode(jute.HistoryPath)
			s.SetData(jute.HistoryPath, jute.History{Ensemble: "one"}.Text())
		}, []string{"gap /a 3-6 below"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
				w := newTestWatcher(t, c, "/a")
				before, complete := w.AsOf()
				if p, ok := w.Position(); !ok || !complete || p != (Position{"one", before}) {
					t.Errorf("the position is %v, %t", p, ok)
				}
				reconnect(t, s, c, func() {
					tt.meanwhile(s)
					if zxid, complete := w.AsOf(); complete || zxid != before {
						t.Errorf("without a connection it is as of %d, complete %t", zxid, complete)
					}
				})
				wantTaken(t, w, tt.want...)
				if zxid, complete := w.AsOf(); !complete || int64(zxid) != s.Zxid() {
					t.Errorf("it is as of %d, complete %t, want %d", zxid, complete, s.Zxid())
				}
			})
		})
	}
}

// Until the server has said whether it has sent all events, nothing is known to be complete. If the connection is lost before, there
// is a Gap.
func TestGapIfServerCannotBeAsked(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := newTestWatcher(t, c, "/a")
		lost := 0
		s.SetBeforeRequest(func(r fakezk.Request) {
			if r.Path == jute.HistoryPath && lost == 0 {
				lost++
				s.ApplyChanges("=/a")
				if zxid, complete := w.AsOf(); complete || zxid != 3 {
					t.Errorf("it is as of %d, complete %t", zxid, complete)
				}
				s.Disconnect(false)
			}
		})
		reconnect(t, s, c, func() { s.ApplyChanges("=/a/b"); s.DropHistory() })
		if err := c.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := taken(w); len(got) == 0 || got[len(got)-1] != "gap /a 3-5 below" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// The position that a program stores while events wait, or after a reconnect to another ensemble, is one up to which it has all.
func TestPositionOfReader(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		w := newTestWatcher(t, c, "/a")
		s.ApplyChanges("=/a", "=/a/b")
		synctest.Wait()
		if p, ok := w.Position(); !ok || p != (Position{"one", 3}) {
			t.Errorf("before the events: %v, %t", p, ok)
		}
		if _, _, err := w.TryNext(); err != nil {
			t.Fatal(err)
		}
		if p, ok := w.Position(); !ok || p != (Position{"one", 4}) {
			t.Errorf("after the first: %v, %t", p, ok)
		}
		reconnect(t, s, c, func() { s.SetEnsemble("two") })
		if p, ok := w.Position(); ok {
			t.Errorf("of another ensemble, with events of the first: %v", p)
		}
		if _, err := taken(w); err != nil {
			t.Fatal(err)
		}
		s.ApplyChanges("=/a")
		_, _ = taken(w)
		if _, _, err := c.Get(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if p, ok := w.Position(); !ok || p != (Position{"two", 6}) {
			t.Errorf("of the other ensemble: %v, %t", p, ok)
		}
	})
}

// A Watch of another session resumes from a position: it begins with the events since then.
func TestWatchFromPosition(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("=/a", "-/a/b", "=/x", "+/a/c")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		for e, err := range (Position{"one", 4}).Watch(ctx, c, "/a") {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				break
			}
			switch got = append(got, text(e)); len(got) {
			case 2:
				s.ApplyChanges("=/a/c")
			case 3:
				cancel()
			}
		}
		if want := []string{"deleted /a/b 5", "created /a/c 7", "data changed /a/c 8"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		cancel()
	})
}

// resumeReason returns the reason for which a Watch cannot resume.
func resumeReason(t *testing.T, c *Client, from Position) *ResumeError {
	t.Helper()
	w, err := from.NewWatcher(c, "/a")
	if err == nil {
		defer w.Close()
		_, err = taken(w)
	}
	var reason *ResumeError
	if !errors.As(err, &reason) {
		t.Fatalf("%v, want a ResumeError", err)
	}
	return reason
}

// A Watch that cannot resume returns the reason.
func TestCannotResume(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("=/a", "=/a")
		s.DropHistory() // 5
		s.ApplyChanges("=/a")
		for _, tt := range []struct {
			from           Position
			why            error
			since, applied Zxid
		}{
			{Position{"one", 4}, ErrTooOld, 5, 6},
			{Position{"one", 7}, ErrOtherEnsemble, 5, 6},
			{Position{"two", 5}, ErrOtherEnsemble, 5, 6},
			{Position{"", 5}, ErrNoHistory, NoZxid, NoZxid},
		} {
			if err := resumeReason(t, c, tt.from); !errors.Is(err, tt.why) || err.Since != tt.since || err.Applied != tt.applied ||
				err.From != tt.from {
				t.Errorf("from %v: %v", tt.from, err)
			}
		}
		first, err := Position{"one", 5}.NewWatcher(c, "/a")
		if err != nil {
			t.Fatal(err)
		}
		wantTaken(t, first, "data changed /a 6")
		first.Close()
		synctest.Wait()
		for _, from := range []Position{{"one", 0}, {"one", -1}} {
			if _, err := from.NewWatcher(c, "/a"); err == nil {
				t.Errorf("from %v: no error", from)
			}
		}
		if _, err := (Position{"one", 5}).NewWatcher(c, "a"); !errors.Is(err, ErrBadArguments) {
			t.Errorf("of no path: %v", err)
		}
		other := newTestWatcher(t, c, "/a")
		if err := resumeReason(t, c, Position{"one", 5}); !errors.Is(err, ErrShared) {
			t.Errorf("with another Watch: %v", err)
		}
		other.Close()
		synctest.Wait()
		if n := s.RequestCount(jute.OpSetWatches2); n != 1 {
			t.Errorf("%d watches are set for Watches that cannot resume", n)
		}
		s.SetEnsemble("")
		if err := resumeReason(t, c, Position{"one", 5}); !errors.Is(err, ErrNoHistory) {
			t.Errorf("at ZooKeeper: %v", err)
		}
		synctest.Wait()
		if n := s.WatchCount(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

// A Watch resumes although the history is cut, or the connection lost, in the middle of that: it then begins again, or says that it
// cannot.
func TestResumeIsInterrupted(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(s *fakezk.Server)
		want []string
		err  error
	}{
		{"nothing", func(*fakezk.Server) {}, []string{"data changed /a 4"}, nil},
		{"history dropped", func(s *fakezk.Server) { s.DropHistory() }, nil, ErrTooOld},
		{"connection lost", func(s *fakezk.Server) { s.Disconnect(false) }, []string{"data changed /a 4", "data changed /a 4"}, nil},
		{"moved to another ensemble", func(s *fakezk.Server) { s.SetEnsemble("two"); s.Disconnect(false) }, nil, ErrOtherEnsemble},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
				s.ApplyChanges("=/a")
				reads := 0
				s.SetBeforeRequest(func(r fakezk.Request) {
					if r.Path != jute.HistoryPath {
						return
					}
					if reads++; reads == 2 { // the watch is set
						tt.do(s)
					}
				})
				w, err := Position{"one", 3}.NewWatcher(c, "/a")
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				synctest.Wait()
				if err := c.AwaitConnected(t.Context()); err != nil {
					t.Fatal(err)
				}
				got, err := taken(w)
				if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) {
					t.Errorf("got %q, %v, want %q, %v", got, err, tt.want, tt.err)
				}
				s.ApplyChanges("=/a/b")
				if got, _ := taken(w); (len(got) == 1) != (tt.err == nil) {
					t.Errorf("later: %q", got)
				}
			})
		})
	}
}

// A Watch that resumes leaves the other Watches of the Client alone: they get no event a second time, and those that fire once stay.
func TestOthersDoNotGetRepeats(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.ApplyChanges("=/a/b", "=/a")
		root, tree, node := newTestWatcher(t, c, "/"), watch(c, "/a/b", Tree), watch(c, "/a/b", Node)
		_, _, once, err := c.GetWatch(t.Context(), "/a/b")
		if err != nil {
			t.Fatal(err)
		}
		tree.want(t, "gap /a/b 0-5 below")
		node.want(t, "gap /a/b 0-5 below")
		w, err := Position{"one", 3}.NewWatcher(c, "/a")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		wantTaken(t, w, "data changed /a/b 4", "data changed /a 5")
		wantTaken(t, root)
		tree.want(t)
		node.want(t)
		select {
		case e := <-once.Fired:
			t.Errorf("a watch that fires once has got %v", e)
		default:
		}
		reconnect(t, s, c, func() { s.SetData("/a/b", "x") })
		wantTaken(t, w, "data changed /a/b 6")
		wantTaken(t, root, "data changed /a/b 6")
		tree.want(t, "data changed /a/b 6")
		node.want(t, "data changed /a/b 6")
		if e := <-once.Fired; e.Type != DataChanged {
			t.Errorf("after a change: %v", e)
		}
		tree.stop()
		node.stop()
	})
}

// A Watch of a path that another one resumes begins with its Gap, whether that can resume or not.
func TestWatchJoinsResume(t *testing.T) {
	for _, from := range []Zxid{3, 9} {
		resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
			w, err := Position{"one", from}.NewWatcher(c, "/a")
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			other := newTestWatcher(t, c, "/a")
			s.ApplyChanges("=/a")
			wantTaken(t, other, "data changed /a 4")
			if got, err := taken(w); (err == nil) != (from == 3) || (len(got) == 1) != (from == 3) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A Watch without state that shares the watch of one with state has a position, too.
func TestPositionOfSharedWatch(t *testing.T) {
	resumeBubble(t, func(t *testing.T, _ *fakezk.Server, c *Client) {
		tree := watch(c, "/a", Tree)
		tree.want(t, "gap /a 0-3 below")
		if p, ok := newTestWatcher(t, c, "/a").Position(); !ok || p != (Position{"one", 3}) {
			t.Errorf("the position is %v, %t", p, ok)
		}
		tree.stop()
	})
}

// A Watch that has resumed is set again after a lost connection, as any other.
func TestResumedWatchLasts(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		w, err := Position{"one", 2}.NewWatcher(c, "/a")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		wantTaken(t, w)
		if p, ok := w.Position(); !ok || p != (Position{"one", 3}) {
			t.Errorf("the position is %v, %t", p, ok)
		}
		reconnect(t, s, c, func() { s.ApplyChanges("=/a") })
		s.ApplyChanges("=/a/b")
		wantTaken(t, w, "data changed /a 4", "data changed /a/b 5")
	})
}

// Another Watch of the Client gets the events of changes that are made while one resumes.
func TestOthersGetEventsDuringResume(t *testing.T) {
	resumeBubble(t, func(t *testing.T, s *fakezk.Server, c *Client) {
		other := newTestWatcher(t, c, "/x")
		s.SetBeforeRequest(func(r fakezk.Request) {
			if r.Op == jute.OpSetWatches2 {
				s.ApplyChanges("=/x", "=/a")
			}
		})
		w, err := Position{"one", 3}.NewWatcher(c, "/a")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		wantTaken(t, other, "data changed /x 4")
		wantTaken(t, w, "data changed /a 5")
	})
}
