package load

import (
	"context"
	"fmt"
	"strings"

	"rollcall/client"
)

// deletesInFlight limits the deletes without a reply, so that other clients are served.
const deletesInFlight = 100

// Remove deletes the chroot of a load and everything below it. It is for a load that has stopped, or whose process has
// crashed. cfg needs Servers, Chroot, and what connecting takes. It waits until ctx ends. A chroot that does not exist
// is no error.
func Remove(ctx context.Context, cfg Config) error {
	if err := cfg.setDefaults(); err != nil {
		return err
	}
	servers, _, _ := strings.Cut(cfg.connectString(), "/")
	c, err := client.Dial(ctx, servers, client.Config{
		Timeout: cfg.Timeout, TLS: cfg.TLS, DialConn: cfg.DialConn, Clock: cfg.Clock, MaxInFlight: deletesInFlight,
	})
	if err != nil {
		return fmt.Errorf("load: remove %s: %w", cfg.Chroot, err)
	}
	defer func() { _ = c.Close(ctx) }()
	if err := removeSubtree(ctx, c, cfg.Chroot); err != nil {
		return fmt.Errorf("load: remove %s: %w", cfg.Chroot, err)
	}
	return nil
}

// removeSubtree deletes a node and all nodes below it.
func removeSubtree(ctx context.Context, c *client.Client, path string) error {
	names, _, err := c.Children(ctx, path)
	if isNoNode(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var left []string
	failed := make(chan string, len(names)+1)
	p := c.Pipeline()
	for _, name := range names {
		child := path + "/" + name
		if err := p.Delete(ctx, child, client.AnyVersion, func(err error) {
			if err != nil && !isNoNode(err) {
				failed <- child
			}
		}); err != nil {
			failed <- child
		}
	}
	if err := c.Sync(ctx); err != nil { // its reply comes after all others
		return err
	}
	for len(failed) > 0 {
		left = append(left, <-failed)
	}
	for _, child := range left { // it has children, or the connection was lost
		if err := removeSubtree(ctx, c, child); err != nil {
			return err
		}
	}
	err = c.Delete(ctx, path, client.AnyVersion)
	for client.MayHaveHappened(err) && ctx.Err() == nil {
		err = c.Delete(ctx, path, client.AnyVersion)
	}
	if isNoNode(err) {
		return nil
	}
	return err
}
