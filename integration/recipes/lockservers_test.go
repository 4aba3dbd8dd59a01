package recipes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/rollcalltest"
)

// lockTimeout is the timeout of the sessions in the tests of locks.
const lockTimeout = 10 * time.Second

// lockPatience limits each of these tests, in virtual time: no wait of a lock that works is longer.
const lockPatience = 10 * time.Minute

// lockServers are servers in a bubble, and what the tests of locks need.
type lockServers struct {
	*testing.T
	*rollcalltest.Ensemble
	ctx   context.Context
	start time.Time
}

// withLockServers runs f in a bubble with servers.
func withLockServers(t *testing.T, servers int, f func(s *lockServers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		e := rollcalltest.StartEnsembleWith(t, servers, rollcalltest.Config{Pipes: true})
		ctx, cancel := context.WithTimeout(t.Context(), lockPatience)
		defer cancel()
		f(&lockServers{T: t, Ensemble: e, ctx: ctx, start: start})
	})
}

// lockClient is a client that can be cut off.
type lockClient struct {
	*client.Client
	cutOff atomic.Bool
}

// client opens a session, which ends with the test.
func (s *lockServers) client() *lockClient { return s.clientWith(client.Config{}) }

func (s *lockServers) clientWith(cfg client.Config) *lockClient {
	s.Helper()
	c := &lockClient{}
	cfg.Timeout = lockTimeout
	cfg.Clock = func() time.Duration { return time.Since(s.start) + 1 }
	cfg.DialConn = func(ctx context.Context, _, address string) (net.Conn, error) {
		if c.cutOff.Load() {
			return nil, errors.New("cut off")
		}
		return s.Ensemble.Dial(ctx, "tcp", address)
	}
	var err error
	c.Client, err = client.Dial(s.ctx, s.ConnectString(), cfg)
	s.must(err)
	s.Cleanup(c.Abandon)
	return c
}

func (c *lockClient) id() int64 {
	id, _ := c.Session()
	return int64(id)
}

// cut cuts a client off: it can send nothing any more.
func (s *lockServers) cut(c *lockClient) {
	c.cutOff.Store(true)
	s.DropConnections(c.id())
}

func (s *lockServers) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *lockServers) wantError(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("the error is %v, want %v", err, want)
	}
}

// children returns the current names of a parent's children.
func (s *lockServers) children(c *lockClient, folder string) []string {
	s.Helper()
	s.must(c.AwaitConnected(s.ctx))
	s.must(c.Sync(s.ctx))
	names, _, err := c.Children(s.ctx, folder)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	s.must(err)
	return names
}

// wantEmpty fails the test unless a parent has no children or is gone, once all goroutines are blocked.
func (s *lockServers) wantEmpty(c *lockClient, folder string) {
	s.Helper()
	time.Sleep(lockTimeout / 2) // a lost connection is back, and what runs in the background has ended
	if names := s.children(c, folder); len(names) > 0 {
		s.Errorf("%s still has %q", folder, names)
	}
}

// settle lets everything happen that takes no more than a second.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// isLost reports whether a channel is closed within a second.
func isLost(lost <-chan struct{}) bool {
	settle()
	select {
	case <-lost:
		return true
	default:
		return false
	}
}

// async runs f, and returns a channel that gets its error.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// isWaiting reports whether nothing comes on a channel within a second.
func isWaiting(done <-chan error) bool {
	settle()
	return len(done) == 0
}

// maxFaultyRequests limits the requests of a scenario.
const maxFaultyRequests = 100

// eachLockFault runs a scenario again and again in a bubble of its own. In the n-th run, the connection of the client
// subject breaks at its n-th request: before the request is carried out, or after that. The client calls begin when
// the counting begins.
func eachLockFault(t *testing.T, servers int, cfg client.Config, scenario func(s *lockServers, subject *lockClient)) {
	t.Helper()
	for name, fault := range map[string]rollcalltest.Verdict{
		"request": {LoseRequest: true}, "reply": {LoseReply: true},
	} {
		for n, happened := 1, true; happened && !t.Failed(); n++ {
			if n > maxFaultyRequests {
				t.Fatalf("the scenario has more than %d requests", maxFaultyRequests)
			}
			happened = false
			t.Run(fmt.Sprintf("%s %d lost", name, n), func(t *testing.T) {
				withLockServers(t, servers, func(s *lockServers) {
					subject := s.clientWith(cfg)
					var count atomic.Int64
					s.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
						if r.Session == subject.id() && r.InSession > 0 && count.Add(1) == int64(n) {
							t.Logf("lost: %s %s", r.Op, r.Path)
							return fault
						}
						return rollcalltest.Verdict{}
					})
					scenario(s, subject)
					happened = count.Load() >= int64(n)
				})
			})
		}
	}
}
