package recipes

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"slices"
	"strings"
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
	"rollcall/client/shared"
)

// recipeCall is a call of a recipe that uses a parent.
type recipeCall struct {
	name string
	call func(ctx context.Context, c *client.Client, folder string) error
}

// errBegun ends a call that has got what it was for.
var errBegun = errors.New("it has begun")

// errorOf returns the error of a call that also returns a value.
func errorOf[T any](_ T, err error) error { return err }

// lastOf returns the last error of a sequence.
func lastOf[T any](sequence iter.Seq2[T, error]) (last error) {
	for _, err := range sequence {
		last = err
	}
	return last
}

func callsOfLocks() []recipeCall {
	semaphore := func(c *client.Client, folder string) *lock.Semaphore {
		s, _ := lock.NewSemaphore(c, folder, lock.SemaphoreConfig{Permits: 1}) // never runForbidden
		return s
	}
	return []recipeCall{
		{"mutex", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewMutex(c, folder, lock.Config{}).Lock(ctx))
		}},
		{"try mutex", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewMutex(c, folder, lock.Config{}).TryLock(ctx))
		}},
		{"writer", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewRWMutex(c, folder, lock.Config{}).Lock(ctx))
		}},
		{"try writer", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewRWMutex(c, folder, lock.Config{}).TryLock(ctx))
		}},
		{"reader", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewRWMutex(c, folder, lock.Config{}).RLock(ctx))
		}},
		{"try reader", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewRWMutex(c, folder, lock.Config{}).TryRLock(ctx))
		}},
		{"multi", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewMulti(c, []string{folder}, lock.Config{}).Lock(ctx))
		}},
		{"try multi", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewMulti(c, []string{folder}, lock.Config{}).TryLock(ctx))
		}},
		{"revocable", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewRevocable(c, folder, lock.Config{}).Lock(ctx))
		}},
		{"try revocable", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewRevocable(c, folder, lock.Config{}).TryLock(ctx))
		}},
		{"revoke", func(ctx context.Context, c *client.Client, folder string) error {
			return lock.NewRevocable(c, folder, lock.Config{}).Revoke(ctx)
		}},
		{"semaphore", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(semaphore(c, folder).Acquire(ctx))
		}},
		{"try semaphore", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(semaphore(c, folder).TryAcquire(ctx))
		}},
	}
}

func callsOfGroups() []recipeCall {
	return []recipeCall{
		{"campaign", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(election.New(c, folder, election.Config{}).Campaign(ctx))
		}},
		{"candidates", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(election.New(c, folder, election.Config{}).Candidates(ctx))
		}},
		{"observe election", func(ctx context.Context, c *client.Client, folder string) error {
			return lastOf(election.New(c, folder, election.Config{}).Observe(ctx))
		}},
		{"run election", func(ctx context.Context, c *client.Client, folder string) error {
			e := election.New(c, folder, election.Config{})
			return e.Run(ctx, func(context.Context, *election.Leadership) error { return errBegun })
		}},
		{"enter barrier", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(barrier.NewDouble(c, folder, barrier.DoubleConfig{Count: 1}).Enter(ctx))
		}},
		{"join", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(group.Join(ctx, c, folder, "a", nil))
		}},
		{"members", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(group.Members(ctx, c, folder))
		}},
		{"watch members", func(ctx context.Context, c *client.Client, folder string) error {
			return lastOf(group.Watch(ctx, c, folder))
		}},
		{"partitions", func(ctx context.Context, c *client.Client, folder string) error {
			return group.SharePartitions(ctx, c, group.PartitionsConfig{Parent: folder, ID: "a", Partitions: 2},
				func(context.Context, group.Partition) error { return errBegun })
		}},
		{"register", func(ctx context.Context, c *client.Client, folder string) error {
			_, _, err := registry.Register(ctx, c, folder, registry.Instance{Name: "x", Address: "a"})
			return err
		}},
		{"register server", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(registry.RegisterServer(ctx, c, folder, registry.Server{Service: registry.Endpoint{Host: "h", Port: 1}}))
		}},
		{"instances", func(ctx context.Context, c *client.Client, folder string) error {
			base, name, _ := strings.Cut(folder[1:], "/")
			return errorOf(registry.Instances(ctx, c, "/"+base, name))
		}},
		{"services", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(registry.Names(ctx, c, folder))
		}},
		{"servers", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(registry.Servers(ctx, c, folder))
		}},
		{"watch servers", func(ctx context.Context, c *client.Client, folder string) error {
			return lastOf(registry.WatchServers(ctx, c, folder))
		}},
	}
}

