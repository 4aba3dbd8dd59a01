package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/barrier"
	"rollcall/client/cache"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/client/queue"
	"rollcall/client/registry"
	"rollcall/rollcalltest"
)

// maxBeforeCut limits the requests of a call before its connection is cut. No call of the tables sends more before it is
// done, or waits.
const maxBeforeCut = 40

// endWithContext cuts the connection of each call after some requests, for longer than the call may take. The call
// returns its context's error. Nothing of it is left when there is a connection again.
func endWithContext(t *testing.T, calls []recipeCall) {
	for _, r := range calls {
		t.Run(r.name, func(t *testing.T) {
			for n := range maxBeforeCut {
				done := false
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					inScene(t, func(s *scene) { done = s.cutOff(r, n) })
				})
				if done || t.Failed() {
					return
				}
			}
		})
	}
}

// cutOff runs a call whose connection is cut after n requests. It reports whether the call needs no more requests.
func (s *scene) cutOff(r recipeCall, n int) (done bool) {
	c, other := s.clientWith(client.Config{WhileSuspended: client.Fail}), s.client()
	s.check(other.CreateAll(s.ctx, "/base", client.Persistent))
	var requests atomic.Int32
	var back atomic.Bool
	s.srv.OnRequest(func(q rollcalltest.Request) rollcalltest.Verdict {
		if q.Session != sessionOf(c) || back.Load() || q.Op == "ping" || q.Op == "sync" && n > 0 {
			return rollcalltest.Verdict{}
		}
		return rollcalltest.Verdict{LoseRequest: int(requests.Add(1)) > n}
	})
	ctx, cancel := context.WithTimeout(s.ctx, sessionTimeout/4)
	defer cancel()
	err := r.call(ctx, c, "/base/folder")
	if err == nil || errors.Is(err, errBegun) || int(requests.Load()) <= n {
		return true
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("cut off after %d requests: %v, want %v", n, err, context.DeadlineExceeded)
	}
	back.Store(true)
	s.check(c.AwaitConnected(s.ctx))
	s.awaitSettled()
	time.Sleep(sessionTimeout / 2)
	own, err := c.Ephemerals(s.ctx, "/base/folder")
	s.check(err)
	own = slices.DeleteFunc(own, func(path string) bool { return strings.Contains(path, "receipts/") }) // these are used again
	if len(own) != 0 {
		s.t.Errorf("cut off after %d requests: %q are left", n, own)
	}
	return false
}

// inBackground ends a right whether or not ctx has ended.
func inBackground(right interface {
	Release(ctx context.Context) error
},
) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	time.AfterFunc(time.Millisecond, func() { _ = right.Release(ended) }) // the call has ended by then
}

// callsOfHolders are calls that get something, and then use it.
func callsOfHolders() []recipeCall {
	return []recipeCall{
		{"downgrade", func(ctx context.Context, c *client.Client, folder string) error {
			right, err := lock.NewRWMutex(c, folder, lock.Config{}).Lock(ctx)
			if err != nil {
				return err
			}
			defer inBackground(right)
			reader, err := right.Downgrade(ctx)
			if err == nil {
				err = reader.Release(ctx)
			}
			return err
		}},
		{"hand over", func(ctx context.Context, c *client.Client, folder string) error {
			l, err := election.New(c, folder, election.Config{Data: []byte("a")}).Campaign(ctx)
			if err != nil {
				return err
			}
			defer inBackground(l)
			campaign, cancel := context.WithCancel(ctx)
			defer cancel()
			e := election.New(c, folder, election.Config{Data: []byte("b")})
			next := make(chan *election.Leadership, 1)
			go func() {
				l, _ := e.Campaign(campaign)
				next <- l
			}()
			time.Sleep(time.Second / 4) // in the bubble: it waits
			if err = l.HandOver(ctx, []byte("b")); err != nil {
				cancel()
			}
			if l := <-next; l != nil {
				inBackground(l)
			}
			return err
		}},
		{"element", func(ctx context.Context, c *client.Client, folder string) error {
			q := queue.New(c, folder, queue.Config{})
			if _, err := q.Put(ctx, nil); err != nil {
				return err
			}
			e, err := q.Take(ctx)
			if err != nil {
				return err
			}
			defer inBackground(e)
			return errorOf(e.Done(ctx))
		}},
		{"round of a barrier", func(ctx context.Context, c *client.Client, folder string) error {
			m, err := barrier.NewDouble(c, folder, barrier.DoubleConfig{Count: 1}).Enter(ctx)
			if err != nil {
				return err
			}
			return m.Leave(ctx)
		}},
		{"presence", func(ctx context.Context, c *client.Client, folder string) error {
			p, err := group.Announce(ctx, c, folder+"/a", group.PresenceConfig{Sequential: true})
			if err != nil {
				return err
			}
			return errors.Join(p.Set(ctx, []byte("x")), p.Leave(ctx))
		}},
		{"registration", func(ctx context.Context, c *client.Client, folder string) error {
			r, i, err := registry.Register(ctx, c, folder, registry.Instance{Name: "x", Address: "a"})
			if err != nil {
				return err
			}
			i.Address = "b"
			return errors.Join(r.Update(ctx, i), r.Unregister(ctx))
		}},
		{"await cache", func(ctx context.Context, c *client.Client, folder string) error {
			k, err := cache.Open(ctx, c, folder, cache.Config{})
			if err != nil {
				return err
			}
			defer k.Close()
			_, _, _ = c.Exists(ctx, folder) // if this is cut, the Client is suspended when Await begins
			return k.Await(ctx, c.LastZxid()+1000)
		}},
	}
}

func TestHoldersCutOff(t *testing.T) { endWithContext(t, callsOfHolders()) }

// A call without a connection ends with its context, whatever request it was about to send.
func TestLocksCutOff(t *testing.T) { endWithContext(t, callsOfLocks()) }

func TestGroupsCutOff(t *testing.T) { endWithContext(t, callsOfGroups()) }

func TestValuesCutOff(t *testing.T) { endWithContext(t, callsOfValues()) }
