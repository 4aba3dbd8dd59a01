// Package nodes reads and changes the nodes of an ensemble over a session of package client.
package nodes

import (
	"rollcall/client"
	"rollcall/operator/subtree"
)

// Space is a session whose paths are below Root, like a ZooKeeper client with a chroot. It is safe for
// concurrent use. Make one with New.
type Space struct{ subtree.Space }

// New returns the space below root of a session. The Client must fail while it is suspended; the Space waits.
func New(c *client.Client, root string) Space {
	return Space{subtree.Space{Client: c, Root: root}}
}

// Watching returns the same space with a Stat, Get and Children that set watches, whose events Config.OnEvent gets.
func (s Space) Watching() Space {
	s.Watch = true
	return s
}

// WithoutRetry returns the same space with reads that fail with client.ErrConnectionLost when their connection breaks,
// and requests that fail with client.ErrSuspended without a connection. In other spaces a read is sent again, and a
// request waits for a connection.
func (s Space) WithoutRetry() Space {
	s.NoRetry = true
	return s
}
