package client

import (
	"context"

	"rollcall/zk/jute"
)

// AddWatch sets a watch that lasts until it is removed or the session ends, on a node that need not exist. If recursive
// is set, it is a watch on all nodes below it too, and there are no events of ChildrenChanged. Only Config.OnEvent gets
// the events. Events of changes that happened while there was no connection are missing: Client.Watch finds these
// changes. Do not use both on one path, because the end of a Watch removes the watch at the servers.
//
// ZooKeeper has such watches since 3.6; older servers reply ErrUnimplemented.
func (c *Client) AddWatch(ctx context.Context, path string, recursive bool) error {
	rec := jute.AddWatchRequest{Path: []byte(c.chroot.serverPath(path))}
	if recursive {
		rec.Mode = jute.AddWatchPersistentRecursive
	}
	return c.callPath(ctx, jute.OpAddWatch, path, rec, nil)
}

// WatchType selects watches of a session on one node.
type WatchType int

// These are the types of watches that RemoveWatches removes.
const (
	ChildrenWatches WatchType = WatchType(jute.WatcherChildren) // of ChildrenWatch
	DataWatches     WatchType = WatchType(jute.WatcherData)     // of GetWatch and ExistsWatch
	AllWatches      WatchType = WatchType(jute.WatcherAny)      // and those of AddWatch
)

// RemoveWatches removes the session's watches of a type on a node at the servers. The error is ErrNoWatch if there
// are none. A OnceWatch or a Watch on the node then gets no events any more: they have ends of their own.
func (c *Client) RemoveWatches(ctx context.Context, path string, which WatchType) error {
	rec := jute.RemoveWatchesRequest{Path: []byte(c.chroot.serverPath(path)), Type: jute.WatcherType(which)}
	return c.callPath(ctx, jute.OpRemoveWatches, path, rec, nil)
}
