package datadir

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rollcall/zk/jute"
)

// State is ZooKeeper's data tree with its table of sessions. Make one with NewState.
type State struct {
	// Zxid is the last one that was used.
	Zxid int64
	// Epoch is the highest one in the directory: no client has seen a zxid of a later one.
	Epoch int64
	// Sessions has the time-out of each session, in ms.
	Sessions map[jute.SessionID]int32

	nodes        map[string]*Node
	nodesByOwner map[int64]map[*Node]struct{} // nodes by owner, except containers
	spareNodes   []Node                       // memory for nodes
	freedNodes   *Node                        // removed nodes, linked by next
	sharedACLs   map[string][]jute.ACL        // by their bytes, so that equal lists share memory
	digest       treeDigest
}

// Node is a znode. It is valid until the State changes.
type Node struct {
	Path                              string
	Data                              []byte // nil is null
	ACL                               []jute.ACL
	Czxid, Mzxid, Pzxid, Ctime, Mtime int64
	Version, Aversion                 int32
	Creates                           int32 // number of children ever created: the cversion in ZooKeeper's files
	Owner                             int64 // the ephemeralOwner in ZooKeeper's files: see Kind

	missingACL                int64 // the number of an ACL that the snapshot's table does not have
	parent, child, next, prev *Node
	digestCRC                 uint32 // see digest
}

// Kind is the kind of a node, by its owner.
type Kind uint8

const (
	Plain Kind = iota
	Ephemeral
	Container
	TTL
)

const (
	containerOwner = -1 << 63
	// The owner of a TTL node has ttlMark in its upper three bytes, and the time to live in ms below.
	ttlMark = -1 << 56
	ttlMask = 1<<40 - 1
	// The owner of a TTL node of 3.5.3 has ttlMark353 in its upper four bits, and the time to live below.
	ttlMark353 = -1 << 63
	ttlMask353 = 1<<60 - 1
)

// Kind returns the kind of n. If its owner is the id of a session, n is ephemeral: without extended types, server 255
// makes session ids that look like the owners of TTL nodes.
func (s *State) Kind(n *Node) Kind {
	if n.Owner == 0 {
		return Plain
	}
	if n.Owner == containerOwner {
		return Container
	}
	if _, ok := s.Sessions[jute.SessionID(n.Owner)]; !ok && n.TTL() != 0 {
		return TTL
	}
	return Ephemeral
}

// TTL returns the time to live in ms, or 0 if n's owner is not the owner of a TTL node.
func (n *Node) TTL() int64 {
	if n.Owner&^ttlMask == ttlMark {
		return n.Owner & ttlMask
	}
	return 0
}

// TTLOwner returns the owner of a node with a time to live, in ms from 1 to jute.MaxTTL.
func TTLOwner(ms int64) int64 { return ttlMark | ms }

// ContainerOwner is the owner of a container.
const ContainerOwner int64 = containerOwner

// NewState returns a State without sessions and without nodes, even the root. See Add.
func NewState() *State {
	return &State{
		Sessions:     map[jute.SessionID]int32{},
		nodes:        map[string]*Node{},
		nodesByOwner: map[int64]map[*Node]struct{}{},
		sharedACLs:   map[string][]jute.ACL{},
	}
}

// Len returns the number of nodes.
func (s *State) Len() int { return len(s.nodes) }

// Get returns the node at path, or nil. The caller does not change it.
func (s *State) Get(path string) *Node { return s.nodes[path] }

// Add adds a copy of n, whose parent has been added before. It keeps n's data and ACL.
func (s *State) Add(n Node) error {
	if !jute.ValidPath(n.Path) {
		return fmt.Errorf("datadir: %.100q is no path of a node", n.Path)
	}
	if s.nodes[n.Path] != nil {
		return fmt.Errorf("datadir: duplicate node %.100q", n.Path)
	}
	var parent *Node
	if n.Path != "/" {
		if parent = s.nodes[parentPath(n.Path)]; parent == nil {
			return fmt.Errorf("datadir: the node %.100q comes before its parent", n.Path)
		}
	}
	s.insertNode(parent, n)
	return nil
}

