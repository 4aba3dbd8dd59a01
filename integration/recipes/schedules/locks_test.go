package schedules

import (
	"context"
	"fmt"

	"rollcall/client"
	"rollcall/client/lock"
)

// folder returns the path of the n-th parent of a recipe.
func folder(name string, n int) string { return fmt.Sprintf("%s/%s%d", root, name, n) }

// rightRecipe returns a recipe that gives rights. choose draws how a client acquires one.
func rightRecipe(name string, limit int, subjects []string, choose func(a *actor) acquire) recipe {
	return recipe{
		name: name, subjects: subjects, limit: limit, rounds: 2, removed: lock.ErrRemoved,
		play: func(a *actor, final bool) { a.playRight(func() acquire { return choose(a) }, final) },
	}
}

// mutex acquires a mutex.
func mutex(path string, cfg lock.Config) acquire {
	return acquire{[]string{path}, func(ctx context.Context, c *client.Client) (acquired, error) {
		r, err := lock.NewMutex(c, path, cfg).Lock(ctx)
		return oneSubject(path, true, r, err)
	}}
}

func mutexRecipe() recipe {
	path := folder("mutex", 1)
	r := rightRecipe("mutex", 1, []string{path}, func(*actor) acquire { return mutex(path, lock.Config{}) })
	r.wakesOne = true
	return r
}

func kazooRecipe() recipe {
	path := folder("kazoo", 1)
	r := rightRecipe("kazoo", 1, []string{path}, func(*actor) acquire {
		return mutex(path, lock.Config{Layout: lock.Kazoo})
	})
	r.wakesOne = true
	return r
}

// readWriteRecipe has readers, writers, and writers that become readers.
func readWriteRecipe() recipe {
	path := folder("rw", 1)
	return rightRecipe("read-write", 0, []string{path}, func(a *actor) acquire {
		do := func(ctx context.Context, c *client.Client) (acquired, error) {
			r, err := lock.NewRWMutex(c, path, lock.Config{}).RLock(ctx)
			return oneSubject(path, false, r, err)
		}
		switch a.rng.IntN(5) {
		case 0, 1:
			do = func(ctx context.Context, c *client.Client) (acquired, error) {
				w, err := lock.NewRWMutex(c, path, lock.Config{}).Lock(ctx)
				if err != nil {
					return acquired{}, err
				}
				return oneSubject(path, true, w.Right, nil)
			}
		case 2:
			do = func(ctx context.Context, c *client.Client) (acquired, error) { return a.downgrade(ctx, c, path) }
		}
		return acquire{[]string{path}, do}
	})
}

// downgrade acquires a read-write lock as a writer, works, and becomes a reader.
func (a *actor) downgrade(ctx context.Context, c *client.Client, path string) (acquired, error) {
	w, err := lock.NewRWMutex(c, path, lock.Config{}).Lock(ctx)
	if err != nil {
		return acquired{}, err
	}
	a.workFor(workPause)
	r, err := w.Downgrade(ctx)
	if err != nil {
		_ = w.Release(a.ctx) // the error of Downgrade is the one to report
	}
	return oneSubject(path, false, r, err)
}

// permits is the number of clients that hold the semaphore at a time.
const permits = 2

func semaphoreRecipe() recipe {
	path := folder("semaphore", 1)
	return rightRecipe("semaphore", permits, []string{path}, func(*actor) acquire {
		return acquire{[]string{path}, func(ctx context.Context, c *client.Client) (acquired, error) {
			s, err := lock.NewSemaphore(c, path, lock.SemaphoreConfig{Permits: permits})
			if err != nil {
				return acquired{}, err
			}
			r, err := s.Acquire(ctx)
			return oneSubject(path, false, r, err)
		}}
	})
}

// multiRecipe has clients that want two mutexes, and others that want one of them.
func multiRecipe() recipe {
	paths := []string{folder("multi", 1), folder("multi", 2)}
	return rightRecipe("multi-lock", 1, paths, func(a *actor) acquire {
		if i := a.rng.IntN(4); i < len(paths) {
			return mutex(paths[i], lock.Config{})
		}
		return acquire{paths, func(ctx context.Context, c *client.Client) (acquired, error) {
			r, err := lock.NewMulti(c, paths, lock.Config{}).Lock(ctx)
			if err != nil {
				return acquired{}, err
			}
			got := acquired{right: r, exclusive: true, tokens: map[string]client.Token{}}
			for i, token := range r.Tokens() {
				got.tokens[paths[i]] = token
			}
			return got, nil
		}}
	})
}

// revocableRecipe has clients that request the lock from its holder before they wait for it.
func revocableRecipe() recipe {
	path := folder("revocable", 1)
	return rightRecipe("revocable", 1, []string{path}, func(a *actor) acquire {
		return acquire{[]string{path}, func(ctx context.Context, c *client.Client) (acquired, error) {
			mutex := lock.NewRevocable(c, path, lock.Config{})
			if a.rng.IntN(2) == 0 {
				if err := mutex.Revoke(ctx); err != nil {
					return acquired{}, err
				}
			}
			r, err := mutex.Lock(ctx)
			if err != nil {
				return acquired{}, err
			}
			got, err := oneSubject(path, true, r.Right, nil)
			got.revoked = r.Revoked()
			return got, err
		}}
	})
}
