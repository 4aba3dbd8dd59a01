package client

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// comparison compares a node that was read with what is known of it, makes that known, and emits the events of all
// differences.
type comparison struct {
	nodes     *watchedNodes
	root      string // the path of the root, for events
	from, now Zxid   // what is missed lies between them
	silent    bool   // nothing is emitted
	emit      func(Event)
}

func (c *comparison) applyEvent(e Event, path string) {
	if !c.silent {
		e.Path = nodepath.Below(c.root, path)
		c.emit(e)
	}
}

// handleRead handles the reply to the read of a node. It returns the names of the children that are to be read.
func (c *comparison) handleRead(path string, code error, stat Stat, names []string) []string {
	switch {
	case code == nil:
		return c.handlePresent(path, stat, names)
	case errors.Is(code, jute.NoNode):
		c.handleMissing(path)
	default:
		c.handleHidden(path)
	}
	return nil
}

// handlePresent handles a node that exists.
func (c *comparison) handlePresent(path string, stat Stat, names []string) (toRead []string) {
	n := c.nodes.findNode(path)
	switch {
	case n == nil && path != "":
		return nil // its parent has been deleted, or begins again
	case n == nil:
		if c.nodes.rootRound != 0 { // it was missing: it may have come and gone before this creation
			c.applyEvent(Event{Type: Gap, From: c.from, Zxid: stat.Created - 1}, path)
		}
		n = &watchedNode{}
		c.nodes.setRoot(n)
	}
	events := n.differences(stat)
	if c.nodes.kind == nodeWatch {
		events = append(events, n.childrenDifference(stat)...)
	} else {
		var change []Event
		toRead, change = c.compareNames(n, path, stat, names)
		events = append(events, change...)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	for _, e := range events {
		c.applyEvent(e, path)
	}
	c.markRead(path)
	n.created, n.changed, n.childrenChanged = stat.Created, stat.Changed, stat.ChildrenChanged
	n.version, n.childrenVersion = stat.Version, stat.ChildrenVersion
	n.round, n.hidden = c.nodes.round, false
	return toRead
}

// markRead records that the root has been read in this round.
func (c *comparison) markRead(path string) {
	if path == "" {
		c.nodes.rootRound = c.nodes.round
	}
}

// isNew reports whether a node was not known before.
func (n *watchedNode) isNew() bool { return n.round == 0 }

// isOther reports whether a node has been deleted and created again since it was known.
func (n *watchedNode) isOther(s Stat) bool {
	return !n.isNew() && !n.hidden && n.created != NoZxid && n.created != s.Created
}

// lastZxid returns the last transaction on a node that is known.
func (n *watchedNode) lastZxid() Zxid { return max(n.created, n.changed, n.childrenChanged) }

// differences returns events for the creation of a node and for the changes of its data.
func (n *watchedNode) differences(s Stat) []Event {
	switch {
	case n.hidden:
		return []Event{{Type: Gap, From: NoZxid, Zxid: max(s.Created, s.Changed, s.ChildrenChanged)}}
	case n.isOther(s):
		return []Event{{Type: Gap, From: n.lastZxid(), Zxid: max(s.Created, s.Changed, s.ChildrenChanged)}}
	case n.isNew():
		created := Event{Type: NodeCreated, Zxid: s.Created}
		return append([]Event{created}, changeEvents(DataChanged, s.Version, s.Created, s.Changed)...)
	case s.Version == n.version && n.changed != NoZxid && s.Changed != n.changed:
		return changeEvents(DataChanged, 2, n.changed, s.Changed)
	}
	return changeEvents(DataChanged, s.Version-n.version, n.changed, s.Changed)
}

// childrenDifference returns an event for the changes of the names of the children.
func (n *watchedNode) childrenDifference(s Stat) []Event {
	switch {
	case n.hidden, n.isOther(s):
		return nil // the Gap is about the children, too
	case n.isNew():
		return changeEvents(ChildrenChanged, s.ChildrenVersion, s.Created, s.ChildrenChanged)
	}
	return changeEvents(ChildrenChanged, s.ChildrenVersion-n.childrenVersion, n.childrenChanged, s.ChildrenChanged)
}

// changeEvents returns the event for n changes of one kind, of which the last one was made by to: none, the event, or a
// Gap.
func changeEvents(kind EventType, n int32, from, to Zxid) []Event {
	switch n {
	case 0:
		return nil
	case 1:
		return []Event{{Type: kind, Zxid: to}}
	}
	return []Event{{Type: Gap, From: from, Zxid: to}}
}

// compareNames compares the names of a node's children, and returns those to read: all. It returns a Gap if children
// came and went that it does not find.
func (c *comparison) compareNames(n *watchedNode, path string, s Stat, names []string) (toRead []string, gap []Event) {
	present := make(map[string]bool, len(names))
	created, deleted := int32(0), int32(0)
	for _, name := range names {
		present[name] = true
		if n.children[name] == nil {
			created++
			c.nodes.addChild(n, strings.Clone(name), &watchedNode{}) // name shares the memory of its list
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		if !present[name] {
			deleted++
			c.deleteBelow(n, name, nodepath.Join(path, name))
		}
	}
	before, from := n.childrenVersion, n.childrenChanged
	switch {
	case n.hidden || n.isOther(s):
		return names, nil
	case n.isNew():
		before, from = 0, s.Created
	}
	if s.ChildrenVersion-before != created+deleted {
		gap = []Event{{Type: Gap, From: from, Zxid: s.ChildrenChanged}}
	}
	return names, gap
}

// deleteBelow emits the deletion of all nodes at and below a child, the lowest first.
func (c *comparison) deleteBelow(parent *watchedNode, name, path string) {
	n := parent.children[name]
	for _, child := range slices.Sorted(maps.Keys(n.children)) {
		c.deleteBelow(n, child, nodepath.Join(path, child))
	}
	c.nodes.removeChild(parent, name)
	c.applyEvent(Event{Type: NodeDeleted, Zxid: NoZxid, From: c.from}, path)
}

// handleMissing handles a node that does not exist.
func (c *comparison) handleMissing(path string) {
	if path != "" {
		parentPath, name := nodepath.SplitLast(path)
		if parent := c.nodes.findNode(parentPath); parent != nil && parent.children[name] != nil {
			c.deleteBelow(parent, name, path)
		}
		return
	}
	switch root := c.nodes.root; {
	case root != nil:
		for _, child := range slices.Sorted(maps.Keys(root.children)) {
			c.deleteBelow(root, child, child)
		}
		c.applyEvent(Event{Type: NodeDeleted, Zxid: NoZxid, From: c.from}, "")
	case c.nodes.rootRound != 0: // it may have come and gone
		c.applyEvent(Event{Type: Gap, From: c.from, Zxid: c.now}, "")
	}
	c.nodes.setRoot(nil)
}

// handleHidden handles a node that the Client may not read. Nothing is known of the nodes below it.
func (c *comparison) handleHidden(path string) {
	n := c.nodes.findNode(path)
	switch {
	case n == nil && path != "":
		return
	case n == nil:
		n = &watchedNode{}
		c.nodes.setRoot(n)
	}
	c.nodes.forgetChildren(n)
	n.hidden, n.round = true, c.nodes.round
	c.markRead(path)
	c.applyEvent(Event{Type: Gap, From: c.from, Zxid: c.now, Below: true}, path)
}