// insertNode adds a copy of n below parent, and returns it.
func (s *State) insertNode(parent *Node, n Node) *Node {
	added := s.allocNode()
	*added = n
	added.parent, added.child, added.next, added.prev = parent, nil, nil, nil
	if parent != nil {
		if added.next = parent.child; added.next != nil {
			added.next.prev = added
		}
		parent.child = added
	}
	s.nodes[added.Path] = added
	if owner := added.Owner; owner != 0 && owner != containerOwner {
		if s.nodesByOwner[owner] == nil {
			s.nodesByOwner[owner] = map[*Node]struct{}{}
		}
		s.nodesByOwner[owner][added] = struct{}{}
	}
	s.digest.addNode(added)
	return added
}

// removeSubtree removes n and everything below it.
func (s *State) removeSubtree(n *Node) {
	for n.child != nil {
		s.removeSubtree(n.child)
	}
	s.digest.removeNode(n)
	delete(s.nodes, n.Path)
	s.removeFromOwnerIndex(n)
	switch {
	case n.prev != nil:
		n.prev.next = n.next
	case n.parent != nil:
		n.parent.child = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	}
	*n = Node{next: s.freedNodes}
	s.freedNodes = n
}

// slabSize is the number of nodes allocated at once.
const slabSize = 256

// allocNode returns memory for a node.
func (s *State) allocNode() *Node {
	if n := s.freedNodes; n != nil {
		s.freedNodes = n.next
		return n
	}
	if len(s.spareNodes) == 0 {
		s.spareNodes = make([]Node, slabSize)
	}
	n := &s.spareNodes[0]
	s.spareNodes = s.spareNodes[1:]
	return n
}

// Walk calls visit for each node: parents before their children, and siblings in the order of their
// bytes. It ends with visit's first error.
func (s *State) Walk(visit func(n *Node) error) error {
	root := s.nodes["/"]
	if root == nil {
		return nil
	}
	waiting := []*Node{root}
	for len(waiting) > 0 {
		n := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if err := visit(n); err != nil {
			return err
		}
		first := len(waiting)
		for c := n.child; c != nil; c = c.next {
			waiting = append(waiting, c)
		}
		slices.SortFunc(waiting[first:], func(a, b *Node) int { return cmp.Compare(b.Path, a.Path) })
	}
	return nil
}

// eachNode calls visit for each node. It is faster than Walk and than the map of nodes, because it goes
// mostly in the order of memory. visit adds and removes nothing.
func (s *State) eachNode(visit func(n *Node)) {
	root := s.nodes["/"]
	for n := root; n != nil; {
		visit(n)
		switch {
		case n.child != nil:
			n = n.child
		default:
			for n != root && n.next == nil {
				n = n.parent
			}
			if n == root {
				return
			}
			n = n.next
		}
	}
}

// shareACL returns the shared copy of acl.
func (s *State) shareACL(acl []jute.ACL) []jute.ACL {
	var b []byte
	for _, a := range acl {
		b = a.Append(b)
	}
	return s.shareEncodedACL(b, len(acl))
}

// shareEncodedACL returns the shared copy of the list of n entries with the encoding b.
func (s *State) shareEncodedACL(b []byte, n int) []jute.ACL {
	if kept, ok := s.sharedACLs[string(b)]; ok {
		return kept
	}
	own := slices.Clone(b)
	d := jute.NewDecoder(own)
	kept := make([]jute.ACL, n)
	for i := range kept {
		kept[i].Decode(&d)
	}
	s.sharedACLs[string(own)] = kept
	return kept
}

// parentPath returns the path of the parent of a node that is not the root.
func parentPath(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
