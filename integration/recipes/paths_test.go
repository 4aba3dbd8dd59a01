package recipes

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/client/queue"
	"rollcall/rollcalltest"
)

// A recipe in a directory that no node may be sends nothing: behind a chroot, that would be another directory.
func TestBadFolders(t *testing.T) {
	inScene(t, func(s *scene) {
		s.check(s.client().CreateAll(s.ctx, "/app", client.Persistent))
		c, err := client.Dial(s.ctx, s.srv.ConnectString()+"/app", client.Config{
			DialConn: s.srv.Dial,
		})
		s.check(err)
		s.clients = append(s.clients, c)
		var requests atomic.Int32
		s.srv.OnRequest(func(q rollcalltest.Request) rollcalltest.Verdict {
			if q.InSession > 0 && q.Op != "ping" {
				requests.Add(1)
			}
			return rollcalltest.Verdict{}
		})
		wantNone := func(call recipeCall, folder string) {
			ctx, cancel := context.WithTimeout(s.ctx, sessionTimeout)
			defer cancel()
			err := call.call(ctx, c, folder)
			synctest.Wait()
			sent := requests.Swap(0)
			if !errors.Is(err, client.ErrBadArguments) || sent > 0 {
				s.t.Errorf("%s in %q: %v after %d requests, want an error before all", call.name, folder, err, sent)
			}
		}
		for _, call := range slices.Concat(callsOfLocks(), callsOfGroups(), callsOfValues(), callsOfHolders()) {
			if call.name == "instances" {
				continue // it takes no such directory
			}
			for _, folder := range []string{"2", "locks/x", "/a/", "/a//b", "/a/../b"} {
				wantNone(call, folder)
			}
		}
		for _, call := range []recipeCall{
			{"lock", func(ctx context.Context, c *client.Client, folder string) error {
				return errorOf(lock.NewMutex(c, folder, lock.Config{}).Lock(ctx))
			}},
			{"campaign", func(ctx context.Context, c *client.Client, folder string) error {
				return errorOf(election.New(c, folder, election.Config{}).Campaign(ctx))
			}},
			{"join", func(ctx context.Context, c *client.Client, folder string) error {
				return errorOf(group.Join(ctx, c, folder, "a", nil))
			}},
			{"put", func(ctx context.Context, c *client.Client, folder string) error {
				return errorOf(queue.New(c, folder, queue.Config{}).Put(ctx, nil))
			}},
		} {
			wantNone(call, "")
		}
	})
}
