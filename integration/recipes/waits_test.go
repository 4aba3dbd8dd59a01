package recipes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/barrier"
	"rollcall/client/cache"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
)

// waitingCalls are calls that wait while another client has what they wait for: see block.
func waitingCalls() []recipeCall {
	named := func(name string, calls []recipeCall) func(ctx context.Context, c *client.Client, folder string) error {
		return calls[slices.IndexFunc(calls, func(r recipeCall) bool { return r.name == name })].call
	}
	locks, groups, values := callsOfLocks(), callsOfGroups(), callsOfValues()
	return []recipeCall{
		{"mutex", named("mutex", locks)},
		{"reader", named("reader", locks)},
		{"writer", named("writer", locks)},
		{"multi", named("multi", locks)},
		{"revocable", named("revocable", locks)},
		{"semaphore", named("semaphore", locks)},
		{"semaphore with a node", func(ctx context.Context, c *client.Client, folder string) error {
			s, err := lock.NewSemaphore(c, folder, lock.SemaphoreConfig{PermitsPath: folder + "/permits"})
			if err == nil {
				_, err = s.Acquire(ctx)
			}
			return err
		}},
		{"campaign", named("campaign", groups)},
		{"run election", named("run election", groups)},
		{"watch members", named("watch members", groups)},
		{"watch servers", named("watch servers", groups)},
		{"join", named("join", groups)},
		{"two enter a barrier", func(ctx context.Context, c *client.Client, folder string) error {
			_, err := barrier.NewDouble(c, folder, barrier.DoubleConfig{Count: 2}).Enter(ctx)
			if errors.Is(err, client.ErrNotHeld) { // it stands for both reasons
				return errors.Join(client.ErrExpired, client.ErrClosed)
			}
			return err
		}},
		{"take", named("take", values)},
		{"watch value", named("watch value", values)},
		{"watch counter", named("watch counter", values)},
		{"wait at barrier", named("wait at barrier", values)},
		{"changes of a cache", func(ctx context.Context, c *client.Client, folder string) error {
			k, err := cache.Open(ctx, c, folder, cache.Config{})
			if err != nil {
				return err
			}
			defer k.Close()
			for change, err := range k.Changes(ctx) {
				if err != nil || change.Type == cache.Paused { // Attach could go on
					return errors.Join(err, change.Err)
				}
			}
			return nil
		}},
	}
}

// block lets another client have what the call of that name waits for.
func (s *scene) block(name string, other *client.Client, folder string) {
	s.t.Helper()
	ctx := s.ctx
	var err error
	switch name {
	case "mutex", "multi", "revocable":
		_, err = lock.NewMutex(other, folder, lock.Config{}).Lock(ctx)
	case "reader", "writer":
		_, err = lock.NewRWMutex(other, folder, lock.Config{}).Lock(ctx)
	case "semaphore", "semaphore with a node":
		s.check(other.CreateAll(ctx, folder, client.Persistent))
		_, _, err = other.Create(ctx, folder+"/permits", []byte{0, 0, 0, 1}, client.Persistent)
		s.check(err)
		var semaphore *lock.Semaphore
		semaphore, err = lock.NewSemaphore(other, folder, lock.SemaphoreConfig{Permits: 1})
		s.check(err)
		_, err = semaphore.Acquire(ctx)
	case "campaign", "run election":
		_, err = election.New(other, folder, election.Config{}).Campaign(ctx)
	case "join":
		_, err = group.Join(ctx, other, folder, "a", nil)
	case "wait at barrier":
		err = barrier.New(other, folder).Set(ctx)
	}
	s.check(err)
}

// A call that waits ends with its context, with the session, and when the Client is closed. It returns the reason, and
// leaves no node.
func TestWaitsEnd(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(s *scene, c *client.Client, cancel func())
		want error
	}{
		"canceled": {func(_ *scene, _ *client.Client, cancel func()) { cancel() }, context.Canceled},
		"expired":  {func(s *scene, c *client.Client, _ func()) { s.expire(c) }, client.ErrExpired},
		"closed":   {func(s *scene, c *client.Client, _ func()) { s.check(c.Close(s.ctx)) }, client.ErrClosed},
	} {
		for _, r := range waitingCalls() {
			t.Run(name+"/"+r.name, func(t *testing.T) {
				inScene(t, func(s *scene) {
					const folder = "/base/folder"
					c, other := s.client(), s.client()
					s.block(r.name, other, folder)
					before := s.below("/base")
					ctx, cancel := context.WithCancel(s.ctx)
					defer cancel()
					done := make(chan error, 1)
					go func() { done <- r.call(ctx, c, folder) }()
					s.awaitSettled()
					select {
					case err := <-done:
						s.t.Fatalf("it does not wait: %v", err)
					default:
					}
					began := time.Now()
					end.end(s, c, cancel)
					if err := <-done; !errors.Is(err, end.want) && !(err == nil && errors.Is(end.want, context.Canceled)) {
						s.t.Errorf("the error is %v, want %v", err, end.want)
					}
					if took := time.Since(began); took > time.Second {
						s.t.Errorf("it ended after %v", took)
					}
					s.awaitSettled()
					if after := s.below("/base"); !slices.Equal(after, before) {
						s.t.Errorf("the nodes were %q, and are %q", before, after)
					}
				})
			})
		}
	}
}

// below returns the paths of the ephemeral nodes below a path.
func (s *scene) below(path string) []string {
	s.t.Helper()
	var nodes []string
	for _, name := range s.children(path) {
		child := path + "/" + name
		stat, exists, err := s.clients[0].Exists(s.ctx, child)
		if errors.Is(err, client.ErrExpired) || errors.Is(err, client.ErrClosed) {
			stat, exists, err = s.clients[1].Exists(s.ctx, child)
		}
		s.check(err)
		if exists && stat.Owner != 0 {
			nodes = append(nodes, child)
		}
		nodes = append(nodes, s.below(child)...)
	}
	return nodes
}
