package recipes

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/barrier"
	"rollcall/client/cache"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/client/queue"
	"rollcall/client/recipe"
	"rollcall/client/registry"
	"rollcall/client/shared"
)

// noWork is a function that must not be called.
func noWork[T any](t *testing.T) func(context.Context, T) error {
	return func(context.Context, T) error { t.Error("work was called"); return nil }
}

// callsOfRecipes are all calls that use a Client, by their names. Each object is made when the call is.
func callsOfRecipes(t *testing.T, c *client.Client) map[string]func(context.Context) error {
	mutex, rw := lock.NewMutex(c, "/mutex", lock.Config{}), lock.NewRWMutex(c, "/rw", lock.Config{})
	multi, revocable := lock.NewMulti(c, []string{"/m1", "/m2"}, lock.Config{}), lock.NewRevocable(c, "/revocable", lock.Config{})
	semaphore, err := lock.NewSemaphore(c, "/semaphore", lock.SemaphoreConfig{Permits: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, b, q := election.New(c, "/election", election.Config{}), barrier.New(c, "/barrier"), queue.New(c, "/queue", queue.Config{})
	priorities := queue.New(c, "/priorities", queue.Config{Priorities: true})
	double := barrier.NewDouble(c, "/double", barrier.DoubleConfig{Count: 1})
	value, counter := shared.NewValue(c, "/value", shared.Config{}), shared.NewCounter(c, "/counter", shared.CounterConfig{})
	bare := shared.NewValue(c, "/bare", shared.Config{NoReceipts: true})
	partitions := group.PartitionsConfig{Parent: "/crew", ID: "a", Partitions: 1}
	change := func(shared.Revision) ([]byte, error) { return nil, nil }
	return map[string]func(context.Context) error{
		"Mutex.Lock":           func(ctx context.Context) error { return errorOf(mutex.Lock(ctx)) },
		"Mutex.TryLock":        func(ctx context.Context) error { return errorOf(mutex.TryLock(ctx)) },
		"RWMutex.Lock":         func(ctx context.Context) error { return errorOf(rw.Lock(ctx)) },
		"RWMutex.RLock":        func(ctx context.Context) error { return errorOf(rw.RLock(ctx)) },
		"RWMutex.TryLock":      func(ctx context.Context) error { return errorOf(rw.TryLock(ctx)) },
		"RWMutex.TryRLock":     func(ctx context.Context) error { return errorOf(rw.TryRLock(ctx)) },
		"Multi.Lock":           func(ctx context.Context) error { return errorOf(multi.Lock(ctx)) },
		"Multi.TryLock":        func(ctx context.Context) error { return errorOf(multi.TryLock(ctx)) },
		"Revocable.Lock":       func(ctx context.Context) error { return errorOf(revocable.Lock(ctx)) },
		"Revocable.TryLock":    func(ctx context.Context) error { return errorOf(revocable.TryLock(ctx)) },
		"Revocable.Revoke":     revocable.Revoke,
		"Semaphore.Acquire":    func(ctx context.Context) error { return errorOf(semaphore.Acquire(ctx)) },
		"Semaphore.TryAcquire": func(ctx context.Context) error { return errorOf(semaphore.TryAcquire(ctx)) },
		"Election.Campaign":    func(ctx context.Context) error { return errorOf(e.Campaign(ctx)) },
		"Election.Candidates":  func(ctx context.Context) error { return errorOf(e.Candidates(ctx)) },
		"Election.Observe":     func(ctx context.Context) error { return lastOf(e.Observe(ctx)) },
		"Election.Run":         func(ctx context.Context) error { return e.Run(ctx, noWork[*election.Leadership](t)) },
		"election.Run":         func(ctx context.Context) error { return election.Run(ctx, c, "/run", noWork[*election.Leadership](t)) },
		"Barrier.Set":          b.Set,
		"Barrier.Remove":       b.Remove,
		"Barrier.Wait":         b.Wait,
		"DoubleBarrier.Enter":  func(ctx context.Context) error { return errorOf(double.Enter(ctx)) },
		"group.SharePartitions": func(ctx context.Context) error {
			return group.SharePartitions(ctx, c, partitions, noWork[group.Partition](t))
		},
		"group.Watch":   func(ctx context.Context) error { return lastOf(group.Watch(ctx, c, "/group")) },
		"group.Members": func(ctx context.Context) error { return errorOf(group.Members(ctx, c, "/group")) },
		"group.Announce": func(ctx context.Context) error {
			return errorOf(group.Announce(ctx, c, "/presence", group.PresenceConfig{}))
		},
		"group.Join":            func(ctx context.Context) error { return errorOf(group.Join(ctx, c, "/group", "a", nil)) },
		"Queue.Put":             func(ctx context.Context) error { return errorOf(q.Put(ctx, nil)) },
		"Queue.PutWithPriority": func(ctx context.Context) error { return errorOf(priorities.PutWithPriority(ctx, nil, 1)) },
		"Queue.Take":            func(ctx context.Context) error { return errorOf(q.Take(ctx)) },
		"Queue.TryTake":         func(ctx context.Context) error { return errorOf(q.TryTake(ctx)) },
		"registry.Names":        func(ctx context.Context) error { return errorOf(registry.Names(ctx, c, "/registry")) },
		"registry.Register": func(ctx context.Context) error {
			_, _, err := registry.Register(ctx, c, "/registry", registry.Instance{Name: "x", ID: "1"})
			return err
		},
		"registry.Watch":        func(ctx context.Context) error { return lastOf(registry.Watch(ctx, c, "/registry", "x")) },
		"registry.WatchServers": func(ctx context.Context) error { return lastOf(registry.WatchServers(ctx, c, "/servers")) },
		"registry.Instances":    func(ctx context.Context) error { return errorOf(registry.Instances(ctx, c, "/registry", "x")) },
		"registry.Servers":      func(ctx context.Context) error { return errorOf(registry.Servers(ctx, c, "/servers")) },
		"registry.RegisterServer": func(ctx context.Context) error {
			return errorOf(registry.RegisterServer(ctx, c, "/servers", registry.Server{Service: registry.Endpoint{Host: "h", Port: 1}}))
		},
		"Value.Get":       func(ctx context.Context) error { return errorOf(value.Get(ctx)) },
		"Value.Set":       func(ctx context.Context) error { return errorOf(value.Set(ctx, nil)) },
		"Value.Set, bare": func(ctx context.Context) error { return errorOf(bare.Set(ctx, nil)) },
		"Value.Update":    func(ctx context.Context) error { return errorOf(value.Update(ctx, change)) },
		"Value.Watch":     func(ctx context.Context) error { return lastOf(value.Watch(ctx)) },
		"Value.TrySet": func(ctx context.Context) error {
			_, _, err := value.TrySet(ctx, shared.Revision{Exists: true}, nil)
			return err
		},
		"Counter.Add":           func(ctx context.Context) error { return errorOf(counter.Add(ctx, 1)) },
		"Counter.Set":           func(ctx context.Context) error { return counter.Set(ctx, 1) },
		"Counter.Get":           func(ctx context.Context) error { return errorOf(counter.Get(ctx)) },
		"Counter.CompareAndSet": func(ctx context.Context) error { return errorOf(counter.CompareAndSet(ctx, 0, 1)) },
		"Counter.Watch":         func(ctx context.Context) error { return lastOf(counter.Watch(ctx)) },
		"cache.Open":            func(ctx context.Context) error { return errorOf(cache.Open(ctx, c, "/", cache.Config{})) },
		"recipe.Prove":          func(ctx context.Context) error { time.Sleep(2 * sessionTimeout); return recipe.Prove(ctx, c) },
		"recipe.AwaitWritable":  func(ctx context.Context) error { return recipe.AwaitWritable(ctx, c) },
		"Client.Watch":          func(ctx context.Context) error { return lastOf(c.Watch(ctx, "/", client.Tree)) },
	}
}

// After Close, each call of each recipe returns ErrClosed at once, and a second Close returns nil.
func TestRecipesAfterClose(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		calls := callsOfRecipes(t, c)
		s.check(c.Close(s.ctx))
		s.check(c.Close(s.ctx))
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
			if err := call(ctx); !errors.Is(err, client.ErrClosed) || client.MayHaveHappened(err) || ctx.Err() != nil {
				t.Errorf("%s: %v (%v), want %v", name, err, ctx.Err(), client.ErrClosed)
			}
			cancel()
		}
	})
}

