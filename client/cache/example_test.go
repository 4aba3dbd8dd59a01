package cache_test

import (
	"context"

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
