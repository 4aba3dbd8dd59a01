package cache_test

import (
	"context"
	"sync"

	"rollcall/client"
	"rollcall/client/cache"
)

// raiseLimit changes a setting, and waits until the cache of the process has it.
func raiseLimit(ctx context.Context, c *client.Client, settings *cache.Cache, limit []byte) error {
	node, ok := settings.Get("/settings/limit")
	if !ok {
		return client.ErrNoNode
	}
	stat, err := c.Set(ctx, "/settings/limit", limit, node.Stat.Version)
	if err != nil {
		return err
	}
	return settings.Await(ctx, stat.Changed)
}

func ExampleCache() {
	// settings, err := cache.Open(ctx, c, "/settings", cache.Config{})
	_ = raiseLimit
}

// followSettings keeps a copy of /settings, with one session after the other, until ctx ends. One loop over its changes
// lasts as long as the copy.
func followSettings(ctx context.Context, servers string, follow func(*cache.Cache)) error {
	var settings *cache.Cache
	var following sync.WaitGroup
	defer following.Wait()
	defer func() {
		if settings != nil {
			settings.Close() // ends the loop
		}
	}()
	return client.Keep(ctx, servers, client.Config{}, func(ctx context.Context, c *client.Client) (err error) {
		if settings != nil {
			err = settings.Attach(ctx, c)
		} else if settings, err = cache.Open(ctx, c, "/settings", cache.Config{}); err == nil {
			following.Go(func() { follow(settings) })
		}
		if err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// printLevel prints the level of the settings each time that it changes.
func printLevel(settings *cache.Cache, show func(level []byte)) error {
	for change, err := range settings.Changes(context.Background()) {
		switch {
		case err != nil:
			return err // the cache has been closed
		case change.Type == cache.Reset, change.Path == "/settings/level":
			level, _ := settings.Get("/settings/level")
			show(level.Data)
		}
	}
	return nil
}

func ExampleCache_Changes() {
	_, _ = followSettings, printLevel
}