func callsOfValues() []recipeCall {
	return []recipeCall{
		{"put", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(queue.New(c, folder, queue.Config{}).Put(ctx, nil))
		}},
		{"take", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(queue.New(c, folder, queue.Config{}).Take(ctx))
		}},
		{"try take", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(queue.New(c, folder, queue.Config{}).TryTake(ctx))
		}},
		{"get value", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(shared.NewValue(c, folder, shared.Config{}).Get(ctx))
		}},
		{"set value", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(shared.NewValue(c, folder, shared.Config{}).Set(ctx, nil))
		}},
		{"set value without receipts", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(shared.NewValue(c, folder, shared.Config{NoReceipts: true}).Set(ctx, nil))
		}},
		{"try set value", func(ctx context.Context, c *client.Client, folder string) error {
			_, _, err := shared.NewValue(c, folder, shared.Config{}).TrySet(ctx, shared.Revision{Exists: true}, nil)
			return err
		}},
		{"watch value", func(ctx context.Context, c *client.Client, folder string) error {
			return lastOf(shared.NewValue(c, folder, shared.Config{}).Watch(ctx))
		}},
		{"get counter", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(shared.NewCounter(c, folder, shared.CounterConfig{}).Get(ctx))
		}},
		{"set counter", func(ctx context.Context, c *client.Client, folder string) error {
			return shared.NewCounter(c, folder, shared.CounterConfig{}).Set(ctx, 1)
		}},
		{"add to counter", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(shared.NewCounter(c, folder, shared.CounterConfig{}).Add(ctx, 1))
		}},
		{"compare counter", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(shared.NewCounter(c, folder, shared.CounterConfig{}).CompareAndSet(ctx, 0, 1))
		}},
		{"watch counter", func(ctx context.Context, c *client.Client, folder string) error {
			return lastOf(shared.NewCounter(c, folder, shared.CounterConfig{}).Watch(ctx))
		}},
		{"set barrier", func(ctx context.Context, c *client.Client, folder string) error {
			return barrier.New(c, folder+"/barrier").Set(ctx)
		}},
		{"remove barrier", func(ctx context.Context, c *client.Client, folder string) error {
			return barrier.New(c, folder+"/barrier").Remove(ctx)
		}},
		{"wait at barrier", func(ctx context.Context, c *client.Client, folder string) error {
			return barrier.New(c, folder).Wait(ctx)
		}},
		{"cache", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(cache.Open(ctx, c, folder, cache.Config{}))
		}},
	}
}

// A call of a recipe without the necessary permissions fails with client.ErrNoAuth, and leaves no node below its parent.
// It does not try again for ever.
func TestPermissions(t *testing.T) {
	all := slices.Concat(callsOfLocks(), callsOfGroups(), callsOfValues())
	for _, tt := range []struct {
		name string
		perm client.Permission // of the folder
		may  []string          // the calls that it is enough for; they are left out
	}{
		{"nothing", 0, nil},
		{"create and delete", client.PermCreate | client.PermDelete, []string{
			"join", "register", "register server", "put", "set barrier", "remove barrier", "semaphore", "try semaphore", "partitions",
		}},
	} {
		for _, r := range all {
			if !slices.Contains(tt.may, r.name) {
				t.Run(tt.name+"/"+r.name, func(t *testing.T) { runForbidden(t, r, tt.perm) })
			}
		}
	}
	for _, r := range all {
		if slices.Contains([]string{"enter barrier", "set value", "set value without receipts", "set counter"}, r.name) {
			t.Run("all but write/"+r.name, func(t *testing.T) { runForbidden(t, r, client.PermAll&^client.PermWrite) })
		}
	}
}

// errorText matches the text of an error: the package, what was done, the path and the reason.
var errorText = regexp.MustCompile(`^([a-z]+: ){1,2}([a-z0-9 ]+ )?(/base/folder[^ ]*: .*|[a-z0-9 ]+: [a-zA-Z0-9]+ /base/folder[^ ]*: |[a-zA-Z0-9]+ /base/folder[^ ]*: )not authorized$`)

