package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/cache"
)

// A program as in docs/recipes/cache.md follows a node over the ends of its sessions, with one loop.
func TestCacheFollowsOverSessions(t *testing.T) {
	inScene(t, func(s *scene) {
		writer := s.client()
		_, _, err := writer.Create(s.ctx, "/level", []byte("0"), client.Persistent)
		s.check(err)
		ctx, cancel := context.WithCancel(s.ctx)
		levels, marks, loopEnded := make(chan string, 100), make(chan cache.ChangeType, 100), make(chan error, 1)
		follow := func(k *cache.Cache) {
			for change, err := range k.Changes(context.Background()) {
				if err != nil {
					loopEnded <- err
					return
				}
				level, _ := k.Get("/level")
				levels <- string(level.Data)
				marks <- change.Type
			}
		}
		current := make(chan *client.Client, 1)
		var k *cache.Cache
		kept := async(func() error {
			return client.Keep(ctx, s.srv.ConnectString(), client.Config{Timeout: sessionTimeout, DialConn: s.srv.Dial},
				func(ctx context.Context, c *client.Client) (err error) {
					if k != nil {
						err = k.Attach(ctx, c)
					} else if k, err = cache.Open(ctx, c, "/", cache.Config{}); err == nil {
						go follow(k)
					}
					if err != nil {
						return err
					}
					current <- c
					<-ctx.Done()
					return ctx.Err()
				})
		})
		awaitLevel := func(want string) {
			for got := range levels {
				if got == want {
					return
				}
			}
		}
		awaitLevel("0")
		for _, level := range []string{"1", "2", "3"} {
			s.check(s.srv.ExpireSession(sessionOf(<-current)))
			_, err := writer.Set(s.ctx, "/level", []byte(level), client.AnyVersion)
			s.check(err)
			awaitLevel(level)
		}
		<-current
		cancel()
		s.want(<-kept, context.Canceled)
		synctest.Wait() // the cache knows that
		k.Close()
		s.want(<-loopEnded, cache.ErrClosed)
		synctest.Wait()
		close(marks)
		count := map[cache.ChangeType]int{}
		for mark := range marks {
			count[mark]++
		}
		if count[cache.Reset] != 1 || count[cache.Resumed] != 3 || count[cache.Paused] != 4 || count[cache.Updated] != 3 {
			t.Errorf("the changes are %v, want 1 reset, 3 resumed, 4 paused and 3 updated", count)
		}
		if err := k.Err(); !errors.Is(err, cache.ErrClosed) {
			t.Errorf("the reason is %v", err)
		}
	})
}
