package cache

import (
	"fmt"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// Content is what a Cache has at a moment, for a program that stores it, such as with encoding/gob or encoding/json, and
// gives it to a Cache of its next run with Restore.
type Content struct {
	Root     string          // the root's path as the servers know it, with the Client's chroot
	Position client.Position // the nodes have all changes up to it; some may have later ones
	Readable client.Zxid     // the Client could read each node at this transaction or later; 0: not known
	Nodes    []ContentNode   // each parent before its children
}

// ContentNode is a node of a Content.
type ContentNode struct {
	Path string // relative to the root: "" for the root, and without a slash at the beginning
	Data []byte // not to be changed; nil if they are null
	Stat client.Stat
}

// Content returns what the Cache has. It shares the data with the Cache, and costs the time and memory of a list of all
// nodes. ok is false if the Cache has never been complete with a server that keeps a history, so that no later Cache can
// resume from it.
func (k *Cache) Content() (c Content, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.asOfNow()
	if !k.complete || k.position.Ensemble == "" {
		return Content{}, false
	}
	c = Content{Root: k.from, Position: k.position, Readable: k.readable, Nodes: make([]ContentNode, 0, k.tree.count)}
	if k.tree.root != nil {
		c.addNodes("", k.tree.root)
	}
	return c, true
}

func (c *Content) addNodes(path string, n *node) {
	c.Nodes = append(c.Nodes, ContentNode{path, n.Data, n.Stat})
	for _, name := range n.childNames() {
		c.addNodes(nodepath.Join(path, name), n.children[name])
	}
}

// Restore makes a Cache of root with the content of an earlier one. It is Stale, and serves reads, until Resume or Attach
// gives it a Client, with the identities and the chroot of the earlier one. A loop over Changes that begins before gets every
// change since the content. Close must be called. The data belong to the Cache from then on.
//
// The error is ErrTooLarge if the content needs more than Config.MaxBytes. It names the node if the content makes no sense.
func Restore(content Content, root string, cfg Config) (*Cache, error) {
	k, err := newCache(root, cfg)
	if err != nil {
		return nil, err
	}
	if content.Position.Ensemble == "" || content.Position.Zxid <= 0 || content.Root == "" {
		return nil, fmt.Errorf("cache: restore %s: the content has no position or no root: it must be one of Cache.Content", root)
	}
	for _, n := range content.Nodes {
		switch {
		case n.Path != "" && !jute.ValidPath("/"+n.Path):
			return nil, fmt.Errorf("cache: restore %s: %.200q is not a path below the root", root, n.Path)
		case k.tree.findNode(n.Path) != nil:
			return nil, fmt.Errorf("cache: restore %s: there are two nodes %.200q", root, n.Path)
		}
		if added, _, _ := k.tree.setNode(n.Path, n.Data, n.Stat); added == nil {
			return nil, fmt.Errorf("cache: restore %s: the parent of %.200q must come before it", root, n.Path)
		}
		if k.tree.bytes > k.maxBytes {
			return nil, fmt.Errorf("cache: restore %s: %w", root, ErrTooLarge)
		}
	}
	k.from, k.position, k.asOf, k.complete = content.Root, content.Position, content.Position.Zxid, true
	k.readable = content.Readable
	return k, nil
}