// runForbidden runs a call whose permissions of the parent are insufficient.
func runForbidden(t *testing.T, r recipeCall, perm client.Permission) {
	inScene(t, func(s *scene) {
		owner, folder := s.folderWith(perm)
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		err := r.call(ctx, s.client(), folder)
		s.want(err, client.ErrNoAuth)
		if !errorText.MatchString(err.Error()) {
			s.t.Errorf("the error does not say what was done where: %v", err)
		}
		s.awaitSettled()
		s.check(owner.Sync(s.ctx))
		if names, _, err := owner.Children(s.ctx, folder); err != nil || len(names) != 0 {
			s.t.Errorf("%q are left, %v", names, err)
		}
	})
}

// folderWith creates a parent on which all but its owner have these permissions.
func (s *scene) folderWith(perm client.Permission) (owner *client.Client, folder string) {
	s.t.Helper()
	owner, folder = s.client(), "/base/folder"
	s.check(owner.AddAuth(s.ctx, client.DigestAuth("owner", "secret")))
	acl := slices.Clone(ownersACL)
	if perm != 0 {
		acl = append(acl, client.ACL{Permissions: perm, Identity: client.Anyone})
	}
	s.check(owner.CreateAll(s.ctx, "/base", client.Persistent))
	_, _, err := owner.Create(s.ctx, folder, nil, client.Persistent.WithACL(acl...))
	s.check(err)
	return owner, folder
}

// ownersACL gives one user every permission.
var ownersACL = []client.ACL{{Permissions: client.PermAll, Identity: client.DigestIdentity("owner", "secret")}}

// The nodes of a recipe have the ACL of its Config.
func TestNodesHaveACL(t *testing.T) {
	for _, r := range callsWithACL() {
		t.Run(r.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				owner := s.client()
				s.check(owner.AddAuth(s.ctx, client.DigestAuth("owner", "secret")))
				s.check(r.call(s.ctx, owner, "/folder"))
				if n := s.countACL(owner, "/folder") + s.countACL(owner, "/folder-locks"); n != 1 {
					s.t.Errorf("%d nodes have the ACL, want 1", n)
				}
			})
		})
	}
}

// countACL returns the number of nodes that are at a path or below it and have ownersACL.
func (s *scene) countACL(c *client.Client, path string) (n int) {
	s.t.Helper()
	acl, _, err := c.GetACL(s.ctx, path)
	if errors.Is(err, client.ErrNoNode) {
		return 0
	}
	s.check(err)
	if slices.Equal(acl, ownersACL) {
		n++
	}
	names, _, err := c.Children(s.ctx, path)
	s.check(err)
	for _, name := range names {
		n += s.countACL(c, path+"/"+name)
	}
	return n
}

// callsWithACL returns calls that each leave one node with ownersACL.
func callsWithACL() []recipeCall {
	locks := lock.Config{ACL: ownersACL}
	return []recipeCall{
		{"mutex", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewMutex(c, folder, locks).Lock(ctx))
		}},
		{"reader", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewRWMutex(c, folder, locks).RLock(ctx))
		}},
		{"writer that became a reader", func(ctx context.Context, c *client.Client, folder string) error {
			right, err := lock.NewRWMutex(c, folder, locks).Lock(ctx)
			if err == nil {
				_, err = right.Downgrade(ctx)
			}
			return err
		}},
		{"multi", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(lock.NewMulti(c, []string{folder}, locks).Lock(ctx))
		}},
		{"semaphore", func(ctx context.Context, c *client.Client, folder string) error {
			semaphore, err := lock.NewSemaphore(c, folder, lock.SemaphoreConfig{Permits: 1, ACL: ownersACL})
			if err == nil {
				_, err = semaphore.Acquire(ctx)
			}
			return err
		}},
		{"election", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(election.New(c, folder, election.Config{ACL: ownersACL}).Campaign(ctx))
		}},
		{"queue", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(queue.New(c, folder, queue.Config{ACL: ownersACL}).Put(ctx, nil))
		}},
		{"value", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(shared.NewValue(c, folder, shared.Config{ACL: ownersACL}).Set(ctx, nil))
		}},
		{"counter", func(ctx context.Context, c *client.Client, folder string) error {
			return shared.NewCounter(c, folder, shared.CounterConfig{ACL: ownersACL}).Set(ctx, 1)
		}},
		{"presence", func(ctx context.Context, c *client.Client, folder string) error {
			return errorOf(group.Announce(ctx, c, folder+"/a", group.PresenceConfig{ACL: ownersACL}))
		}},
	}
}