// callsOfHeld are all calls of what a Client held, by their names.
func callsOfHeld(s *scene, c *client.Client) map[string]func(context.Context) error {
	right, err := lock.NewMutex(c, "/mutex", lock.Config{}).Lock(s.ctx)
	s.check(err)
	multi, err := lock.NewMulti(c, []string{"/m1", "/m2"}, lock.Config{}).Lock(s.ctx)
	s.check(err)
	write, err := lock.NewRWMutex(c, "/rw", lock.Config{}).Lock(s.ctx)
	s.check(err)
	leadership, err := election.New(c, "/election", election.Config{}).Campaign(s.ctx)
	s.check(err)
	member, err := barrier.NewDouble(c, "/double", barrier.DoubleConfig{Count: 1}).Enter(s.ctx)
	s.check(err)
	presence, err := group.Announce(s.ctx, c, "/presence", group.PresenceConfig{})
	s.check(err)
	q := queue.New(c, "/queue", queue.Config{})
	s.check(errorOf(q.Put(s.ctx, nil)))
	element, err := q.Take(s.ctx)
	s.check(err)
	server := registry.Server{Service: registry.Endpoint{Host: "h", Port: 1}}
	registration, err := registry.RegisterServer(s.ctx, c, "/servers", server)
	s.check(err)
	copied, err := cache.Open(s.ctx, c, "/", cache.Config{})
	s.check(err)
	s.t.Cleanup(copied.Close)
	return map[string]func(context.Context) error{
		"Right.Guard":             func(ctx context.Context) error { return errorOf(right.Guard(ctx)) },
		"Right.Release":           right.Release,
		"MultiRight.Guard":        func(ctx context.Context) error { return errorOf(multi.Guard(ctx)) },
		"MultiRight.Release":      multi.Release,
		"WriteRight.Downgrade":    func(ctx context.Context) error { return errorOf(write.Downgrade(ctx)) },
		"WriteRight.Release":      write.Release,
		"Leadership.HandOver":     func(ctx context.Context) error { return leadership.HandOver(ctx, []byte("x")) },
		"Leadership.Resign":       leadership.Resign,
		"Member.Leave":            member.Leave,
		"Presence.Set":            func(ctx context.Context) error { return presence.Set(ctx, []byte("x")) },
		"Presence.Leave":          presence.Leave,
		"Presence.Err":            func(context.Context) error { return presence.Err() },
		"Element.Guard":           func(ctx context.Context) error { return errorOf(element.Guard(ctx)) },
		"Element.Done":            func(ctx context.Context) error { return errorOf(element.Done(ctx)) },
		"Element.Release":         element.Release,
		"Registration.Update":     func(ctx context.Context) error { return registration.Update(ctx, server) },
		"Registration.Unregister": registration.Unregister,
		"Registration.Err":        func(context.Context) error { return registration.Err() },
		"Cache.Await":             func(ctx context.Context) error { return copied.Await(ctx, 1<<62) },
		"Cache.Err":               func(context.Context) error { return copied.Err() },
		"Cache.Attach":            func(ctx context.Context) error { return copied.Attach(ctx, c) },
		"HandOver":                func(ctx context.Context) error { return errorOf(c.HandOver(ctx)) },
	}
}

// After Close, each call of what the Client held returns ErrClosed at once, or that it is not held.
func TestHeldAfterClose(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		calls := callsOfHeld(s, c)
		s.check(c.Close(s.ctx))
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
			want := client.ErrClosed
			if name == "MultiRight.Guard" || name == "Element.Done" {
				want = client.ErrNotHeld
			}
			if err := call(ctx); !errors.Is(err, want) || ctx.Err() != nil {
				t.Errorf("%s: %v (%v), want %v", name, err, ctx.Err(), want)
			}
			cancel()
		}
	})
}
