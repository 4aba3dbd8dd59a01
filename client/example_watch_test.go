package client_test

import (
	"context"

	"rollcall/client"
)

// followSettings keeps what read makes of the nodes below /settings up to date, until ctx or the session ends.
func followSettings(ctx context.Context, c *client.Client, read func(path string, below bool),
	drop func(path string),
) error {
	for event, err := range c.Watch(ctx, "/settings", client.Tree) {
		switch {
		case err != nil:
			return err
		case event.Type == client.NodeDeleted:
			drop(event.Path)
		default: // a change, or a Gap: the first one says that the watch is in force
			read(event.Path, event.Below)
		}
	}
	return nil
}

func ExampleClient_Watch() {
	_ = followSettings
}
