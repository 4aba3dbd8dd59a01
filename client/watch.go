package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// WatchMode chooses the nodes of a Watch.
type WatchMode int

// These are the modes of a Watch.
const (
	// Node watches a node's creation, its data, the names of its children, and its deletion. The Client keeps the numbers
	// of the node: about 300 bytes.
	Node WatchMode = iota

	// Tree watches the creation, the data and the deletion of a node and of all nodes below it. To compare them after
	// a lost connection, the Client reads the names of all nodes at the beginning, and keeps about 150 bytes and the
	// name of each of them, at most MaxWatchBytes for a path.
	Tree

	// TreeWithoutState watches the same as Tree, but the Client reads and keeps nothing. After a lost connection there
	// is one Gap for the whole tree. It is for callers that keep the nodes themselves.
	TreeWithoutState
)

// MaxWatchBytes limits what a Tree keeps of the nodes of one path: 16 MiB hold about 100,000 nodes. If there are more,
// the Client keeps nothing, and the mode is TreeWithoutState from then on.
const MaxWatchBytes = 16 << 20

// errOlderServers explains why there is no Watch.
const errOlderServers = "the servers are older than ZooKeeper 3.6 and have no persistent watches: use GetWatch, " +
	"ExistsWatch or ChildrenWatch"

// errOtherMode explains why there is no second Watch.
const errOtherMode = "servers before ZooKeeper 3.9 keep one mode of watch on a path, and another Watch of the Client " +
	"on it has another mode: use the same mode"

// Watch watches a node, or a node and all nodes below it, until ctx ends, the session ends, or the loop is left. The
// node need not exist, and may come and go.
//
// The first event is a Gap from transaction 0. From then on, the watch is in force. Read the nodes that you need after
// it: every later change has an event or lies in a Gap:
//
//   - Each change is in at most one event. The events of a node are in the order of their transactions. While the
//     connection lasts, so are the events of different nodes.
//   - A Gap names a node, and two transactions between which the node may have changed without an event. If Below is
//     set, it is about all nodes below, too. The caller reads the node, or the nodes, again.
//   - After a lost connection the Client reads the nodes again, and compares the transactions and versions of each with
//     those that it knew. There is one event for each change that it finds. There is a Gap for a node that was deleted
//     and created again, whose data or names of children changed more than once, or whose children came and went
//     meanwhile; and for one that the Client may not read. A NodeDeleted that was found so has no Zxid: see Event.From.
//     If the watched node itself is missing before and after, or exists only after, there is a Gap, since it may have
//     come and gone. During the comparison, events of nodes that are still to be compared are part of it.
//   - At most MaxWatchEvents events wait for a slow reader. Then those of one node become a Gap of that node, and if
//     there is no room for another node, all that wait become one Gap with Below.
//
// The servers send events only of nodes that the Client may read.
//
// The last pair has an error: ctx's, that of the session with the event SessionEnded, or the reason for which the watch
// cannot be set. errors.Is finds ErrUnimplemented if the servers are older than ZooKeeper 3.6.
//
// All Watches of a Client on one path and of one kind share a watch at the servers. The last one that ends has it
// removed, in the background. Servers before ZooKeeper 3.9 cannot remove it without those of GetWatch, ExistsWatch and
// ChildrenWatch on the same path, so it stays until there are none of these. Such servers also keep only one mode of
// watch on a path: a second Watch with another mode fails there, and a GetWatch, ExistsWatch or ChildrenWatch on the
// same path makes the Client set the Watch, and compare, again.
//
// Each iteration over the result is a Watch of its own.
func (c *Client) Watch(ctx context.Context, path string, mode WatchMode) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w, err := c.NewWatcher(path, mode)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer w.Close()
		for {
			event, err := w.Next(ctx)
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// watchError explains why a watch cannot be set.
func watchError(path string, err error) error {
	if errors.Is(err, ErrUnimplemented) {
		return fmt.Errorf("client: watch %s: %s: %w", path, errOlderServers, err)
	}
	return fmt.Errorf("client: watch %s: %w", path, err)
}
