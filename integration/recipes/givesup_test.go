package recipes

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/barrier"
	"rollcall/client/cache"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/client/shared"
	"rollcall/rollcalltest"
)

// watchCount returns the number of watches at the server.
func (s *scene) watchCount() string {
	s.t.Helper()
	conn, err := s.srv.Dial(s.ctx, "tcp", s.srv.ConnectString())
	s.check(err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "mntr")
	s.check(err)
	text, err := io.ReadAll(conn)
	s.check(err)
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "zk_watch_count"); ok {
			return strings.TrimSpace(count)
		}
	}
	s.t.Fatalf("no watches in %q", text)
	return ""
}

// waiter is a call that waits until its context ends.
type waiter func(ctx context.Context, c *client.Client) error

// abandonedWaits prepare calls that wait. busy is a client that holds what others wait for.
var abandonedWaits = map[string]func(s *scene, busy *client.Client) waiter{
	"mutex": func(s *scene, busy *client.Client) waiter {
		_, err := lock.NewMutex(busy, "/app/lock", lock.Config{}).Lock(s.ctx)
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			_, err := lock.NewMutex(c, "/app/lock", lock.Config{}).Lock(ctx)
			return err
		}
	},
	"multi": func(s *scene, busy *client.Client) waiter {
		_, err := lock.NewMutex(busy, "/app/c", lock.Config{}).Lock(s.ctx)
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			_, err := lock.NewMulti(c, []string{"/app/a", "/app/b", "/app/c"}, lock.Config{}).Lock(ctx)
			return err
		}
	},
	"reader": func(s *scene, busy *client.Client) waiter {
		_, err := lock.NewRWMutex(busy, "/app/lock", lock.Config{}).Lock(s.ctx)
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			_, err := lock.NewRWMutex(c, "/app/lock", lock.Config{}).RLock(ctx)
			return err
		}
	},
	"semaphore": func(s *scene, busy *client.Client) waiter {
		sem := func(c *client.Client) *lock.Semaphore {
			sem, err := lock.NewSemaphore(c, "/app/sem", lock.SemaphoreConfig{PermitsPath: "/permits"})
			s.check(err)
			return sem
		}
		_, _, err := busy.Create(s.ctx, "/permits", []byte{0, 0, 0, 1}, client.Persistent)
		s.check(err)
		_, err = sem(busy).Acquire(s.ctx)
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			_, err := sem(c).Acquire(ctx)
			return err
		}
	},
	"election": func(s *scene, busy *client.Client) waiter {
		_, err := election.New(busy, "/app/leader", election.Config{}).Campaign(s.ctx)
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			return election.Run(ctx, c, "/app/leader", func(context.Context, *election.Leadership) error { return nil })
		}
	},
	"observe": func(s *scene, busy *client.Client) waiter {
		_, err := election.New(busy, "/app/leader", election.Config{}).Campaign(s.ctx)
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			for _, err := range election.New(c, "/app/leader", election.Config{}).Observe(ctx) {
				if err != nil {
					return err
				}
			}
			return ctx.Err()
		}
	},
	"queue": func(s *scene, _ *client.Client) waiter {
		return func(ctx context.Context, c *client.Client) error {
			_, err := s.jobs(c).Take(ctx)
			return err
		}
	},
	"full queue": func(s *scene, busy *client.Client) waiter {
		for range 2 {
			_, err := s.jobs(busy).Put(s.ctx, []byte("x"))
			s.check(err)
		}
		_, err := s.jobs(busy).Take(s.ctx)
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			e, err := s.jobs(c).Take(ctx)
			if err == nil {
				_, err = e.Done(ctx)
				if err != nil {
					_ = e.Release(s.ctx)
				}
			}
			if err == nil {
				_, err = s.jobs(c).Take(ctx)
			}
			return err
		}
	},
	"barrier": func(s *scene, busy *client.Client) waiter {
		return func(ctx context.Context, c *client.Client) error {
			_, err := barrier.NewDouble(c, "/app/barrier", barrier.DoubleConfig{Count: 2}).Enter(ctx)
			return err
		}
	},
	"presence": func(s *scene, busy *client.Client) waiter {
		_, err := group.Announce(s.ctx, busy, "/app/me", group.PresenceConfig{})
		s.check(err)
		return func(ctx context.Context, c *client.Client) error {
			_, err := group.Announce(ctx, c, "/app/me", group.PresenceConfig{})
			return err
		}
	},
	"partitions": func(s *scene, busy *client.Client) waiter {
		return func(ctx context.Context, c *client.Client) error {
			return group.SharePartitions(ctx, c, group.PartitionsConfig{Parent: "/app/group", ID: "a", Partitions: 2},
				func(ctx context.Context, _ group.Partition) error { <-ctx.Done(); return ctx.Err() })
		}
	},
	"value": func(s *scene, busy *client.Client) waiter {
		return func(ctx context.Context, c *client.Client) error {
			for _, err := range shared.NewValue(c, "/app/value", shared.Config{}).Watch(ctx) {
				if err != nil {
					return err
				}
			}
			return ctx.Err()
		}
	},
	"cache": func(s *scene, busy *client.Client) waiter {
		return func(ctx context.Context, c *client.Client) error {
			k, err := cache.Open(ctx, c, "/", cache.Config{})
			if err != nil {
				return err
			}
			<-ctx.Done()
			k.Close()
			return ctx.Err()
		}
	},
}

// A caller that gives up, at whatever request, leaves no node and no watch.
func TestGivesUp(t *testing.T) {
	for name, prepare := range abandonedWaits {
		for _, f := range []fault{{"reply", rollcalltest.Verdict{}}, lostReply} {
			t.Run(name+", "+f.name, func(t *testing.T) {
				for n, more := 1, true; more && n <= maxRequests; n++ {
					inSceneAt(t, slowTick, func(s *scene) { more = s.giveUpAt(n, f.verdict, prepare(s, s.client())) })
				}
			})
		}
	}
}

// giveUpAt ends the context of a wait at its n-th request, and fails the test if something is left. It reports whether
// there were so many requests.
func (s *scene) giveUpAt(n int, verdict rollcalltest.Verdict, wait waiter) bool {
	c := s.client()
	time.Sleep(time.Second)
	watches := s.watchCount()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	count := 0
	s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
		if r.Session != sessionOf(c) || r.InSession == 0 {
			return rollcalltest.Verdict{}
		}
		if count++; count != n {
			return rollcalltest.Verdict{}
		}
		cancel()
		return verdict
	})
	defer time.AfterFunc(sceneTimeout/20, cancel).Stop() // there are fewer requests
	err := wait(ctx, c)
	if err == nil {
		s.t.Error("the wait had no end")
	}
	happened := count >= n
	s.srv.OnRequest(nil)
	s.awaitSettled()
	synctest.Wait()
	left, err := c.Ephemerals(s.ctx, "/")
	s.check(err)
	left = slices.DeleteFunc(left, func(path string) bool { return strings.Contains(path, "receipts/") }) // they stay
	if now := s.watchCount(); len(left) > 0 || now != watches {
		s.t.Errorf("at request %d: nodes %q are left, and %s watches; there were %s", n, left, now, watches)
	}
	return happened
}
